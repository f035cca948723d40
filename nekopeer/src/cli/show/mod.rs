//! Shows the answers of commands: as tables, lines and JSON objects.

mod downloads;
mod files;
mod hits;
mod jobs;
mod matches;
mod published;
mod table;
mod tickets;
mod trace;
mod watched;

use std::io::{self, Write};

use nekoproto::Freshness;
use tokio::sync::mpsc;

use super::{Ended, bar::Bars, output::Output};
use crate::{
    commands::{Command, Failure, FailureKind, Reply, Row, Summary, VersionRow},
    json::EventJson,
    library::events::Event,
};

/// Shows the rows of one kind of answer.
trait View {
    /// Takes further rows.
    fn rows(&mut self, rows: Vec<Row>, output: Output) -> io::Result<()>;

    /// The answer is complete.
    fn finish(&mut self, _summary: Summary, _output: Output) -> io::Result<Ended> {
        Ok(Ended::Well)
    }

    /// The command failed or was interrupted; what was begun to be shown is completed.
    fn abandon(&mut self, _output: Output) -> io::Result<()> {
        Ok(())
    }
}

/// Shows the answer to `command` until its end. Blocking. Without an end the command was interrupted.
pub(super) fn answer(
    command: &Command,
    output: Output,
    mut replies: mpsc::Receiver<Reply>,
) -> anyhow::Result<Ended> {
    let mut view = view(command);
    let mut bars = Bars::new(&title(command), output);
    while let Some(reply) = replies.blocking_recv() {
        match reply {
            Reply::Progress(now) => bars.draw(now),
            Reply::Parts(parts) => {
                bars.draw_parts(parts.iter().map(|(name, now)| (name.as_str(), *now)));
            }
            Reply::Rows(rows) => {
                bars.clear();
                let older = rows.iter().filter_map(|row| older_than_promised(command, row));
                let older: Vec<String> = older.collect();
                view.rows(rows, output)?;
                older.iter().for_each(|note| output.note(note));
            }
            Reply::Note(text) => {
                bars.clear();
                output.note(&text);
            }
            Reply::Bytes(bytes) => {
                let written = io::stdout().lock().write_all(&bytes);
                written.map_err(|why| cannot_write(command, &why))?;
            }
            Reply::Event(event) if matches!(command, Command::Follow { .. }) => {
                bars.clear();
                match (&event, output.is_json()) {
                    (_, true) => output.object(&EventJson::from(&event))?,
                    (Event::Followed { .. }, false) => output.line(&event.to_string())?,
                    (_, false) => output.note(&event.to_string()),
                }
            }
            Reply::Event(_) | Reply::EventsMissed(_) => {} // are shown by `events`
            Reply::Finished(result) => {
                bars.clear();
                io::stdout().lock().flush().map_err(|why| cannot_write(command, &why))?;
                return match result {
                    Ok(summary) => Ok(view.finish(summary, output)?),
                    Err(failure) => {
                        view.abandon(output)?;
                        output.failure(&failure);
                        Ok(ended(&failure))
                    }
                };
            }
        }
    }
    bars.clear();
    view.abandon(output)?;
    Ok(Ended::Failed)
}

/// What is to be said of a download that is older than its ticket promises.
fn older_than_promised(command: &Command, row: &Row) -> Option<String> {
    let (Command::Download { wanted, .. } | Command::Read { wanted, .. }) = command else { return None };
    let Row::Downloaded { outcome: Ok(done), .. } = row else { return None };
    let VersionRow { name, version: found, .. } = &done.record;
    let promised = wanted.of(name)?.version.filter(|promised| promised > found)?;
    Some(format!(
        "note: only version {found} of {name} was found; the ticket is for version {promised} or later"
    ))
}

fn view(command: &Command) -> Box<dyn View> {
    match command {
        Command::Publish { .. } | Command::Store { .. } => Box::<published::Published>::default(),
        Command::Watch { .. } => Box::new(watched::Watched),
        Command::Query { names, .. } => Box::new(hits::Hits::of(names.len())),
        Command::Find(finding) => Box::new(matches::Matches::of(finding)),
        Command::Jobs => Box::<jobs::Jobs>::default(),
        Command::Download { background: true, .. } | Command::Cancel { .. } => Box::<jobs::Lines>::default(),
        Command::Download { names, .. } if names.len() != 1 => Box::<downloads::Many>::default(),
        Command::Rollback { .. } => Box::new(downloads::One { to_stdout: false, is_earlier: true }),
        Command::Download { .. } => Box::new(downloads::One { to_stdout: false, is_earlier: false }),
        Command::Read { .. } => Box::new(downloads::One { to_stdout: true, is_earlier: false }),
        Command::List { .. } | Command::Check { .. } => Box::<files::Files>::default(),
        Command::Ticket { .. } => Box::<tickets::Tickets>::default(),
        Command::Trace { name, .. } => Box::new(trace::Trace::of(name.clone())),
        Command::Withdraw { .. }
        | Command::Events
        | Command::Stop
        | Command::Follow { .. }
        | Command::Wait { .. } => Box::<Lines>::default(),
    }
}

/// What the progress bar is about.
fn title(command: &Command) -> String {
    match command {
        Command::Publish { .. } | Command::Watch { .. } => "reading".to_owned(),
        Command::Store { .. } => "stdin".to_owned(),
        Command::Read { name, .. } | Command::Rollback { name, .. } => name.to_string(),
        Command::Download { names, .. } => match names.as_slice() {
            [name] => name.to_string(),
            names => format!("{} files", names.len()),
        },
        _ => String::new(),
    }
}

fn cannot_write(command: &Command, why: &io::Error) -> anyhow::Error {
    match command {
        Command::Read { name, .. } => anyhow::anyhow!("{name}: cannot write to stdout: {why}"),
        _ => anyhow::anyhow!("cannot write to stdout: {why}"),
    }
}

const fn ended(failure: &Failure) -> Ended {
    match failure.kind {
        FailureKind::NotFound => Ended::NotFound,
        _ => Ended::Failed,
    }
}

/// Tells what failed of several. The first is an object, unless one of what was done `is_shown`.
fn tell(failed: &[Failure], is_shown: bool, output: Output) -> Ended {
    for (n, failure) in failed.iter().enumerate() {
        match n == 0 && !is_shown {
            true => output.failure(failure),
            false => output.note(&format!("error: {failure}")),
        }
    }
    let mut all = failed.iter().map(ended);
    let first = all.next().unwrap_or(Ended::Well);
    if all.all(|other| other == first) { first } else { Ended::Failed }
}

/// One line for each row; one object with all lines.
#[derive(Default)]
struct Lines {
    done: Vec<String>,
    failed: Vec<Failure>,
}

impl View for Lines {
    fn rows(&mut self, rows: Vec<Row>, output: Output) -> io::Result<()> {
        for row in rows {
            match row {
                Row::Withdrawn { name, outcome: Ok(()) } => {
                    let line = format!("{name} is no longer offered; the file stays");
                    if output.is_json() { self.done.push(line) } else { output.line(&line)? }
                }
                Row::Reached { name, version } if output.is_json() => {
                    output.object(&serde_json::json!({ "name": name.as_str(), "version": version.get() }))?;
                }
                Row::Reached { name, version } => output.line(&format!("{name} is at version {version}"))?,
                Row::Withdrawn { outcome: Err(failure), .. } => self.failed.push(failure),
                _ => {}
            }
        }
        Ok(())
    }

    fn finish(&mut self, _: Summary, output: Output) -> io::Result<Ended> {
        self.abandon(output)?;
        Ok(tell(&self.failed, !self.done.is_empty(), output))
    }

    fn abandon(&mut self, output: Output) -> io::Result<()> {
        if self.done.is_empty() { Ok(()) } else { output.say(&self.done.join("; ")) }
    }
}

/// What is to be said about the freshness of a download, if anything.
const fn about(freshness: Freshness) -> Option<&'static str> {
    match freshness {
        Freshness::Fresh => None,
        Freshness::Unverified => {
            Some("the origin could not be asked whether this is still the newest version")
        }
        Freshness::Stale => Some("a source says that a newer version is out"),
    }
}
