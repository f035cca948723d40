//! How something goes over time: throughput by source, or memory of each node.

use std::collections::BTreeSet;

use plotters::{coord::Shift, prelude::*};

use super::{Drawn, FONT, LABEL_PX, Picture, headed, legend};
use crate::transfer::{
    figures::Round,
    usage::{SAMPLED_EVERY, Usage},
};

/// One colour for each line, the first for the total; more lines take them again, thinner.
const COLOURS: [RGBColor; 8] = [
    RGBColor(40, 40, 40),
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(120, 94, 60),
];
/// What all sources send together.
const TOTAL: &str = "total";

/// Lines over time.
#[derive(Clone, Debug, PartialEq)]
pub struct OverTime {
    /// What it shows.
    pub title: String,
    /// How it was measured.
    pub subtitle: String,
    /// What the vertical axis shows.
    pub up: &'static str,
    /// Labels, and points of seconds and heights. The first is drawn in black.
    pub lines: Vec<(String, Vec<(f64, f64)>)>,
}

impl OverTime {
    /// MB/s that came from each source to all readers together.
    #[must_use]
    pub fn throughput(round: &Round, name: &str, subtitle: String) -> Self {
        let moments = round.moments.iter().flatten();
        let sources: BTreeSet<&String> =
            moments.flat_map(|moment| moment.bytes.iter().map(|(source, _)| source)).collect();
        let mut lines: Vec<(String, Vec<(f64, f64)>)> =
            sources.into_iter().map(|source| (source.clone(), rates(round, Some(source)))).collect();
        if lines.iter().any(|(_, points)| !points.is_empty()) {
            lines.insert(0, (TOTAL.to_owned(), rates(round, None)));
        }
        let title = format!("What came from whom over time, {name}");
        Self { title, subtitle, up: "MB/s", lines }
    }

    /// Resident memory of each node but the indexer.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "shown with a few digits")]
    pub fn memory(round: &Round, name: &str, subtitle: String) -> Self {
        let end_s = round.wall_s().map_or(f64::MAX, |wall_s| wall_s + SAMPLED_EVERY.as_secs_f64());
        let line = |(label, usage): &(String, Usage)| {
            let begin_s = if round.wall_s().is_some() { Some(round.began_s) } else { first_s(usage) };
            let points = usage.memory.iter().map(|(at_s, bytes)| {
                (at_s - begin_s.unwrap_or_default(), *bytes as f64 / f64::from(1 << 20))
            });
            (label.clone(), points.filter(|(at_s, _)| (0.0..end_s).contains(at_s)).collect::<Vec<_>>())
        };
        let lines = round.senders.iter().chain(&round.readers).map(line);
        let lines = lines.filter(|(_, points)| !points.is_empty()).collect();
        let title = format!("Memory over time, {name}");
        Self { title, subtitle, up: "resident, MiB", lines }
    }
}

fn first_s(usage: &Usage) -> Option<f64> {
    usage.memory.first().map(|(at_s, _)| *at_s)
}

/// MB/s of a source, or of all: what came between two looks at it. Readers that began at once are looked
/// at together: what came to them is summed.
#[expect(clippy::cast_precision_loss, reason = "shown with a few digits")]
fn rates(round: &Round, source: Option<&String>) -> Vec<(f64, f64)> {
    let came = |bytes: &[(String, u64)]| -> u64 {
        bytes.iter().filter(|(from, _)| source.is_none_or(|source| source == from)).map(|(_, b)| *b).sum()
    };
    let step_s = SAMPLED_EVERY.as_secs_f64();
    let mut sums: Vec<f64> = Vec::new();
    for moments in &round.moments {
        for pair in moments.windows(2) {
            let [before, after] = pair else { continue };
            let (from_s, to_s) = (before.at_s - round.began_s, after.at_s - round.began_s);
            let more = came(&after.bytes).saturating_sub(came(&before.bytes)) as f64;
            spread(&mut sums, from_s.max(0.0) / step_s, to_s.max(0.0) / step_s, more);
        }
    }
    (0u32..).zip(sums).map(|(n, bytes)| ((f64::from(n) + 0.5) * step_s, bytes / 1e6 / step_s)).collect()
}

/// Adds `bytes`, which came evenly between two places on the axis, to the steps that these lie in.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "steps of one run")]
fn spread(sums: &mut Vec<f64>, from: f64, to: f64, bytes: f64) {
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

impl Picture for OverTime {
    fn draw<DB: DrawingBackend>(&self, area: &DrawingArea<DB, Shift>) -> Drawn<DB> {
        let area = headed(area, &self.title, &self.subtitle)?;
        let points = || self.lines.iter().flat_map(|(_, points)| points);
        let right = points().map(|(x, _)| *x).fold(0.05, f64::max);
        let top = points().map(|(_, y)| *y).fold(1.0, f64::max) * 1.35; // the legend lies above
        let mut chart = ChartBuilder::on(&area)
            .margin(14)
            .margin_right(36)
            .x_label_area_size(46)
            .y_label_area_size(76)
            .build_cartesian_2d(0.0..right * 1.02, 0.0..top)?;
        chart
            .configure_mesh()
            .x_desc("seconds since the readers began")
            .y_desc(self.up)
            .x_label_formatter(&|x| match right {
                right if right < 5.0 => format!("{x:.2}"),
                right if right < 20.0 => format!("{x:.1}"),
                _ => format!("{x:.0}"),
            })
            .y_label_formatter(&|y| format!("{y:.0}"))
            .label_style((FONT, LABEL_PX))
            .light_line_style(WHITE)
            .draw()?;
        for (n, (label, points)) in self.lines.iter().enumerate() {
            let width = if n < COLOURS.len() { 2 } else { 1 };
            let style = COLOURS[n % COLOURS.len()].stroke_width(width);
            chart
                .draw_series(LineSeries::new(points.iter().copied(), style))?
                .label(label)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
        }
        legend(&mut chart, SeriesLabelPosition::UpperLeft)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transfer::wire::Moment;

    #[test]
    fn what_came_to_several_readers_is_summed_by_source() {
        let moment = |at_s, origin, copy| Moment {
            at_s,
            bytes: vec![("origin".to_owned(), origin), ("source 1".to_owned(), copy)],
        };
        let reader = vec![moment(10.0, 0, 0), moment(10.1, 1_000_000, 500_000)];
        let round = Round {
            began_s: 10.0,
            took_s: vec![0.1],
            moments: vec![reader.clone(), reader],
            ..Round::default()
        };
        let picture = OverTime::throughput(&round, "a file", String::new());
        let labels: Vec<&str> = picture.lines.iter().map(|(label, _)| label.as_str()).collect();
        assert_eq!(labels, ["total", "origin", "source 1"]);
        let near = |is: f64, should: f64| (is - should).abs() < 1e-3;
        let heights: Vec<f64> = picture.lines.iter().map(|(_, points)| points[1].1).collect();
        assert!(near(heights[0], 30.0) && near(heights[1], 20.0) && near(heights[2], 10.0), "{heights:?}");
    }

    #[test]
    fn no_bytes_are_lost_between_steps() {
        let mut sums = Vec::new();
        spread(&mut sums, 0.5, 3.25, 11.0);
        spread(&mut sums, 3.25, 3.5, 1.0);
        assert_eq!(sums.len(), 4);
        assert!((sums.iter().sum::<f64>() - 12.0).abs() < 1e-9, "{sums:?}");
        assert!((sums[0] - 2.0).abs() < 1e-9 && (sums[1] - 4.0).abs() < 1e-9, "{sums:?}");
    }
}
