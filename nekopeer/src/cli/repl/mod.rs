//! The REPL: commands line by line, from a person or from a script.
//!
//! If a peer runs on the data folder, the lines are carried out by that one; otherwise the REPL is a peer
//! itself. On a terminal the line editor runs on its own thread, and events are printed above the line being
//! typed. A script's lines run one after the other; the first that fails decides the exit code.

mod complete;
mod editor;
mod line;
mod session;
mod typed;

use std::{
    io::{self, BufRead, IsTerminal},
    sync::Arc,
};

use nekoindexer::daemon::signals::Stop;
use parking_lot::Mutex;
use tokio::sync::mpsc;

pub(super) use self::line::{Line, Words, parse};
pub(super) use self::{complete::LastWord, session::names_of, typed::typed_before};
use self::{
    editor::{Asked, Editor},
    session::Session,
    typed::HISTORY_FILE,
};
use super::{Ended, args::NodeArgs, bar::beside, help::USAGE, show, unless_stopped};
use crate::{
    api::{Failure, FailureKind},
    terminal::{self, Output},
};

const NAMED_MAX: usize = 1000;

pub(super) async fn run(args: &NodeArgs, output: Output) -> anyhow::Result<Ended> {
    let mut stop = Stop::new()?;
    let Some(opened) = unless_stopped(&mut stop, Session::open(args, output)).await else {
        return Ok(Ended::Interrupted);
    };
    let mut session = opened?;
    let is_script = !(io::stdin().is_terminal() && io::stdout().is_terminal());
    let ended = match is_script {
        true => script(&mut session, output, &mut stop).await,
        false => interactive(&mut session, output, &mut stop).await,
    };
    let refusal = session.refusal();
    unless_stopped(&mut stop, session.close(is_script)).await;
    refusal.map_or(ended, Err)
}

async fn script(session: &mut Session<'_>, output: Output, stop: &mut Stop) -> anyhow::Result<Ended> {
    session.show_events(Arc::new(Mutex::new(move |text: String| {
        beside(|| output.note(&text));
        true
    })));
    let mut lines = lines_of_stdin();
    if unless_stopped(stop, session.indexers_tried()).await.is_none() {
        return Ok(Ended::Well);
    }
    let mut first_failure = Ended::Well;
    loop {
        let line = tokio::select! {
            line = lines.recv() => line,
            () = stop.wait() => return Ok(if session.background_is_undone() { Ended::Interrupted } else { first_failure }),
            () = session.stopped() => break,
        };
        let Some(line) = line.transpose()? else {
            // Jobs in the background end with this process.
            let has_failed = unless_stopped(stop, session.background_ended()).await.unwrap_or(true);
            if has_failed && first_failure == Ended::Well {
                first_failure = Ended::Failed(FailureKind::Failed);
            }
            // So do the commands of other shells, which know nothing of this script.
            tokio::select! {
                () = session.others_ended() => {}
                () = stop.wait() => {}
                () = session.stopped() => {}
            }
            break;
        };
        match execute(session, parse(&line), output, stop).await {
            Some(ended @ (Ended::Interrupted | Ended::Unread)) => return Ok(ended),
            Some(ended) if first_failure == Ended::Well => first_failure = ended,
            Some(_) => {}
            None => break,
        }
    }
    Ok(first_failure)
}

/// Reads stdin on its own thread, since that blocks. The thread ends with the process.
fn lines_of_stdin() -> mpsc::Receiver<io::Result<String>> {
    let (sender, receiver) = mpsc::channel(1);
    std::thread::spawn(move || {
        for line in io::stdin().lock().lines() {
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

async fn interactive(session: &mut Session<'_>, output: Output, stop: &mut Stop) -> anyhow::Result<Ended> {
    output.line(&session.greeting())?;
    let (mut editor, mut asked) = Editor::start(session.data_dir().join(HISTORY_FILE))?;
    session.show_events(Arc::new(Mutex::new(editor.printer())));
    let mut named = Vec::new();
    loop {
        let line = {
            let reading = async { editor.line(session.names(&named).await).await };
            tokio::pin!(reading);
            loop {
                tokio::select! {
                    line = &mut reading => break line?,
                    Some(Asked { prefix, names }) = asked.recv() => {
                        drop(names.send(session.names_like(&prefix).await)); // it may not be waited for any more
                    }
                    // The editor handles Ctrl-C itself, but on a terminal that only takes text.
                    () = stop.wait() => match stop.is_terminated || !terminal::is_dumb() {
                        true => break None,
                        false => output.note("exit or Ctrl-D ends"),
                    },
                    () = session.stopped() => break None,
                }
            }
        };
        let Some(line) = line else { break };
        let line = parse(&line);
        if let Ok(Some(Words { line: Line::Verb(verb), .. })) = &line {
            for name in verb.names().iter().map(ToString::to_string) {
                named.retain(|before| *before != name);
                named.push(name);
            }
            named.drain(..named.len().saturating_sub(NAMED_MAX));
        }
        if execute(session, line, output, stop).await.is_none() || stop.is_terminated {
            break;
        }
    }
    Ok(Ended::Well) // the failures were shown as they happened
}

/// Runs one line, and prints an error as one line; `None`: it was the last.
async fn execute(
    session: &mut Session<'_>,
    line: Result<Option<Words>, String>,
    output: Output,
    stop: &mut Stop,
) -> Option<Ended> {
    let executed = match line {
        Ok(Some(words)) => executed(session, words, output, stop).await,
        Ok(None) => Ok(Some(Ended::Well)),
        Err(why) => Ok(wrong(why, output)),
    };
    executed.unwrap_or_else(|error| Some(show::error(&error, output)))
}

async fn executed(
    session: &mut Session<'_>,
    words: Words,
    output: Output,
    stop: &mut Stop,
) -> anyhow::Result<Option<Ended>> {
    match words.line {
        Line::Exit => return Ok(None),
        Line::Help { command: Some(command) } => match line::help_of(&command) {
            Some(lines) => lines.iter().try_for_each(|line| output.say(line))?,
            None => return Ok(wrong(format!("there is no command '{command}': help lists them"), output)),
        },
        Line::Help { command: None } if output.is_json() => output.say(USAGE)?,
        Line::Help { command: None } => {
            line::help(terminal::columns(&io::stdout())).iter().try_for_each(|line| output.line(line))?;
        }
        Line::Verb(verb) => {
            let ended = session.verb(verb, words.policy, stop).await?;
            return Ok(Some(ended).filter(|ended| *ended != Ended::Interrupted || !session.is_stopped()));
        }
    }
    Ok(Some(Ended::Well))
}

fn wrong(why: String, output: Output) -> Option<Ended> {
    show::failure(&Failure::invalid(why), output);
    Some(Ended::Usage)
}
