//! How response times are distributed, with p50, p90 and p99 marked.

use plotters::{coord::Shift, prelude::*};

use super::{Drawn, FONT, LABEL_PX, LINES, POINTS, Picture, headed, legend, micros, subtitle, top};
use crate::measure::Measured;

const BINS: usize = 80;

/// How many answers took how long.
#[derive(Clone, Debug)]
pub struct Histogram {
    title: String,
    subtitle: String,
    /// Answers in each bin.
    bins: Vec<u32>,
    top: f64,
    marks: [(&'static str, f64); 3],
}

impl Histogram {
    /// The histogram of one scenario.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a bin is a number from 0 to 79"
    )]
    pub fn of(measured: &Measured) -> Self {
        let (top, mut bins, mut beyond) = (top(measured), vec![0; BINS], 0);
        for (_, us) in measured.samples.by_round() {
            match bins.get_mut((us / top * BINS as f64) as usize) {
                Some(bin) => *bin += 1,
                None => beyond += 1,
            }
        }
        let figures = &measured.figures;
        Self {
            title: format!(
                "Distribution of response times, {} (indexers/clients/TTL)",
                measured.scenario.name()
            ),
            subtitle: subtitle(measured, beyond),
            bins,
            top,
            marks: [("p50", figures.p50), ("p90", figures.p90), ("p99", figures.p99)],
        }
    }
}

impl Picture for Histogram {
    #[expect(clippy::cast_precision_loss, reason = "a bin is a number from 0 to 79")]
    fn draw<DB: DrawingBackend>(&self, area: &DrawingArea<DB, Shift>) -> Drawn<DB> {
        let area = headed(area, &self.title, &self.subtitle)?;
        let highest = f64::from(self.bins.iter().copied().max().unwrap_or(0).max(1)) * 1.08;
        let mut chart = ChartBuilder::on(&area)
            .margin(14)
            .margin_right(36)
            .x_label_area_size(46)
            .y_label_area_size(86)
            .build_cartesian_2d(0.0..self.top, 0.0..highest)?;
        chart
            .configure_mesh()
            .x_desc("response time")
            .y_desc("answers")
            .x_label_formatter(&|us| micros(*us))
            .y_label_formatter(&|count| format!("{count:.0}"))
            .label_style((FONT, LABEL_PX))
            .light_line_style(WHITE)
            .draw()?;
        let width = self.top / BINS as f64;
        chart.draw_series(self.bins.iter().enumerate().map(|(n, count)| {
            let left = n as f64 * width;
            Rectangle::new([(left, 0.0), (left + width * 0.92, f64::from(*count))], POINTS.filled())
        }))?;
        for ((name, us), colour) in self.marks.iter().zip([LINES[2], LINES[3], LINES[1]]) {
            let line = [(*us, 0.0), (*us, highest)];
            chart
                .draw_series(LineSeries::new(line, colour.stroke_width(2)))?
                .label(format!("{name}  {}", micros(*us)))
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
        }
        legend(&mut chart, SeriesLabelPosition::UpperRight)
    }
}
