//! Commands that run once, and the functions that the REPL shares with them.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use nekoproto::{FileName, Freshness};
use serde_json::json;

use super::{
    Ended,
    args::{Command, NodeArgs},
    indexers::Indexers,
    list::list,
    outcome::{failed, report_corrupt_sources},
    output::Output,
    pipes, show,
    stop::Stop,
};
use crate::{
    download::{DownloadError, DownloadOptions, Downloaded},
    indexers::Answer,
    peer::{Peer, PeerHandle},
    publish::{PublishOptions, PublishOutcome},
    util::progress::Progress,
};

/// Failures of a bulk download that are listed one by one.
const FAILURES_TOLD_MAX: usize = 20;
/// The path that stands for stdin or stdout.
const STDIO: &str = "-";

/// Runs one command.
pub(super) async fn one_shot(args: &NodeArgs, command: &Command, output: &Output) -> anyhow::Result<Ended> {
    match command {
        Command::Share { paths, name, force } => share(args, paths, name.as_ref(), *force, output).await,
        Command::Ls => {
            let peer = Peer::spawn(args.config(Vec::new(), false)?).await?;
            ls(&peer, output).await
        }
        Command::Status => {
            let indexers = Indexers::find(args).await?.addrs;
            if indexers.is_empty() {
                output.note(&format!(
                    "no indexer found at {}: origins that moved are not found",
                    args.discover
                ));
            }
            let peer = Peer::spawn(args.config(indexers, false)?).await?;
            status(&peer, output).await
        }
        Command::Get { .. } | Command::Search { .. } | Command::Query { .. } => {
            let indexers = Indexers::find_or_start(args, output).await?;
            let peer = Peer::spawn(args.config(indexers.addrs.clone(), false)?).await?;
            let ended = ask(&peer, command, output).await;
            peer.shutdown().await;
            indexers.shutdown().await;
            ended
        }
        Command::Demo { .. } => Ok(Ended::Usage), // runs before a peer is started
    }
}

async fn ask(peer: &PeerHandle, command: &Command, output: &Output) -> anyhow::Result<Ended> {
    match command {
        Command::Search { names } => search(peer, names, output).await,
        Command::Query { names, reach } => query(peer, names, reach.ttl, output).await,
        Command::Get { names, names_from, output: path, reach, which } => {
            let options = DownloadOptions {
                output: path.clone(),
                origin: which.origin.clone(),
                force: which.force,
                ttl_hops: reach.ttl,
            };
            let mut names = names.clone();
            if let Some(file) = names_from {
                names.extend(pipes::names_from(file)?);
            }
            match (names.as_slice(), path.as_deref()) {
                ([name], Some(path)) if path == Path::new(STDIO) => {
                    pipes::get(peer, name, options, output).await
                }
                ([name], _) => get(peer, name, options, output).await,
                (_, Some(_)) => {
                    output.note("error: -o names the place of a single file");
                    Ok(Ended::Usage)
                }
                (names, None) => get_all(peer, names, &options, output).await,
            }
        }
        _ => Ok(Ended::Usage),
    }
}

async fn share(
    args: &NodeArgs,
    paths: &[PathBuf],
    name: Option<&FileName>,
    force: bool,
    output: &Output,
) -> anyhow::Result<Ended> {
    let from_stdin = paths.iter().any(|path| path == Path::new(STDIO));
    if (from_stdin && (paths.len() > 1 || name.is_none())) || (name.is_some() && paths.len() > 1) {
        output.note("error: --name names a single file, and what comes on stdin (`-`) needs it");
        return Ok(Ended::Usage);
    }
    let mut stop = Stop::new()?;
    let indexers = Indexers::find_or_start(args, output).await?;
    indexers.note_reach(args, output);
    let peer = Peer::spawn(args.config(indexers.addrs.clone(), true)?).await?;
    let mut events = peer.events();
    let showing = {
        let output = *output;
        tokio::spawn(async move {
            while let Ok(event) = events.recv().await {
                if event.is_worth_showing() {
                    output.note(&event.to_string());
                }
            }
        })
    };
    let publishing = async {
        peer.indexers_tried().await; // so that files are registered before the command reports them as served
        let options = PublishOptions { name: name.cloned(), policy: args.policy_change() };
        let paths = match name.filter(|_| from_stdin) {
            Some(name) => vec![pipes::take_stdin(&peer, name, force, output).await?],
            None => paths.to_vec(),
        };
        publish(&peer, paths, options, output).await
    };
    let shared = tokio::select! {
        ended = publishing => ended,
        () = stop.wait() => Err(anyhow::anyhow!("stopped before there was anything to serve")),
    };
    let serves = match &shared {
        Ok(Ended::Well) => true,
        Ok(_) => !peer.files().await.is_empty(),
        Err(_) => false,
    };
    if serves {
        let addr = peer.local_addr().map(|addr| addr.to_string()).unwrap_or_default();
        output.note(&format!("serving on {addr} as {}, Ctrl-C stops", peer.node()));
        stop.wait().await;
    }
    showing.abort();
    peer.shutdown().await;
    indexers.shutdown().await;
    shared
}

/// Publishes and reports the outcome. A file that fails does not hide the others.
pub(super) async fn publish(
    peer: &PeerHandle,
    paths: Vec<PathBuf>,
    options: PublishOptions,
    output: &Output,
) -> anyhow::Result<Ended> {
    let progress = Arc::new(Progress::default());
    let publishing = peer.publish(paths, options, &progress);
    let outcome = output.with_bar("reading", &progress, publishing).await?;
    if output.is_json() {
        output.object(&show::published_json(&outcome))?;
    } else {
        output.line(&show::published(&outcome))?;
    }
    Ok(report_failures(&outcome, output))
}

fn report_failures(outcome: &PublishOutcome, output: &Output) -> Ended {
    for (_, error) in &outcome.failed {
        output.note(&format!("error: {error}"));
    }
    if outcome.failed.is_empty() { Ended::Well } else { Ended::Failed }
}

/// Downloads and reports the outcome.
pub(super) async fn get(
    peer: &PeerHandle,
    name: &FileName,
    options: DownloadOptions,
    output: &Output,
) -> anyhow::Result<Ended> {
    let progress = Arc::new(Progress::default());
    let downloading = peer.download(name, options, &progress);
    let done = match output.with_bar(name.as_str(), &progress, downloading).await {
        Ok(done) => done,
        Err(error) => return failed(error, output),
    };
    if output.is_json() {
        output.object(&show::downloaded_json(&done))?;
    } else {
        output.line(&show::downloaded(&done))?;
    }
    report_download(&done, output);
    Ok(Ended::Well)
}

/// Reports a finished download as text.
fn report_download(done: &Downloaded, output: &Output) {
    report_corrupt_sources(done, output);
    match done.freshness {
        Freshness::Fresh => {}
        Freshness::Unverified => {
            output.note("note: the origin could not be asked whether this is still the newest version");
        }
        Freshness::Stale => output.note("note: a source says that a newer version is out"),
    }
}

/// Downloads many files and reports the outcome of each.
pub(super) async fn get_all(
    peer: &PeerHandle,
    names: &[FileName],
    options: &DownloadOptions,
    output: &Output,
) -> anyhow::Result<Ended> {
    let progress = Arc::new(Progress::default());
    let mut downloads = peer.downloads(names, options, &progress);
    let (mut tally, mut failures, mut separator) = (show::Tally::default(), Vec::new(), "");
    if output.is_json() {
        output.piece("{\"files\":[")?;
    }
    let downloading = async {
        while let Some(outcomes) = downloads.next().await {
            for (name, outcome) in outcomes {
                tally.count(&outcome);
                match outcome {
                    Ok(done) if output.is_json() => {
                        output.piece(&format!("{separator}{}", show::downloaded_json(&done)))?;
                        separator = ",";
                    }
                    Ok(_) => {}
                    Err(error) => failures.push((name, error)),
                }
            }
        }
        std::io::Result::Ok(())
    };
    output.with_bar("files", &progress, downloading).await?;
    if output.is_json() {
        let failure = |(name, error): &(FileName, DownloadError)| {
            json!({ "name": name.to_string(), "error": error.to_string() }).to_string()
        };
        let failed: Vec<String> = failures.iter().map(failure).collect();
        output.line(&format!("],\"failed\":[{}]}}", failed.join(",")))?;
    } else {
        output.line(&tally.to_string())?;
        let told = failures.iter().take(FAILURES_TOLD_MAX);
        told.for_each(|(_, error)| output.note(&format!("error: {error}")));
        if failures.len() > FAILURES_TOLD_MAX {
            output.note(&format!(
                "error: and {} more; --json names them all",
                failures.len() - FAILURES_TOLD_MAX
            ));
        }
    }
    if failures.is_empty() {
        return Ok(Ended::Well);
    }
    let only_missing = failures.iter().all(|(_, error)| matches!(error, DownloadError::NotFound { .. }));
    Ok(if only_missing { Ended::NotFound } else { Ended::Failed })
}

/// Asks the own indexers only, and shows the hits.
pub(super) async fn search(peer: &PeerHandle, names: &[FileName], output: &Output) -> anyhow::Result<Ended> {
    show_hits(names, &peer.search_all(names).await?, output)
}

/// Asks the network and shows the hits.
pub(super) async fn query(
    peer: &PeerHandle,
    names: &[FileName],
    ttl_hops: u8,
    output: &Output,
) -> anyhow::Result<Ended> {
    show_hits(names, &peer.query_all(names, ttl_hops).await?, output)
}

/// Shows all hits as one table or as JSON; a name without a hit has its own exit code.
fn show_hits(names: &[FileName], answers: &[Answer], output: &Output) -> anyhow::Result<Ended> {
    let is_found = |answer: &Answer| !answer.candidates.is_empty();
    if output.is_json() {
        let of_names = names.iter().zip(answers);
        let mut objects: Vec<_> = of_names.map(|(name, answer)| show::hits_json(name, answer)).collect();
        match objects.as_mut_slice() {
            [object] => output.object(object)?,
            _ => output.object(&json!({ "answers": objects }))?,
        }
    } else if answers.iter().any(is_found) {
        output.line(&show::hits(answers))?;
    }
    if !answers.iter().all(|answer| answer.complete) {
        output.note("note: not every indexer in reach answered");
    }
    let missing = names.iter().zip(answers).filter(|(_, answer)| !is_found(answer));
    if !output.is_json() {
        missing.for_each(|(name, _)| output.note(&format!("nobody offers {name}")));
    }
    Ok(if answers.iter().all(is_found) { Ended::Well } else { Ended::NotFound })
}

/// Shows what is published and held here.
pub(super) async fn ls(peer: &PeerHandle, output: &Output) -> anyhow::Result<Ended> {
    list(peer.listing(false), output).await
}

/// Shows what is published and held here, once its origins were asked.
pub(super) async fn status(peer: &PeerHandle, output: &Output) -> anyhow::Result<Ended> {
    list(peer.listing(true), output).await
}
