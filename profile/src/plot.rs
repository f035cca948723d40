//! Pictures: each as SVG and as PNG, with a font of its own, so that no system library is needed.

mod histogram;
mod over_time;
mod scaling;
mod scatter;

use std::{
    path::{Path, PathBuf},
    sync::OnceLock,
};

use anyhow::anyhow;
use plotters::{
    coord::{CoordTranslate, Shift},
    prelude::*,
    style::register_font,
};

pub use histogram::Histogram;
pub use over_time::OverTime;
pub use scaling::{Line, Scaling};
pub use scatter::Scatter;

use crate::measure::Measured;

/// Pixels of a picture.
const SIZE: (u32, u32) = (1000, 600);
const FONT: &str = "sans-serif";
const TITLE_PX: u32 = 22;
const SUBTITLE_PX: u32 = 15;
const LABEL_PX: u32 = 15;
/// Times beyond this many times the p99 are left out, and counted in the subtitle: the slowest few
/// would press all others into a line at the bottom.
const TOP_OF_P99: f64 = 1.5;

const POINTS: RGBColor = RGBColor(70, 120, 190);
const MEAN: RGBColor = RGBColor(200, 60, 30);
const INK: RGBColor = RGBColor(40, 40, 40);
/// One colour for each line of a picture, apart also for the colour-blind.
const LINES: [RGBColor; 5] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(90, 90, 90),
];

/// Something that can be drawn on any backend.
pub trait Picture {
    /// Draws it on all of `area`, which is white.
    ///
    /// # Errors
    /// The backend failed.
    fn draw<DB: DrawingBackend>(&self, area: &DrawingArea<DB, Shift>) -> Drawn<DB>;
}

/// Whether the backend took it.
pub type Drawn<DB> = Result<(), DrawingAreaErrorKind<<DB as DrawingBackend>::ErrorType>>;

/// Draws scatter and histogram of one scenario into `folder`; returns what was written.
///
/// # Errors
/// A file cannot be written.
pub fn draw_measured(folder: &Path, measured: &Measured) -> anyhow::Result<Vec<PathBuf>> {
    let base = format!("query-{}", measured.scenario.name().replace('/', "-"));
    let mut written = save(folder, &format!("{base}-scatter"), &Scatter::of(measured))?;
    written.extend(save(folder, &format!("{base}-histogram"), &Histogram::of(measured))?);
    Ok(written)
}

/// Writes `picture` as `name`.svg and `name`.png.
///
/// # Errors
/// A file cannot be written.
pub fn save(folder: &Path, name: &str, picture: &impl Picture) -> anyhow::Result<Vec<PathBuf>> {
    font()?;
    let [svg, png] = ["svg", "png"].map(|kind| folder.join(format!("{name}.{kind}")));
    on(&SVGBackend::new(&svg, SIZE).into_drawing_area(), picture).map_err(|error| cannot(&svg, &error))?;
    on(&BitMapBackend::new(&png, SIZE).into_drawing_area(), picture).map_err(|error| cannot(&png, &error))?;
    Ok(vec![svg, png])
}

fn on<DB: DrawingBackend>(area: &DrawingArea<DB, Shift>, picture: &impl Picture) -> Drawn<DB> {
    area.fill(&WHITE)?;
    picture.draw(area)?;
    area.present()
}

fn cannot(path: &Path, error: &dyn std::error::Error) -> anyhow::Error {
    anyhow!("cannot draw {}: {error}", path.display())
}

/// Makes the embedded font known, once.
fn font() -> anyhow::Result<()> {
    static KNOWN: OnceLock<bool> = OnceLock::new();
    let is_known =
        KNOWN.get_or_init(|| register_font(FONT, FontStyle::Normal, dejavu::sans::regular()).is_ok());
    is_known.then_some(()).ok_or_else(|| anyhow!("the embedded font cannot be read"))
}

/// Draws the title and the line below it; returns the rest of the area.
fn headed<DB: DrawingBackend>(
    area: &DrawingArea<DB, Shift>,
    title: &str,
    subtitle: &str,
) -> Result<DrawingArea<DB, Shift>, DrawingAreaErrorKind<DB::ErrorType>> {
    let area = area.margin(10, 4, 0, 0).titled(title, (FONT, TITLE_PX).into_font().color(&INK))?;
    area.titled(subtitle, (FONT, SUBTITLE_PX).into_font().color(&INK.mix(0.75)))
}

/// Draws the legend of what `chart` shows.
fn legend<'a, DB: DrawingBackend + 'a, CT: CoordTranslate>(
    chart: &mut ChartContext<'a, DB, CT>,
    position: SeriesLabelPosition,
) -> Drawn<DB> {
    chart
        .configure_series_labels()
        .position(position)
        .background_style(WHITE.mix(0.85))
        .border_style(BLACK.mix(0.2))
        .label_font((FONT, LABEL_PX))
        .margin(8)
        .draw()
}

/// Microseconds as a label: no more digits than say something.
fn micros(us: f64) -> String {
    match us {
        0.0 => "0".to_owned(),
        us if us >= 10_000.0 => format!("{:.1} ms", us / 1e3),
        us if us >= 1000.0 => format!("{:.2} ms", us / 1e3),
        us if us >= 100.0 => format!("{us:.0} µs"),
        us => format!("{us:.1} µs"),
    }
}

/// The line below a title: how it was measured, and how many times lie beyond the picture.
fn subtitle(measured: &Measured, beyond: usize) -> String {
    let (answers, setting) = (measured.samples.answered(), measured.setting());
    match beyond {
        0 => format!("{answers} answers; {setting}"),
        _ => format!("{answers} answers, {beyond} of them slower than shown; {setting}"),
    }
}

/// The upper end of the axis for times.
fn top(measured: &Measured) -> f64 {
    (measured.figures.p99 * TOP_OF_P99).min(measured.figures.max * 1.05).max(measured.figures.p50 * 1.2)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nothing;

    impl Picture for Nothing {
        fn draw<DB: DrawingBackend>(&self, area: &DrawingArea<DB, Shift>) -> Drawn<DB> {
            headed(area, "title", "subtitle").map(drop)
        }
    }

    #[test]
    fn a_picture_is_written_in_both_formats_with_its_own_font() {
        let folder = tempfile::tempdir().unwrap();
        let written = save(folder.path(), "nothing", &Nothing).unwrap();
        let svg = std::fs::read_to_string(&written[0]).unwrap();
        assert!(svg.contains(">\ntitle\n<"), "{svg}");
        assert_eq!(std::fs::read(&written[1]).unwrap()[..4], *b"\x89PNG");
    }

    #[test]
    fn a_folder_that_is_not_there_is_named() {
        let error = save(Path::new("/nowhere/at/all"), "nothing", &Nothing).unwrap_err().to_string();
        assert!(error.contains("/nowhere/at/all/nothing.svg"), "{error}");
    }

    #[test]
    fn times_are_labelled_in_units_that_read_well() {
        let labels = [0.0, 4.25, 99.96, 420.4, 1234.0, 23_456.0].map(micros);
        assert_eq!(labels, ["0", "4.2 µs", "100.0 µs", "420 µs", "1.23 ms", "23.5 ms"]);
    }
}
