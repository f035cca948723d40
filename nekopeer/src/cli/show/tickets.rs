//! Shows tickets: what to type elsewhere.

use std::io;

use nekoproto::Ticket;

use super::{View, parsed, tell_failed};
use crate::{
    cli::output::Output,
    commands::{Done, Row, TicketRow},
};

/// The command that gets the file of `ticket` elsewhere.
pub(super) fn command_of(ticket: &str) -> String {
    let is_insecure = ticket.parse::<Ticket>().is_ok_and(|ticket| ticket.insecure);
    format!("nekopeer get {ticket}{}", if is_insecure { " --insecure" } else { "" })
}

/// A line for each.
pub(super) struct Tickets;

impl View for Tickets {
    fn rows(&mut self, rows: &[Row], output: Output) -> io::Result<()> {
        let mut made = parsed::<TicketRow>(rows);
        made.try_for_each(|made| output.raw_text(&command_of(&made.ticket)))
    }

    fn finish(&mut self, done: &Done, output: Output) -> io::Result<()> {
        tell_failed(done, output);
        Ok(())
    }
}
