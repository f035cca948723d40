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

use serde::de::DeserializeOwned;
use tokio::sync::mpsc;

use super::{Ended, bar::Bars, output::Output, units};
use crate::{
    commands::{
        Command, Done, DownloadedRow, EventRow, FailedRow, Failure, FailureKind, Framed, Outcome, ReachedRow,
        Reply, Row, ThrottleRow,
    },
    library::events::Event,
};

/// Shows one kind of answer as text: its rows, as lines of stdout, and notes. Where results are JSON objects, the lines are
/// left out.
trait View {
    /// Takes further rows.
    fn rows(&mut self, rows: &[Row], output: Output) -> io::Result<()>;

    /// The answer is complete.
    fn finish(&mut self, _done: &Done, _output: Output) -> io::Result<()> {
        Ok(())
    }
}

/// The values of rows.
fn parsed<T: DeserializeOwned>(rows: &[Row]) -> impl Iterator<Item = T> {
    rows.iter().filter_map(Row::parse)
}

/// Shows the answer to `command` until its end. Blocking. Without an end the command was interrupted.
pub(super) fn answer(
    command: &Command,
    output: Output,
    mut replies: mpsc::Receiver<Reply>,
) -> anyhow::Result<Ended> {
    let (mut view, mut framed) = (view(command), Framed::new(command.shape()));
    let json = |text: String| if output.is_json() { output.print(&text) } else { Ok(()) };
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
                json(framed.rows(&rows))?;
                view.rows(&rows, output)?;
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
                    (_, true) => output.object(&EventRow::from(&event))?,
                    (Event::Followed { .. }, false) => output.line(&event.to_string())?,
                    (_, false) => output.note(&event.to_string()),
                }
            }
            Reply::Event(_) | Reply::EventsMissed(_) => {} // are shown by `events`
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

/// What is to be said of a download that is older than its ticket promises.
fn older_than_promised(command: &Command, row: &Row) -> Option<String> {
    let (Command::Download { wanted, .. } | Command::Read { wanted, .. }) = command else { return None };
    let DownloadedRow { version, .. } = row.parse()?;
    let (name, found) = (version.name, version.version);
    let promised = wanted.of(&name)?.version.filter(|promised| promised.get() > found)?;
    Some(format!(
        "note: only version {found} of {name} was found; the ticket is for version {promised} or later"
    ))
}

fn view(command: &Command) -> Box<dyn View> {
    match command {
        Command::Publish { options, .. } => Box::new(published::Published::of(options)),
        Command::Store { .. } => Box::<published::Published>::default(),
        Command::Watch { .. } => Box::new(watched::Watched),
        Command::Query { .. } => Box::<hits::Hits>::default(),
        Command::Find(finding) => Box::new(matches::Matches::of(finding)),
        Command::Jobs => Box::<jobs::Jobs>::default(),
        Command::Download { background: true, .. } => Box::new(jobs::Lines("runs in the background")),
        Command::Cancel { .. } => Box::new(jobs::Lines("")),
        Command::Download { names, wanted, .. } if wanted.are_many(names) => {
            Box::<downloads::Many>::default()
        }
        Command::Rollback { .. } | Command::Download { .. } => Box::new(downloads::One { to_stdout: false }),
        Command::Read { .. } => Box::new(downloads::One { to_stdout: true }),
        Command::List { .. } | Command::Check { .. } => Box::<files::Files>::default(),
        Command::Ticket { as_qr, .. } => Box::new(tickets::Tickets { as_qr: *as_qr }),
        Command::Trace { .. } => Box::new(trace::Trace),
        Command::Withdraw { .. } => Box::new(Withdrawn),
        Command::Throttle { .. } => Box::new(Throttled),
        Command::Wait { .. } | Command::Events | Command::Stop | Command::Follow { .. } => Box::new(Reached),
    }
}

/// What the progress bar is about.
fn title(command: &Command) -> String {
    match command {
        Command::Publish { .. } | Command::Watch { .. } => "reading".to_owned(),
        Command::Store { .. } => "stdin".to_owned(),
        Command::Read { name, .. } | Command::Rollback { name, .. } => name.to_string(),
        Command::Download { names, wanted, .. } => match (names.as_slice(), wanted.patterns.as_slice()) {
            ([name], []) => name.to_string(),
            ([], [pattern]) => pattern.text.clone(),
            (names, patterns) => format!("{} files", names.len() + patterns.len()),
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

/// The names for which a command failed.
#[derive(Default, serde::Deserialize)]
struct Failed {
    failed: Vec<FailedRow>,
}

/// Tells what failed of several.
fn tell_failed(done: &Done, output: Output) {
    let Failed { failed } = done.fields.parse().unwrap_or_default();
    failed.iter().for_each(|failed| output.note(&format!("error: {}", failed.error)));
}

/// A line for each name that is not offered any more.
struct Withdrawn;

impl View for Withdrawn {
    fn rows(&mut self, rows: &[Row], output: Output) -> io::Result<()> {
        let mut names = parsed::<String>(rows);
        names.try_for_each(|name| output.text(&format!("{name} is no longer offered; the file stays")))
    }

    fn finish(&mut self, done: &Done, output: Output) -> io::Result<()> {
        tell_failed(done, output);
        Ok(())
    }
}

/// A line for how fast the peer sends and fetches.
struct Throttled;

impl View for Throttled {
    fn rows(&mut self, rows: &[Row], output: Output) -> io::Result<()> {
        let rate =
            |rate: Option<u64>| rate.map_or("no limit".to_owned(), |rate| format!("{}/s", units::size(rate)));
        parsed::<ThrottleRow>(rows).try_for_each(|now| {
            let paused = if now.paused { "; downloads are paused" } else { "" };
            output.text(&format!("up {}, down {}{paused}", rate(now.limit_up), rate(now.limit_down)))
        })
    }
}

/// A line for what was waited for.
struct Reached;

impl View for Reached {
    fn rows(&mut self, rows: &[Row], output: Output) -> io::Result<()> {
        let mut reached = parsed::<ReachedRow>(rows);
        reached.try_for_each(|ReachedRow { name, version }| {
            output.text(&format!("{name} is at version {version}"))
        })
    }
}
