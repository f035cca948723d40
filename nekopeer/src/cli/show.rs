//! Shows the answers of commands: as tables, lines and JSON objects.

use std::io::{self, Write};

use tokio::sync::mpsc;

use super::{Ended, bar::Bars};
use crate::{
    api::{Command, Failure, FailureKind, Framed, Outcome, Reply},
    terminal::Output,
};

/// Shows the answer to `command` until its end. Blocking. Without an end the command was interrupted.
pub(super) fn answer(
    command: &Command,
    output: Output,
    mut replies: mpsc::Receiver<Reply>,
) -> anyhow::Result<Ended> {
    let (mut view, mut framed) = (command.api().view(), Framed::new(command.api().shape()));
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
                let written = io::stdout().lock().write_all(&bytes);
                written.map_err(|why| cannot_write(command, &why))?;
            }
            Reply::Event(event) => {
                bars.clear();
                view.event(&event, output)?;
            }
            Reply::EventsMissed(_) => {} // is shown by `events`
            Reply::Finished(result) => {
                bars.clear();
                io::stdout().lock().flush().map_err(|why| cannot_write(command, &why))?;
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

fn cannot_write(command: &Command, why: &io::Error) -> anyhow::Error {
    match command.api().is_bytes() {
        true => anyhow::anyhow!("{}: cannot write to stdout: {why}", command.api().title()),
        false => anyhow::anyhow!("cannot write to stdout: {why}"),
    }
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
