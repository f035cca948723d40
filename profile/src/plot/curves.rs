//! Lines over an axis that is logarithmic: rates by how much is asked for, shares by time, and how response time and
//! throughput grow with clients or hops.

use plotters::prelude::SeriesLabelPosition::UpperLeft;

use super::{Axis, Chart, Lines, Picture, Shape, extent, many, micros_to, series, whole};
use crate::measure::Measured;
use crate::report::{count, reference};

/// Rates by how much of something is asked for; both are more than 0.
pub(crate) fn rates(
    title: &str,
    subtitle: String,
    along: &'static str,
    up: &'static str,
    lines: Lines,
) -> Picture {
    let (lines, left, right) = logarithmic(lines);
    let (x, y) = (axis(along, left, right, many), Axis::logarithmic(up, &lines, many));
    let chart = Chart { x, y, series: series(1, Shape::Marked, lines), legend: UpperLeft };
    Picture { title: title.to_owned(), subtitle, charts: vec![chart] }
}

/// Percentages by microseconds, a chart for each of `charts`.
pub(crate) fn shares(title: &str, subtitle: String, up: &'static str, charts: Vec<Lines>) -> Picture {
    let chart = |lines| {
        let (lines, left, right) = logarithmic(lines);
        let room = right - left; // the legend lies to the left of the lines
        Chart {
            x: axis("time, ms (logarithmic)", left - room, right, decade),
            y: Axis::new(up, 104.0, whole),
            series: series(1, Shape::Line, lines),
            legend: UpperLeft,
        }
    };
    Picture { title: title.to_owned(), subtitle, charts: charts.into_iter().map(chart).collect() }
}

/// The lines that have points, at the logarithms of their places, and where these begin and end.
fn logarithmic(lines: Lines) -> (Lines, f64, f64) {
    let at = |(x, y): (f64, f64)| (x.log10(), y);
    let lines = lines.into_iter().map(|(label, points)| (label, points.into_iter().map(at).collect()));
    let lines: Lines = lines.filter(|(_, points): &(_, Vec<_>)| !points.is_empty()).collect();
    let places = lines.iter().flat_map(|(_, points)| points).map(|point| point.0);
    let (left, right) = places.fold((f64::MAX, f64::MIN), |(left, right), x| (left.min(x), right.max(x)));
    match lines.is_empty() {
        true => (lines, 0.0, 1.0),
        false if left < right => (lines, left, right),
        false => (lines, left - 0.5, right + 0.5), // one place: in the middle
    }
}

fn axis(label: &'static str, left: f64, right: f64, shown: fn(&f64) -> String) -> Axis {
    let axis = Axis::new(label, right, move |x| shown(&10f64.powf(*x)));
    Axis { range: left..right + (right - left) * 0.03, ..axis }
}

/// Microseconds as milliseconds; nothing between powers of ten, where there is no room.
fn decade(us: &f64) -> String {
    let is_between = (us.log10() - us.log10().round()).abs() > 0.01;
    if is_between { String::new() } else { (us / 1e3).to_string() }
}

/// Two charts of the rows of a matrix that `at` gives a place on the axis: response times, and answers a
/// second; `None` if these are fewer than two.
pub(crate) fn scaling(
    rows: &[Measured],
    title: &str,
    along: &'static str,
    at: impl Fn(&Measured) -> Option<usize>,
) -> Option<Picture> {
    let rows: Vec<(f64, &Measured)> = rows.iter().filter_map(|row| Some((count(at(row)?), row))).collect();
    let line = |(label, value): (&str, &dyn Fn(&Measured) -> f64)| {
        let points = rows.iter().map(|(x, row)| (*x, value(row))).filter(|(_, y)| y.is_finite());
        (label.to_owned(), points.collect::<Vec<_>>())
    };
    let rebuilt = |row: &Measured| reference::of(&row.scenario.name()).map_or(f64::NAN, |of| of.rebuilt_us);
    let (_, first) = (rows.len() > 1).then(|| rows.first())??;
    let times = [
        line(("mean", &|row| row.figures.mean)),
        line(("p50", &|row| row.figures.p50)),
        line(("p99", &|row| row.figures.p99)),
        line(("forerunner, rebuilt (mean)", &rebuilt)),
    ];
    // Closed loops: each client has one query under way.
    let rebuilt_per_s = |row: &Measured| match rebuilt(row) {
        us if us.is_finite() => count(row.scenario.clients) / us * 1e6,
        _ => f64::NAN,
    };
    let rates = [line(("nekop2p", &Measured::queries_per_s)), line(("forerunner, rebuilt", &rebuilt_per_s))];
    Some(Picture {
        title: title.to_owned(),
        subtitle: first.setting(),
        charts: vec![
            chart(along, "response time (logarithmic)", times.into(), micros_to),
            chart(along, "answers per second (logarithmic)", rates.into(), |_| many),
        ],
    })
}

fn chart<F: Fn(&f64) -> String + Send + 'static>(
    along: &'static str,
    up: &'static str,
    mut lines: Lines,
    shown_to: impl FnOnce(f64) -> F,
) -> Chart {
    lines.retain(|(_, points)| !points.is_empty());
    let x = Axis::new(along, extent(&lines).0.max(1.0) * 1.05, whole);
    let y = Axis::logarithmic(up, &lines, shown_to(extent(&lines).2));
    Chart { x, y, series: series(1, Shape::Marked, lines), legend: UpperLeft }
}
