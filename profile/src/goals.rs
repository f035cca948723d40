//! All goals of the search in one run: what was aimed at, what was measured, and the command that
//! measures it alone.

mod row;

use std::sync::Arc;

use nekoindexer::{Routing, threads::THREADS_DEFAULT};
use nekoproto::transport::Security;

pub use row::{Bound, Row, json, table};

use crate::{
    cluster::{
        affinity::on_own_thread,
        layout::{Layout, Runtimes},
        node::Place,
    },
    connections, index,
    measure::{Measured, measure},
    outcome::{Begin, Fault},
    plan::scenario::Scenario,
    run::{Watch, interrupt},
};

/// Hops whose mean must be that of one hop.
const HOPS: [u8; 4] = [2, 3, 7, 16];

/// How often what is compared is measured, in turn: of each the median counts.
const ROUNDS: usize = 3;

/// The same for lookups between processes, which depend on where the system puts these.
const LOOKUP_ROUNDS: usize = 9;

/// How much is measured.
#[derive(Clone, Debug)]
pub struct Options {
    /// Requests of each client; of a thousand clients, a fiftieth.
    pub requests: usize,
    /// Names that one indexer grows to, a row for each.
    pub names: Vec<usize>,
    /// Connections to one indexer.
    pub connections: usize,
    /// Registrations of a peer that leaves.
    pub leave: usize,
}

/// Measures all goals; fewer if stopped.
///
/// # Errors
/// Something could not be started, or broke.
pub fn run(options: &Options, watch: &Arc<Watch>) -> Result<Vec<Row>, Fault> {
    let mut goals = Goals { options, watch, rows: Vec::new() };
    goals.one_indexer()?;
    goals.mesh()?;
    for security in [Security::Insecure, Security::Tls] {
        goals.crowd(security)?;
    }
    goals.index()?;
    Ok(goals.rows)
}

struct Goals<'a> {
    options: &'a Options,
    watch: &'a Arc<Watch>,
    rows: Vec<Row>,
}

impl Goals<'_> {
    fn one_indexer(&mut self) -> Result<(), Fault> {
        let alone = self.scenario(1, 1, 0);
        for (security, bound) in [(Security::Insecure, 1.6), (Security::Tls, 1.8)] {
            let setup = (Layout::One, security, Routing::Summary);
            let Some(measured) = self.measure(&alone, setup)? else { return Ok(()) };
            let ratio = measured.ratio_to_floor();
            self.add("1/1/0, p50 in floors", &[&measured], ratio, Bound::AtMost(bound));
        }
        Ok(())
    }

    fn mesh(&mut self) -> Result<(), Fault> {
        let plain = |layout, routing| (layout, Security::Insecure, routing);
        for (routing, bound, messages) in
            [(Routing::Summary, 6.0, Bound::AtMost(1.5)), (Routing::Flood, 12.0, Bound::Exactly(9.0))]
        {
            let setup = plain(Layout::One, routing);
            let Some(rounds) = self.rounds(&[self.scenario(10, 1, 1)], setup)? else { return Ok(()) };
            let of_rounds =
                |figure: fn(&Measured) -> f64| median(rounds.iter().map(|round| figure(&round[0])));
            let (ratio, messages_each) = (of_rounds(Measured::ratio_to_floor), of_rounds(messages_for_a_hit));
            let runs: Vec<&Measured> = rounds.iter().flatten().collect();
            self.add("10/1/1, p50 in floors", &runs, ratio, Bound::AtMost(bound));
            self.add("10/1/1, messages for a hit", &runs, messages_each, messages);
        }
        for (routing, bound) in [(Routing::Summary, 60_000.0), (Routing::Flood, 20_000.0)] {
            let setup = plain(Layout::Cores, routing);
            let Some(many) = self.measure(&self.scenario(10, 30, 1), setup)? else { return Ok(()) };
            self.add("10/30/1, queries/s", &[&many], many.queries_per_s(), Bound::AtLeast(bound));
        }
        let setup = plain(Layout::One, Routing::Summary);
        let by_hops: Vec<Scenario> =
            [1].into_iter().chain(HOPS).map(|hops| self.scenario(10, 30, hops)).collect();
        let Some(rounds) = self.rounds(&by_hops, setup)? else { return Ok(()) };
        for (n, hops) in (1..).zip(HOPS) {
            let ratio = median(rounds.iter().map(|round| round[n].figures.mean / round[0].figures.mean));
            let goal = format!("10/30/{hops}, mean in means of 10/30/1");
            let runs: Vec<&Measured> = rounds.iter().map(|round| &round[n]).collect();
            self.add(&goal, &runs, ratio, Bound::AtMost(1.15));
        }
        let thousand =
            Scenario { requests: (self.options.requests / 50).max(1), ..self.scenario(10, 1000, 1) };
        let Some(thousand) = self.measure(&thousand, setup)? else { return Ok(()) };
        let errors = count(thousand.errors() + thousand.hits_wrong());
        self.add("10/1000/1, errors", &[&thousand], errors, Bound::Exactly(0.0));
        Ok(())
    }

    fn crowd(&mut self, security: Security) -> Result<(), Fault> {
        let connections = self.options.connections;
        let options = connections::Options { connections, active: connections.div_ceil(100), lookups: 200 };
        let report =
            self.apart(security, async |place, watch| connections::run(&options, &place, &watch).await)?;
        let Some(report) = report.filter(|report| !report.interrupted) else { return Ok(()) };
        let command = format!("profile connections -n {connections}{}", insecure(security));
        let (name, kib) = match security {
            Security::Insecure => ("plain TCP", 24.0),
            Security::Tls => ("TLS", 64.0),
        };
        let goal = format!("connections served, {name}");
        self.row(&goal, count(report.opened), Bound::AtLeast(count(connections)), &command);
        let goal = format!("KiB of each connection, {name}");
        self.row(&goal, report.bytes_each_after / 1024.0, Bound::AtMost(kib), &command);
        Ok(())
    }

    fn index(&mut self) -> Result<(), Fault> {
        let options = index::Options {
            names: self.options.names.clone(),
            depths: vec![64],
            batches: vec![100],
            leaves: vec![self.options.leave],
            lookups: self.options.requests * 16,
            seed: 1,
        };
        let command = "profile index --insecure";
        let mut rates = [Vec::new(), Vec::new()];
        for _ in 0..LOOKUP_ROUNDS {
            for (security, rates) in [Security::Insecure, Security::Tls].into_iter().zip(&mut rates) {
                let Some(per_s) = self.lookups_per_s(&options, security)? else { return Ok(()) };
                rates.push(per_s);
            }
        }
        let [plain, tls] = rates.map(median);
        self.row("lookups/s, 64 in flight", plain, Bound::AtLeast(250_000.0), command);
        self.row("the same over TLS, as a share", tls / plain, Bound::AtLeast(0.9), "profile index");
        let run = async |place, watch: Arc<Watch>| index::run(&options, &place, &watch).await;
        let plain = self.apart(Security::Insecure, run)?.filter(|report| !report.interrupted);
        let Some(plain) = plain else { return Ok(()) };
        for row in &plain.batched {
            let goal = format!("names looked up/s, {} in a call", row.batch);
            self.row(&goal, row.hits.per_s(), Bound::AtLeast(1_500_000.0), command);
        }
        for row in &plain.grown {
            let names = row.names;
            let (new, known) = (row.registered.per_s(), row.renewed.per_s());
            self.row(&format!("{names} names, registered/s"), new, Bound::AtLeast(200_000.0), command);
            self.row(&format!("{names} names, renewed/s"), known, Bound::AtLeast(500_000.0), command);
        }
        if let Some(row) = plain.grown.last() {
            let goal = format!("bytes of each name, {} names", row.names);
            self.row(&goal, row.bytes_per_name, Bound::AtMost(320.0), command);
        }
        for row in &plain.left {
            let goal = format!("ms until {} registrations are gone", row.names);
            self.row(&goal, row.longest_ms(), Bound::AtMost(100.0), command);
            let ratio = row.meanwhile.figures().p99 / row.before.figures().p99;
            self.row("p99 of lookups meanwhile, in p99 before", ratio, Bound::AtMost(2.0), command);
        }
        Ok(())
    }

    /// Lookups a second of an indexer with few names; `None` if stopped.
    fn lookups_per_s(&self, options: &index::Options, security: Security) -> Result<Option<f64>, Fault> {
        let (batches, leaves) = (Vec::new(), Vec::new());
        let names = options.names.iter().copied().take(1).collect();
        let options = index::Options { names, batches, leaves, ..options.clone() };
        let run = async |place, watch: Arc<Watch>| index::run(&options, &place, &watch).await;
        let report = self.apart(security, run)?;
        Ok(report.and_then(|report| report.pipelined.first().map(|row| row.hits.per_s())))
    }

    fn scenario(&self, indexers: usize, clients: usize, ttl_hops: u8) -> Scenario {
        // As many for one client as for thirty: a median of few is moved by little.
        let requests = self.options.requests * if clients == 1 { 5 } else { 1 };
        Scenario { indexers, clients, ttl_hops, requests, ..Scenario::default() }
    }

    /// Measures on threads of its own; `None` if stopped.
    fn measure(
        &self,
        scenario: &Scenario,
        (layout, security, routing): (Layout, Security, Routing),
    ) -> Result<Option<Measured>, Fault> {
        self.on_threads(layout, security, routing, async |place, watch| {
            measure(scenario, &place, &watch).await
        })
    }

    /// Measures these one after the other, several times; `None` if stopped.
    fn rounds(
        &self,
        scenarios: &[Scenario],
        setup: (Layout, Security, Routing),
    ) -> Result<Option<Vec<Vec<Measured>>>, Fault> {
        let round = || scenarios.iter().map(|scenario| self.measure(scenario, setup)).collect();
        let rounds: Result<Vec<Option<Vec<Measured>>>, Fault> = (0..ROUNDS).map(|_| round()).collect();
        Ok(rounds?.into_iter().collect())
    }

    /// Measures an indexer in a process of its own; `None` if stopped.
    fn apart<T: Send>(
        &self,
        security: Security,
        work: impl AsyncFnOnce(Place, Arc<Watch>) -> Result<T, Fault> + Send,
    ) -> Result<Option<T>, Fault> {
        self.on_threads(Layout::Processes, security, Routing::Summary, work)
    }

    fn on_threads<T: Send>(
        &self,
        layout: Layout,
        security: Security,
        routing: Routing,
        work: impl AsyncFnOnce(Place, Arc<Watch>) -> Result<T, Fault> + Send,
    ) -> Result<Option<T>, Fault> {
        if self.watch.is_stopped() {
            return Ok(None);
        }
        let on_thread = || {
            Runtimes::new(layout).or_cannot_begin()?.run(|runtimes| async {
                interrupt::listen(Arc::clone(self.watch)).or_cannot_begin()?;
                let threads = THREADS_DEFAULT;
                let place = Place { layout, security, routing, port: 0, threads, runtimes };
                work(place, Arc::clone(self.watch)).await
            })
        };
        let done = on_own_thread(on_thread)??;
        Ok(Some(done).filter(|_| !self.watch.is_stopped()))
    }

    /// Adds what came of these runs of one scenario.
    fn add(&mut self, goal: &str, runs: &[&Measured], is: f64, bound: Bound) {
        let Some(of) = runs.first() else { return };
        let Scenario { indexers, clients, ttl_hops, requests, .. } = &of.scenario;
        let routing = if of.routing == Routing::Flood { " --routing flood" } else { "" };
        let layout =
            if of.layout == Layout::One { String::new() } else { format!(" --layout {}", of.layout.name()) };
        let command = format!(
            "profile query -i {indexers} -c {clients} --ttl {ttl_hops} -n {requests}{routing}{layout}{}",
            insecure(of.security)
        );
        let (security, routing) = (of.security, crate::cluster::node::routing_name(of.routing));
        let how = if security == Security::Tls { "TLS" } else { routing };
        self.row(&format!("{goal}, {how}"), is, bound, &command);
        let all_right = runs.iter().all(|run| run.is_all_well());
        if let Some(row) = self.rows.last_mut() {
            row.all_right = all_right;
        }
    }

    fn row(&mut self, goal: &str, is: f64, bound: Bound, command: &str) {
        let (goal, command) = (goal.to_owned(), command.to_owned());
        self.rows.push(Row { goal, bound, is, command, all_right: true });
    }
}

const fn insecure(security: Security) -> &'static str {
    match security {
        Security::Insecure => " --insecure",
        Security::Tls => "",
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts that are shown")]
const fn count(count: usize) -> f64 {
    count as f64
}

/// The figure in the middle; of none, not a number.
pub(crate) fn median(figures: impl IntoIterator<Item = f64>) -> f64 {
    let mut figures: Vec<f64> = figures.into_iter().collect();
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Messages of the queries for names that are there.
fn messages_for_a_hit(measured: &Measured) -> f64 {
    let hits = measured.samples.measured.iter().filter(|sample| sample.is_hit && sample.outcome.is_ok());
    let (messages, hits) =
        hits.fold((0, 0), |(messages, hits), sample| (messages + u64::from(sample.messages), hits + 1));
    #[expect(clippy::cast_precision_loss, reason = "shown with a few digits")]
    let mean = messages as f64 / f64::from(hits);
    mean
}
