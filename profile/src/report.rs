//! From samples to figures: table, JSON, plots.

use std::{fs, io::Write, time::Duration};

use anyhow::Context;
use hdrhistogram::Histogram;
use serde_json::{Value, json};

use crate::{
    args::Query,
    cluster::Cluster,
    floor, plot,
    run::{self, Samples},
    scenario::Scenario,
};

/// The figures of one run, times in microseconds.
#[derive(Clone, Debug)]
pub struct Figures {
    /// Mean, p50, p90, p99 and the longest response time.
    pub times_us: [f64; 5],
    /// Answers per second, all clients together.
    pub queries_per_s: f64,
    /// Messages between indexers for one query.
    pub messages_per_query: f64,
    /// Median raw TCP round trip of the same run.
    pub floor_us: f64,
    /// Resident memory of this process in MiB.
    pub rss_mib: f64,
}

/// Runs `scenario`, prints the figures, and writes what was asked for.
///
/// # Errors
/// The cluster did not start, or a file cannot be written.
pub async fn run_and_report(query: &Query, scenario: &Scenario) -> anyhow::Result<()> {
    if let Some(folder) = &query.plot {
        // Before the run: nobody should wait for figures that cannot be drawn.
        fs::create_dir_all(folder)
            .with_context(|| format!("cannot use the plot folder {}", folder.display()))?;
    }
    let cluster = Cluster::start(scenario, query.security()).await?;
    let floor = floor::measure().await?;
    let samples = run::run(scenario, &cluster).await?;
    cluster.stop().await;
    let figures = Figures::of(&samples, floor)?;
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{}", figures.table(scenario, &samples))?;
    if let Some(path) = &query.json {
        let text = serde_json::to_string_pretty(&figures.json(scenario, &samples))?;
        fs::write(path, text + "\n").with_context(|| format!("cannot write {}", path.display()))?;
    }
    if let Some(folder) = &query.plot {
        for path in plot::draw(folder, scenario, &samples.took, &figures)? {
            writeln!(stdout, "drew {}", path.display())?;
        }
    }
    anyhow::ensure!(
        samples.hits_wrong == 0 && samples.errors == 0,
        "{} wrong answers, {} errors",
        samples.hits_wrong,
        samples.errors
    );
    Ok(())
}

impl Figures {
    /// The figures of `samples`.
    ///
    /// # Errors
    /// There is not a single sample.
    #[expect(clippy::cast_precision_loss, reason = "figures are shown with a few digits")]
    pub fn of(samples: &Samples, floor: Duration) -> anyhow::Result<Self> {
        anyhow::ensure!(!samples.took.is_empty(), "no query was answered");
        let mut histogram = Histogram::<u64>::new(3)?;
        for took in &samples.took {
            histogram.record(u64::try_from(took.as_nanos())?)?;
        }
        let us = |nanos: u64| nanos as f64 / 1e3;
        let at = |quantile| us(histogram.value_at_quantile(quantile));
        let answered = samples.took.len() as f64;
        Ok(Self {
            times_us: [histogram.mean() / 1e3, at(0.5), at(0.9), at(0.99), us(histogram.max())],
            queries_per_s: answered / samples.wall.as_secs_f64(),
            messages_per_query: samples.messages as f64 / answered,
            floor_us: us(u64::try_from(floor.as_nanos())?),
            rss_mib: rss_mib(),
        })
    }

    fn table(&self, scenario: &Scenario, samples: &Samples) -> String {
        let [mean, p50, p90, p99, max] = self.times_us;
        format!(
            "scenario {} {:?}, {} queries, {} wrong, {} errors\n\
             mean {mean:.1} us, p50 {p50:.1}, p90 {p90:.1}, p99 {p99:.1}, max {max:.1}\n\
             {:.0} queries/s, {:.2} messages per query\n\
             floor {:.1} us (raw TCP), p50 is {:.1} x that; {:.0} MiB resident",
            scenario.name(),
            scenario.topology,
            samples.took.len(),
            samples.hits_wrong,
            samples.errors,
            self.queries_per_s,
            self.messages_per_query,
            self.floor_us,
            p50 / self.floor_us,
            self.rss_mib,
        )
    }

    fn json(&self, scenario: &Scenario, samples: &Samples) -> Value {
        let [mean, p50, p90, p99, max] = self.times_us;
        json!({
            "scenario": scenario.name(),
            "indexers": scenario.indexers,
            "clients": scenario.clients,
            "ttl": scenario.ttl_hops,
            "topology": format!("{:?}", scenario.topology).to_lowercase(),
            "requests": samples.took.len() + samples.errors,
            "hits_wrong": samples.hits_wrong,
            "errors": samples.errors,
            "mean_us": mean,
            "p50_us": p50,
            "p90_us": p90,
            "p99_us": p99,
            "max_us": max,
            "queries_per_s": self.queries_per_s,
            "messages_per_query": self.messages_per_query,
            "floor_us": self.floor_us,
            "rss_mib": self.rss_mib,
            "seed": scenario.seed,
        })
    }
}

/// Resident memory of this process; 0 where the system does not say.
fn rss_mib() -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<f64>().ok());
    kib.unwrap_or(0.0) / 1024.0
}
