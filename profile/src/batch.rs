//! Registering and looking up many names, end to end between two processes, by names in a call; and the same work in
//! this process, without a network. Every answer is held against that of the index in this process.

use std::hint::black_box;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use nekoindexer::state::index::SESSION_NAMES_MAX;
use nekoproto::{SignedRecord, VerifiedRecord, limits::BATCH_MAX};

use crate::cluster::deployment::Deployment;
use crate::floor::Floor;
use crate::goals::{self, Bound, Goal};
use crate::index::subject::{Sample, Subject, Timing};
use crate::index::{Origin, inside::Inside, sign};
use crate::outcome::{Begin, Fault};
use crate::plot::{Picture, Points, curves::rates};
use crate::report::{Proof, Report, Row, Section, count, machine, option_name};
use crate::run::{setup::within, watch::Progress};

/// Records signed, and then registered, at a time: only the registering is timed.
const CHUNK: usize = 10_000;
/// Names in one call of a user; a larger one travels as some of at most [`BATCH_MAX`] at once.
const IN_A_CALL_MAX: usize = 10_000;
/// Goals: in times of single calls, and of the rate without a network.
const TIMES_SINGLE_MIN: f64 = 5.0;
const OF_INSIDE_PERCENT_MIN: f64 = 50.0;
const COLUMNS: &str = "scenario per_s register_us look_up_us times_single index_percent ipc_percent";

/// Whose files are registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// Those of the peer that registers them: their connection proves them
    Own,
    /// Copies of another's files: each has a signature to be checked
    Copies,
}

/// How many names, and how.
#[derive(Clone, Debug, Args)]
pub(crate) struct Options {
    /// Names registered and looked up, one table for each
    #[arg(long, value_delimiter = ',', default_value = "100000", value_parser = within(100, SESSION_NAMES_MAX))]
    names: Vec<usize>,
    /// Names in a call, one row for each; the first is what the others are compared with
    #[arg(long, value_delimiter = ',', default_value = "1,10,50,100,1000", value_parser = within(1, IN_A_CALL_MAX))]
    batches: Vec<usize>,
    /// Whose files they are
    #[arg(long, value_delimiter = ',', default_value = "own,copies")]
    kinds: Vec<Kind>,
    /// Seed of the keys that sign the names
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// How long it took for all names.
#[derive(Default)]
struct Took {
    names: usize,
    registering: Duration,
    looking_up: Duration,
}

/// What came of one number of names of one kind.
struct Compared {
    names: usize,
    kind: Kind,
    /// By names in a call.
    rows: Vec<(usize, Compare)>,
}

struct Batched {
    all: Vec<Compared>,
    floor: Floor,
    /// What ended it early, by itself.
    fault: Option<String>,
}

/// The same work twice, each part of it one after the other.
#[derive(Default)]
struct Compare {
    /// Without a network.
    inside: Took,
    between: Took,
}

/// Measures all that `options` name, each on an indexer of its own; ends early when stopped.
pub(crate) async fn run(options: &Options, deployment: &Deployment) -> Result<Proof, Fault> {
    let watch = &deployment.watch;
    let floor = watch.unless_stopped(Floor::measure(deployment)).await.or_cannot_begin()?;
    let mut batched = Batched { all: Vec::new(), floor, fault: None };
    if let Err(fault) = batched.fill(options, deployment).await {
        batched.fault = Some(fault.after(batched.all.iter().any(|one| !one.rows.is_empty()))?);
    }
    let (report, is_all_well) = (batched.report(options, deployment), batched.fault.is_none());
    Ok(Proof { report, picture: batched.picture(), is_all_well })
}

/// Registers and looks up all names; how long that took in this process, and between processes.
async fn measure(
    (names, kind, batch): (usize, Kind, usize),
    seed: u64,
    deployment: &Deployment,
) -> Result<Compare, Fault> {
    let watch = &deployment.watch;
    let subject = Subject::start(deployment, Origin::Own.identity(seed)).await.or_cannot_begin()?;
    let _progress = Progress::begin(&format!("{} in calls of {batch}", option_name(&kind)), 2 * names, watch);
    let mut index = Inside::new(subject.client.at());
    let mut took = Compare::default();
    // As few calls as there can be, all of about the same size.
    let (calls, size) = (batch.div_ceil(BATCH_MAX), batch.div_ceil(batch.div_ceil(BATCH_MAX)));
    let origin = if kind == Kind::Own { Origin::Own } else { Origin::Other };
    for from in (0..names).step_by(CHUNK).take_while(|_| !watch.is_stopped()) {
        let records = sign(origin, seed, from..(from + CHUNK).min(names));
        let signed: Vec<SignedRecord> = records.iter().map(VerifiedRecord::to_signed).collect();
        let sample = alone(&mut index, &records, &signed, kind, &mut took.inside);
        let registered = subject.register(&signed, size, calls).await?;
        let found = subject.look_up_all(&sample, signed.len(), size, calls).await?;
        took.between.add(&registered, &found);
    }
    subject.stop().await;
    Ok(took)
}

/// The same work without a network; the answers that the indexer must give.
fn alone(
    index: &mut Inside,
    records: &[VerifiedRecord],
    signed: &[SignedRecord],
    kind: Kind,
    inside: &mut Took,
) -> Sample {
    let before = index.registering();
    let began = Instant::now();
    if kind == Kind::Copies {
        signed.iter().for_each(|record| drop(black_box(record.clone().verify())));
    }
    let verifying = began.elapsed();
    index.register(records);
    inside.registering += verifying + (index.registering() - before);
    let began = Instant::now();
    signed.iter().for_each(|record| drop(black_box(index.search(&record.unverified().name))));
    inside.looking_up += began.elapsed();
    inside.names += signed.len();
    Sample::known_to(index, signed.to_vec())
}

impl Took {
    fn add(&mut self, registered: &Timing, found: &Timing) {
        self.names += registered.names;
        self.registering += registered.wall;
        self.looking_up += found.wall;
    }

    /// Names registered and looked up in a second.
    fn per_s(&self) -> f64 {
        count(self.names) / (self.registering + self.looking_up).as_secs_f64()
    }

    fn row(&self, what: String) -> Row {
        let each = |took: Duration| took.as_secs_f64() * 1e6 / count(self.names);
        let row = Row::named(what).figure("per_s", self.per_s());
        row.figure("register_us", each(self.registering)).figure("look_up_us", each(self.looking_up))
    }
}

impl Compared {
    fn what(&self) -> String {
        let whose = if self.kind == Kind::Own { "own files" } else { "copies, signatures checked" };
        format!("{} names, {whose}", self.names)
    }

    fn rows(&self) -> Vec<Row> {
        let single = self.rates().next().unwrap_or(f64::NAN);
        let row = |(batch, Compare { inside, between }): &(usize, Compare)| {
            let (rate, index) = (between.per_s(), between.per_s() / inside.per_s() * 100.0);
            between
                .row(format!("{batch} in a call"))
                .with("batch", *batch)
                .with("names", self.names)
                .with("kind", option_name(&self.kind))
                .figure("times_single", rate / single)
                .shares(index)
        };
        let inside = self.inside();
        let alone = (inside.names > 0)
            .then(|| inside.row("in this process, no network".to_owned()).with("names", self.names));
        self.rows.iter().map(row).chain(alone).collect()
    }

    /// Names a second, by names in a call.
    fn rates(&self) -> impl Iterator<Item = f64> {
        self.rows.iter().map(|(_, took)| took.between.per_s())
    }

    /// All that was done without a network: once for each number of names in a call.
    fn inside(&self) -> Took {
        self.rows.iter().fold(Took::default(), |all, (_, Compare { inside, .. })| Took {
            names: all.names + inside.names,
            registering: all.registering + inside.registering,
            looking_up: all.looking_up + inside.looking_up,
        })
    }

    fn goals(&self) -> impl Iterator<Item = Goal> {
        let best = self.rates().fold(0.0, f64::max);
        let single = self.rates().next().unwrap_or(f64::NAN);
        let command = format!("profile batch --names {} --kinds {}", self.names, option_name(&self.kind));
        let goal = |of: &str, least, measured| {
            Goal::new(format!("{}: {of}", self.what()), Bound::AtLeast(least), measured, &command)
        };
        let of_inside = best / self.inside().per_s() * 100.0;
        [
            goal("best batch, in times of single calls", TIMES_SINGLE_MIN, best / single),
            goal("best batch, % of the rate without a network", OF_INSIDE_PERCENT_MIN, of_inside),
        ]
        .into_iter()
    }
}

impl Batched {
    async fn fill(&mut self, options: &Options, deployment: &Deployment) -> Result<(), Fault> {
        for names in &options.names {
            for kind in &options.kinds {
                self.all.push(Compared { names: *names, kind: *kind, rows: Vec::new() });
                for batch in &options.batches {
                    if deployment.watch.is_stopped() {
                        break;
                    }
                    let took = measure((*names, *kind, *batch), options.seed, deployment).await?;
                    // Of a run that was ended early nothing is kept.
                    if let Some(last) = self.all.last_mut().filter(|_| took.inside.names == *names) {
                        last.rows.push((*batch, took));
                    }
                }
            }
        }
        Ok(())
    }

    fn report(&self, options: &Options, deployment: &Deployment) -> Report {
        let Self { all, floor, fault } = self;
        let tables = all.iter().map(|one| Section::new(format!("{}:", one.what()), COLUMNS, one.rows()));
        let goals: Vec<Goal> =
            all.iter().filter(|one| one.rows.len() > 1).flat_map(Compared::goals).collect();
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
        Report {
            kind: Some("batch"),
            head: format!(
                "One indexer in a process of its own, one connection, one call of a user after the other, {}.\n{}",
                deployment.in_words(),
                floor.in_words()
            ),
            sections: tables.chain([goals::section(&goals)]).collect(),
            foot,
            facts: floor.facts().with("seed", options.seed).with("fault", fault.clone()),
            ..Report::default()
        }
        .ended(deployment.watch.is_stopped(), "Interrupted: rows are missing.", fault.as_ref())
    }

    /// Names a second by names in a call, beside those in one process.
    fn picture(&self) -> Picture {
        let lines = self.all.iter().flat_map(|one| {
            let at = |rate: fn(&Compare) -> f64| {
                one.rows.iter().map(|(batch, took)| (count(*batch), rate(took))).collect::<Points>()
            };
            let (between, inside) = (at(|took| took.between.per_s()), at(|took| took.inside.per_s()));
            [(one.what(), between), (format!("{}, in one process", one.what()), inside)]
        });
        let along = "names in a call (logarithmic)";
        let title = "Names registered and looked up";
        rates(title, machine::in_words(), along, "names a second (logarithmic)", lines.collect())
    }
}
