//! Files of a bulk download that are fetched by themselves: the large ones, a few at once, and small ones that no source
//! delivered.

use std::time::{Duration, Instant};

use futures::{StreamExt, stream};
use nekoproto::{Holder, NodeId};
use tokio::time::timeout;

use super::Downloads;
use crate::{
    download::{
        error::exhausted,
        plan::{DownloadRun, Plan},
        swarm::{SECOND_STREAM_FROM, source::Source},
        unless_ended,
    },
    failure::{Failure, Reason},
    state::choice::Target,
};

/// Files that are downloaded by themselves at once: with two connections to a source each for the large ones, and one for
/// small files beside them, fewer than the requests that a source answers one reader.
const LARGE_AT_ONCE: usize = 3;
const MIDDLE_AT_ONCE: usize = 6;

/// Time for a source that did not deliver another file to take a connection, and how long it is asked for no more files
/// if it did not.
const ANSWERS_WITHIN: Duration = Duration::from_secs(1);
const ASKED_AGAIN_AFTER: Duration = Duration::from_secs(5);

impl Downloads {
    /// Downloads files by themselves, a few at once, those with a single connection to each source first.
    pub(super) async fn fetch_large(&self, large: Vec<Target>) {
        let is_middle = |target: &Target| target.record.size < SECOND_STREAM_FROM;
        let (middle, large): (Vec<_>, Vec<_>) = large.into_iter().partition(is_middle);
        for (targets, at_once) in [(middle, MIDDLE_AT_ONCE), (large, LARGE_AT_ONCE)] {
            let fetching = targets.into_iter().map(|target| Box::pin(self.fetch_by_itself(target)));
            stream::iter(fetching).buffer_unordered(at_once).collect::<()>().await;
        }
    }

    async fn fetch_by_itself(&self, target: Target) {
        let (options, name, node) = (&self.options, target.record.name.clone(), target.record.origin);
        let nodes: Vec<NodeId> = target.sources.iter().map(|source| source.node).collect();
        let stop = self.stop(&name);
        let part = self.progress.part(&name);
        let work = DownloadRun { options, progress: &part.progress, stop: &stop, began: self.began };
        let ready = match self.ready_for(&target).await {
            Ok(ready) => ready,
            Err(why) => return self.ended(&name, Err(exhausted(&target.record, Some(why)))),
        };
        let plan = Plan { ready, ..Plan::new(target, options.output.clone()) };
        let downloading = self.downloader.carry_out_newest(plan, &work);
        let got = unless_ended(&self.downloader.library, &name, &stop, downloading).await;
        match &got {
            Ok((done, _)) => done.sources.iter().for_each(|source| {
                self.silent.lock().remove(&source.node);
            }),
            Err(Failure { reason: Reason::NoSource, .. }) => {
                let silent = &mut *self.silent.lock();
                nodes.into_iter().for_each(|node| {
                    silent.entry(node).or_default();
                });
            }
            Err(_) => {}
        }
        let got = got.map(|(done, origin)| {
            self.idle.lock().extend(origin.map(|origin| (node, origin)));
            done
        });
        self.ended(&name, got); // the name is free again
    }

    /// An open connection to one of its sources, if there is one. Where none of these delivered another file, one has to be
    /// there: of thousands of files each would wait for them anew.
    async fn ready_for(&self, target: &Target) -> Result<Option<(NodeId, Source)>, String> {
        {
            let mut idle = self.idle.lock();
            let of_source =
                |(node, _): &(NodeId, Source)| target.sources.iter().any(|source| source.node == *node);
            if let Some(place) = idle.iter().position(of_source) {
                return Ok(Some(idle.swap_remove(place)));
            }
        }
        let silent_at = |source: &Holder| self.silent.lock().get(&source.node).copied();
        if target.sources.is_empty() || !target.sources.iter().all(|source| silent_at(source).is_some()) {
            return Ok(None);
        }
        let is_due =
            |source: &&Holder| silent_at(source).flatten().is_none_or(|at| at.elapsed() > ASKED_AGAIN_AFTER);
        for source in target.sources.iter().filter(is_due) {
            let connecting = Source::connect(&self.downloader.endpoint, source);
            if let Ok(Ok(connected)) = timeout(ANSWERS_WITHIN, connecting).await {
                return Ok(Some((source.node, connected)));
            }
            self.silent.lock().insert(source.node, Some(Instant::now()));
        }
        Err("none of its sources answers any more".to_owned())
    }
}
