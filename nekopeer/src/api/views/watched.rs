//! Shows what the watching of files shares and unshares, as it happens.

use std::io;

use super::{View, parsed, published::line_of};
use crate::{
    api::{PublishedRow, Row, Ticketed},
    terminal::Output,
};

/// A line for each change.
pub(in crate::api) struct Watched;

impl View for Watched {
    fn rows(&mut self, rows: &[Row], output: Output) -> io::Result<()> {
        for row in parsed(rows) {
            match row {
                PublishedRow::Published(Ticketed { version, .. }) => {
                    output.text(&line_of("shared", &version))?;
                }
                PublishedRow::Withdrawn { name } => {
                    output.text(&format!("unshared {name}: its file is gone"))?;
                }
                PublishedRow::Failed { why, .. } => why.print(output),
                PublishedRow::Unchanged(_) => {}
            }
        }
        Ok(())
    }
}
