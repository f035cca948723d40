//! Publications and lookups by many workers at once, checked by an auditor that follows: is what was acknowledged there
//! in the end, also where a reader is slow, nodes die, another network is beside it, or all begin again from disk?

mod auditor;
pub mod judge;
mod network;
pub(crate) mod origin;
mod trial;
mod work;

use self::{network::INDEXERS, origin::Protocol};
use crate::scenarios::prelude::*;

/// Share of the duration for which publications are synced one by one.
const ALONE: f64 = 0.1;
/// And at least so long, in seconds.
const ALONE_S_MIN: f64 = 0.5;
const ALONE_LABEL: &str = "one at a time";
/// What a message broker says of itself with as many workers, messages a second, and what is aimed at, times that.
const THEIRS: [(Protocol, f64, f64); 2] = [(Protocol::Native, 1438.29, 20.0), (Protocol::Rest, 842.68, 10.0)];
const COLUMNS: &str =
    "scenario shared_per_s lookups_per_s p50_us p99_us twice skipped lost peak_mib_receiver verdict";

/// How much, for how long, and what happens meanwhile.
#[derive(Clone, Debug, Args)]
pub(crate) struct Load {
    /// What workers call
    #[arg(long, value_enum, default_value = "both")]
    pub(crate) protocol: Protocols,
    /// Workers at once
    #[arg(long, default_value_t = 60, value_parser = within(1, 999))]
    pub(crate) workers: usize,
    /// Names of each worker, which it shares together
    #[arg(long, default_value_t = 64, value_parser = within(1, 999))]
    pub(crate) names: usize,
    /// Seconds that they work in each scenario
    #[arg(long, value_name = "S", default_value_t = 30.0, value_parser = seconds)]
    pub(crate) duration: f64,
    /// Publications a second of all workers together [default: as many as there can be]
    #[arg(long, value_name = "PER_S", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rate: Option<u32>,
    /// What happens meanwhile [default: all, one after the other]
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(crate) scenario: Vec<Trial>,
    /// Where the files go [default: the system's folder for temporary files]
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// The n-th indexer listens on this port plus n [default: free ones]
    #[arg(long, default_value_t = 0, hide_default_value = true)]
    pub(crate) port: u16,
    /// Break a promise on purpose: the run must then fail
    #[arg(long = "break", value_enum, hide = true)]
    pub(crate) broken: Option<Broken>,
}

/// What workers call, as it is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Protocols {
    /// The peer's own interface, in the same process
    Native,
    /// HTTP, at a `nekopeer` in a process of its own
    Rest,
    /// One after the other
    Both,
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds: &f64| (0.1..=3600.0).contains(seconds));
    seconds.ok_or_else(|| "a run lasts 0.1 to 3600 seconds".to_owned())
}

/// How long versions took to arrive, of each run in which they were followed.
fn picture(curves: &Lines) -> Picture {
    let of = |protocol: Protocol| {
        let is_of = |(label, _): &&(String, Points)| label.ends_with(&option_name(&protocol));
        lines(Axis::log("time, ms"), "arrived by then, %", curves.iter().filter(is_of).cloned().collect())
    };
    let charts = [Protocol::Native, Protocol::Rest].map(of).into_iter();
    let charts = charts.filter(|chart| !chart.series.is_empty()).collect();
    let title = "From sharing a version to its arrival at the reader, % of those that arrived";
    Picture::new("load", title, machine::in_words(), charts)
}

impl Scenario for Load {
    type How = Connecting;
    type Target = Drawn;

    fn check(&self, _how: &Connecting) -> Result<()> {
        let Some(broken) = self.broken else { return Ok(()) };
        let Some(whole) = self.trials().into_iter().find(|trial| !broken.is_of(*trial)) else {
            return Ok(());
        };
        let (broken, whole) = (option_name(&broken), option_name(&whole));
        bail!("--break {broken} breaks nothing in {whole}: leave out one of them")
    }

    async fn run(&self, on: &Deployment) -> Result<Report, Fault> {
        // For what is busy in this process: all cores, beside the thread that watches.
        let busy = Builder::new_multi_thread().enable_all().build().or_cannot_begin()?;
        let done = run_all(self, on, busy.handle()).await;
        busy.shutdown_background();
        done
    }
}

/// The same; origins and workers of this process run on `runtime`.
async fn run_all(options: &Load, deployment: &Deployment, runtime: &Handle) -> Result<Report, Fault> {
    let (mut rows, mut curves) = (Vec::<Row>::new(), Lines::new());
    let (mut runs, mut goals, mut place) = (Vec::new(), Vec::new(), String::new());
    for protocol in options.protocols() {
        let name = option_name(&protocol);
        for trial in options.trials() {
            let label = format!("{} {name}", option_name(&trial));
            runs.push((options.clone(), protocol, trial, label));
        }
        if options.trials().contains(&Trial::Live) && options.broken.is_none() {
            let duration = (options.duration * ALONE).max(ALONE_S_MIN);
            let alone = Load { workers: 1, names: 1, duration, rate: None, ..options.clone() };
            runs.push((alone, protocol, Trial::Live, format!("{ALONE_LABEL} {name}")));
        }
    }
    let watch = &deployment.watch;
    for (options, protocol, trial, label) in runs {
        let dir = options.dir.clone().unwrap_or_else(std::env::temp_dir);
        let folder = Folder::prepare(Some(&dir)).or_cannot_begin()?;
        place = folder.in_words();
        let (on, runtime) = (deployment.within(&folder), runtime.clone());
        let plan = Arc::new(Plan { trial, protocol, label: label.clone(), options, on, runtime });
        let (row, curve) = match trial::run(&plan).await {
            Ok(done) => done,
            Err(_) if watch.is_stopped() && !rows.is_empty() => break,
            Err(Fault::Run(error)) if !watch.is_stopped() => trial::failed(&label, &error),
            Err(fault) => return Err(fault),
        };
        if trial == Trial::Live && plan.options.workers > 1 && !watch.is_stopped() {
            goals.extend(goal(protocol, row.get("shared_per_s")));
        }
        curves.push((label, curve));
        rows.push(row);
        if watch.is_stopped() {
            break;
        }
    }
    let is_broken = rows.iter().any(|row| row.0["faults"] != json!([]));
    let Load { workers, names, duration, rate, .. } = options;
    let (security, machine) = (security_name(deployment.security), machine::in_words());
    Ok(Report {
        kind: Some("load"),
        head: format!(
            "{workers} workers with {names} names each for {duration} s in each scenario, {INDEXERS} indexers in a line, \
             {security}, {place}, {machine}."
        ),
        sections: vec![Section::new("", COLUMNS, rows)],
        foot: goals,
        facts: Row::of(json!({ "workers": workers, "names": names, "duration_s": duration, "rate": rate })),
        interrupted: deployment.watch.is_stopped(),
        is_broken,
        pictures: vec![picture(&curves)],
        ..Report::default()
    })
}

/// What is aimed at, and whether it was reached.
fn goal(protocol: Protocol, per_s: f64) -> Option<String> {
    let (_, theirs, times) = THEIRS.into_iter().find(|(of, ..)| *of == protocol)?;
    let verdict = if per_s >= theirs * times { "reached" } else { "missed" };
    Some(format!(
        "{}: {per_s:.0} shared a second are {:.1} times the {theirs:.0} messages of a broker; {times} are aimed at: {verdict}.",
        option_name(&protocol),
        per_s / theirs
    ))
}

impl Load {
    fn protocols(&self) -> Vec<Protocol> {
        match self.protocol {
            Protocols::Native => vec![Protocol::Native],
            Protocols::Rest => vec![Protocol::Rest],
            Protocols::Both => vec![Protocol::Native, Protocol::Rest],
        }
    }

    /// Those asked for; otherwise all, or all that can break the promise.
    fn trials(&self) -> Vec<Trial> {
        if !self.scenario.is_empty() {
            return self.scenario.clone();
        }
        let all = Trial::value_variants().iter().copied();
        all.filter(|trial| self.broken.is_none_or(|broken| broken.is_of(*trial))).collect()
    }
}

/// What a slow reader takes for a message.
const SLOW_MS: u64 = 2;

/// What happens under load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Trial {
    /// The reader is told of each version right after it was shared
    Live,
    /// The reader takes 2 ms for each message
    Slow,
    /// The reader, then its indexer, is killed half-way and comes back
    Crash,
    /// Two private networks with the same names try each other's indexers
    Isolation,
    /// All nodes are killed after the last publication; the reader begins after they are back
    Disk,
}

pub(crate) struct Plan {
    pub(crate) trial: Trial,
    pub(crate) protocol: Protocol,
    pub(crate) label: String,
    pub(crate) options: Load,
    pub(crate) on: Deployment,
    /// Where the origin, if it is in this process, and the workers run.
    pub(crate) runtime: Handle,
}

impl Plan {
    /// Workers of each network.
    pub(crate) const fn workers(&self) -> usize {
        self.options.workers.div_ceil(self.trial.networks())
    }

    /// Between two publications of a worker; `None`: as fast as it can.
    pub(crate) fn every(&self) -> Option<Duration> {
        let names = count(self.trial.networks() * self.workers() * self.options.names);
        self.options.rate.map(|rate| Duration::from_secs(1).mul_f64(names) / rate)
    }
}

/// A promise that is broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Broken {
    /// The reader drops the newest version of one name.
    Drop,
    /// Both networks have one name and one secret.
    Mix,
    /// The origin comes back with the folder of before the load.
    Lose,
}

impl Broken {
    /// Whether `scenario` makes the promise.
    pub(crate) const fn is_of(self, scenario: Trial) -> bool {
        match self {
            Self::Drop => matches!(scenario, Trial::Live | Trial::Slow | Trial::Crash),
            Self::Mix => matches!(scenario, Trial::Isolation),
            Self::Lose => matches!(scenario, Trial::Disk),
        }
    }
}

impl Trial {
    pub(crate) const fn networks(self) -> usize {
        if matches!(self, Self::Isolation) { 2 } else { 1 }
    }

    pub(crate) const fn pause_ms(self) -> u64 {
        if matches!(self, Self::Slow) { SLOW_MS } else { 0 }
    }
}
