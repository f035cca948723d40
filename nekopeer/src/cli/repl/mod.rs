//! The REPL: commands line by line, from a person or from a script.
//!
//! On a terminal the line editor runs on its own thread, and events are printed above the line being
//! typed. A script's lines run one after the other; the first that fails decides the exit code.

mod editor;
mod line;

use std::{
    collections::BTreeSet,
    io::{self, BufRead, IsTerminal},
};

use tokio::sync::{broadcast, mpsc};

use self::line::{Line, USAGE};
use super::{Ended, args::NodeArgs, indexers::Indexers, outcome::say, output::Output, run, stop::Stop};
use crate::{
    download::DownloadOptions,
    library::events::Event,
    peer::{Peer, PeerHandle},
    publish::{PublishError, PublishOptions},
};

/// Printed when a command is interrupted.
const INTERRUPTED: &str = "interrupted; what came so far is kept";

/// Whether to continue after a line.
enum After {
    GoOn(Ended),
    Exit,
}

/// Runs until `exit` or the end of input.
pub(super) async fn run(args: &NodeArgs, output: &Output) -> anyhow::Result<Ended> {
    let indexers = Indexers::find_or_start(args, output).await?;
    indexers.note_reach(args, output);
    let peer = Peer::spawn(args.config(indexers.addrs.clone(), true)?).await?;
    let ended = if io::stdin().is_terminal() && io::stdout().is_terminal() {
        interactive(&peer, args, output).await
    } else {
        script(&peer, args, output).await
    };
    peer.shutdown().await;
    indexers.shutdown().await;
    ended
}

async fn script(peer: &PeerHandle, args: &NodeArgs, output: &Output) -> anyhow::Result<Ended> {
    let mut stop = Stop::new()?;
    let mut events = peer.events();
    let mut lines = lines_of_stdin();
    peer.indexers_tried().await;
    let mut first_failure = Ended::Well;
    loop {
        let line = tokio::select! {
            line = lines.recv() => line,
            event = events.recv() => {
                show_event(event, output);
                continue;
            }
            () = stop.wait() => None,
        };
        let Some(line) = line.transpose()? else { break };
        let after = tokio::select! {
            after = execute(peer, args, &line, output) => after,
            () = stop.wait() => {
                output.note(INTERRUPTED);
                return Ok(Ended::Failed);
            }
        };
        match after {
            After::GoOn(ended) if first_failure == Ended::Well => first_failure = ended,
            After::GoOn(_) => {}
            After::Exit => break,
        }
    }
    Ok(first_failure)
}

fn show_event(event: Result<Event, broadcast::error::RecvError>, output: &Output) {
    match event {
        Ok(event) if event.is_worth_showing() => output.note(&event.to_string()),
        Ok(_) => {}
        Err(broadcast::error::RecvError::Lagged(missed)) => output.note(&format!("{missed} events missed")),
        Err(broadcast::error::RecvError::Closed) => {}
    }
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

async fn interactive(peer: &PeerHandle, args: &NodeArgs, output: &Output) -> anyhow::Result<Ended> {
    let mut stop = Stop::new()?;
    let addr = peer.local_addr().map(|addr| addr.to_string()).unwrap_or_default();
    output.line(&format!(
        "peer {} serves {} on {addr}; help lists the commands",
        peer.node().short(),
        peer.dir().display()
    ))?;
    let mut editor =
        editor::Editor::start(args.config(Vec::new(), true)?.data_dir().join("history"), peer.events())?;
    let mut named = BTreeSet::new();
    loop {
        let line = tokio::select! {
            line = editor.line(names(peer, &named).await) => line?,
            () = stop.wait() => None, // the editor handles Ctrl-C itself, so this is a request to terminate
        };
        let Some(line) = line else { break };
        match Line::parse(&line) {
            Ok(Some(Line::Search { names } | Line::Query { names, .. })) => {
                named.extend(names.iter().map(ToString::to_string));
            }
            Ok(Some(Line::Download { name, .. })) => drop(named.insert(name.to_string())),
            _ => {}
        }
        let after = tokio::select! {
            after = execute(peer, args, &line, output) => after,
            () = stop.wait() => {
                output.note(INTERRUPTED);
                After::GoOn(Ended::Failed)
            }
        };
        if matches!(after, After::Exit) {
            break;
        }
    }
    Ok(Ended::Well) // the failures were shown as they happened
}

/// Names for completion: those held here, and those typed before.
async fn names(peer: &PeerHandle, named: &BTreeSet<String>) -> Vec<String> {
    let held = peer.files().await.into_iter().map(|file| file.record.name.to_string());
    held.chain(named.iter().cloned()).collect::<BTreeSet<_>>().into_iter().collect()
}

/// Runs one line; prints an error as one line.
async fn execute(peer: &PeerHandle, args: &NodeArgs, text: &str, output: &Output) -> After {
    let line = match Line::parse(text) {
        Ok(Some(line)) => line,
        Ok(None) => return After::GoOn(Ended::Well),
        Err(error) => {
            output.note(&format!("error: {error}"));
            return After::GoOn(Ended::Usage);
        }
    };
    let ended = match line {
        Line::Exit => return After::Exit,
        Line::Help => say(output, USAGE).map(|()| Ended::Well).map_err(Into::into),
        line => command(peer, args, line, output).await,
    };
    After::GoOn(ended.unwrap_or_else(|error| {
        output.error(&error);
        Ended::Failed
    }))
}

async fn command(peer: &PeerHandle, args: &NodeArgs, line: Line, output: &Output) -> anyhow::Result<Ended> {
    match line {
        Line::Register { path, name, policy } => {
            run::publish(peer, vec![path], PublishOptions { name, policy: policy.over(args) }, output).await
        }
        Line::Deregister { name } => {
            match peer.deregister(&name).await {
                Err(error @ PublishError::NotRegistered(_)) => {
                    output.error(&error.into());
                    return Ok(Ended::NotFound);
                }
                deregistered => deregistered?,
            }
            say(output, &format!("{name} is no longer offered; the file stays"))?;
            Ok(Ended::Well)
        }
        Line::Search { names } => run::search(peer, &names, output).await,
        Line::Query { names, reach } => run::query(peer, &names, reach.ttl, output).await,
        Line::Download { name, output: path, reach, which } => {
            let options = DownloadOptions {
                output: path,
                origin: which.origin,
                force: which.force,
                ttl_hops: reach.ttl,
            };
            run::get(peer, &name, options, output).await
        }
        Line::Ls => run::ls(peer, output).await,
        Line::Status => run::status(peer, output).await,
        Line::Help | Line::Exit => Ok(Ended::Well), // handled by the caller
    }
}
