//! Pictures: each as SVG and as PNG, with a font of its own, so that no system library is needed.

pub(crate) mod by_node;
pub(crate) mod consistency;
pub(crate) mod curves;
mod letters;
pub mod over_time;
pub mod proof;
pub(crate) mod queries;

use std::path::{Path, PathBuf};
use std::{ops::Range, sync::OnceLock};

use ab_glyph::FontRef;
use anyhow::anyhow;
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;
use plotters::{coord::Shift, style::register_font};

use self::letters::SubpixelText;

/// Pixels of a picture.
const SIZE: (u32, u32) = (1000, 600);
/// Pixels of each of many charts.
const SMALL: (u32, u32) = (520, 260);
/// Charts beside each other.
const COLUMNS: usize = 3;
const FONT: &str = "sans-serif";
const TITLE_PX: u32 = 22;
/// Of all other text.
const TEXT_PX: u32 = 15;
/// Between a chart and what is beside it; at its right also half of the last label.
const MARGIN_PX: u32 = 14;
const MARGIN_RIGHT_PX: u32 = 36;
/// Of the labels of the vertical axis; and of each label of the horizontal one.
const Y_LABEL_PX: u32 = 86;
const X_LABEL_PX: u32 = 48;
/// Labels of one axis at most.
const X_LABELS_MAX: u32 = 11;
const Y_LABELS_MAX: u32 = 12;

/// The colours of lines, apart also for the colour-blind; more lines take them again, thinner.
const PALETTE: [RGBColor; 8] = [
    RGBColor(40, 40, 40),
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(120, 94, 60),
];

/// One or more charts beside each other, under a title.
pub struct Picture {
    /// The first line.
    pub title: String,
    /// The second line, smaller.
    pub subtitle: String,
    /// Left to right.
    pub charts: Vec<Chart>,
}

/// Series over two axes.
pub struct Chart {
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    /// In the order in which they are drawn.
    pub series: Vec<Series>,
    pub(crate) legend: SeriesLabelPosition,
}

pub(crate) struct Axis {
    pub(crate) label: &'static str,
    pub(crate) range: Range<f64>,
    pub(crate) is_logarithmic: bool,
    /// A figure as its label.
    pub(crate) shown: Box<dyn Fn(&f64) -> String + Send>,
}

/// Places on the horizontal axis, and heights.
pub type Points = Vec<(f64, f64)>;

/// Points by what they are called.
pub(crate) type Lines = Vec<(String, Points)>;

/// What is drawn of one kind of thing.
pub struct Series {
    /// What the legend says.
    pub label: String,
    pub(crate) shape: Shape,
    /// Its place in the palette.
    pub(crate) colour: usize,
    /// Where they lie.
    pub points: Points,
}

/// How points are drawn.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Shape {
    Line,
    /// A line with its points marked.
    Marked,
    /// Each point by itself.
    Dots,
    /// From the horizontal axis up, this wide.
    Bars(f64),
    /// The same, pale, without a label.
    Shade(f64),
}

impl Series {
    pub(crate) fn new(label: impl Into<String>, shape: Shape, colour: usize, points: Points) -> Self {
        Self { label: label.into(), shape, colour, points }
    }
}

impl Axis {
    /// A logarithmic one with room for the legend above the lines.
    fn logarithmic(
        label: &'static str,
        lines: &Lines,
        shown: impl Fn(&f64) -> String + Send + 'static,
    ) -> Self {
        let (_, least, most) = extent(lines);
        let least = least.min(most); // also without lines
        let room = (most / least).powf(0.4).max(2.0);
        Self { range: least / 1.5..most * room, is_logarithmic: true, ..Self::new(label, most, shown) }
    }

    /// A linear one from 0 to `end`.
    pub(crate) fn new(
        label: &'static str,
        end: f64,
        shown: impl Fn(&f64) -> String + Send + 'static,
    ) -> Self {
        Self { label, range: 0.0..end, is_logarithmic: false, shown: Box::new(shown) }
    }
}

type Drawn<DB> = Result<(), DrawingAreaErrorKind<<DB as DrawingBackend>::ErrorType>>;

/// Writes `picture` as `name`.svg and `name`.png; returns what was written.
pub fn save(folder: &Path, name: &str, picture: &Picture) -> anyhow::Result<Vec<PathBuf>> {
    static IS_FONT_KNOWN: OnceLock<bool> = OnceLock::new();
    let register = || register_font(FONT, FontStyle::Normal, dejavu::sans::regular()).is_ok();
    anyhow::ensure!(*IS_FONT_KNOWN.get_or_init(register), "the embedded font cannot be read");
    let [svg, png] = ["svg", "png"].map(|kind| folder.join(format!("{name}.{kind}")));
    let cannot =
        |path: &Path, error: &dyn std::error::Error| anyhow!("cannot draw {}: {error}", path.display());
    let size = picture.size();
    picture.draw(&SVGBackend::new(&svg, size).into_drawing_area()).map_err(|error| cannot(&svg, &error))?;
    let font = FontRef::try_from_slice(dejavu::sans::regular())?;
    let bitmap = SubpixelText { inner: BitMapBackend::new(&png, size), font };
    picture.draw(&bitmap.into_drawing_area()).map_err(|error| cannot(&png, &error))?;
    Ok(vec![svg, png])
}

impl Picture {
    /// Rows of charts, and charts in each.
    fn grid(&self) -> (usize, usize) {
        let charts = self.charts.len().max(1);
        let columns = if charts == 4 { 2 } else { charts.min(COLUMNS) };
        (charts.div_ceil(columns), columns)
    }

    fn size(&self) -> (u32, u32) {
        match (self.grid(), u32::try_from(self.grid().0)) {
            ((2.., columns), Ok(rows)) => (SMALL.0 * if columns > 2 { 3 } else { 2 }, 80 + SMALL.1 * rows),
            _ => SIZE,
        }
    }

    fn draw<DB: DrawingBackend>(&self, area: &DrawingArea<DB, Shift>) -> Drawn<DB> {
        area.fill(&WHITE)?;
        let ink = PALETTE[0];
        let below = area.margin(10, 4, 0, 0).titled(&self.title, (FONT, TITLE_PX).into_font().color(&ink))?;
        let below = below.titled(&self.subtitle, (FONT, TEXT_PX).into_font().color(&ink.mix(0.75)))?;
        for (chart, area) in self.charts.iter().zip(below.split_evenly(self.grid())) {
            match chart.y.is_logarithmic {
                true => chart.draw(&area, chart.y.range.clone().log_scale())?,
                false => chart.draw(&area, chart.y.range.clone())?,
            }
        }
        area.present()
    }
}

impl Chart {
    fn draw<DB: DrawingBackend, Y>(&self, area: &DrawingArea<DB, Shift>, y: Y) -> Drawn<DB>
    where
        Y: AsRangedCoord<Value = f64>,
        Y::CoordDescType: ValueFormatter<f64>,
    {
        let across = area.dim_in_pixel().0.saturating_sub(MARGIN_PX + Y_LABEL_PX + MARGIN_RIGHT_PX);
        let mut chart = ChartBuilder::on(area)
            .margin(MARGIN_PX)
            .margin_right(MARGIN_RIGHT_PX)
            .x_label_area_size(46)
            .y_label_area_size(Y_LABEL_PX)
            .build_cartesian_2d(self.x.range.clone(), y)?;
        chart
            .configure_mesh()
            .x_desc(self.x.label)
            .y_desc(self.y.label)
            .x_label_formatter(&self.x.shown)
            .y_label_formatter(&self.y.shown)
            .x_labels((across / X_LABEL_PX).min(X_LABELS_MAX) as usize)
            .y_labels(Y_LABELS_MAX as usize)
            .label_style((FONT, TEXT_PX))
            .light_line_style(WHITE)
            .draw()?;
        let floor = self.y.range.start;
        for Series { label, shape, colour, points, .. } in &self.series {
            let width = if *colour < PALETTE.len() { 2 } else { 1 };
            let colour = PALETTE[colour % PALETTE.len()];
            let line = colour.stroke_width(width);
            let (points, is_line) = (points.iter().copied(), matches!(shape, Shape::Line | Shape::Marked));
            if is_line {
                chart
                    .draw_series(LineSeries::new(points.clone(), line))?
                    .label(label)
                    .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], line));
            }
            match *shape {
                Shape::Line => {}
                Shape::Marked => {
                    chart.draw_series(points.map(|point| Circle::new(point, 4, colour.filled())))?;
                }
                Shape::Dots => {
                    chart
                        .draw_series(points.map(|point| Circle::new(point, 2, colour.mix(0.35).filled())))?
                        .label(label)
                        .legend(move |(x, y)| Circle::new((x + 9, y), 3, colour.filled()));
                }
                Shape::Bars(width) | Shape::Shade(width) => {
                    let opacity = if matches!(shape, Shape::Bars(_)) { 1.0 } else { 0.25 };
                    let style = colour.mix(opacity).filled();
                    let bar = |(x, y)| Rectangle::new([(x, floor), (x + width, y)], style);
                    let drawn = chart.draw_series(points.map(bar))?;
                    if !label.is_empty() {
                        drawn
                            .label(label)
                            .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 18, y + 5)], style));
                    }
                }
            }
        }
        chart
            .configure_series_labels()
            .position(self.legend.clone())
            .background_style(WHITE.mix(0.85))
            .border_style(BLACK.mix(0.2))
            .label_font((FONT, TEXT_PX))
            .margin(8)
            .draw()
    }
}

/// A series for each of `lines`, in colours from `first` on.
fn series(first: usize, shape: Shape, lines: Lines) -> Vec<Series> {
    (first..).zip(lines).map(|(colour, (label, points))| Series::new(label, shape, colour, points)).collect()
}

/// How far these points reach to the right, down and up: at least to a height of 1.
fn extent(lines: &Lines) -> (f64, f64, f64) {
    let points = lines.iter().flat_map(|(_, points)| points);
    points.fold((0.0, f64::MAX, 1.0), |(x, least, most), at| (at.0.max(x), at.1.min(least), at.1.max(most)))
}

/// Microseconds as a label: no more digits than say something.
pub fn micros(us: &f64) -> String {
    match *us {
        0.0 => "0".to_owned(),
        us if us >= 10_000.0 => format!("{:.1} ms", us / 1e3),
        us if us >= 1000.0 => format!("{:.2} ms", us / 1e3),
        us if us >= 100.0 => format!("{us:.0} µs"),
        us => format!("{us:.1} µs"),
    }
}

/// Microseconds as labels of an axis up to `most`, which has one unit.
pub fn micros_to(most: f64) -> impl Fn(&f64) -> String + Send + 'static {
    let (unit, of_unit) = if most >= 10_000.0 { ("ms", 1e3) } else { ("µs", 1.0) };
    move |us| match us / of_unit {
        0.0 => "0".to_owned(),
        figure if most / of_unit >= 24.0 && figure >= 1.0 => format!("{figure:.0} {unit}"),
        figure if figure >= 0.1 => format!("{figure:.1} {unit}"),
        figure => format!("{figure:.3} {unit}"),
    }
}

/// A number of things as a label: no more digits than say something.
fn many(figure: &f64) -> String {
    match *figure {
        figure if figure >= 1e6 => format!("{:.1} M", figure / 1e6),
        figure if figure >= 1e3 => format!("{:.0} k", figure / 1e3),
        figure => format!("{figure:.0}"),
    }
}

/// Figures from 0 to `end` as labels: as many decimals as tell at most `labels` of them apart.
fn apart(end: f64, labels: u32) -> impl Fn(&f64) -> String + Send {
    let step = end / f64::from(labels);
    let decimals = (1..6).take_while(|decimals| step * 10f64.powi(decimals - 1) < 1.0).count();
    move |figure| format!("{figure:.decimals$}")
}

/// A figure as a label, without decimals.
fn whole(figure: &f64) -> String {
    format!("{figure:.0}")
}
