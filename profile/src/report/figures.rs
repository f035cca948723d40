//! Mean and percentiles of response times, from an HDR histogram.

use hdrhistogram::Histogram;

use crate::prelude::*;

/// Significant digits of the histogram: each figure is right within a thousandth.
const DIGITS: u8 = 3;
/// Nanoseconds beyond which times are not told apart: three hours.
const LONGEST: u64 = 3 * 3600 * 1_000_000_000;
/// Times below which a p99 would be little else than the longest.
pub const P99_FROM: u64 = 1000;
/// The percentiles of the results file.
const PERCENTILES: [f64; 14] =
    [0.0, 1.0, 5.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.99, 100.0];

/// Times, as many as come: they take no more memory for that.
#[derive(Clone, Debug)]
pub struct Times(Histogram<u64>);

impl Default for Times {
    #[expect(clippy::expect_used, reason = "three digits are allowed")]
    fn default() -> Self {
        Self(Histogram::new(DIGITS).expect("1 to 5 digits"))
    }
}

impl Times {
    #[expect(clippy::expect_used, reason = "an automatic range takes any time")]
    pub fn add(&mut self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.0.record(nanos.min(LONGEST)).expect("within the range");
    }

    /// The shortest, in microseconds; not a number without any.
    pub fn min_us(&self) -> f64 {
        if self.0.is_empty() { f64::NAN } else { micros(self.0.min()) }
    }

    /// The figures; without any times, all of them are not a number.
    pub fn figures(&self) -> Figures {
        let histogram = &self.0;
        let if_any = |figure: f64| if histogram.is_empty() { f64::NAN } else { figure };
        let at = |percentile| if_any(micros(histogram.value_at_percentile(percentile)));
        Figures {
            count: histogram.len(),
            mean: if_any(histogram.mean() / 1e3),
            p50: at(50.0),
            p90: at(90.0),
            p99: at(99.0),
            p999: at(99.9),
            max: if_any(micros(histogram.max())),
            percentiles: PERCENTILES.iter().map(|percentile| (*percentile, at(*percentile))).collect(),
        }
    }
}

/// What is said of a number of response times, all in microseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Figures {
    pub count: u64,
    pub mean: f64,
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub p999: f64,
    pub max: f64,
    /// Pairs of percentile and time.
    pub percentiles: Vec<(f64, f64)>,
}

impl Figures {
    pub fn of(times: impl IntoIterator<Item = Duration>) -> Self {
        let mut all = Times::default();
        times.into_iter().for_each(|time| all.add(time));
        all.figures()
    }
}

fn micros(nanos: u64) -> f64 {
    Duration::from_nanos(nanos).as_secs_f64() * 1e6
}

/// A figure with three decimals: more would be noise.
pub(crate) fn rounded(figure: f64) -> f64 {
    (figure * 1e3).round() / 1e3
}
