//! How something goes over time: throughput by source, or memory of each node.

use std::collections::BTreeSet;

use plotters::prelude::SeriesLabelPosition::UpperLeft;

use super::{Axis, Chart, Lines, Picture, Points, Shape, extent, series, whole};
use crate::report::{bytes, mib};
use crate::{node::usage::SAMPLED_EVERY, transfer::figures::Round};

/// What all sources send together.
const TOTAL: &str = "total";

/// MB/s that came from each source to all readers together; `None` if nothing came.
pub fn throughput(round: &Round, name: &str, subtitle: String) -> Option<Picture> {
    let moments = round.moments.iter().flatten();
    let sources: BTreeSet<&String> =
        moments.flat_map(|moment| moment.bytes.iter().map(|(source, _)| source)).collect();
    let lines = sources.into_iter().map(|source| (source.clone(), rates(round, Some(source))));
    let total = (TOTAL.to_owned(), rates(round, None));
    let lines: Lines = [total].into_iter().chain(lines).collect();
    picture(format!("What came from whom over time, {name}"), subtitle, "MB/s", lines)
}

/// Resident memory of each node but the indexer; `None` if none was seen.
pub fn memory(round: &Round, name: &str, subtitle: String) -> Option<Picture> {
    let end_s = round.wall_s().map_or(f64::MAX, |wall_s| wall_s + SAMPLED_EVERY.as_secs_f64());
    let lines = round.senders.iter().chain(&round.readers).map(|(label, usage)| {
        let first_s = usage.memory.first().map_or(0.0, |(at_s, _)| *at_s);
        let begin_s = if round.wall_s().is_some() { round.began_s } else { first_s };
        let points = usage.memory.iter().map(|(at_s, bytes)| (at_s - begin_s, mib(*bytes)));
        (label.clone(), points.filter(|(at_s, _)| (0.0..end_s).contains(at_s)).collect::<Vec<_>>())
    });
    picture(format!("Memory over time, {name}"), subtitle, "resident, MiB", lines.collect())
}

fn picture(title: String, subtitle: String, up: &'static str, mut lines: Lines) -> Option<Picture> {
    lines.retain(|(_, points)| !points.is_empty());
    let (right, _, top) = extent(&lines);
    let (right, top) = (right.max(0.05), top * 1.35); // the legend lies above
    let decimals = if right < 5.0 { 2 } else { usize::from(right < 20.0) };
    let x = Axis::new("seconds since the readers began", right * 1.02, move |x| format!("{x:.decimals$}"));
    let y = Axis::new(up, top, whole);
    let chart = Chart { x, y, series: series(0, Shape::Line, lines), legend: UpperLeft };
    (!chart.series.is_empty()).then(|| Picture { title, subtitle, charts: vec![chart] })
}

/// MB/s of a source, or of all: what came between two looks at it. Readers that began at once are looked
/// at together: what came to them is summed.
fn rates(round: &Round, source: Option<&String>) -> Points {
    let came = |came: &[(String, u64)]| -> u64 {
        came.iter().filter(|(from, _)| source.is_none_or(|source| source == from)).map(|(_, b)| *b).sum()
    };
    let step_s = SAMPLED_EVERY.as_secs_f64();
    let mut sums: Vec<f64> = Vec::new();
    for moments in &round.moments {
        for pair in moments.windows(2) {
            let [before, after] = pair else { continue };
            let (from_s, to_s) = (before.at_s - round.began_s, after.at_s - round.began_s);
            let more = came(&after.bytes).saturating_sub(came(&before.bytes));
            spread(&mut sums, from_s.max(0.0) / step_s, to_s.max(0.0) / step_s, bytes(more));
        }
    }
    (0u32..).zip(sums).map(|(n, sum)| ((f64::from(n) + 0.5) * step_s, sum / 1e6 / step_s)).collect()
}

/// Adds `bytes`, which came evenly between two places on the axis, to the steps that these lie in.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "steps of one run")]
pub fn spread(sums: &mut Vec<f64>, from: f64, to: f64, bytes: f64) {
    let last = to.ceil() as usize;
    sums.resize(sums.len().max(last), 0.0);
    let mut at = from;
    for (n, sum) in (0u32..).zip(sums.iter_mut()).skip(from.floor() as usize) {
        let end = f64::from(n + 1).min(to);
        if end <= at {
            break;
        }
        *sum += bytes * (end - at) / (to - from);
        at = end;
    }
}
