//! How answers look as text.

pub(super) mod downloads;
pub(super) mod files;
pub(super) mod hits;
pub(super) mod jobs;
pub(super) mod matches;
pub(super) mod published;
pub(super) mod trace;

use std::io;

use nekoindexer::daemon::settings::advice;
use serde::de::DeserializeOwned;

use super::{Done, EventRow, FailedRow, Row};
use crate::{library::events::Event, terminal::Output};

/// Shows one kind of answer as text: its rows, as lines of stdout, and notes. Where results are JSON objects, the lines are
/// left out.
pub(crate) trait View {
    fn rows(&mut self, rows: &[Row], output: Output) -> io::Result<()>;

    /// The rows are of several, though one was asked for.
    fn be_many(&mut self) {}

    /// Something happened: a new version is a line, all else a note.
    fn event(&mut self, event: &Event, output: Output) -> io::Result<()> {
        match event {
            _ if output.is_json() => output.object(&EventRow::from(event))?,
            Event::Followed { .. } => output.line(&event.to_string())?,
            _ => output.told(&format!("{event}{}", advice(event.remedy())), event.is_failure()),
        }
        Ok(())
    }

    fn finish(&mut self, _done: &Done, _output: Output) -> io::Result<()> {
        Ok(())
    }
}

/// Shows each row by a function, and what failed as notes.
pub(super) struct Lines(Box<ShowRow>);

type ShowRow = dyn FnMut(&Row, Output) -> io::Result<()>;

impl Lines {
    pub(super) fn of<T: DeserializeOwned>(
        mut show: impl FnMut(T, Output) -> io::Result<()> + 'static,
    ) -> Box<dyn View> {
        let show = move |row: &Row, output| row.parse().map_or(Ok(()), |row| show(row, output));
        Box::new(Self(Box::new(show)))
    }
}

impl View for Lines {
    fn rows(&mut self, rows: &[Row], output: Output) -> io::Result<()> {
        rows.iter().try_for_each(|row| (self.0)(row, output))
    }

    fn finish(&mut self, done: &Done, output: Output) -> io::Result<()> {
        let Failed { failed, .. } = done.fields.parse().unwrap_or_default();
        failed.iter().for_each(|failed| failed.why.print(output));
        Ok(())
    }
}

fn parsed<T: DeserializeOwned>(rows: &[Row]) -> impl Iterator<Item = T> {
    rows.iter().filter_map(Row::parse)
}

#[derive(Default, serde::Deserialize)]
struct Failed {
    failed: Vec<FailedRow>,
    /// How many of them were done before.
    #[serde(default)]
    gone: usize,
}
