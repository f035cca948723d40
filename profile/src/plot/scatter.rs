//! Response time by request, with the mean of each round.

use plotters::{coord::Shift, prelude::*};

use super::{Drawn, FONT, LABEL_PX, MEAN, POINTS, Picture, headed, legend, micros, subtitle, top};
use crate::measure::Measured;

/// Points drawn; more would only make the file large.
const POINTS_MAX: usize = 6000;
/// Points of the line of means: neighbouring rounds are taken together beyond this.
const MEANS_MAX: usize = 120;

/// A point for each request, at the number it has among those of its client.
#[derive(Clone, Debug)]
pub struct Scatter {
    title: String,
    subtitle: String,
    points: Vec<(f64, f64)>,
    means: Vec<(f64, f64)>,
    rounds: f64,
    top: f64,
    mean: f64,
}

impl Scatter {
    /// The scatter of one scenario.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "numbers of rounds are small")]
    pub fn of(measured: &Measured) -> Self {
        let top = top(measured);
        let step = measured.samples.answered().div_ceil(POINTS_MAX).max(1);
        let (shown, beyond): (Vec<_>, Vec<_>) = measured.samples.by_round().partition(|(_, us)| *us <= top);
        let means = measured.samples.round_means_us();
        let together = means.len().div_ceil(MEANS_MAX).max(1);
        let rounds = means.len() as f64;
        let means = means.chunks(together).enumerate().map(|(n, some)| {
            let middle = (n * together) as f64 + (some.len() as f64 + 1.0) / 2.0;
            (middle, some.iter().sum::<f64>() / some.len() as f64)
        });
        Self {
            title: format!("Response time by request, {} (indexers/clients/TTL)", measured.scenario.name()),
            subtitle: subtitle(measured, beyond.len()),
            points: shown.iter().step_by(step).map(|(round, us)| (*round as f64 + 1.0, *us)).collect(),
            means: means.collect(),
            rounds,
            top,
            mean: measured.figures.mean,
        }
    }
}

impl Picture for Scatter {
    fn draw<DB: DrawingBackend>(&self, area: &DrawingArea<DB, Shift>) -> Drawn<DB> {
        let area = headed(area, &self.title, &self.subtitle)?;
        let mut chart = ChartBuilder::on(&area)
            .margin(14)
            .margin_right(36)
            .x_label_area_size(46)
            .y_label_area_size(86)
            .build_cartesian_2d(0.0..self.rounds * 1.01, 0.0..self.top)?;
        chart
            .configure_mesh()
            .x_desc("round: the n-th request of each client")
            .y_desc("response time")
            .x_label_formatter(&|round| format!("{round:.0}"))
            .y_label_formatter(&|us| micros(*us))
            .label_style((FONT, LABEL_PX))
            .light_line_style(WHITE)
            .draw()?;
        let dot = |(round, us): &(f64, f64)| Circle::new((*round, *us), 2, POINTS.mix(0.35).filled());
        chart
            .draw_series(self.points.iter().map(dot))?
            .label("a request")
            .legend(|(x, y)| Circle::new((x + 9, y), 3, POINTS.filled()));
        let line = self.means.iter().map(|(round, us)| (*round, us.min(self.top)));
        chart
            .draw_series(LineSeries::new(line, MEAN.stroke_width(2)))?
            .label(format!("mean by round (of all: {})", micros(self.mean)))
            .legend(|(x, y)| PathElement::new([(x, y), (x + 18, y)], MEAN.stroke_width(2)));
        legend(&mut chart, SeriesLabelPosition::UpperRight)
    }
}
