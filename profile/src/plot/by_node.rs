//! Draws one bar a node for each of several counts, side by side.

use plotters::prelude::SeriesLabelPosition::UpperRight;

use super::{Axis, Chart, Lines, Series, Shape, Y_LABELS_MAX, apart, extent, micros_to, whole};
use crate::report::count;

/// What the bars of one node take of the space between two.
const BARS_WIDE: f64 = 0.7;

/// Bars of so many things.
pub(crate) fn numbers(up: &'static str, lines: Lines) -> Chart {
    chart(up, lines, whole)
}

/// Bars of so many microseconds.
pub(crate) fn times(up: &'static str, lines: Lines) -> Chart {
    let most = extent(&lines).2;
    match most < 10.0 {
        true => {
            let shown = apart(most, Y_LABELS_MAX);
            chart(up, lines, move |us: &f64| format!("{} µs", shown(us)))
        }
        false => chart(up, lines, micros_to(most)),
    }
}

/// A group of bars for each node, of the lines in their order.
fn chart(up: &'static str, lines: Lines, shown: impl Fn(&f64) -> String + Send + 'static) -> Chart {
    let (nodes, _, most) = extent(&lines);
    let wide = BARS_WIDE / count(lines.len().max(1));
    let bars = lines.into_iter().enumerate().map(|(n, (label, points))| {
        let begin = count(n) * wide - BARS_WIDE / 2.0;
        let points = points.into_iter().map(|(node, figure)| (node + begin, figure)).collect();
        Series::new(label, Shape::Bars(wide * 0.94), n + 1, points)
    });
    let node = |x: &f64| if (x - x.round()).abs() < 0.01 { format!("{x:.0}") } else { String::new() };
    Chart {
        x: Axis { range: 0.5..nodes + 0.5, ..Axis::new("node, in the order of the way", nodes, node) },
        y: Axis::new(up, most * 1.8, shown), // the legend lies above
        series: bars.collect(),
        legend: UpperRight,
    }
}
