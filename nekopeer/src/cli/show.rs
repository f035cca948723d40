//! Shows the answers of commands: as tables, lines and JSON objects.

use std::io::{self, Write};

use tokio::sync::mpsc;

use super::{Ended, bar::Bars};
use crate::{
    api::{Command, Failure, FailureKind, Framed, Outcome, Reply},
    terminal::output::{Output, Stdout},
};

/// Shows the answer to `command` until its end. Blocking. Without an end the command was interrupted.
pub(super) fn answer(
    command: &Command,
    output: Output,
    mut replies: mpsc::Receiver<Reply>,
) -> anyhow::Result<Ended> {
    let (mut view, mut framed) = (command.api().view(), Framed::new(command.api().about().shape));
    let json = |text: String| if output.is_json() { output.print(&text) } else { Ok(()) };
    let mut bars = Bars::new(&command.api().title(), output);
    while let Some(reply) = replies.blocking_recv() {
        match reply {
            Reply::Progress(now) => bars.draw(now),
            Reply::Parts(parts) => {
                bars.draw_parts(parts.iter().map(|(name, now)| (name.as_str(), *now)));
            }
            Reply::Rows(rows) => {
                bars.clear();
                json(framed.rows(&rows))?;
                view.rows(&rows, output)?;
            }
            Reply::Note(text) => {
                bars.clear();
                output.note(&text);
            }
            Reply::Bytes(bytes) => {
                Stdout::lock().write_all(&bytes).map_err(|why| of_file(command, why))?;
            }
            Reply::Event(event) => {
                bars.clear();
                view.event(&event, output)?;
            }
            Reply::EventsMissed(_) => {} // is shown by `events`
            Reply::Finished(result) => {
                bars.clear();
                Stdout::lock().flush().map_err(|why| of_file(command, why))?;
                return match result {
                    Ok(done) => {
                        json(framed.end(&done.fields))?;
                        view.finish(&done, output)?;
                        Ok(done.outcome.into())
                    }
                    Err(failure) => {
                        json(framed.broken_off())?;
                        output.failure(&failure);
                        Ok(ended(&failure))
                    }
                };
            }
        }
    }
    bars.clear();
    json(framed.broken_off())?;
    Ok(Ended::Failed)
}

/// Whose bytes cannot be written, if it is a file's.
fn of_file(command: &Command, why: io::Error) -> anyhow::Error {
    let why = anyhow::Error::from(why);
    if command.api().about().is_bytes { why.context(command.api().title()) } else { why }
}

const fn ended(failure: &Failure) -> Ended {
    match failure.kind {
        FailureKind::NotFound => Ended::NotFound,
        _ => Ended::Failed,
    }
}

impl From<Outcome> for Ended {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::All => Self::Well,
            Outcome::Part => Self::Partly,
            Outcome::NotFound => Self::NotFound,
            Outcome::Nothing => Self::Failed,
        }
    }
}
