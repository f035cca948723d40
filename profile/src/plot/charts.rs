//! The kinds of charts: lines, scatters, histograms and bars.

use super::{Axis, Chart, Lines, Points, Series, Shape};
use crate::report::{Row, count, median};

const BINS: usize = 60;
/// Marks that take as much room as a bar.
const MARKS_OF_BAR: f64 = 6.0;
/// What the bars of one place take of the space between two.
const BARS_WIDE: f64 = 0.7;

/// A line for each of `lines` that has points.
pub fn lines(x: impl Into<Axis>, y: impl Into<Axis>, mut lines: Lines) -> Chart {
    lines.retain(|(_, points)| !points.is_empty());
    let series = lines.into_iter().map(|(label, points)| Series::new(label, Shape::Line, points));
    Chart::new(x, y, series.collect())
}

pub(crate) fn scatter(x: &str, y: &str, dots: (&str, Points), (label, line): (String, Points)) -> Chart {
    let series = vec![Series::new(dots.0, Shape::Dots, dots.1), Series::new(label, Shape::Line, line)];
    Chart::new(x, y, series)
}

/// How many `values` lie where, and a vertical line at each of `marks`.
pub(crate) fn histogram(x: &str, y: &str, values: &[f64], marks: Vec<(String, f64)>) -> Chart {
    let width = values.iter().copied().fold(f64::MIN_POSITIVE, f64::max) / count(BINS);
    let mut bins: Points = (0..BINS).map(|bin| (count(bin) * width, 0.0)).collect();
    for value in values {
        #[expect(clippy::cast_possible_truncation, reason = "a number from 0 to BINS")]
        let bin = (value / width) as usize;
        bins[bin.min(BINS - 1)].1 += 1.0;
    }
    let highest = bins.iter().map(|(_, number)| *number).fold(1.0, f64::max);
    let marks = marks
        .into_iter()
        .map(|(label, at)| Series::new(label, Shape::Bars(width / MARKS_OF_BAR), vec![(at, highest)]));
    let bars = Series::new("", Shape::Bars(width), bins);
    Chart::new(x, Axis::whole(y), [bars].into_iter().chain(marks).collect())
}

/// A group of bars for each of `rows`, which are numbered from 1 on: a bar for each figure, by its key and what it is called.
pub(crate) fn bars(x: &str, y: &str, rows: &[Row], keys: &[(&str, &str)]) -> Chart {
    let wide = BARS_WIDE / count(keys.len());
    let series = keys.iter().enumerate().map(|(n, (key, label))| {
        let first = 1.0 + count(n) * wide - BARS_WIDE / 2.0;
        let points = rows.iter().enumerate().map(|(place, row)| (first + count(place), row.get(key)));
        let points = points.filter(|(_, figure)| figure.is_finite()).collect();
        Series::new(*label, Shape::Bars(wide * 0.94), points)
    });
    Chart::new(Axis::of_places(x), y, series.collect())
}

/// The figure `y` of rows by their figure `x`, a line for each `label`; of rows with the same `x` the median.
pub(crate) fn of_rows<'a>(
    rows: impl IntoIterator<Item = &'a Row>,
    x: &str,
    y: &str,
    label: impl Fn(&Row) -> String,
) -> Lines {
    let mut lines = Lines::new();
    for row in rows {
        let (label, at) = (label(row), (row.get(x), row.get(y)));
        match lines.iter_mut().find(|(is, _)| *is == label) {
            Some((_, points)) => points.push(at),
            None => lines.push((label, vec![at])),
        }
    }
    for (_, points) in &mut lines {
        points.retain(|(x, y)| x.is_finite() && y.is_finite());
        points.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        let alike = points.chunk_by(|(one, _), (other, _)| one.total_cmp(other).is_eq());
        *points = alike.map(|alike| (alike[0].0, median(alike.iter().map(|(_, y)| *y)))).collect();
    }
    lines
}
