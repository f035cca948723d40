//! Whether what a process takes grows: the slope of a line through it, beside how much it varies around that
//! line. Pure.

use crate::plot::{Chart, lines};
use crate::prelude::*;
use crate::report::{Row, count, machine::Taken};

pub(crate) type Reading = fn(&Taken) -> f64;
/// What may come and go for no reason, by figure: less is no growth.
pub(crate) const ALLOWED: [(&str, Reading, f64); 3] = [
    ("memory MiB", |taken| taken.memory_mib, 8.0),
    ("descriptors", |taken| taken.descriptors, 8.0),
    ("threads", |taken| taken.threads, 6.0),
];
/// Share of a run that counts as warm-up.
const WARM_UP: f64 = 1.0 / 3.0;
/// A run is looked at this often, and not more often than that.
const LOOKS_MAX: u32 = 600;
pub(crate) const LOOK_EVERY_MIN: Duration = Duration::from_millis(250);
/// Growth that is no more than this many times the noise is none.
const TIMES_NOISE: f64 = 2.0;

/// How one figure of a process went after its warm-up.
#[derive(Clone, Debug)]
pub struct Growth {
    pub what: &'static str,
    /// Where the line begins, and where it ends.
    pub line: [f64; 2],
    pub per_hour: f64,
    /// The deviation from the line, usually.
    pub noise: f64,
    pub grows: bool,
}

/// How long some minutes last, and the time between two looks at what processes take meanwhile.
pub(crate) fn lasting(minutes: f64) -> Result<(Duration, Duration)> {
    let lasts = Duration::try_from_secs_f64(minutes * 60.0)?;
    Ok((lasts, (lasts / LOOKS_MAX).max(LOOK_EVERY_MIN)))
}

/// This figure of each process over time.
pub(crate) fn chart<'a>(
    y: &str,
    reading: Reading,
    all: impl Iterator<Item = (String, &'a [Taken])>,
) -> Chart {
    let points = |taken: &[Taken]| taken.iter().map(|one| (one.at_s / 60.0, reading(one))).collect();
    lines("minutes", y, all.map(|(label, taken)| (label, points(taken))).collect())
}

impl Growth {
    /// Of each figure, memory first, without the warm-up.
    pub(crate) fn all(taken: &[Taken]) -> impl Iterator<Item = Self> {
        let from_s = taken.last().map_or(0.0, |last| last.at_s * WARM_UP);
        ALLOWED.into_iter().filter_map(move |(what, figure, allowed)| {
            let warm = taken.iter().filter(|taken| taken.at_s >= from_s);
            let points: Vec<(f64, f64)> = warm.map(|taken| (taken.at_s, figure(taken))).collect();
            Self::of(what, &points, allowed)
        })
    }

    /// The least squares through points of seconds and a figure; `None` of fewer than three.
    pub fn of(what: &'static str, points: &[(f64, f64)], allowed: f64) -> Option<Self> {
        let (first, last) = (points.first()?.0, points.last()?.0);
        let n = count(points.len());
        if points.len() < 3 || last <= first {
            return None;
        }
        let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / n;
        let (mid, level) = (mean(|point| point.0), mean(|point| point.1));
        let covariance: f64 = points.iter().map(|(x, y)| (x - mid) * (y - level)).sum();
        let variance: f64 = points.iter().map(|(x, _)| (x - mid).powi(2)).sum();
        let slope = covariance / variance;
        let at = |x: f64| slope.mul_add(x - mid, level);
        let noise = (points.iter().map(|(x, y)| (y - at(*x)).powi(2)).sum::<f64>() / n).sqrt();
        let grown = at(last) - at(first);
        let grows = grown > allowed.max(noise * TIMES_NOISE);
        Some(Self { what, line: [at(first), at(last)], per_hour: slope * 3600.0, noise, grows })
    }

    pub(crate) fn row(&self) -> Row {
        let Self { line: [first, last], per_hour, noise, grows, .. } = self;
        Row::of(json!({ "first": first, "last": last, "per_hour": per_hour, "noise": noise, "grows": grows }))
    }
}
