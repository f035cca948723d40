//! Shows tickets: what to type elsewhere.

use std::io;

use nekoproto::Ticket;
use serde_json::{Value, json};

use super::{View, tell};
use crate::{
    cli::{Ended, output::Output},
    commands::{Failure, Row, Summary},
};

/// The command that gets the file of `ticket` elsewhere.
pub(super) fn command_of(ticket: &str) -> String {
    let is_insecure = ticket.parse::<Ticket>().is_ok_and(|ticket| ticket.insecure);
    format!("nekopeer get {ticket}{}", if is_insecure { " --insecure" } else { "" })
}

/// A line for each; or `{"tickets":[{"name","ticket"}]}`.
#[derive(Default)]
pub(super) struct Tickets {
    made: Vec<Value>,
    failed: Vec<Failure>,
}

impl View for Tickets {
    fn rows(&mut self, rows: Vec<Row>, output: Output) -> io::Result<()> {
        for row in rows {
            match row {
                Row::Ticket { name, outcome: Ok(ticket), .. } if output.is_json() => {
                    self.made.push(json!({ "name": name.as_str(), "ticket": ticket }));
                }
                Row::Ticket { outcome: Ok(ticket), .. } => {
                    output.machine_line(&command_of(&ticket))?;
                }
                Row::Ticket { outcome: Err(failure), .. } => self.failed.push(failure),
                _ => {}
            }
        }
        Ok(())
    }

    fn finish(&mut self, _: Summary, output: Output) -> io::Result<Ended> {
        let is_shown = !self.made.is_empty();
        if is_shown {
            output.object(&json!({ "tickets": std::mem::take(&mut self.made) }))?;
        }
        Ok(tell(&self.failed, is_shown, output))
    }
}
