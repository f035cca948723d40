//! A small network for a long time: queries, downloads, updates, comings and goings, every answer checked, and
//! what each process takes meanwhile. What a process takes must not grow once it has warmed up.

use tokio::time::Instant;

use crate::arena::{self, Arena};
use crate::run::{growth::ALLOWED, growth::Growth, growth::chart, growth::lasting};
use crate::scenarios::prelude::*;
use crate::{report::machine::Taken, scenarios::hostile::judge::Seen};

const INDEXERS: usize = 3;
const QUERIES_PER_S: u32 = 50;
/// The file that changes, and its bytes.
const CHANGES: &str = "changes.bin";
const CHANGES_BYTES: usize = 200_000;
/// Files that a reader gets before it goes.
const GETS_EACH: usize = 20;
/// A visitor is found everywhere by then.
const FOUND_WITHIN: Duration = Duration::from_secs(5);

/// How long, and how much.
#[derive(Clone, Debug, Args)]
pub(crate) struct Soak {
    /// Minutes that it runs; a fraction is fine
    #[arg(long, value_name = "N", default_value_t = 10.0)]
    pub(crate) minutes: f64,
    /// Downloads, updates, comings and goings a second, besides queries
    #[arg(long, value_name = "PER_S", default_value_t = 4)]
    pub(crate) rate: u32,
    /// Decides which of them when
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

/// What each process took, by its label.
type TakenByLabel = Vec<(String, Vec<Taken>)>;

struct Soaked {
    taken: TakenByLabel,
    /// How often each kind of thing was done, and what went wrong.
    done: [usize; 4],
    faults: Vec<String>,
    seen: Seen,
}

impl Scenario for Soak {
    type How = Connecting;
    type Target = Drawn;

    async fn run(&self, on: &Deployment) -> Result<Report, Fault> {
        let folder = Folder::prepare(None)?;
        let mut arena = Arena::start(&on.within(&folder), INDEXERS).await?;
        let names = arena.share().await?;
        let keeper = arena.net.peers(1).start("keeper").await?;
        arena.peers.push(keeper);
        let (lasts, look_every) = lasting(self.minutes)?;
        let stop = CancellationToken::new();
        let asking = tokio::spawn(Arc::clone(&arena.load).queries(QUERIES_PER_S, false, stop.clone()));
        let looking = tokio::spawn(look(arena.ids(), look_every, stop.clone()));
        let (mut done, mut faults) = ([0; 4], Vec::new());
        let reader = arena.net.peers(0).start("reader-0").await?;
        let mut events =
            Events { random: StdRng::seed_from_u64(self.seed), reader, names, gets: 0, number: 0 };
        let mut ticks = interval(Duration::from_secs(1) / self.rate.max(1));
        note(&format!("soaking for {} min", self.minutes));
        let event = async |_| {
            ticks.tick().await;
            let kind = events.random.random_range(0..done.len());
            done[kind] += 1;
            let happened = events.happens(kind, &mut arena).await;
            faults.extend(happened.err().map(|fault| format!("{fault:#}")));
            true
        };
        on.watch.during(lasts, event).await;
        stop.cancel();
        asking.await.map_err(anyhow::Error::from)?;
        let taken = looking.await.map_err(anyhow::Error::from)?;
        let seen = Seen::of(arena.load.samples().iter());
        events.reader.kill().await;
        arena.stop().await;
        Ok(Soaked { taken, done, faults, seen }.report(self, on))
    }
}

/// Looks at the processes from time to time until stopped.
async fn look(ids: Vec<(String, u32)>, every: Duration, stop: CancellationToken) -> TakenByLabel {
    let began = Instant::now();
    let mut taken: TakenByLabel = ids.iter().map(|(label, _)| (label.clone(), Vec::new())).collect();
    let mut ticks = interval(every);
    while stop.run_until_cancelled(ticks.tick()).await.is_some() {
        for ((_, pid), (_, of)) in ids.iter().zip(&mut taken) {
            of.extend(machine::taken(*pid, began.elapsed().as_secs_f64()));
        }
    }
    taken
}

/// What happens besides queries.
struct Events {
    random: StdRng,
    reader: Process,
    names: Vec<String>,
    /// Files that the reader has got.
    gets: usize,
    /// Visitors, readers and versions so far.
    number: usize,
}

impl Events {
    async fn happens(&mut self, kind: usize, arena: &mut Arena) -> Result<()> {
        self.number += 1;
        match kind {
            0 => self.visit(arena).await,
            1 => self.update(arena).await,
            _ => self.get(arena).await,
        }
    }

    /// A peer registers a file, is found, and goes.
    async fn visit(&mut self, arena: &mut Arena) -> Result<()> {
        let at = self.random.random_range(0..INDEXERS);
        let target = arena.register(at, &format!("visitor-{}/file.bin", self.number)).await?;
        arena.found(&target, FOUND_WITHIN).await?;
        arena.registered.pop();
        Ok(())
    }

    /// The seeder publishes new bytes, and the keeper gets them.
    async fn update(&mut self, arena: &mut Arena) -> Result<()> {
        let [seeder, keeper] = &mut arena.peers[..] else { bail!("two peers run") };
        let bytes: Vec<u8> = (0..CHANGES_BYTES).map(|_| self.random.random()).collect();
        let path = seeder.dir.join(CHANGES);
        fs::write(&path, bytes)?;
        seeder.call::<(usize, f64)>(&Request::Publish(path)).await?;
        arena::get(keeper, &seeder.dir, CHANGES).await
    }

    /// A reader gets one file after the other, goes, and another comes.
    async fn get(&mut self, arena: &mut Arena) -> Result<()> {
        if self.gets == GETS_EACH {
            let another = arena.net.peers(0).start(&format!("reader-{}", self.number)).await?;
            let mut gone = std::mem::replace(&mut self.reader, another);
            gone.end().await?;
            fs::remove_dir_all(&gone.dir)?;
            self.gets = 0;
        }
        self.gets += 1;
        let name = &self.names[self.random.random_range(1..self.names.len())];
        let seeder = arena.peers.first().context("nobody shares files")?;
        arena::get(&mut self.reader, &seeder.dir, name).await
    }
}

impl Soaked {
    fn growths(&self) -> impl Iterator<Item = (&str, Growth)> {
        let each = self.taken.iter();
        each.flat_map(|(label, taken)| Growth::all(taken).map(move |one| (label.as_str(), one)))
    }

    fn is_all_well(&self) -> bool {
        self.faults.is_empty() && self.seen.faults() == 0 && !self.growths().any(|(_, growth)| growth.grows)
    }

    fn report(&self, options: &Soak, deployment: &Deployment) -> Report {
        let row = |(label, growth): (&str, Growth)| {
            Row::named(format!("{label}: {}", growth.what)).and(growth.row())
        };
        let rows: Vec<Row> = self.growths().map(row).collect();
        let verdict = |row: &Row| if row.0["grows"] == true { "**grows**" } else { "steady" };
        let shown = rows.iter().map(|row| row.clone().with("verdict", verdict(row))).collect();
        let columns = "scenario first last per_hour noise verdict";
        let [visits, updates, gets, more] = self.done;
        let Seen { figures, wrong, incomplete, failed, .. } = &self.seen;
        let right = figures.count - self.seen.faults() as u64;
        let answers = json!({"right": right, "incomplete": incomplete, "wrong": wrong, "failed": failed});
        let faults = self.faults.len();
        let mut foot = vec![format!(
            "{visits} visitors, {updates} updates, {} downloads: {faults} failed. {right} right answers to queries, \
             {incomplete} incomplete, {wrong} wrong, {failed} missing.",
            gets + more
        )];
        foot.extend(self.faults.iter().take(8).cloned());
        let facts = Row::of(json!({ "answers": answers, "faults": self.faults, "taken": self.taken }));
        let minutes = options.minutes;
        Report {
            kind: Some("soak"),
            head: format!("{INDEXERS} indexers and peers for {minutes} min, {}.", deployment.in_words()),
            sections: vec![Section { rows, ..Section::new("", columns, shown) }],
            foot,
            facts: facts.times(figures),
            interrupted: deployment.watch.is_stopped(),
            is_broken: !self.is_all_well(),
            pictures: vec![self.picture()],
            ..Report::default()
        }
    }

    fn picture(&self) -> Picture {
        let all = || self.taken.iter().map(|(label, taken)| (label.clone(), &taken[..]));
        let charts = ALLOWED.map(|(y, reading, _)| chart(y, reading, all())).into();
        Picture::new("soak", "What a long run takes", "of each process of the network", charts)
    }
}
