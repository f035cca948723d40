//! Shows what the watching of files publishes and withdraws, as it happens.

use std::io;

use super::{View, published::line_of};
use crate::{
    cli::output::Output,
    commands::{PublishedRow, Row},
    json::WatchedJson,
};

/// A line for each change, or an object.
pub(super) struct Watched;

impl View for Watched {
    fn rows(&mut self, rows: Vec<Row>, output: Output) -> io::Result<()> {
        for row in rows {
            if output.is_json() {
                if let Some(change) = WatchedJson::of(&row) {
                    output.object(&change)?;
                }
                continue;
            }
            match row {
                Row::Published(PublishedRow::New(version, _)) => {
                    output.line(&line_of("published", &version))?
                }
                Row::Published(PublishedRow::Failed { why, .. }) => output.note(&format!("error: {why}")),
                Row::Withdrawn { name, outcome: Ok(()) } => {
                    output.line(&format!("withdrew {name}: its file is gone"))?;
                }
                Row::Withdrawn { outcome: Err(failure), .. } => {
                    output.note(&format!("error: {}", failure.message));
                }
                _ => {}
            }
        }
        Ok(())
    }
}
