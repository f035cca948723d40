//! Figures in the text format of Prometheus and OpenMetrics: what a collector writes, and what every process tells.

use std::{fmt, fs, time::SystemTime};

use axum::{
    http::{HeaderValue, header},
    response::{IntoResponse, Response},
};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeGaugeValue, NoLabelSet, text},
    metrics::MetricType,
    registry::Registry,
};

use super::problem::Problem;

/// The media type of the text.
const OPENMETRICS: HeaderValue =
    HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");

/// All metrics of `registry`, as they are now.
pub fn exposed(registry: &Registry) -> Response {
    let mut page = String::new();
    match text::encode(&mut page, registry) {
        Ok(()) => ([(header::CONTENT_TYPE, OPENMETRICS)], page).into_response(),
        Err(error) => Problem::unavailable(format!("the figures cannot be written: {error}")).into_response(),
    }
}

/// Writes metrics at a scrape.
#[derive(Debug)]
pub struct Exposition<'a>(DescriptorEncoder<'a>);

impl<'a> From<DescriptorEncoder<'a>> for Exposition<'a> {
    fn from(encoder: DescriptorEncoder<'a>) -> Self {
        Self(encoder)
    }
}

/// The bounds of a histogram's buckets, in ascending order, the last one infinite, each with how many are in it alone.
pub type Buckets<'a> = &'a [(f64, u64)];

impl Exposition<'_> {
    /// A number that only grows. Its name in the text ends in `_total`, which `name` does not.
    ///
    /// # Errors
    /// The text cannot be written; so for all of these.
    pub fn counter(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        let mut metric = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        metric.encode_counter::<NoLabelSet, _, u64>(&value, None)
    }

    /// The same for each value of `label`.
    ///
    /// # Errors
    /// See [`counter`](Self::counter).
    pub fn counters<L: AsRef<str>>(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        values: impl IntoIterator<Item = (L, u64)>,
    ) -> fmt::Result {
        let mut metric = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (of, value) in values {
            let labels = [(label, of.as_ref())];
            metric.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&value, None)?;
        }
        Ok(())
    }

    /// A number that goes up and down.
    ///
    /// # Errors
    /// See [`counter`](Self::counter).
    pub fn gauge(&mut self, name: &str, help: &str, value: impl EncodeGaugeValue) -> fmt::Result {
        self.0.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&value)
    }

    /// The same for each value of `label`.
    ///
    /// # Errors
    /// See [`counter`](Self::counter).
    pub fn gauges<L: AsRef<str>>(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        values: impl IntoIterator<Item = (L, u64)>,
    ) -> fmt::Result {
        let mut metric = self.0.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (of, value) in values {
            metric.encode_family(&[(label, of.as_ref())])?.encode_gauge(&value)?;
        }
        Ok(())
    }

    /// How often values fell into which bucket, for each value of `label`.
    ///
    /// # Errors
    /// See [`counter`](Self::counter).
    pub fn histograms<'b>(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        values: impl IntoIterator<Item = (&'b str, f64, Buckets<'b>)>,
    ) -> fmt::Result {
        let mut metric = self.0.encode_descriptor(name, help, None, MetricType::Histogram)?;
        for (of, sum, buckets) in values {
            let count = buckets.iter().map(|(_, count)| count).sum();
            metric
                .encode_family(&[(label, of)])?
                .encode_histogram::<NoLabelSet>(sum, count, buckets, None)?;
        }
        Ok(())
    }

    /// What is always the same: `labels` say it, and the value is 1.
    ///
    /// # Errors
    /// See [`counter`](Self::counter).
    pub fn info(&mut self, name: &str, help: &str, labels: &[(&str, &str)]) -> fmt::Result {
        self.0.encode_descriptor(name, help, None, MetricType::Info)?.encode_info(&labels)
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
        page.gauge("process_start_time_seconds", "When the node started, in Unix time", since.as_secs_f64())?;
        let cpu = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        let mut cpu_total = page.0.encode_descriptor(
            "process_cpu_seconds",
            "Processor time of the whole process",
            None,
            MetricType::Counter,
        )?;
        #[expect(clippy::cast_precision_loss, reason = "seconds")]
        let seconds = cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9;
        cpu_total.encode_counter::<NoLabelSet, _, u64>(&seconds, None)?;
        if let Some(bytes) = resident_bytes() {
            page.gauge("process_resident_memory_bytes", "Memory of the whole process", bytes)?;
        }
        if let Ok(files) = fs::read_dir("/proc/self/fd") {
            page.gauge(
                "process_open_fds",
                "Open files and sockets of the whole process",
                files.count() as u64,
            )?;
        }
        let max = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        page.gauge("process_max_fds", "How many files and sockets it may open", max.unwrap_or(u64::MAX))
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
