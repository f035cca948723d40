//! `nekopeer repair`: examines the catalogue, and rebuilds one that is damaged or was lost.

use anyhow::Context;
use nekoproto::Identity;
use serde::Serialize;

use super::{
    Ended,
    args::NodeArgs,
    hosting::{Hosted, Serves},
    indexers::Indexers,
};
use crate::{
    api::{Failure, FailureKind},
    peer::{KEY_FILE, lost_key},
    publish::repair::{Repaired, repair},
    storage::{
        catalogue::{Examined, Salvaged, examine},
        lock::DataLock,
    },
    terminal::Output,
    util::tasks::blocking,
};

#[derive(Serialize)]
struct Report<'a> {
    #[serde(flatten)]
    examined: &'a Examined,
    #[serde(flatten)]
    repaired: &'a Repaired,
}

pub(super) async fn run(args: &NodeArgs, output: Output) -> anyhow::Result<Ended> {
    let folder = args.data_dir();
    let (examined, salvaged) = blocking(move || -> anyhow::Result<(Examined, Salvaged)> {
        let key = folder.join(KEY_FILE);
        if let Some(failure) = lost_key(&folder) {
            return Err(failure.into());
        }
        if !key.exists() {
            let why =
                format!("no peer was here: {} has no key, so nothing is to be repaired", folder.display());
            return Err(Failure::with(FailureKind::NoSuchPath, why).into());
        }
        let _lock = DataLock::take(&folder)?;
        let identity = Identity::load_or_create(&key)?;
        Ok(examine(&folder, identity.id())?)
    })
    .await?;
    if examined == Examined::Intact {
        return show(&examined, &Repaired { complete: true, ..Repaired::default() }, output);
    }
    let prepared = Hosted::prepare(args, true).await?;
    let indexers = Indexers::find(args, &prepared.endpoint).await;
    let hosted = Hosted::start(args, prepared, indexers, Serves::Nothing, output).await?;
    hosted.host.peer.indexers_tried().await;
    let peer = &hosted.host.peer;
    let repaired = repair(&peer.library, &peer.indexers, salvaged).await;
    hosted.end(false).await;
    show(&examined, &repaired.context("the catalogue is not rebuilt: run nekopeer repair again")?, output)
}

fn show(examined: &Examined, repaired: &Repaired, output: Output) -> anyhow::Result<Ended> {
    let Repaired { shared, copies, changed, missing, unknown, complete } = repaired;
    let ended = if *complete { Ended::Well } else { Ended::Partly };
    if output.is_json() {
        output.object(&Report { examined, repaired })?;
        return Ok(ended);
    }
    match examined {
        Examined::Intact => {
            output.line("the catalogue is intact")?;
            return Ok(ended);
        }
        Examined::Damaged { why, aside } => {
            output.line(&format!("the catalogue was damaged ({why}); it is kept as {aside}"))?;
        }
        Examined::Missing => output.line("the catalogue was missing")?,
    }
    output.line(&format!(
        "rebuilt: {} shared here and {} held are back, of {unknown} other files nothing is known",
        shared.len(),
        copies.len()
    ))?;
    for name in changed {
        output.line(&format!("{name} was shared here and changed since: share it again"))?;
    }
    for name in missing {
        output.line(&format!("{name} was shared here and is not in its place"))?;
    }
    if !complete {
        output.note(
            "not every indexer answered: later version numbers may be known there; run it again when they are back, \
             before anything is shared",
        );
    }
    Ok(ended)
}
