//! Shows tickets: what to type elsewhere.

use std::io;

use nekoproto::Ticket;

use super::{View, parsed, tell_failed};
use crate::{
    cli::output::Output,
    commands::{Done, Row, TicketRow},
    util::qr::{QrFormat, draw},
};

/// The command that gets the file of `ticket` elsewhere.
pub(super) fn command_of(ticket: &str) -> String {
    let is_insecure = ticket.parse::<Ticket>().is_ok_and(|ticket| ticket.insecure);
    format!("nekopeer get {ticket}{}", if is_insecure { " --insecure" } else { "" })
}

/// A line for each, and a QR code if that is asked for.
pub(super) struct Tickets {
    pub(super) as_qr: bool,
}

impl View for Tickets {
    fn rows(&mut self, rows: &[Row], output: Output) -> io::Result<()> {
        for TicketRow { name, ticket } in parsed(rows) {
            output.raw_text(&command_of(&ticket))?;
            match draw(&ticket, QrFormat::Terminal) {
                Ok(code) if self.as_qr => output.raw_text(&code)?,
                Err(_) if self.as_qr => {
                    output.note(&format!("note: the ticket of {name} is too long for a QR code"))
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn finish(&mut self, done: &Done, output: Output) -> io::Result<()> {
        tell_failed(done, output);
        Ok(())
    }
}
