//! How response time and throughput grow with clients or hops.

use plotters::{coord::Shift, prelude::*};

use super::{Drawn, FONT, LABEL_PX, LINES, Picture, headed, legend, micros};
use crate::{
    measure::Measured,
    report::reference::{self, Rebuilt},
};

/// One line of a chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// What it shows.
    pub label: &'static str,
    /// Its points, from left to right.
    pub points: Vec<(f64, f64)>,
}

/// Two charts beside each other: response times, and answers a second.
#[derive(Clone, Debug, PartialEq)]
pub struct Scaling {
    /// What grows.
    pub title: String,
    /// How it was measured.
    pub subtitle: String,
    /// What the horizontal axis shows.
    pub along: &'static str,
    /// Response times in microseconds.
    pub times: Vec<Line>,
    /// Answers a second.
    pub rates: Vec<Line>,
}

impl Scaling {
    /// The rows of a matrix that `at` gives a place on the axis; `None` if these are fewer than two.
    #[must_use]
    pub fn of(
        rows: &[Measured],
        title: String,
        along: &'static str,
        at: impl Fn(&Measured) -> Option<f64>,
    ) -> Option<Self> {
        let rows: Vec<(f64, &Measured)> = rows.iter().filter_map(|row| Some((at(row)?, row))).collect();
        let line = |label, value: &dyn Fn(&Measured) -> Option<f64>| Line {
            label,
            points: rows.iter().filter_map(|(x, row)| Some((*x, value(row)?))).collect(),
        };
        let rebuilt = |row: &Measured| match reference::of(&row.scenario.name())?.rebuilt? {
            Rebuilt::Mean(us) => Some(us),
            Rebuilt::DoesNotFinish => None,
        };
        let clients = |row: &Measured| f64::from(u32::try_from(row.scenario.clients).unwrap_or(u32::MAX));
        let (_, first) = (rows.len() > 1).then(|| rows.first())??;
        Some(Self {
            title,
            subtitle: first.setting(),
            along,
            times: vec![
                line("mean", &|row| Some(row.figures.mean)),
                line("p50", &|row| Some(row.figures.p50)),
                line("p99", &|row| Some(row.figures.p99)),
                line("forerunner, rebuilt (mean)", &rebuilt),
            ],
            rates: vec![
                line("nekop2p", &|row| Some(row.queries_per_s())),
                // Closed loops: each client has one query under way.
                line("forerunner, rebuilt", &|row| Some(clients(row) / rebuilt(row)? * 1e6)),
            ],
        })
    }
}

impl Picture for Scaling {
    fn draw<DB: DrawingBackend>(&self, area: &DrawingArea<DB, Shift>) -> Drawn<DB> {
        let area = headed(area, &self.title, &self.subtitle)?;
        let [left, right] = &area.split_evenly((1, 2))[..] else { return Ok(()) };
        chart(left, self.along, "response time (logarithmic)", &self.times, &|us| micros(*us))?;
        chart(right, self.along, "answers per second (logarithmic)", &self.rates, &|rate| match *rate {
            rate if rate >= 1000.0 => format!("{:.0} k", rate / 1e3),
            rate => format!("{rate:.0}"),
        })
    }
}

fn chart<DB: DrawingBackend>(
    area: &DrawingArea<DB, Shift>,
    along: &str,
    up: &str,
    lines: &[Line],
    label: &dyn Fn(&f64) -> String,
) -> Drawn<DB> {
    let points = || lines.iter().flat_map(|line| line.points.iter());
    let right = points().map(|(x, _)| *x).fold(1.0, f64::max);
    let (least, most) =
        points().fold((f64::MAX, 1.0f64), |(least, most), (_, y)| (least.min(*y), most.max(*y)));
    let room = (most / least).powf(0.4).max(2.0); // the legend lies above the lines
    let range = (least / 1.5..most * room).log_scale();
    let mut chart = ChartBuilder::on(area)
        .margin(14)
        .margin_right(36)
        .x_label_area_size(46)
        .y_label_area_size(86)
        .build_cartesian_2d(0.0..right * 1.05, range)?;
    chart
        .configure_mesh()
        .x_desc(along)
        .y_desc(up)
        .x_label_formatter(&|x| format!("{x:.0}"))
        .y_label_formatter(label)
        .y_labels(12)
        .label_style((FONT, LABEL_PX))
        .light_line_style(WHITE)
        .draw()?;
    for (line, colour) in lines.iter().filter(|line| !line.points.is_empty()).zip(LINES) {
        chart
            .draw_series(LineSeries::new(line.points.iter().copied(), colour.stroke_width(2)))?
            .label(line.label)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
        chart.draw_series(line.points.iter().map(|point| Circle::new(*point, 4, colour.filled())))?;
    }
    legend(&mut chart, SeriesLabelPosition::UpperLeft)
}
