//! What clients saw over time under attack, and what processes took over minutes.

use std::time::Duration;

use plotters::prelude::SeriesLabelPosition::UpperRight;

use super::{
    Axis, Chart, Lines, Picture, Points, Series, Shape, X_LABELS_MAX, Y_LABELS_MAX, apart, extent, micros_to,
    series,
};
use crate::arena::load::{Found, Kind, Sample};
use crate::hostile::judge::Attacked;
use crate::report::figures::Figures;

/// What one point of a line stands for.
const WINDOW: Duration = Duration::from_millis(250);
/// The colour of the span of an attack, and of what went wrong.
const SPAN: usize = 6;
const LINE: usize = 0;
const BAD: usize = 2;

/// A chart for each attack: p99 over time, the attack's span shaded, what was not answered right as dots.
pub(crate) fn attacks(all: &[Attacked]) -> Picture {
    Picture {
        title: "Honest clients under attack".to_owned(),
        subtitle:
            "p99 of what is found, each 250 ms; shaded: the attack; dots: answers that were wrong, incomplete or missing"
                .to_owned(),
        charts: all.iter().map(chart).collect(),
    }
}

fn chart(attacked: &Attacked) -> Chart {
    let [begin, from, over, end] = attacked.marks;
    let at_s = |at: Duration| at.saturating_sub(begin).as_secs_f64();
    let windows = (0..).map(|n| begin + WINDOW * n).take_while(|start| *start < end);
    let line: Points = windows
        .filter_map(|start| {
            let within =
                |sample: &&Sample| sample.kind == Kind::Found && (start..start + WINDOW).contains(&sample.at);
            let took = attacked.samples.iter().filter(within).map(|sample| sample.took);
            let p99 = Figures::of(took).p99;
            p99.is_finite().then(|| (at_s(start + WINDOW / 2), p99))
        })
        .collect();
    let bad = attacked.samples.iter().filter(|sample| sample.found != Found::Right && sample.at >= begin);
    let bad: Points = bad.map(|sample| (at_s(sample.at), sample.took.as_secs_f64() * 1e6)).collect();
    let (_, least, most) = extent(&vec![(String::new(), line.clone()), (String::new(), bad.clone())]);
    let top = most * 4.0;
    let shade = Shape::Shade(at_s(over) - at_s(from));
    let series = vec![
        Series::new("", shade, SPAN, vec![(at_s(from), top)]),
        Series::new(attacked.attack.name(), Shape::Line, LINE, line),
        Series::new("not right", Shape::Dots, BAD, bad),
    ];
    let range = least.min(1000.0) / 1.5..top;
    Chart {
        x: Axis::new("seconds", at_s(end), |x| format!("{x:.1}")),
        y: Axis { range, is_logarithmic: true, ..Axis::new("", top, micros_to(top)) },
        series,
        legend: UpperRight,
    }
}

/// What is drawn of something, and its label.
pub type Figure<T> = (&'static str, fn(&T) -> f64);

/// A chart for each of the `figures` of what processes took, a line for each process; `at_s`: when that was looked at.
pub fn over_minutes<'a, T: 'a, const N: usize>(
    processes: impl Iterator<Item = (String, &'a [T])> + Clone,
    at_s: fn(&T) -> f64,
    figures: [Figure<T>; N],
) -> Picture {
    let chart = |(up, figure): Figure<T>| {
        let points = |taken: &[T]| taken.iter().map(|one| (at_s(one) / 60.0, figure(one))).collect();
        let lines: Lines = processes.clone().map(|(label, taken)| (label, points(taken))).collect();
        let (right, _, most) = extent(&lines);
        let (right, top) = (right.max(0.01), most * 1.4);
        Chart {
            x: Axis::new("minutes", right, apart(right, X_LABELS_MAX)),
            y: Axis::new(up, top, apart(top, Y_LABELS_MAX)),
            series: series(0, Shape::Line, lines),
            legend: UpperRight,
        }
    };
    let subtitle = "of each process of the network".to_owned();
    Picture { title: "What a long run takes".to_owned(), subtitle, charts: figures.map(chart).into() }
}
