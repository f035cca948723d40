//! Scatter of response times and their histogram, as SVG.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::anyhow;
use plotters::{coord::Shift, prelude::*};

use crate::{report::Figures, scenario::Scenario};

const SIZE: (u32, u32) = (900, 540);
const BINS: usize = 60;
/// Points drawn; more would only make the file large.
const POINTS_MAX: usize = 5000;
const MARKS: [(usize, &str, RGBColor); 3] = [(1, "p50", GREEN), (2, "p90", MAGENTA), (3, "p99", RED)];

/// Draws both plots into `folder`; returns what was written.
///
/// # Errors
/// A file cannot be written.
pub fn draw(
    folder: &Path,
    scenario: &Scenario,
    took: &[Duration],
    figures: &Figures,
) -> anyhow::Result<Vec<PathBuf>> {
    let base = format!("query-{}-{}-{}", scenario.indexers, scenario.clients, scenario.ttl_hops);
    let micros: Vec<f64> = took.iter().map(|took| took.as_secs_f64() * 1e6).collect();
    let scatter_path = folder.join(format!("{base}-scatter.svg"));
    let histogram_path = folder.join(format!("{base}-histogram.svg"));
    let title =
        format!("{} indexers, {} clients, TTL {}", scenario.indexers, scenario.clients, scenario.ttl_hops);
    // The few slowest would squeeze all others into a line at the bottom.
    let top = figures.times_us[3] * 1.5;
    scatter(&SVGBackend::new(&scatter_path, SIZE).into_drawing_area(), &title, &micros, figures, top)
        .map_err(|error| anyhow!("cannot draw {}: {error}", scatter_path.display()))?;
    histogram(&SVGBackend::new(&histogram_path, SIZE).into_drawing_area(), &title, &micros, figures, top)
        .map_err(|error| anyhow!("cannot draw {}: {error}", histogram_path.display()))?;
    Ok(vec![scatter_path, histogram_path])
}

type Drawn<DB> = Result<(), DrawingAreaErrorKind<<DB as DrawingBackend>::ErrorType>>;

fn scatter<DB: DrawingBackend>(
    area: &DrawingArea<DB, Shift>,
    title: &str,
    micros: &[f64],
    figures: &Figures,
    top: f64,
) -> Drawn<DB> {
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(area)
        .caption(format!("Response time by request: {title}"), ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(64)
        .build_cartesian_2d(0..micros.len(), 0.0..top)?;
    chart.configure_mesh().x_desc("request").y_desc("response time (us)").light_line_style(WHITE).draw()?;
    let step = micros.len().div_ceil(POINTS_MAX).max(1);
    let points = micros.iter().enumerate().step_by(step).filter(|(_, us)| **us <= top);
    chart.draw_series(points.map(|(n, us)| Circle::new((n, *us), 1, BLUE.mix(0.5).filled())))?;
    let mean = figures.times_us[0];
    chart
        .draw_series(LineSeries::new([(0, mean), (micros.len(), mean)], RED.stroke_width(2)))?
        .label(format!("mean {mean:.0} us"))
        .legend(|(x, y)| PathElement::new([(x, y), (x + 16, y)], RED.stroke_width(2)));
    let labels = &mut chart.configure_series_labels();
    labels
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK)
        .draw()?;
    area.present()
}

fn histogram<DB: DrawingBackend>(
    area: &DrawingArea<DB, Shift>,
    title: &str,
    micros: &[f64],
    figures: &Figures,
    top: f64,
) -> Drawn<DB> {
    let counts = count(micros, top);
    let highest = counts.iter().copied().max().unwrap_or(1).max(1);
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(area)
        .caption(format!("Distribution of response times: {title}"), ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..top, 0..highest + highest / 10 + 1)?;
    chart.configure_mesh().x_desc("response time (us)").y_desc("requests").light_line_style(WHITE).draw()?;
    #[expect(clippy::cast_precision_loss, reason = "there are few bins")]
    let left = |bin: usize| top * bin as f64 / BINS as f64;
    chart.draw_series(counts.iter().enumerate().map(|(bin, count)| {
        Rectangle::new([(left(bin), 0), (left(bin + 1), *count)], BLUE.mix(0.6).filled())
    }))?;
    for (place, label, color) in MARKS {
        let at = figures.times_us[place];
        chart
            .draw_series(LineSeries::new([(at, 0), (at, highest)], color.stroke_width(2)))?
            .label(format!("{label} {at:.0} us"))
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], color.stroke_width(2)));
    }
    let labels = &mut chart.configure_series_labels();
    labels
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK)
        .draw()?;
    area.present()
}

/// How many fall into each of [`BINS`] bins below `top`.
fn count(micros: &[f64], top: f64) -> Vec<usize> {
    let mut counts = vec![0; BINS];
    for us in micros.iter().filter(|us| **us < top) {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "0 <= us < top, so the quotient is a small number"
        )]
        let bin = (us / top * BINS as f64) as usize;
        counts[bin.min(BINS - 1)] += 1;
    }
    counts
}
