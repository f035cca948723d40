//! One scenario from start to end: floor, cluster, run, floor again, and all of it stopped.

use nekopeer::cli::units::duration;

use crate::cluster::Cluster;
use crate::plot::scatter;
use crate::run::{self, samples::Sample, samples::Samples};
use crate::scenarios::prelude::*;

pub(crate) use crate::plan::query::Query;

impl Scenario for Query {
    type How = Setup;
    type Target = Detailed;

    fn check(&self, how: &Setup) -> Result<()> {
        self.graph()?;
        ensure!(self.idle_s == 0 || how.processes, "--idle is measured of processes: give --processes");
        Ok(())
    }

    async fn run(&self, on: &Deployment) -> Result<Report, Fault> {
        Ok(measure(self, on).await?.report())
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Measured {
    pub(crate) scenario: Query,
    pub(crate) on: Deployment,
    pub(crate) samples: Samples,
    pub(crate) figures: Figures,
    pub(crate) warm_up: Figures,
    /// The floor before the run, and the one after it.
    pub(crate) floors: [Floor; 2],
    /// Resident memory in bytes: of the indexers' processes, or of this one with all that is in it.
    pub(crate) rss_bytes: u64,
    /// What the indexers took before anybody asked, if that was measured.
    pub(crate) idle: Option<Row>,
}

impl Measured {
    /// A raw TCP round trip on the same threads: of the two measurements the one that the machine
    /// disturbed less.
    pub(crate) fn floor(&self) -> &Figures {
        self.lower(|floor| &floor.raw)
    }

    /// An echo call through our own transport, likewise.
    pub(crate) fn floor_call(&self) -> &Figures {
        self.lower(|floor| &floor.call)
    }

    fn lower(&self, of: fn(&Floor) -> &Figures) -> &Figures {
        let [before, after] = self.floors.each_ref().map(of);
        if after.p50 < before.p50 { after } else { before }
    }
}

/// Runs `scenario`; if that fails, nothing is left running.
pub(crate) async fn measure(scenario: &Query, deployment: &Deployment) -> Result<Measured, Fault> {
    let watch = &deployment.watch;
    let before = watch.unless_stopped(Floor::measure(deployment)).await.or_cannot_begin()?;
    let cluster = watch.unless_stopped(Cluster::start(scenario, deployment)).await.or_cannot_begin()?;
    let idle = cluster.idle(scenario.idle_s).await;
    let ran = ask(scenario, &cluster, watch).await;
    let rss_bytes = cluster.rss_bytes();
    cluster.stop().await;
    let samples = ran?;
    // What was measured is not given up for a floor.
    let after = Floor::measure(deployment).await.unwrap_or_else(|_| before.clone());
    Ok(Measured {
        scenario: scenario.clone(),
        on: deployment.clone(),
        figures: samples.figures(),
        warm_up: samples.warm_up_figures(),
        floors: [before, after],
        samples,
        rss_bytes,
        idle,
    })
}

async fn ask(scenario: &Query, cluster: &Cluster, watch: &Arc<Watch>) -> Result<Samples, Fault> {
    let clients = watch.unless_stopped(run::connect(scenario, cluster, watch)).await.or_cannot_begin()?;
    let _progress = Progress::begin(&scenario.name(), scenario.requests_of_all(), watch);
    Ok(run::run(scenario, clients, watch).await?)
}

/// By how much the floor may move during a run before that is said.
const FLOORS_APART: f64 = 1.3;
/// Points drawn; more would only make the file large.
const POINTS_MAX: usize = 6000;
/// Points of the line of means: neighbouring rounds are taken together beyond this.
const MEANS_MAX: usize = 120;
/// Times beyond this multiple of the p99 are left out of pictures, and counted: the slowest few would press all others into
/// a line at the bottom.
const TOP_OF_P99: f64 = 1.5;

/// What is shown of each scenario in a table of several.
pub(crate) const COLUMNS: &str = "scenario mean_us p50_us p90_us p99_us max_us queries_per_s messages_per_query floor_us \
    ratio_to_floor forerunner_published_us forerunner_rebuilt_us hits_wrong errors";

impl Measured {
    pub(crate) fn hits_wrong(&self) -> usize {
        self.samples.wrong().values().sum()
    }

    pub(crate) fn errors(&self) -> usize {
        self.samples.failures().values().sum()
    }

    pub(crate) fn is_all_well(&self) -> bool {
        self.hits_wrong() == 0 && self.errors() == 0 && !self.samples.interrupted
    }

    pub(crate) fn queries_per_s(&self) -> f64 {
        count(self.samples.answered()) / self.samples.wall.as_secs_f64()
    }

    /// The median answer beside the raw TCP round trip of the same run.
    pub(crate) fn ratio_to_floor(&self) -> f64 {
        self.figures.p50 / self.floor().p50
    }

    fn messages_per_query(&self) -> f64 {
        crate::report::bytes(self.samples.messages()) / count(self.samples.answered())
    }

    /// Where and how it was run, in a few words.
    pub(crate) fn setting(&self) -> String {
        let (topology, layout) = (option_name(&self.scenario.load.topology), self.on.layout.name());
        let (security, routing) = (security_name(self.on.security), option_name(&self.on.routing));
        let pace = match self.scenario.load.rate {
            None => "closed loop".to_owned(),
            Some(rate) => format!("open loop at {rate} queries/s"),
        };
        let seed = self.scenario.load.seed;
        format!("{topology}, {security}, by {routing}, layout {layout}, {pace}, seed {seed}")
    }

    pub(crate) fn report(self) -> Report {
        let mut shown = vec![
            Row::named("response time").times(&self.figures),
            Row::named("warm-up apart").times(&self.warm_up),
            Row::named("floor: raw TCP").times(self.floor()),
            Row::named("floor: echo call").times(self.floor_call()),
        ];
        if self.scenario.load.rate.is_some() {
            shown.insert(1, Row::named("of it sent late").times(&self.samples.lateness()));
        }
        let columns = "scenario times mean_us p50_us p90_us p99_us p999_us max_us";
        let idle = |row| Section::new("Idle before:", "idle_links idle_percent idle_us", vec![row]);
        let alone = Section { rows: vec![self.row()], ..Section::new("", columns, shown) };
        let (name, interrupted) = (self.scenario.name(), self.samples.interrupted);
        Report {
            head: format!("{name} (indexers/clients/ttl), {}, {}", self.setting(), machine::in_words()),
            sections: [alone].into_iter().chain(self.idle.clone().map(idle)).collect(),
            foot: self.summary(),
            interrupted,
            is_broken: !self.is_all_well(),
            pictures: self.pictures(),
            csv: Some((
                Sample::KEYS.to_owned(),
                Box::new(self.samples.measured.into_iter().map(Sample::row)),
            )),
            ..Report::default()
        }
    }

    fn summary(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let [before, after] = self.floors.each_ref().map(|floor| floor.raw.p50);
        if !(1.0 / FLOORS_APART..FLOORS_APART).contains(&(after / before)) {
            let moved = format!("the floor moved from {before:.1} to {after:.1} us meanwhile");
            lines.push(moved + ": do not trust the ratios");
        }
        let ratio = self.figures.p50 / self.floor_call().p50;
        lines.push(format!("p50 is {:.2} x the raw floor, {ratio:.2} x an echo call", self.ratio_to_floor()));
        let (per_s, messages) = (self.queries_per_s(), self.messages_per_query());
        let resident = mib(self.rss_bytes);
        lines.push(format!(
            "{per_s:.0} queries/s, {messages:.2} messages per query, {resident:.1} MiB resident"
        ));
        let (answered, hits) = (self.samples.answered(), self.samples.hits());
        let (wrong, errors) = (self.hits_wrong(), self.errors());
        let found = format!("{answered} answers, {hits} of names to be found");
        lines.push(format!("{found}, {wrong} wrong, {errors} without an answer"));
        for kinds in [json!(self.samples.wrong()), json!(self.samples.failures())] {
            let kinds = kinds.as_object().into_iter().flatten();
            lines.extend(kinds.map(|(kind, count)| format!("  {count} {}", kind.replace('_', " "))));
        }
        if self.samples.interrupted {
            lines.push(format!("interrupted: {} requests were meant", self.scenario.requests_of_all()));
        }
        lines
    }

    pub(crate) fn row(&self) -> Row {
        let (scenario, load, samples) = (&self.scenario, &self.scenario.load, &self.samples);
        let reference = REFERENCES.into_iter().find(|(of, ..)| *of == scenario.name());
        let row = Row::of(json!({
            "scenario": scenario.name(), "indexers": scenario.indexers, "clients": scenario.clients,
            "ttl": scenario.ttl_hops, "topology": option_name(&load.topology), "degree": load.degree,
            "security": security_name(self.on.security), "layout": self.on.layout.name(),
            "routing": option_name(&self.on.routing), "rate": load.rate, "miss": load.miss, "files": load.files,
            "holders": scenario.holders, "seed": load.seed,
            "requests": samples.measured.len(), "answers": samples.answered(), "hits": samples.hits(),
            "interrupted": samples.interrupted,
            "hits_wrong": self.hits_wrong(), "wrong_by_kind": samples.wrong(),
            "errors": self.errors(), "errors_by_kind": samples.failures(),
            "percentiles_us": self.figures.percentiles,
            "queries_per_s": self.queries_per_s(), "messages_per_query": self.messages_per_query(),
            "rss_mib": mib(self.rss_bytes),
            "floor_us": self.floor().p50, "floor_call_us": self.floor_call().p50,
            "floors_us": self.floors.each_ref().map(|floor| floor.raw.p50), "ratio_to_floor": self.ratio_to_floor(),
            "warm_up": samples.warm_up.len(), "warm_up_mean_us": self.warm_up.mean, "warm_up_max_us": self.warm_up.max,
            "forerunner_published_us": reference.and_then(|(_, published_us, _)| published_us),
            "forerunner_rebuilt_us": reference.map(|(_, _, rebuilt_us)| match rebuilt_us {
                us if us.is_finite() => json!(us),
                _ => json!("does not finish"),
            }),
        }));
        let late = load.rate.map(|_| samples.lateness());
        let with_late = |row: Row, of: &Figures| row.with("late_p50_us", of.p50).with("late_p99_us", of.p99);
        late.iter().fold(row, with_late).times(&self.figures)
    }

    /// A point for each request, at the number it has among those of its client; and all of them by their response time, with
    /// p50, p90 and p99 marked.
    pub(crate) fn pictures(&self) -> Vec<Picture> {
        let Figures { mean, p50, p90, p99, max, .. } = self.figures;
        let top = (p99 * TOP_OF_P99).min(max * 1.05).max(p50 * 1.2);
        let shown = || self.samples.by_round().filter(|(_, us)| *us <= top);
        let (answers, times) = (self.samples.answered(), shown().map(|(_, us)| us).collect::<Vec<_>>());
        let step = answers.div_ceil(POINTS_MAX).max(1);
        let dots: Points = shown().step_by(step).map(|(round, us)| (count(round) + 1.0, us)).collect();
        let means = self.samples.round_means_us();
        let together = means.len().div_ceil(MEANS_MAX).max(1);
        let line = means.chunks(together).enumerate().map(|(n, some)| {
            let middle = count(n * together) + (count(some.len()) + 1.0) / 2.0;
            (middle, (some.iter().sum::<f64>() / count(some.len())).min(top))
        });
        let label = format!("mean by round (of all: {})", duration(mean / 1e3));
        let marks = [("p50", p50), ("p90", p90), ("p99", p99)];
        let marks = marks.map(|(name, us)| (format!("{name} {}", duration(us / 1e3)), us)).into();
        let (round, us) = ("round: the n-th request of each client", "response time, us");
        let beyond = Some(answers - times.len()).filter(|beyond| *beyond > 0);
        let beyond = beyond.map(|beyond| format!(", {beyond} of them slower than shown")).unwrap_or_default();
        let (name, subtitle) =
            (self.scenario.name(), format!("{answers} answers{beyond}\n{}", self.setting()));
        let picture = |kind, title, chart| {
            let (file, title) = (name.replace('/', "-"), format!("{title}, {name} (indexers/clients/TTL)"));
            Picture::new(format!("query-{file}-{kind}"), title, subtitle.as_str(), vec![chart])
        };
        let scatter = scatter(round, us, ("a request", dots), (label, line.collect()));
        let histogram = histogram(us, "answers", &times, marks);
        vec![
            picture("scatter", "Response time by request", scatter),
            picture("histogram", "Distribution of response times", histogram),
        ]
    }
}

/// Mean response times in microseconds of what the project's forerunner reached on the same scenarios: the public nekop2p
/// 0.2.0, whose indexers are asked for names that nobody has, so that each of its times is for an empty answer.
/// By scenario: as its authors published them, on their machine, and as measured on 2026-11-21, built with `--release`, on 2 cores
/// of an AMD EPYC; infinite where it did not come to an end.
const REFERENCES: [(&str, Option<f64>, f64); 8] = [
    ("1/1/0", Some(63.07), 92.0),
    ("1/10/0", Some(155.02), 244.0),
    ("10/1/1", Some(788.83), 1140.0),
    ("10/5/1", Some(1440.0), 2430.0),
    ("10/10/1", Some(2280.0), 5580.0),
    ("10/30/1", Some(6320.0), 14_900.0),
    ("10/30/2", Some(9000.0), 19_200.0),
    ("10/30/3", None, f64::INFINITY),
];
