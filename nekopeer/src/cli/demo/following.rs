//! The part of the demo in which a peer follows a file, with a command that refuses one version.

use std::sync::Arc;

use anyhow::{Context, ensure};
use nekoproto::{FileName, Mode, Policy, Staleness, Version};
use tokio::sync::mpsc;

use super::{
    NEWS_WITHIN,
    files::{hash_file, write_random},
    stage::{Actor, next_event_in, within},
};
use crate::{
    download::DownloadOptions,
    follow::{Follower, Hook},
    library::events::Event,
};

/// The first version that is followed, and the one that the command refuses.
const FIRST: u64 = 2;
const REFUSED: u64 = 4;
/// Bytes of each version that is published here.
const BYTES: u64 = 1024 * 1024;

pub(super) async fn follow(
    origin: &Actor,
    reader: &mut Actor,
    say: &impl Fn(String) -> std::io::Result<()>,
) -> anyhow::Result<()> {
    say(format!("\n7. reader follows weights.bin, with a command that refuses version {REFUSED}"))?;
    let name: FileName = "weights.bin".parse()?;
    let hook = Hook {
        command: format!("test $NEKO_VERSION != {REFUSED}"),
        folder: reader.peer.dir().to_owned(),
        time: NEWS_WITHIN,
    };
    let place = reader.file("weights.bin");
    let Actor { peer, events, .. } = reader;
    let (library, downloader) = (Arc::clone(&peer.library), Arc::clone(&peer.downloader));
    let options = DownloadOptions::default();
    let printed = mpsc::channel(1).0; // it prints nothing
    let follower = Follower { library, downloader, hook: Some(hook), printed, keep: Some(2), options };
    let steps = async {
        let mut accepted = None;
        for version in FIRST..=REFUSED + 1 {
            if version > FIRST {
                write_random(&origin.file("weights.bin"), BYTES, version)?;
                let outcome = origin
                    .publish("weights.bin", Some(Policy::new(Mode::Push, 60, 60, Staleness::ServeStale)?))
                    .await?;
                ensure!(outcome.published.len() == 1, "version {version} was not shared");
            }
            let is_it = |event: &Event| {
                matches!(event, Event::Followed { version: now, .. } | Event::Refused { version: now, .. }
                    if now.get() == version)
            };
            let event = within(NEWS_WITHIN, "the next version", next_event_in(events, is_it)).await?;
            let hash = hash_file(&place)?;
            if let Event::Refused { put_back, .. } = event {
                ensure!(
                    version == REFUSED && put_back == Version::new(REFUSED - 1),
                    "the wrong version is back"
                );
                ensure!(Some(hash) == accepted, "what was put back is not the version before");
            } else {
                ensure!(version != REFUSED, "the command failed and nothing was put back");
                ensure!(
                    hash == hash_file(&origin.file("weights.bin"))?,
                    "version {version} is not the origin's"
                );
                accepted = Some(hash);
            }
            say(format!("   {event}"))?;
        }
        let back = Version::new(REFUSED - 1);
        let done = peer.downloader.restore(&name, back, None, &Arc::default()).await?;
        ensure!(
            done.bytes_moved == 0 && hash_file(&place)? == done.record.content,
            "the rollback is not right"
        );
        say(format!("   rolled back to version {}, 0 bytes moved", done.record.version))?;
        Ok(())
    };
    tokio::select! {
        ended = follower.follow(vec![name.clone()]) => {
            ended.map(drop).context("reader cannot follow")
        }
        done = steps => done,
    }
}
