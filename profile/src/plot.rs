//! Pictures: charts of points over two axes, by `charts` from rows and from figures.

mod axis;
mod charts;
mod draw;

pub use self::axis::Axis;
pub use self::charts::lines;
pub(crate) use self::charts::{bars, histogram, of_rows, scatter};
pub use self::draw::save;

#[derive(Clone, Debug)]
pub struct Picture {
    /// What its files are called.
    name: String,
    title: String,
    subtitle: String,
    /// One below the other; more than three in two columns.
    pub(crate) charts: Vec<Chart>,
}

impl Picture {
    pub fn new(
        name: impl Into<String>,
        title: impl Into<String>,
        subtitle: impl Into<String>,
        charts: Vec<Chart>,
    ) -> Self {
        Self { name: name.into(), title: title.into(), subtitle: subtitle.into(), charts }
    }
}

#[derive(Clone, Debug)]
pub struct Chart {
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub series: Vec<Series>,
}

/// Places on the horizontal axis, and heights.
pub type Points = Vec<(f64, f64)>;

pub type Lines = Vec<(String, Points)>;

#[derive(Clone, Debug)]
pub struct Series {
    /// What the legend says; nothing if empty.
    pub label: String,
    pub(crate) shape: Shape,
    pub points: Points,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Shape {
    /// A line; of few points each is marked.
    Line,
    Dots,
    /// From the horizontal axis up, this wide.
    Bars(f64),
    /// As high as the chart, pale, this wide.
    Shade(f64),
}

impl Series {
    pub(crate) fn new(label: impl Into<String>, shape: Shape, points: Points) -> Self {
        Self { label: label.into(), shape, points }
    }
}

impl Chart {
    pub(crate) fn new(x: impl Into<Axis>, y: impl Into<Axis>, series: Vec<Series>) -> Self {
        Self { x: x.into(), y: y.into(), series }
    }
}
