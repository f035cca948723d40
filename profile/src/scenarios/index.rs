//! One indexer in a process of its own: registrations and lookups a second, what a name costs in memory,
//! and how much of the time is the index and how much the way to it.

pub(crate) mod inside;
mod phases;
pub(crate) mod subject;

use nekoproto::limits::CALLS_IN_FLIGHT_MAX;

use self::inside::Costs;
use self::subject::{Known, Subject, Timing};
use crate::cluster::layout;
use crate::scenarios::prelude::*;

/// Names of each row by batch size.
const BATCHED_NAMES: usize = amount(10_000);
/// Lookups of many names each that are in flight.
const LOOKUPS_IN_FLIGHT: usize = 16;
/// Lookups in batches are up to this many times faster, so that this many times more are measured.
const LOOKUPS_BATCHED: usize = 10;

/// What to measure.
#[derive(Clone, Debug, Args)]
pub struct Index {
    /// Names registered, one row of memory and throughput for each
    #[arg(long, value_delimiter = ',', default_value = "10000,100000,1000000", value_parser = within(100, SESSION_NAMES_MAX))]
    pub names: Vec<usize>,
    /// Calls in flight at once, one row of lookups for each
    #[arg(long, value_delimiter = ',', default_value = "1,4,16,64,256", value_parser = within(1, CALLS_IN_FLIGHT_MAX))]
    pub depths: Vec<usize>,
    /// Records in one registration, one row for each
    #[arg(long, value_delimiter = ',', default_value = "1,10,100", value_parser = within(1, BATCH_MAX))]
    pub batches: Vec<usize>,
    /// Registrations of a peer that leaves, one row for each
    #[arg(long, value_delimiter = ',', default_value = "100000", value_parser = within(100, SESSION_NAMES_MAX))]
    pub leave: Vec<usize>,
    /// Lookups of each row
    #[arg(long, default_value = "20000", value_parser = within(100, 10_000_000))]
    pub lookups: usize,
    /// Seed of the key that signs the names
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

impl Scenario for Index {
    type How = Connecting;
    type Target = Output;

    async fn run(&self, on: &Deployment) -> Result<Report, Fault> {
        let watch = &on.watch;
        let floor = watch.unless_stopped(Floor::measure(on)).await.or_cannot_begin()?;
        let mut tables = Tables::new(self.clone(), on.security, floor);
        let start = async || Subject::start(on, Whose::Own.identity(self.seed)).await.or_cannot_begin();
        let mut costs = None;
        for names in self.names.iter().take_while(|_| !watch.is_stopped()) {
            let subject = start().await?;
            if let Some((sample, of_names)) = tables.grow(&subject, *names).await?
                && costs.is_none()
            {
                tables.look_up_by_depth(&subject, &sample, &of_names).await?;
                costs = Some(of_names);
            }
            subject.stop().await;
        }
        for batch in self.batches.iter().take_while(|_| !watch.is_stopped()) {
            let subject = start().await?;
            tables.call_in_batches(&subject, *batch, costs.as_ref()).await?;
            subject.stop().await;
        }
        for names in self.leave.iter().take_while(|_| !watch.is_stopped()) {
            let subject = start().await?;
            tables.leave(&subject, *names).await?;
            subject.stop().await;
        }
        Ok(tables.report(watch.is_stopped()))
    }
}

/// Whose files are registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Whose {
    /// Those of the peer that registers them: their connection proves them
    Own,
    /// Copies of another's files: each has a signature to be checked
    Copies,
}

impl Whose {
    pub(crate) fn identity(self, seed: u64) -> Identity {
        let mut key = [self as u8; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        Identity::from_seed(&key)
    }
}

/// The name of the `n`-th file, of 30 bytes.
pub fn name_of(n: usize) -> String {
    format!("data-set/part-{n:012}.bin")
}

/// Signs the records of these files, on all cores.
pub fn sign(origin: Whose, seed: u64, files: Range<usize>) -> Vec<VerifiedRecord> {
    let origin = origin.identity(seed);
    let share = files.len().div_ceil(layout::cores()).max(1);
    thread::scope(|scope| {
        let (origin, end) = (&origin, files.end);
        let signing: Vec<_> = files
            .step_by(share)
            .map(|from| {
                let of_share = from..(from + share).min(end);
                scope.spawn(move || of_share.map(|n| sign_record(origin, &name_of(n))).collect::<Vec<_>>())
            })
            .collect();
        // A panic there is one here; there is none.
        signing.into_iter().flat_map(|share| share.join().unwrap_or_default()).collect()
    })
}

/// The columns of every table of timings; those without a value are left out.
const COLUMNS: &str = "names scenario per_s p50_us p99_us first_tenth_per_s last_tenth_per_s bytes_per_name cpu_ms \
    left_after_ms p99_ratio times";

/// What an indexer takes: a row for each timing, and how much of it is the index and how much the way to it.
#[derive(Debug)]
pub(crate) struct Tables {
    options: Index,
    security: Security,
    floor: Floor,
    grown: Vec<Row>,
    depths: Vec<Row>,
    batches: Vec<Row>,
    /// Searches, and lookups beside them.
    found: Vec<Row>,
    /// By registrations of a peer that left.
    left: Vec<Row>,
    shares: Vec<Row>,
}

impl Tables {
    fn new(options: Index, security: Security, floor: Floor) -> Self {
        let (grown, depths, batches, found, left, shares) = <_>::default();
        Self { options, security, floor, grown, depths, batches, found, left, shares }
    }

    async fn look_up_by_depth(&mut self, subject: &Subject, sample: &Known, costs: &Costs) -> Result<()> {
        for depth in self.options.depths.clone().into_iter().take_while(|_| !subject.net.watch().is_stopped())
        {
            let (hits, misses) = subject.hits_and_misses(sample, depth, self.options.lookups).await?;
            for (one, several, timing, index_us) in
                [("hit", "hits", &hits, costs.hit_us), ("miss", "misses", &misses, costs.miss_us)]
            {
                let row = self.row(format!("{several}, {depth} in flight"), timing);
                self.depths.push(row.with("depth", depth));
                if depth == 1 || depth == 64 {
                    self.share(format!("lookup, {one}, {depth} in flight"), timing, index_us);
                }
            }
        }
        Ok(())
    }

    /// Registers, and looks up, `batch` names in a call. Of copies, which the peer holds, each has a signature
    /// to be checked.
    async fn call_in_batches(
        &mut self,
        subject: &Subject,
        batch: usize,
        costs: Option<&Costs>,
    ) -> Result<()> {
        let Index { seed, lookups, .. } = self.options;
        let sample = Known::of(&sign(Whose::Own, seed, 0..BATCHED_NAMES), subject.client.at());
        let copies = sign(Whose::Copies, seed, BATCHED_NAMES..2 * BATCHED_NAMES);
        let copies: Vec<_> = copies.iter().map(VerifiedRecord::to_signed).collect();
        let lookups = lookups * batch.min(LOOKUPS_BATCHED);
        let _progress =
            Progress::begin(&format!("batch {batch}"), 3 * BATCHED_NAMES + lookups, subject.net.watch());
        let new = subject.register(&sample.records, batch, 1).await?;
        let known = subject.register(&sample.records, batch, 1).await?;
        let copies = subject.register(&copies, batch, 1).await?;
        let hits = subject.look_up_all(&sample, lookups, batch, LOOKUPS_IN_FLIGHT).await?;
        for (what, timing) in [
            ("register new", &new),
            ("register copies", &copies),
            ("register known", &known),
            ("hits", &hits),
        ] {
            let row = self.row(format!("{what}, batches of {batch}"), timing);
            self.batches.push(row.with("batch", batch));
        }
        if let Some(costs) = costs {
            let operation = format!("registration, copies, batches of {batch}");
            self.share(operation, &copies, costs.verify_us + costs.register_us);
        }
        Ok(())
    }

    fn row(&self, scenario: String, timing: &Timing) -> Row {
        let row = Row::named(scenario).with("security", security_name(self.security));
        let row = row.with("per_s", timing.per_s()).with("floor_us", self.floor.raw.p50);
        row.times(&timing.figures())
    }

    fn share(&mut self, operation: String, timing: &Timing, index_us: f64) {
        let us = 1e6 / timing.per_s(); // for each name, all calls together
        let percent = index_us / us * 100.0;
        let row = Row::named(operation).with("us_each", us).with("index_us", index_us);
        self.shares.push(row.shares(percent));
    }

    fn report(self, interrupted: bool) -> Report {
        let (security, machine) = (security_name(self.security), machine::in_words());
        let process = format!("One indexer in a process of its own, one connection, {security}, {machine}.");
        let Index { names, seed, lookups, .. } = self.options;
        let names = names.first().copied().unwrap_or_default();
        let title = "Where the time goes (index: the same work in this process, without a network; IPC: all the rest):";
        let columns = "scenario us_each index_us index_percent ipc_percent";
        let shares = Section { rows: Vec::new(), ..Section::new(title, columns, self.shares) };
        let depths = format!("Lookups by calls in flight, {names} names, one name in a call:");
        let batches =
            format!("By names in a call, one registration or {LOOKUPS_IN_FLIGHT} lookups in flight:");
        let searches = "Searches by glob one after the other, and lookups beside them, 16 in flight:";
        Report {
            kind: Some("index"),
            head: format!("{process}\n{}", self.floor.in_words()),
            sections: vec![
                table("By number of names (registered in batches of 100, 4 calls in flight):", self.grown),
                table(&depths, self.depths),
                table(&batches, self.batches),
                table(searches, self.found),
                table("A peer leaves, and others look up meanwhile, 16 in flight:", self.left),
                shares,
            ],
            facts: self.floor.facts().with("seed", seed).with("lookups", lookups),
            ..Report::default()
        }
        .ended(interrupted, "Interrupted: rows are missing.", None)
    }
}

/// A table of timings. A p99 of few times is not shown.
fn table(title: &str, rows: Vec<Row>) -> Section {
    let is_few = |row: &Row| row.get("times") < bytes(P99_FROM);
    let shown = |row: &Row| if is_few(row) { row.clone().with("p99_us", f64::NAN) } else { row.clone() };
    let shown = rows.iter().map(shown).collect();
    Section { rows, ..Section::new(title, COLUMNS, shown) }
}
