//! Draws pictures, each as SVG and, twice as large, as PNG, with a font of its own, so that no system library is needed.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::{
    register_font,
    text_anchor::{HPos, Pos, VPos},
};

use super::{Chart, Picture, Series, Shape, axis::Scale};
use crate::prelude::*;

/// Pixels of a picture with one chart, the title apart, and of each row of several charts.
const WIDTH: u32 = 800;
const HEIGHT: u32 = 400;
const ROW_HEIGHT: u32 = 270;
const LINE: u32 = 18;
const FONT: &str = "sans-serif";
const TITLE_PX: u32 = 19;
/// Of all other text.
const TEXT_PX: u32 = 13;
/// Of the labels of the vertical axis, and at the right half of the last label of the horizontal one.
const Y_LABEL_PX: u32 = 64;
const MARGIN_RIGHT_PX: u32 = 28;
/// Between two labels of an axis at least.
const X_LABEL_PX: u32 = 56;
const Y_LABEL_HIGH_PX: u32 = 22;
/// A line with fewer points has them marked.
const MARKED_MAX: usize = 40;

/// The colours of series, apart also for the colour-blind; more series take them again, thinner.
const PALETTE: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(40, 40, 40),
    RGBColor(86, 180, 233),
    RGBColor(120, 94, 60),
];

type Painted<DB, T = ()> = Result<T, DrawingAreaErrorKind<<DB as DrawingBackend>::ErrorType>>;

/// Writes `picture` by its name, as .svg and .png; returns what was written.
pub fn save(folder: &Path, picture: &Picture) -> Result<Vec<PathBuf>> {
    static IS_FONT_KNOWN: OnceLock<bool> = OnceLock::new();
    let register = || register_font(FONT, FontStyle::Normal, dejavu::sans::regular()).is_ok();
    ensure!(*IS_FONT_KNOWN.get_or_init(register), "the embedded font cannot be read");
    let [svg, png] = ["svg", "png"].map(|kind| folder.join(format!("{}.{kind}", picture.name)));
    let cannot =
        |path: &Path, error: &dyn std::error::Error| anyhow!("cannot draw {}: {error}", path.display());
    let (wide, high) = picture.size();
    let drawn = picture.draw(&SVGBackend::new(&svg, (wide, high)).into_drawing_area(), 1);
    drawn.map_err(|error| cannot(&svg, &error))?;
    // The library places letters at whole pixels: of larger ones this is not seen.
    let drawn = picture.draw(&BitMapBackend::new(&png, (wide * 2, high * 2)).into_drawing_area(), 2);
    drawn.map_err(|error| cannot(&png, &error))?;
    Ok(vec![svg, png])
}

fn font(px: u32) -> TextStyle<'static> {
    (FONT, px).into_font().color(&PALETTE[5])
}

/// The colour of the n-th series, and how thick it is.
const fn style(n: usize) -> (RGBColor, u32) {
    (PALETTE[n % PALETTE.len()], if n < PALETTE.len() { 2 } else { 1 })
}

impl Picture {
    fn rows(&self) -> (usize, usize) {
        let columns = if self.charts.len() > 3 { 2 } else { 1 };
        (self.charts.len().div_ceil(columns).max(1), columns)
    }

    #[expect(clippy::cast_possible_truncation, reason = "a few")]
    fn size(&self) -> (u32, u32) {
        let charts = if self.charts.len() > 1 { self.rows().0 as u32 * ROW_HEIGHT } else { HEIGHT };
        (WIDTH, charts + LINE * (3 + self.subtitle.lines().count() as u32))
    }

    /// Draws it `px` times as large.
    fn draw<DB: DrawingBackend>(&self, area: &DrawingArea<DB, Shift>, px: u32) -> Painted<DB> {
        area.fill(&WHITE)?;
        let mut below = area.margin(8 * px, 4 * px, 0, 0).titled(&self.title, font(TITLE_PX * px))?;
        for line in self.subtitle.lines() {
            below = below.titled(line, font(TEXT_PX * px))?;
        }
        for (chart, area) in self.charts.iter().zip(below.split_evenly(self.rows())) {
            chart.draw(&area, px)?;
        }
        area.present()
    }
}

impl Chart {
    #[expect(clippy::cast_possible_wrap, reason = "pixels")]
    fn draw<DB: DrawingBackend>(&self, area: &DrawingArea<DB, Shift>, px: u32) -> Painted<DB> {
        let legend_px = self.legend(area, px)?;
        let area = area.margin(legend_px, 0, 0, 0);
        let (wide, high) = area.dim_in_pixel();
        let labels = |px_of_all: u32, px_of_each: u32| (px_of_all / px / px_of_each).max(2) as usize;
        let points = || self.series.iter().flat_map(|series| &series.points);
        let ends = self.series.iter().filter_map(Series::end);
        let along = points().map(|point| point.0).chain(ends);
        let x = Scale::new(&self.x, along, labels(wide - Y_LABEL_PX * px, X_LABEL_PX));
        let y = Scale::new(&self.y, points().map(|point| point.1), labels(high - 60 * px, Y_LABEL_HIGH_PX));
        let mut chart = ChartBuilder::on(&area)
            .margin(6 * px)
            .margin_right(MARGIN_RIGHT_PX * px)
            .x_label_area_size(40 * px)
            .y_label_area_size(Y_LABEL_PX * px)
            .build_cartesian_2d(x.clone(), y.clone())?;
        chart
            .configure_mesh()
            .x_desc(&x.label)
            .y_desc(&y.label)
            .label_style(font(TEXT_PX * px))
            .light_line_style(WHITE)
            .set_all_tick_mark_size(5 * px)
            .draw()?;
        for (n, Series { shape, points, .. }) in self.series.iter().enumerate() {
            let (colour, thick) = style(n);
            let points = points.iter().copied();
            let (floor, top) = y.ends();
            match *shape {
                Shape::Line => {
                    let marks = if points.len() < MARKED_MAX { 3 * px } else { 0 };
                    let line = LineSeries::new(points, colour.filled().stroke_width(thick * px));
                    chart.draw_series(line.point_size(marks))?;
                }
                Shape::Dots => {
                    let dot = |point| Circle::new(point, 2 * px as i32, colour.mix(0.35).filled());
                    chart.draw_series(points.map(dot))?;
                }
                Shape::Bars(wide) => {
                    let bar = |(x, y)| Rectangle::new([(x, floor), (x + wide, y)], colour.filled());
                    chart.draw_series(points.map(bar))?;
                }
                Shape::Shade(wide) => {
                    let pale = colour.mix(0.15).filled();
                    let shade = |(x, _)| Rectangle::new([(x, floor), (x + wide, top)], pale);
                    chart.draw_series(points.map(shade))?;
                }
            }
        }
        Ok(())
    }

    /// Draws what each series is, above the chart; how high that is.
    #[expect(clippy::cast_possible_wrap, reason = "pixels")]
    fn legend<DB: DrawingBackend>(&self, area: &DrawingArea<DB, Shift>, px: u32) -> Painted<DB, u32> {
        let (begin, end) = ((Y_LABEL_PX + 6) * px, area.dim_in_pixel().0);
        let (mut x, mut y) = (begin, LINE * px / 2);
        let labelled = self.series.iter().enumerate().filter(|(_, series)| !series.label.is_empty());
        for (n, Series { label, .. }) in labelled {
            let text = font(TEXT_PX * px).pos(Pos::new(HPos::Left, VPos::Center));
            let (wide, _) = area.estimate_text_size(label, &text)?;
            if x > begin && x + wide + 22 * px > end {
                (x, y) = (begin, y + LINE * px);
            }
            let (left, middle, half) = (x as i32, y as i32, 4 * px as i32);
            let sign = [(left, middle - half), (left + 3 * half, middle + half)];
            area.draw(&Rectangle::new(sign, style(n).0.filled()))?;
            area.draw_text(label, &text, (left + 4 * half, middle))?;
            x += wide + 34 * px;
        }
        Ok(y + LINE * px / 2)
    }
}

impl Series {
    /// How far to the right its last bar reaches.
    fn end(&self) -> Option<f64> {
        let (Shape::Bars(wide) | Shape::Shade(wide)) = self.shape else { return None };
        Some(self.points.last()?.0 + wide)
    }
}
