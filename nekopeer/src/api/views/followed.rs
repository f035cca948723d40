//! Shows what happens to names that are followed.

use std::io;

use nekoindexer::daemon::settings::advice;

use super::View;
use crate::{
    api::{EventRow, Row},
    library::events::Event,
    terminal::Output,
};

/// A line for each new version, and notes.
pub(in crate::api) struct Followed;

impl View for Followed {
    fn rows(&mut self, _: &[Row], _: Output) -> io::Result<()> {
        Ok(())
    }

    fn event(&mut self, event: &Event, output: Output) -> io::Result<()> {
        match event {
            _ if output.is_json() => output.object(&EventRow::from(event))?,
            Event::Followed { .. } => output.line(&event.to_string())?,
            _ => output.note(&format!("{event}{}", advice(event.remedy()))),
        }
        Ok(())
    }
}
