//! Figures in the text format of Prometheus and OpenMetrics: what a collector writes, and what every process tells.

use std::{
    fmt::{self, Write},
    fs,
    time::{Duration, Instant, SystemTime},
};

use axum::{
    http::{HeaderMap, HeaderValue, header},
    response::{IntoResponse, Response},
};
use parking_lot::Mutex;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeGaugeValue, EncodeMetric, text},
    metrics::{counter::ConstCounter, gauge::ConstGauge},
    registry::Registry,
};

use super::problem::Problem;

const OPENMETRICS: HeaderValue =
    HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
/// The media type of the older text of Prometheus.
const PLAIN: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");

/// Open files are counted again after this time.
const COUNTED_FOR: Duration = Duration::from_secs(1);

/// All metrics of `registry`, as they are now: in the older text if the request accepts `text/plain` and not OpenMetrics.
pub fn exposed(registry: &Registry, request: &HeaderMap) -> Response {
    let accepts = |kind| {
        let mut accepted = request.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
        accepted.any(|value| value.to_ascii_lowercase().contains(kind))
    };
    let mut page = String::new();
    if let Err(error) = text::encode(&mut page, registry) {
        return Problem::unavailable(format!("the figures cannot be written: {error}")).into_response();
    }
    if accepts("text/plain") && !accepts("application/openmetrics-text") {
        return ([(header::CONTENT_TYPE, PLAIN)], plain(&page)).into_response();
    }
    ([(header::CONTENT_TYPE, OPENMETRICS)], page).into_response()
}

/// The same in the older text, in which a family is named as its samples are, and an info is a gauge.
fn plain(page: &str) -> String {
    let (mut text, mut described) = (String::with_capacity(page.len() * 2), "");
    for line in page.lines().filter(|line| *line != "# EOF") {
        if let Some(help) = line.strip_prefix("# HELP ") {
            described = help;
        } else if let Some((family, kind)) =
            line.strip_prefix("# TYPE ").and_then(|kind| kind.split_once(' '))
        {
            let (suffix, kind) = match kind {
                "counter" => ("_total", kind),
                "info" => ("_info", "gauge"),
                _ => ("", kind),
            };
            let help = described.strip_prefix(family).unwrap_or_default();
            // Writing to a text cannot fail.
            let _ = writeln!(text, "# HELP {family}{suffix}{help}\n# TYPE {family}{suffix} {kind}");
        } else {
            text.extend([line, "\n"]);
        }
    }
    text
}

/// Writes metrics at a scrape.
#[derive(Debug)]
pub struct Exposition<'a>(DescriptorEncoder<'a>);

impl<'a> From<DescriptorEncoder<'a>> for Exposition<'a> {
    fn from(encoder: DescriptorEncoder<'a>) -> Self {
        Self(encoder)
    }
}

impl Exposition<'_> {
    /// A metric as it is now. In the text the name of a counter ends in `_total`, which `name` does not.
    ///
    /// # Errors
    /// The text cannot be written; so for all of these.
    pub fn one(&mut self, name: &str, help: &str, metric: &impl EncodeMetric) -> fmt::Result {
        metric.encode(self.0.encode_descriptor(name, help, None, metric.metric_type())?)
    }

    /// A number that goes up and down.
    pub fn gauge(&mut self, name: &str, help: &str, value: impl EncodeGaugeValue) -> fmt::Result {
        self.one(name, help, &ConstGauge::new(value))
    }

    /// The same for each value of `label`.
    pub fn gauges<L: AsRef<str>>(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        values: impl IntoIterator<Item = (L, u64)>,
    ) -> fmt::Result {
        self.each(name, help, label, values.into_iter().map(|(of, value)| (of, ConstGauge::new(value))))
    }

    /// A metric for each value of `label`.
    pub fn each<L: AsRef<str>, M: EncodeMetric>(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        metrics: impl IntoIterator<Item = (L, M)>,
    ) -> fmt::Result {
        let mut metrics = metrics.into_iter().peekable();
        let Some((_, first)) = metrics.peek() else { return Ok(()) };
        let mut family = self.0.encode_descriptor(name, help, None, first.metric_type())?;
        metrics.try_for_each(|(of, metric)| metric.encode(family.encode_family(&[(label, of.as_ref())])?))
    }
}

/// What this process takes of the system, under the names that Prometheus gives it.
#[derive(Clone, Copy, Debug)]
pub struct Process {
    started: SystemTime,
}

impl Process {
    /// Of a process that starts now.
    #[must_use]
    pub fn starts_now() -> Self {
        Self { started: SystemTime::now() }
    }
}

impl Collector for Process {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut page = Exposition::from(encoder);
        let since = self.started.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let started = since.as_secs_f64();
        page.gauge("process_start_time_seconds", "When the node started, in Unix time", started)?;
        let cpu = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        #[expect(clippy::cast_precision_loss, reason = "seconds")]
        let seconds = ConstCounter::new(cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9);
        page.one("process_cpu_seconds", "Processor time of the whole process", &seconds)?;
        if let Some(bytes) = resident_bytes() {
            page.gauge("process_resident_memory_bytes", "Memory of the whole process", bytes)?;
        }
        if let Some(files) = open_files() {
            page.gauge("process_open_fds", "Open files and sockets of the whole process", files)?;
        }
        let max = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        page.gauge("process_max_fds", "How many files and sockets it may open", max.unwrap_or(u64::MAX))
    }
}

/// How many files and sockets this process had open within the last second; `None` where the system does not tell. To count
/// them takes a microsecond for each, so whoever asks often is told the same.
fn open_files() -> Option<u64> {
    static COUNTED: Mutex<Option<(Instant, Option<u64>)>> = Mutex::new(None);
    let mut counted = COUNTED.lock();
    match *counted {
        Some((at, files)) if at.elapsed() < COUNTED_FOR => files,
        _ => {
            let files = fs::read_dir("/proc/self/fd").ok().map(|files| files.count() as u64);
            *counted = Some((Instant::now(), files));
            files
        }
    }
}

/// The memory of this process, in bytes; `None` where the system does not tell.
#[must_use]
pub fn resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use prometheus_client::metrics::info::Info;

    use super::*;

    #[derive(Debug)]
    struct All;

    impl Collector for All {
        fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
            let mut page = Exposition::from(encoder);
            page.one("build", "Who", &Info::new([("node", "a b")]))?;
            page.each(
                "drops",
                "Lost",
                "why",
                [("busy", ConstCounter::new(2_u64)), ("ttl", ConstCounter::new(0))],
            )?;
            page.gauge("names", "Known", 3_u64)
        }
    }

    #[test]
    fn plain_text_is_for_who_accepts_nothing_newer() {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(All));
        let mut page = String::new();
        text::encode(&mut page, &registry).unwrap();
        let expected = "# HELP build_info Who\n# TYPE build_info gauge\nbuild_info{node=\"a b\"} 1\n\
                        # HELP drops_total Lost\n# TYPE drops_total counter\n\
                        drops_total{why=\"busy\"} 2\ndrops_total{why=\"ttl\"} 0\n\
                        # HELP names Known\n# TYPE names gauge\nnames 3\n";
        assert_eq!(plain(&page), expected);
        for (accepted, kind) in [
            (&["text/plain"][..], PLAIN),
            (&["text/plain;version=0.0.4;q=0.5, */*;q=0.1"], PLAIN),
            (&["application/openmetrics-text;version=1.0.0,text/plain;q=0.5"], OPENMETRICS),
            (&["text/plain", "application/openmetrics-text"], OPENMETRICS),
            (&["*/*"], OPENMETRICS),
            (&[], OPENMETRICS),
        ] {
            let mut headers = HeaderMap::new();
            for value in accepted {
                headers.append(header::ACCEPT, HeaderValue::from_static(value));
            }
            assert_eq!(exposed(&registry, &headers).headers()[header::CONTENT_TYPE], kind, "{accepted:?}");
        }
    }
}
