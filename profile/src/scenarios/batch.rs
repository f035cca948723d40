//! Registering and looking up many names, end to end between two processes, by names in a call; and the same work in
//! this process, without a network. Every answer is held against that of the index in this process.

use crate::scenarios::prelude::*;
use crate::scenarios::{
    index::Whose, index::inside::Inside, index::sign, index::subject::Known, index::subject::Subject,
};

/// Records signed, and then registered, at a time: only the registering is timed.
const CHUNK: usize = 10_000;
/// Names in one call of a user; a larger one travels as some of at most [`BATCH_MAX`] at once.
const IN_A_CALL_MAX: usize = 10_000;
/// Goals: in times of single calls, and of the rate without a network.
const TIMES_SINGLE_MIN: f64 = 5.0;
const OF_INSIDE_PERCENT_MIN: f64 = 50.0;
const COLUMNS: &str = "scenario per_s register_us look_up_us times_single index_percent ipc_percent";

/// How many names, and how.
#[derive(Clone, Debug, Args)]
pub(crate) struct Batch {
    /// Names registered and looked up, one table for each
    #[arg(long, value_delimiter = ',', default_value = "100000", value_parser = within(100, SESSION_NAMES_MAX))]
    names: Vec<usize>,
    /// Names in a call, one row for each; the first is what the others are compared with
    #[arg(long, value_delimiter = ',', default_value = "1,10,50,100,1000", value_parser = within(1, IN_A_CALL_MAX))]
    batches: Vec<usize>,
    /// Whose files they are
    #[arg(long, value_delimiter = ',', default_value = "own,copies")]
    kinds: Vec<Whose>,
    /// Seed of the keys that sign the names
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(Default)]
struct Took {
    names: usize,
    registering: Duration,
    looking_up: Duration,
}

/// What came of one number of names of one kind.
struct Compared {
    names: usize,
    kind: Whose,
    /// By names in a call.
    rows: Vec<Row>,
    /// All that was done without a network: once for each of these.
    inside: Took,
}

impl Scenario for Batch {
    type How = Connecting;
    type Target = Drawn;

    async fn run(&self, on: &Deployment) -> Result<Report, Fault> {
        let watch = &on.watch;
        let floor = watch.unless_stopped(Floor::measure(on)).await.or_cannot_begin()?;
        let (mut all, mut ended) = (Vec::new(), None);
        if let Err(fault) = measure_all(self, on, &mut all).await {
            ended = Some(fault.after(all.iter().any(|one| !one.rows.is_empty()))?);
        }
        let mut report = report(&all, &floor, self, on);
        report.facts.0.insert("fault".to_owned(), ended.clone().into());
        Ok(report.ended(watch.is_stopped(), "Interrupted: rows are missing.", ended.as_ref()))
    }
}

/// Registers and looks up all names; how long that took in this process, without a network, and between processes.
async fn measure(
    (names, kind, batch): (usize, Whose, usize),
    seed: u64,
    deployment: &Deployment,
) -> Result<[Took; 2], Fault> {
    let watch = &deployment.watch;
    let subject = Subject::start(deployment, Whose::Own.identity(seed)).await.or_cannot_begin()?;
    let _progress = Progress::begin(&format!("{} in calls of {batch}", option_name(&kind)), 2 * names, watch);
    let mut index = Inside::new(subject.client.at());
    let [mut inside, mut between] = <[Took; 2]>::default();
    // As few calls as there can be, all of about the same size.
    let (calls, size) = (batch.div_ceil(BATCH_MAX), batch.div_ceil(batch.div_ceil(BATCH_MAX)));
    for from in (0..names).step_by(CHUNK).take_while(|_| !watch.is_stopped()) {
        let records = sign(kind, seed, from..(from + CHUNK).min(names));
        let signed: Vec<SignedRecord> = records.iter().map(VerifiedRecord::to_signed).collect();
        let sample = alone(&mut index, &records, &signed, kind, &mut inside);
        let registered = subject.register(&signed, size, calls).await?;
        let found = subject.look_up_all(&sample, signed.len(), size, calls).await?;
        between.add(registered.names, registered.wall, found.wall);
    }
    subject.stop().await;
    Ok([inside, between])
}

/// The same work without a network; the answers that the indexer must give.
fn alone(
    index: &mut Inside,
    records: &[VerifiedRecord],
    signed: &[SignedRecord],
    kind: Whose,
    inside: &mut Took,
) -> Known {
    let before = index.registering;
    let began = Instant::now();
    if kind == Whose::Copies {
        signed.iter().for_each(|record| drop(black_box(record.clone().verify())));
    }
    let verifying = began.elapsed();
    index.register(records);
    let registering = verifying + (index.registering - before);
    let began = Instant::now();
    signed.iter().for_each(|record| drop(black_box(index.search(&record.unverified().name))));
    inside.add(signed.len(), registering, began.elapsed());
    Known::known_to(index, signed.to_vec())
}

impl Took {
    fn add(&mut self, names: usize, registering: Duration, looking_up: Duration) {
        self.names += names;
        self.registering += registering;
        self.looking_up += looking_up;
    }

    /// Names registered and looked up in a second.
    fn per_s(&self) -> f64 {
        count(self.names) / (self.registering + self.looking_up).as_secs_f64()
    }

    fn row(&self, what: String) -> Row {
        let each = |took: Duration| took.as_secs_f64() * 1e6 / count(self.names);
        let row = Row::named(what).with("per_s", self.per_s());
        row.with("register_us", each(self.registering)).with("look_up_us", each(self.looking_up))
    }
}

impl Compared {
    fn what(&self) -> String {
        let whose = if self.kind == Whose::Own { "own files" } else { "copies, signatures checked" };
        format!("{} names, {whose}", self.names)
    }

    /// Adds what came of so many names in a call.
    fn add(&mut self, batch: usize, [inside, between]: &[Took; 2]) {
        let single = self.rows.first().map_or(between.per_s(), |first| first.get("per_s"));
        let row = between.row(format!("{batch} in a call")).and(Row::of(json!({
            "batch": batch, "names": self.names, "kind": option_name(&self.kind), "times_single": between.per_s() / single,
        })));
        self.rows.push(row.shares(between.per_s() / inside.per_s() * 100.0));
        self.inside.add(inside.names, inside.registering, inside.looking_up);
    }

    fn section(&self) -> Section {
        let alone = (self.inside.names > 0)
            .then(|| self.inside.row("in this process, no network".to_owned()).with("names", self.names));
        let rows = self.rows.iter().cloned().chain(alone).collect();
        Section::new(format!("{}:", self.what()), COLUMNS, rows)
    }

    fn goals(&self) -> [Goal; 2] {
        let best = self.rows.iter().map(|row| row.get("per_s")).fold(0.0, f64::max);
        let times = self.rows.iter().map(|row| row.get("times_single")).fold(0.0, f64::max);
        let command = format!("profile batch --names {} --kinds {}", self.names, option_name(&self.kind));
        let goal = |of: &str, least, measured| {
            Goal::new(format!("{}: {of}", self.what()), Bound::AtLeast(least), measured, &command)
        };
        let of_inside = best / self.inside.per_s() * 100.0;
        [
            goal("best batch, in times of single calls", TIMES_SINGLE_MIN, times),
            goal("best batch, % of the rate without a network", OF_INSIDE_PERCENT_MIN, of_inside),
        ]
    }

    /// Names a second by names in a call, beside those in one process.
    fn lines(&self) -> Lines {
        let at =
            |row: &Row| row.clone().with("inside_per_s", row.get("per_s") / row.get("index_percent") * 100.0);
        let rows: Vec<Row> = self.rows.iter().map(at).collect();
        let mut lines = of_rows(&rows, "batch", "per_s", |_| self.what());
        lines.extend(of_rows(&rows, "batch", "inside_per_s", |_| format!("{}, in one process", self.what())));
        lines
    }
}

async fn measure_all(options: &Batch, deployment: &Deployment, all: &mut Vec<Compared>) -> Result<(), Fault> {
    for names in &options.names {
        for kind in &options.kinds {
            let (rows, inside) = <_>::default();
            all.push(Compared { names: *names, kind: *kind, rows, inside });
            for batch in &options.batches {
                if deployment.watch.is_stopped() {
                    break;
                }
                let took = measure((*names, *kind, *batch), options.seed, deployment).await?;
                // Of a run that was ended early nothing is kept.
                if let Some(last) = all.last_mut().filter(|_| took[0].names == *names) {
                    last.add(*batch, &took);
                }
            }
        }
    }
    Ok(())
}

fn report(all: &[Compared], floor: &Floor, options: &Batch, deployment: &Deployment) -> Report {
    let tables = all.iter().map(Compared::section);
    let goals: Vec<Goal> = all.iter().filter(|one| one.rows.len() > 1).flat_map(Compared::goals).collect();
    let foot = vec![
        format!(
            "Index: the time that the same work takes on one core without a network, in shares of that between processes; IPC: \
             the rest, where that is less. Calls of more \
             than {BATCH_MAX} names travel as several at once. All answers were those of the index in this process."
        ),
        "A pipeline of services that was measured elsewhere: 25 000 events a second alone, 77 000 in batches of 100 \
         (3.0 times), 44 000 in one process; another machine and other work."
            .to_owned(),
    ];
    let rates = all.iter().flat_map(Compared::lines).collect();
    let charts = vec![lines(Axis::log("names in a call"), Axis::log("names a second"), rates)];
    let picture = Picture::new("batch", "Names registered and looked up", machine::in_words(), charts);
    Report {
        kind: Some("batch"),
        head: format!(
            "One indexer in a process of its own, one connection, one call of a user after the other, {}.\n{}",
            deployment.in_words(),
            floor.in_words()
        ),
        sections: tables.chain([goals::section(&goals)]).collect(),
        foot,
        facts: floor.facts().with("seed", options.seed),
        pictures: vec![picture],
        ..Report::default()
    }
}
