//! Runs the scenarios of the search one after the other, and compares their figures with the goals.

use crate::cluster::layout::Layout;
use crate::plan::{query::CLIENTS_MAX, query::INDEXERS_MAX, query::Query, query::Questions, query::defaults};
use crate::scenarios::prelude::*;
use crate::scenarios::{connections::Connections, index::Index, query::Measured, query::measure};

/// Hops whose mean must be that of one hop.
const HOPS: [u8; 4] = [2, 3, 7, 16];
/// How often what is compared is measured, in turn: of each the median counts.
const ROUNDS: usize = amount(3);
/// The same for lookups between processes, which depend on where the system puts these.
const LOOKUP_ROUNDS: usize = amount(9);

/// How much is measured.
#[derive(Clone, Debug, Args)]
pub(crate) struct Goals {
    /// Requests of each client
    #[arg(short = 'n', long, default_value = "3000", value_parser = within(1, 100_000))]
    pub(crate) requests: usize,
    /// Names that one indexer grows to, a row for each
    #[arg(long, value_delimiter = ',', default_value = "10000,100000,1000000", value_parser = within(100, SESSION_NAMES_MAX))]
    pub(crate) names: Vec<usize>,
    /// Connections to one indexer
    #[arg(long, default_value = "10000", value_parser = within(1, CONNECTIONS_MAX))]
    pub(crate) connections: usize,
    /// Indexers of the large mesh
    #[arg(long, default_value = "60", value_parser = within(10, INDEXERS_MAX))]
    pub(crate) mesh: usize,
    /// Clients that ask ten indexers at once
    #[arg(long, default_value = "1000", value_parser = within(1, CLIENTS_MAX))]
    pub(crate) clients: usize,
    /// Registrations of a peer that leaves
    #[arg(long, default_value = "100000", value_parser = within(100, SESSION_NAMES_MAX))]
    pub(crate) leave: usize,
}

impl Scenario for Goals {
    type How = ();
    type Target = Output;

    async fn run(&self, on: &Deployment) -> Result<Report, Fault> {
        let watch = &on.watch;
        let mut search = Search { options: self, watch, goals: Vec::new() };
        match search.measure_all() {
            Err(fault) if !watch.is_stopped() => Err(fault),
            _ => Ok(goals::report(&search.goals, "", watch.is_stopped())),
        }
    }
}

struct Search<'a> {
    options: &'a Goals,
    watch: &'a Arc<Watch>,
    goals: Vec<Goal>,
}

impl Search<'_> {
    fn measure_all(&mut self) -> Result<(), Fault> {
        for (insecure, most) in [(true, 1.6), (false, 1.8)] {
            let setup = setup(Layout::One, Routing::Summary, insecure);
            let alone = self.measure(&self.scenario(1, 1, 0), &setup)?;
            let ratio = alone.ratio_to_floor();
            self.query("1/1/0, p50 in floors", &setup, &[&alone], ratio, Bound::AtMost(most));
        }
        self.mesh()?;
        for (insecure, most_kib) in [(true, 24.0), (false, 64.0)] {
            self.connections(insecure, most_kib)?;
        }
        self.lookups()?;
        self.index()
    }

    fn mesh(&mut self) -> Result<(), Fault> {
        for (routing, most, messages) in
            [(Routing::Summary, 6.0, Bound::AtMost(1.5)), (Routing::Flood, 12.0, Bound::Exactly(9.0))]
        {
            let setup = setup(Layout::One, routing, true);
            let rounds = self.rounds(&[self.scenario(10, 1, 1)], &setup)?;
            let of_rounds =
                |figure: fn(&Measured) -> f64| median(rounds.iter().map(|round| figure(&round[0])));
            let (ratio, messages_each) = (of_rounds(Measured::ratio_to_floor), of_rounds(messages_for_a_hit));
            let runs: Vec<&Measured> = rounds.iter().flatten().collect();
            self.query("10/1/1, p50 in floors", &setup, &runs, ratio, Bound::AtMost(most));
            self.query("10/1/1, messages for a hit", &setup, &runs, messages_each, messages);
        }
        for (routing, least) in [(Routing::Summary, 60_000.0), (Routing::Flood, 20_000.0)] {
            let setup = setup(Layout::Cores, routing, true);
            let many = self.measure(&self.scenario(10, 30, 1), &setup)?;
            self.query("10/30/1, queries/s", &setup, &[&many], many.queries_per_s(), Bound::AtLeast(least));
        }
        let setup = setup(Layout::One, Routing::Summary, true);
        let hops = [1].into_iter().chain(HOPS);
        let by_hops: Vec<Query> = hops.map(|hops| self.scenario(10, 30, hops)).collect();
        let rounds = self.rounds(&by_hops, &setup)?;
        for (n, hops) in (1..).zip(HOPS) {
            let ratio = median(rounds.iter().map(|round| round[n].figures.mean / round[0].figures.mean));
            let runs: Vec<&Measured> = rounds.iter().map(|round| &round[n]).collect();
            let what = format!("10/30/{hops}, mean in means of 10/30/1");
            self.query(&what, &setup, &runs, ratio, Bound::AtMost(1.15));
        }
        // As long as it takes until each indexer has checked most records, which it does once.
        let long = |indexers| {
            let mut long = self.scenario(indexers, 10, 1);
            long.load.requests *= 5;
            long
        };
        let rounds = self.rounds(&[long(10), long(self.options.mesh)], &setup)?;
        let ratio = median(rounds.iter().map(|round| round[1].figures.p50 / round[0].figures.p50));
        let runs: Vec<&Measured> = rounds.iter().map(|round| &round[1]).collect();
        let what = format!("{}/10/1, p50 in p50s of 10/10/1", self.options.mesh);
        self.query(&what, &setup, &runs, ratio, Bound::AtMost(2.0));
        let clients = self.options.clients;
        let mut crowd = self.scenario(10, clients, 1);
        crowd.load.requests = (self.options.requests / 50).max(1);
        let crowd = self.measure(&crowd, &setup)?;
        let errors = count(crowd.errors() + crowd.hits_wrong());
        self.query(&format!("10/{clients}/1, errors"), &setup, &[&crowd], errors, Bound::Exactly(0.0));
        Ok(())
    }

    fn connections(&mut self, insecure: bool, most_kib: f64) -> Result<(), Fault> {
        let connections = self.options.connections;
        let options = Connections { connections, active: connections.div_ceil(100), lookups: 200 };
        let report = self.report(&options, insecure)?;
        let (flag, name) = if insecure { (" --insecure", "plain TCP") } else { ("", "TLS") };
        let command = format!("profile connections -n {connections}{flag}");
        let (opened, kib) = (report.facts.get("connections"), report.facts.get("bytes_each_after") / 1024.0);
        self.add(format!("connections served, {name}"), opened, Bound::AtLeast(count(connections)), &command);
        self.add(format!("KiB of each connection, {name}"), kib, Bound::AtMost(most_kib), &command);
        Ok(())
    }

    /// Lookups a second of an indexer with few names, plain and over TLS.
    fn lookups(&mut self) -> Result<(), Fault> {
        let names = self.options.names.iter().copied().take(1).collect();
        let (batches, leave) = (Vec::new(), Vec::new());
        let options = Index { names, batches, leave, ..self.index_options() };
        let mut rates = [Vec::new(), Vec::new()];
        for _ in 0..LOOKUP_ROUNDS {
            for (insecure, rates) in [true, false].into_iter().zip(&mut rates) {
                rates.push(self.report(&options, insecure)?.of("hits, 64 in flight", "per_s"));
            }
        }
        let [plain, tls] = rates.map(median);
        let goal = Bound::AtLeast(250_000.0);
        self.add("lookups/s, 64 in flight", plain, goal, "profile index --insecure");
        self.add("the same over TLS, as a share", tls / plain, Bound::AtLeast(0.9), "profile index");
        Ok(())
    }

    fn index(&mut self) -> Result<(), Fault> {
        let report = self.report(&self.index_options(), true)?;
        let Goals { names, leave, .. } = self.options;
        let mut add = |what: &str, scenario: &str, key, bound| {
            self.add(what, report.of(scenario, key), bound, "profile index --insecure");
        };
        let each = "names looked up/s, 100 in a call";
        add(each, "hits, batches of 100", "per_s", Bound::AtLeast(1_500_000.0));
        for names in names {
            let [register, renew] = ["register", "renew"].map(|what| format!("{names} names, {what}"));
            add(&format!("{names} names, registered/s"), &register, "per_s", Bound::AtLeast(200_000.0));
            add(&format!("{names} names, renewed/s"), &renew, "per_s", Bound::AtLeast(500_000.0));
        }
        if let Some(names) = names.last() {
            let [register, search] =
                ["register", "search data-set/p*7?77?7.bin"].map(|what| format!("{names} names, {what}"));
            let [bytes, us] =
                ["bytes of each name", "us of a search by glob"].map(|what| format!("{what}, {names} names"));
            add(&bytes, &register, "bytes_per_name", Bound::AtMost(352.0));
            add(&us, &search, "p50_us", Bound::AtMost(50_000.0));
        }
        let meanwhile = format!("lookups while {leave} leave");
        let gone = format!("ms until {leave} registrations are gone");
        add(&gone, &meanwhile, "left_after_ms", Bound::AtMost(100.0));
        add("p99 of lookups meanwhile, in p99 before", &meanwhile, "p99_ratio", Bound::AtMost(2.0));
        Ok(())
    }

    fn index_options(&self) -> Index {
        let Goals { requests, names, leave, .. } = self.options.clone();
        let (depths, batches, leave) = (vec![64], vec![100], vec![leave]);
        Index { names, depths, batches, leave, lookups: requests * 16, seed: 1 }
    }

    /// That of one indexer in a process of its own.
    fn report(&self, options: &impl Scenario, insecure: bool) -> Result<Report, Fault> {
        let apart = setup(Layout::Processes, Routing::Summary, insecure);
        self.on_threads(&apart, async |deployment| options.run(&deployment).await)
    }

    fn scenario(&self, indexers: usize, clients: usize, ttl_hops: u8) -> Query {
        let (requests, usual) = (self.options.requests, defaults::<Questions>());
        let warm_up = requests.min(usual.warm_up);
        // One client asks five times as often: a median of few is moved by little.
        let requests = requests * if clients == 1 { 5 } else { 1 };
        let load = Questions { requests, warm_up, ..usual };
        Query { indexers, clients, ttl_hops, load, ..defaults() }
    }

    fn measure(&self, scenario: &Query, setup: &Setup) -> Result<Measured, Fault> {
        self.on_threads(setup, async |deployment| measure(scenario, &deployment).await)
    }

    fn rounds(&self, scenarios: &[Query], setup: &Setup) -> Result<Vec<Vec<Measured>>, Fault> {
        let round = || scenarios.iter().map(|scenario| self.measure(scenario, setup)).collect();
        (0..ROUNDS).map(|_| round()).collect()
    }

    /// Measures on threads of its own; an error if stopped.
    fn on_threads<T: Send>(
        &self,
        setup: &Setup,
        work: impl AsyncFnOnce(Deployment) -> Result<T, Fault> + Send,
    ) -> Result<T, Fault> {
        let stopped = || Fault::Run(anyhow!("interrupted"));
        let done = if self.watch.is_stopped() { Err(stopped()) } else { setup.on_threads(self.watch, work) };
        if self.watch.is_stopped() { Err(stopped()) } else { done }
    }

    fn query(&mut self, what: &str, setup: &Setup, runs: &[&Measured], measured: f64, bound: Bound) {
        let Query { indexers, clients, ttl_hops, load, .. } = &runs[0].scenario;
        let is_flood = setup.routing == Routing::Flood;
        let routing = if is_flood { " --routing flood" } else { "" };
        let layout = match setup.layout {
            Layout::One => String::new(),
            other => format!(" --layout {}", other.name()),
        };
        let (insecure, how) = match setup.connecting.insecure {
            true => (" --insecure", option_name(&setup.routing)),
            false => ("", "TLS".to_owned()),
        };
        let counts = format!("-i {indexers} -c {clients} --ttl {ttl_hops} -n {}", load.requests);
        let command = format!("profile query {counts}{routing}{layout}{insecure}");
        let all_right = runs.iter().all(|run| run.is_all_well());
        let goal = Goal::new(format!("{what}, {how}"), bound, measured, &command);
        self.goals.push(Goal { all_right, ..goal });
    }

    fn add(&mut self, what: impl Into<String>, measured: f64, bound: Bound, command: &str) {
        self.goals.push(Goal::new(what, bound, measured, command));
    }
}

fn setup(layout: Layout, routing: Routing, insecure: bool) -> Setup {
    let connecting = Connecting { insecure, threads: THREADS_DEFAULT };
    Setup { layout, routing, connecting, ..Setup::plain() }
}

/// Messages of the queries for names that are there.
fn messages_for_a_hit(measured: &Measured) -> f64 {
    let hits = measured.samples.measured.iter().filter(|sample| sample.is_hit && sample.outcome.is_ok());
    let (messages, hits) =
        hits.fold((0, 0), |(messages, hits), sample| (messages + u64::from(sample.messages), hits + 1));
    bytes(messages) / count(hits)
}
