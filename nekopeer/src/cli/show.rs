//! Shows the answers of commands: as tables, lines and JSON objects.

use std::io::{self, Write};

use nekoindexer::daemon::stdout::is_unread;
use serde_json::json;
use tokio::sync::mpsc;

use super::{Ended, bar::Bars};
use crate::{
    api::{Command, Failure, FailureKind, Framed, Outcome, Reply, Row},
    terminal::output::{Output, Stdout},
};

/// Shows the answer to `command` until its end. Blocking. Without an end the command was interrupted.
pub(super) fn answer(
    command: &Command,
    output: Output,
    mut replies: mpsc::Receiver<Reply>,
) -> anyhow::Result<Ended> {
    let (mut view, mut framed) = (command.api().view(), Framed::new(command.api().about().shape));
    let print = |text: String| if output.is_json() { output.print(&text) } else { Ok(()) };
    let mut bars = Bars::new(&command.api().about().title, output);
    while let Some(reply) = replies.blocking_recv() {
        match reply {
            Reply::Progress(now) => bars.draw(now),
            Reply::Parts(parts) => {
                bars.draw_parts(parts.iter().map(|(name, now)| (name.as_str(), *now)));
            }
            Reply::Rows(rows) => {
                bars.clear();
                print(framed.rows(&rows))?;
                view.rows(&rows, output)?;
            }
            Reply::Note(text) => {
                bars.clear();
                output.note(&text);
            }
            Reply::Many => {
                framed.be_many();
                view.be_many();
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
                        print(framed.end(&done.fields))?;
                        view.finish(&done, output)?;
                        Ok(done.outcome.into())
                    }
                    Err(failure) => {
                        let rows = framed.rest_with(&error_of(&failure));
                        failure.print(output);
                        match rows {
                            Some(rest) => print(rest)?,
                            None => print_json(&failure, output),
                        }
                        Ok(Ended::Failed(failure.kind))
                    }
                };
            }
        }
    }
    bars.clear();
    Ok(Ended::Interrupted)
}

/// Whose bytes cannot be written, if it is a file's.
fn of_file(command: &Command, why: io::Error) -> anyhow::Error {
    let why = anyhow::Error::from(why);
    let about = command.api().about();
    if about.is_bytes { why.context(about.title) } else { why }
}

/// Prints why a command failed, as JSON too where results are; returns how it ended.
pub(super) fn failure(failure: &Failure, output: Output) -> Ended {
    failure.print(output);
    print_json(failure, output);
    Ended::Failed(failure.kind)
}

/// As [`failure`], of any error; that nobody reads what is printed is not said.
pub(super) fn error(error: &anyhow::Error, output: Output) -> Ended {
    if is_unread(error.as_ref()) { Ended::Unread } else { failure(&Failure::of_any(error), output) }
}

/// Prints that the user ended a command before it began, as [`failure`] does.
pub(super) fn interrupted(output: Output) -> Ended {
    failure(&Failure::with(FailureKind::Cancelled, "interrupted"), output);
    Ended::Interrupted
}

fn print_json(failure: &Failure, output: Output) {
    if output.is_json() {
        let _ = output.print(&format!("{}\n", error_of(failure).text())); // the exit code says it too
    }
}

fn error_of(Failure { message, kind, remedy, .. }: &Failure) -> Row {
    Row::of(&json!({ "error": { "kind": kind, "message": message, "remedy": remedy } }))
}

impl From<Outcome> for Ended {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::All => Self::Well,
            Outcome::Part => Self::Partly,
            Outcome::NotFound => Self::Failed(FailureKind::NotFound),
            Outcome::Nothing => Self::Failed(FailureKind::Failed),
        }
    }
}
