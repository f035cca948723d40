//! How response time and throughput grow with clients or hops.

use plotters::prelude::SeriesLabelPosition::UpperLeft;

use super::{Axis, Chart, Lines, Picture, Shape, extent, many, micros, series, whole};
use crate::measure::Measured;
use crate::report::{count, reference};

/// Two charts of the rows of a matrix that `at` gives a place on the axis: response times, and answers a
/// second; `None` if these are fewer than two.
pub(crate) fn picture(
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
            chart(along, "response time (logarithmic)", times.into(), micros),
            chart(along, "answers per second (logarithmic)", rates.into(), many),
        ],
    })
}

fn chart(along: &'static str, up: &'static str, mut lines: Lines, shown: fn(&f64) -> String) -> Chart {
    lines.retain(|(_, points)| !points.is_empty());
    let x = Axis::new(along, extent(&lines).0.max(1.0) * 1.05, whole);
    let y = Axis::logarithmic(up, &lines, shown);
    Chart { x, y, series: series(1, Shape::Marked, lines), legend: UpperLeft }
}
