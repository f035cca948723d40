//! How stale copies are: curves over the TTR or the replicas, and how often which age was read.

use plotters::prelude::SeriesLabelPosition::{UpperLeft, UpperRight};

use super::{Axis, Chart, Lines, Picture, Points, Series, Shape, extent, whole};
use crate::consistency::cells::theory;
use crate::consistency::tables::{Measured, Which};
use crate::report::{Row, count};

const BARS: usize = 40;

/// What there is to see of a table; `None` if a table says it all.
pub(crate) fn picture(which: Which, lines: &[Measured]) -> Option<Picture> {
    let (title, charts) = match which {
        Which::C2 => ("Pull: reads of a version that was replaced", {
            let reads = ("stale_percent", "stale reads, %");
            let reads = curves(lines, ("ttr_s", "TTR, s"), "update_s", reads, true);
            vec![reads, ages(lines, "all TTRs", |_| true)]
        }),
        Which::C3 => ("Stale reads served as fresh, 5 % loss, sessions of 30 min", {
            let near = |row: &Row, key, figure: f64| (row.get(key) - figure).abs() < 0.5;
            let at = move |row: &Row| near(row, "loss_percent", 5.0) && near(row, "session_min", 30.0);
            let of = |mode: &'static str| move |row: &Row| is(row, "mode", mode) && at(row);
            ["push", "pull", "hybrid"].map(|mode| ages(lines, mode, of(mode))).into()
        }),
        Which::C4 => ("Stale reads served as fresh, links cut for 300 s", {
            let of = |lease: f64| move |row: &Row| (row.get("lease_s") - lease).abs() < 0.5;
            [5.0, 10.0, 30.0].map(|lease| ages(lines, &format!("lease {lease} s"), of(lease))).into()
        }),
        Which::C6 => ("Messages for an update", {
            let messages = ("messages_per_update", "messages");
            vec![curves(lines, ("readers", "replicas"), "indexers", messages, false)]
        }),
        Which::C1 | Which::C5 => return None,
    };
    let subtitle = "simulated in virtual time, all seeds".to_owned();
    Some(Picture { title: title.to_owned(), subtitle, charts })
}

fn is(row: &Row, key: &str, value: &str) -> bool {
    row.0.get(key).is_some_and(|is| is == value)
}

/// A curve of `up` over `along` for each value of `by`; with `has_theory` what is expected of pull beside it.
fn curves(
    lines: &[Measured],
    (along, along_label): (&str, &'static str),
    by: &str,
    (up, up_label): (&str, &'static str),
    has_theory: bool,
) -> Chart {
    let mut curves: Lines = Vec::new();
    for Measured { row, .. } in lines {
        let label = format!("{by} {}", row.get(by));
        let x = row.get(along);
        let mut add = |label: String, y| match curves.iter_mut().find(|(is, _)| *is == label) {
            Some((_, points)) => points.push((x, y)),
            None => curves.push((label, vec![(x, y)])),
        };
        add(label.clone(), row.get(up));
        if has_theory {
            add(format!("{label}, 1-(1-e^-x)/x"), 100.0 * theory(x / row.get(by)));
        }
    }
    let (right, _, top) = extent(&curves);
    let series = (1..).zip(curves).map(|(colour, (label, points))| {
        let shape = if label.contains("e^") { Shape::Line } else { Shape::Marked };
        Series::new(label, shape, colour, points)
    });
    Chart {
        x: Axis::new(along_label, right * 1.05, whole),
        y: Axis::new(up_label, top * 1.4, whole),
        series: series.collect(),
        legend: UpperLeft,
    }
}

/// How many stale reads had which age.
fn ages(lines: &[Measured], label: &str, is_shown: impl Fn(&Row) -> bool) -> Chart {
    let of = lines.iter().filter(|line| is_shown(&line.row));
    let ages: Vec<f64> = of.flat_map(|line| &line.stale_s).copied().collect();
    let longest = ages.iter().copied().fold(1.0, f64::max);
    let width = longest / count(BARS);
    let mut bars: Points = (0..BARS).map(|n| (count(n) * width, 0.0)).collect();
    for age in ages {
        let bar = bars.iter_mut().rev().find(|(from, _)| *from <= age);
        bar.into_iter().for_each(|(_, reads)| *reads += 1.0);
    }
    let top = bars.iter().map(|(_, reads)| *reads).fold(1.0, f64::max);
    let legend = Series::new(label, Shape::Line, 1, vec![(0.0, 0.0)]);
    Chart {
        x: Axis::new("age of the version that was read, s", longest * 1.02, |x| format!("{x:.1}")),
        y: Axis::new("reads", top * 1.3, whole),
        series: vec![Series::new("", Shape::Bars(width), 1, bars), legend],
        legend: UpperRight,
    }
}
