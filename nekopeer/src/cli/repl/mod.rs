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
pub(super) use self::{complete::LastWord, session::Named, typed::typed_before};
use self::{
    editor::{Asked, Editor},
    session::Session,
    typed::HISTORY_FILE,
};
use super::{Ended, args::NodeArgs, bar::beside, show};
use crate::{
    api::{Failure, FailureKind},
    terminal::{self, Output},
};

/// Names that were typed and are remembered.
const NAMED_MAX: usize = 1000;

/// Whether to continue after a line.
enum After {
    GoOn(Ended),
    Exit,
}

/// Runs until `exit` or the end of input.
pub(super) async fn run(args: &NodeArgs, output: Output) -> anyhow::Result<Ended> {
    let mut stop = Stop::new()?;
    let opened = tokio::select! {
        opened = Session::open(args, output) => opened?,
        () = stop.wait() => return Ok(Ended::Interrupted),
    };
    let mut session = opened;
    let is_script = !(io::stdin().is_terminal() && io::stdout().is_terminal());
    let ended = match is_script {
        true => script(&mut session, output, &mut stop).await,
        false => interactive(&mut session, output, &mut stop).await,
    };
    let refusal = session.refusal();
    tokio::select! {
        () = session.close(is_script) => {}
        () = stop.wait() => {} // the user does not want to wait
    }
    refusal.map_or(ended, Err)
}

async fn script(session: &mut Session<'_>, output: Output, stop: &mut Stop) -> anyhow::Result<Ended> {
    session.show_events(Arc::new(Mutex::new(move |text: String| {
        beside(|| output.note(&text));
        true
    })));
    let mut lines = lines_of_stdin();
    tokio::select! {
        () = session.indexers_tried() => {}
        () = stop.wait() => return Ok(Ended::Well),
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
            let has_failed = tokio::select! {
                has_failed = session.background_ended() => has_failed,
                () = stop.wait() => true,
            };
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
        let (after, is_interrupted) = execute(session, parse(&line), output, stop).await;
        match after {
            After::GoOn(ended) if first_failure == Ended::Well => first_failure = ended,
            After::GoOn(_) => {}
            After::Exit => break,
        }
        if is_interrupted {
            return Ok(Ended::Interrupted);
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
        let (after, _) = execute(session, line, output, stop).await;
        if matches!(after, After::Exit) || stop.is_terminated {
            break;
        }
    }
    Ok(Ended::Well) // the failures were shown as they happened
}

/// Runs one line; prints an error as one line. Returns whether the line was interrupted, too.
async fn execute(
    session: &mut Session<'_>,
    line: Result<Option<Words>, String>,
    output: Output,
    stop: &mut Stop,
) -> (After, bool) {
    let failed = |error: anyhow::Error| After::GoOn(show::error(&error, output));
    let words = match line {
        Ok(Some(words)) => words,
        Ok(None) => return (After::GoOn(Ended::Well), false),
        Err(error) => {
            show::failure(&Failure::invalid(error), output);
            return (After::GoOn(Ended::Usage), false);
        }
    };
    match words.line {
        Line::Exit => (After::Exit, false),
        Line::Help { command: Some(command) } => match line::help_of(&command) {
            Some(lines) => match lines.iter().try_for_each(|line| output.say(line)) {
                Ok(()) => (After::GoOn(Ended::Well), false),
                Err(error) => (failed(error.into()), false),
            },
            None => {
                let why = format!("there is no command '{command}': help lists them");
                show::failure(&Failure::invalid(why), output);
                (After::GoOn(Ended::Usage), false)
            }
        },
        Line::Help { command: None } => {
            let said = match output.is_json() {
                true => output.say(crate::cli::help::USAGE),
                false => {
                    let lines = line::help(terminal::columns(&io::stdout()));
                    lines.iter().try_for_each(|line| output.line(line))
                }
            };
            match said {
                Ok(()) => (After::GoOn(Ended::Well), false),
                Err(error) => (failed(error.into()), false),
            }
        }
        Line::Verb(verb) => match session.verb(verb, words.policy, stop).await {
            Ok(Some(ended)) => (After::GoOn(ended), false),
            Ok(None) if session.is_stopped() => (After::Exit, false),
            Ok(None) => (After::GoOn(Ended::Interrupted), true),
            Err(error) => (failed(error), false),
        },
    }
}
