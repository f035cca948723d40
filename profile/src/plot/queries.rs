//! Response times of one scenario: each request with the mean of each round, and their distribution.

use plotters::prelude::SeriesLabelPosition::UpperRight;

use super::{Axis, Chart, Picture, Series, Shape, micros, micros_to, whole};
use crate::{measure::Measured, report::count};

/// Points drawn; more would only make the file large.
const POINTS_MAX: usize = 6000;
/// Points of the line of means: neighbouring rounds are taken together beyond this.
const MEANS_MAX: usize = 120;
/// Bars of the histogram.
const BINS: usize = 80;
/// Times beyond this multiple of the p99 are left out, and counted in the subtitle: the slowest few
/// would press all others into a line at the bottom.
const TOP_OF_P99: f64 = 1.5;

pub(crate) fn pictures(measured: &Measured) -> Vec<(String, Picture)> {
    let figures = &measured.figures;
    let top = (figures.p99 * TOP_OF_P99).min(figures.max * 1.05).max(figures.p50 * 1.2);
    let beyond = measured.samples.by_round().filter(|(_, us)| *us > top).count();
    let (answers, setting) = (measured.samples.answered(), measured.setting());
    let subtitle = match beyond {
        0 => format!("{answers} answers; {setting}"),
        _ => format!("{answers} answers, {beyond} of them slower than shown; {setting}"),
    };
    let (name, base) = (measured.scenario.name(), measured.scenario.name().replace('/', "-"));
    let picture = |(kind, title, chart)| {
        let title = format!("{title}, {name} (indexers/clients/TTL)");
        (format!("query-{base}-{kind}"), Picture { title, subtitle: subtitle.clone(), charts: vec![chart] })
    };
    let scatter = ("scatter", "Response time by request", scatter(measured, top));
    [scatter, ("histogram", "Distribution of response times", histogram(measured, top))].map(picture).into()
}

/// A point for each request, at the number it has among those of its client.
fn scatter(measured: &Measured, top: f64) -> Chart {
    let step = measured.samples.answered().div_ceil(POINTS_MAX).max(1);
    let shown = measured.samples.by_round().filter(|(_, us)| *us <= top).step_by(step);
    let means = measured.samples.round_means_us();
    let together = means.len().div_ceil(MEANS_MAX).max(1);
    let mean = |(n, some): (usize, &[f64])| {
        let middle = count(n * together) + (count(some.len()) + 1.0) / 2.0;
        (middle, (some.iter().sum::<f64>() / count(some.len())).min(top))
    };
    let requests = shown.map(|(round, us)| (count(round) + 1.0, us)).collect();
    let line = means.chunks(together).enumerate().map(mean).collect();
    let label = format!("mean by round (of all: {})", micros(&measured.figures.mean));
    Chart {
        x: Axis::new("round: the n-th request of each client", count(means.len()) * 1.01, whole),
        y: Axis::new("response time", top, micros_to(top)),
        series: vec![
            Series::new("a request", Shape::Dots, 1, requests),
            Series::new(label, Shape::Line, 2, line),
        ],
        legend: UpperRight,
    }
}

/// Answers by their response time, with p50, p90 and p99 marked.
fn histogram(measured: &Measured, top: f64) -> Chart {
    let mut bins = vec![0u32; BINS];
    for (_, us) in measured.samples.by_round() {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number from 0 to 79")]
        let bin = bins.get_mut((us / top * count(BINS)) as usize);
        if let Some(bin) = bin {
            *bin += 1;
        }
    }
    let highest = f64::from(bins.iter().copied().max().unwrap_or(0).max(1)) * 1.08;
    let width = top / count(BINS);
    let bars = bins.iter().enumerate().map(|(n, bin)| (count(n) * width, f64::from(*bin))).collect();
    let bars = Series::new("", Shape::Bars(width * 0.92), 1, bars);
    let figures = &measured.figures;
    let marks = [("p50", figures.p50, 3), ("p90", figures.p90, 4), ("p99", figures.p99, 2)];
    let marks = marks.map(|(name, us, colour)| {
        let ends = vec![(us, 0.0), (us, highest)];
        Series::new(format!("{name}  {}", micros(&us)), Shape::Line, colour, ends)
    });
    Chart {
        x: Axis::new("response time", top, micros_to(top)),
        y: Axis::new("answers", highest, whole),
        series: [bars].into_iter().chain(marks).collect(),
        legend: UpperRight,
    }
}
