//! Lines over an axis that is logarithmic: rates by how much is asked for, shares by time.

use plotters::prelude::SeriesLabelPosition::UpperLeft;

use super::{Axis, Chart, Lines, Picture, Shape, many, series, whole};

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
            x: axis("time (logarithmic)", left - room, right, decade),
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

/// Microseconds as a label; nothing between powers of ten, where there is no room.
fn decade(us: &f64) -> String {
    let is_between = (us.log10() - us.log10().round()).abs() > 0.01;
    match *us {
        _ if is_between => String::new(),
        us if us < 1e3 => format!("{us:.0} µs"),
        us if us < 1e6 => format!("{:.0} ms", us / 1e3),
        us => format!("{:.0} s", us / 1e6),
    }
}
