//! How answers look as text.

pub(super) mod downloads;
pub(super) mod files;
pub(super) mod followed;
pub(super) mod hits;
pub(super) mod jobs;
mod lines;
pub(super) mod matches;
pub(super) mod published;
pub(super) mod trace;
pub(super) mod watched;

use std::io;

use serde::de::DeserializeOwned;

pub(super) use self::lines::Lines;
use super::{Done, FailedRow, Row};
use crate::{library::events::Event, terminal::Output};

/// Shows one kind of answer as text: its rows, as lines of stdout, and notes. Where results are JSON objects, the lines are
/// left out.
pub(crate) trait View {
    /// Takes further rows.
    fn rows(&mut self, rows: &[Row], output: Output) -> io::Result<()>;

    /// The rows are of several, though one was asked for.
    fn be_many(&mut self) {}

    /// Something happened.
    fn event(&mut self, _event: &Event, _output: Output) -> io::Result<()> {
        Ok(())
    }

    /// The answer is complete.
    fn finish(&mut self, _done: &Done, _output: Output) -> io::Result<()> {
        Ok(())
    }
}

fn parsed<T: DeserializeOwned>(rows: &[Row]) -> impl Iterator<Item = T> {
    rows.iter().filter_map(Row::parse)
}

/// The names for which a command failed.
#[derive(Default, serde::Deserialize)]
struct Failed {
    failed: Vec<FailedRow>,
    /// How many of them were done before.
    #[serde(default)]
    gone: usize,
}

fn tell_failed(done: &Done, output: Output) {
    let Failed { failed, .. } = done.fields.parse().unwrap_or_default();
    failed.iter().for_each(|failed| failed.why.print(output));
}
