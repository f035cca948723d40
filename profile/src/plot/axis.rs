//! Axes: their ends, the ticks on them and the labels of these.

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};

use crate::{prelude::*, report::count};

/// The first digits of ticks.
const STEPS: [f64; 3] = [1.0, 2.0, 5.0];
/// Microseconds from which on an axis has milliseconds.
const MS_FROM_US: f64 = 10_000.0;
/// What is left free beyond the last point.
const ROOM: f64 = 1.04;
/// The same of a logarithmic axis, at both ends.
const LOG_ROOM: f64 = 1.25;
/// Figures that are apart by less are one.
const EVEN: f64 = 1.000_001;
/// Two steps at least lie between a figure and this many times as much.
const WITH_TWO_TICKS: f64 = 6.25;

/// What lies along an edge of a chart, with its unit; from 0 on.
#[derive(Clone, Debug)]
pub struct Axis {
    label: String,
    is_log: bool,
    from: f64,
    step_min: f64,
}

impl From<&str> for Axis {
    fn from(label: &str) -> Self {
        Self { label: label.to_owned(), is_log: false, from: 0.0, step_min: 0.0 }
    }
}

impl Axis {
    /// One on which each step is as many times as much, of figures above 0.
    pub fn log(label: &str) -> Self {
        Self { is_log: true, ..format!("{label} (logarithmic)").as_str().into() }
    }

    pub(crate) fn whole(label: &str) -> Self {
        Self { step_min: 1.0, ..label.into() }
    }

    /// One of whole numbers from 1 on, with room at both sides of each.
    pub(super) fn of_places(label: &str) -> Self {
        Self { from: 0.5, ..Self::whole(label) }
    }
}

/// An axis that is long enough for some figures.
#[derive(Clone, Debug)]
pub(super) struct Scale {
    pub(super) label: String,
    is_log: bool,
    range: Range<f64>,
    ticks: Vec<f64>,
    /// What is 1 on it.
    unit: f64,
}

impl Scale {
    /// With room for at most so many `labels`.
    pub(super) fn new(axis: &Axis, figures: impl Iterator<Item = f64>, labels: usize) -> Self {
        let shown = figures.filter(|figure| figure.is_finite() && (*figure > 0.0 || !axis.is_log));
        let (least, most) =
            shown.fold((f64::MAX, 0.0f64), |(least, most), figure| (figure.min(least), figure.max(most)));
        let (least, most) = if most > 0.0 { (least, most) } else { (1.0, 1.0) };
        let is_ms = most >= MS_FROM_US && axis.label.contains(", us");
        let (unit, label) =
            if is_ms { (1e3, axis.label.replace(", us", ", ms")) } else { (1.0, axis.label.clone()) };
        let (range, ticks) = match axis.is_log {
            true => logarithmic(least / unit, most / unit, labels),
            false => linear(axis, most / unit, labels),
        };
        Self { label, is_log: axis.is_log, range, ticks, unit }
    }

    pub(super) const fn ends(&self) -> (f64, f64) {
        (self.range.start * self.unit, self.range.end * self.unit)
    }
}

fn linear(axis: &Axis, most: f64, labels: usize) -> (Range<f64>, Vec<f64>) {
    let end = if axis.from > 0.0 { most.round() + axis.from } else { most * ROOM };
    let step = stepped(end / count(labels), true).max(axis.step_min);
    let ticks = (0..=labels).map(|n| count(n) * step).filter(|tick| (axis.from..=end).contains(tick));
    (axis.from..end, ticks.collect())
}

fn logarithmic(least: f64, most: f64, labels: usize) -> (Range<f64>, Vec<f64>) {
    let (mut from, mut end) = (least / LOG_ROOM, most * LOG_ROOM);
    if end < from * WITH_TWO_TICKS {
        (from, end) = (stepped(from, false), stepped(end, true));
    }
    let decades = (0..).map(|n| 10f64.powi(n) * 10f64.powf(from.log10().floor()));
    let decades = decades.take_while(|decade| *decade <= end * EVEN);
    let all = decades.flat_map(|decade| STEPS.map(|step| step * decade));
    let mut ticks: Vec<f64> = all.filter(|tick| (from / EVEN..end * EVEN).contains(tick)).collect();
    if ticks.len() > labels {
        ticks.retain(|tick| (tick.log10() - tick.log10().round()).abs() < 1e-6);
    }
    (from..end, ticks)
}

/// The next of 1, 2, 5, 10, 20, 50, ... upwards or downwards.
fn stepped(figure: f64, up: bool) -> f64 {
    let decade = 10f64.powf(figure.log10().floor());
    let mut steps = STEPS.iter().chain(&[10.0]).map(|step| step * decade);
    let found = if up { steps.find(|step| *step >= figure) } else { steps.rfind(|step| *step <= figure) };
    found.unwrap_or(decade)
}

impl Ranged for Scale {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    #[expect(clippy::cast_possible_truncation, reason = "a pixel")]
    fn map(&self, value: &f64, (begin, end): (i32, i32)) -> i32 {
        let at = |figure: f64| if self.is_log { figure.log10() } else { figure };
        let value = (value / self.unit).clamp(self.range.start, self.range.end);
        let (from, to) = (at(self.range.start), at(self.range.end));
        begin + ((at(value) - from) / (to - from) * f64::from(end - begin)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.ticks.iter().map(|tick| tick * self.unit).collect()
    }

    fn range(&self) -> Range<f64> {
        self.ends().0..self.ends().1
    }
}

impl ValueFormatter<f64> for Scale {
    fn format_ext(&self, value: &f64) -> String {
        let (of, unit) = match value / self.unit {
            figure if figure >= 1e6 => (1e6, " M"),
            figure if figure >= 1e4 => (1e3, " k"),
            _ => (1.0, ""),
        };
        format!("{}{unit}", (value / self.unit / of * 1e6).round() / 1e6)
    }
}
