//! Shows the answers of commands: as tables, lines and JSON objects.

use std::io::{self, Write};

use serde_json::json;
use tokio::sync::mpsc;

use super::{Ended, bar::Bars};
use crate::{
    api::{Command, Failure, FailureKind, Framed, Outcome, Reply},
    storage::is_full,
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
    let mut bars = Bars::new(&command.api().title(), output);
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
                        print(framed.broken_off())?;
                        Ok(self::failure(&failure, output))
                    }
                };
            }
        }
    }
    bars.clear();
    print(framed.broken_off())?;
    Ok(Ended::Interrupted)
}

/// Why it cannot be written to stdout, and whose bytes, if they are a file's.
fn of_file(command: &Command, why: io::Error) -> anyhow::Error {
    let kind = if is_full(&why) { FailureKind::Full } else { FailureKind::Failed };
    let why = anyhow::Error::from(Failure::with(kind, why.to_string()));
    if command.api().about().is_bytes { why.context(command.api().title()) } else { why }
}

/// Prints why a command failed, as JSON too where results are; returns how it ended.
pub(super) fn failure(failure: &Failure, output: Output) -> Ended {
    failure.print(output);
    if output.is_json() {
        let Failure { message, kind, remedy } = failure;
        let error = json!({ "kind": kind, "message": message, "remedy": remedy });
        let _ = output.object(&json!({ "error": error })); // the exit code says it too
    }
    Ended::Failed(failure.kind)
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
