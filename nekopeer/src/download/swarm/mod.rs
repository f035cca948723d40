//! Fetches the missing chunks of one file from all its sources concurrently.
//!
//! One task chooses the sources and searches for more at intervals. Each connection has a thread that
//! leases chunks, receives, verifies and writes them ([`worker`]); other threads verify the chunks found
//! on disk. The threads share the schedule, under a lock ([`transfer`]).

pub(super) mod busy;
pub(super) mod source;
#[cfg(test)]
mod tests;
pub(super) mod transfer;
mod verify;
mod worker;

use std::{
    collections::{HashMap, VecDeque, hash_map::Entry},
    sync::Arc,
    time::Duration,
};

use nekoproto::{Holder, NodeId, transport::interfaces};
use scopeguard::ScopeGuard;
use tokio::{
    task::JoinSet,
    time::{Instant, interval, sleep, sleep_until},
};
use tracing::debug;

pub(super) use self::transfer::SwarmReport;
use self::{
    source::{FetchError, Source},
    transfer::{Transfer, Transferred},
    worker::StreamEnd,
};
use super::{
    Downloader,
    file::{checkpoint, reuse::LocalChunks},
};
use crate::{failure::Failure, state::silence::SILENCE_MAX, util::tasks::blocking};

/// Maximum number of sources asked concurrently.
const SOURCES_MAX: usize = 12;
/// Target number of connections: with fewer sources each gets several, so that all cores have work.
const STREAMS_AIMED_AT: usize = 2;
/// Minimum file size for a second connection to the same source, in bytes.
pub(super) const SECOND_STREAM_FROM: u64 = 8 * 1024 * 1024;
/// Pause before a failed source is asked again.
const RETRY_AFTER: Duration = Duration::from_millis(200);
/// Delay of the first search for further sources; it doubles for each search, up to the maximum.
pub(super) const LOOK_AFTER: Duration = Duration::from_millis(250);
const LOOK_EVERY_MAX: Duration = Duration::from_secs(5);
/// Number of attempts after all known sources failed, and the pause before each.
pub(super) const ROUNDS: u32 = 3;
pub(super) const ROUND_PAUSE: Duration = Duration::from_millis(500);
/// Time without a chunk, the least speed or a plea for patience from any source, after which the user is told what is
/// waited for.
pub(super) const SILENCE_TOLD: Duration = Duration::from_secs(3);
/// The same time after which sources, and this machine, are looked for at other addresses.
const STALE_AFTER: Duration = Duration::from_secs(2);
/// Interval between looks at the silence.
const SILENCE_EVERY: Duration = Duration::from_millis(500);
const CHECKPOINT_EVERY: Duration = Duration::from_secs(2);

/// The sources to start with, and their open connections, if any.
pub(super) type Begin = Vec<(Holder, Option<Source>)>;

impl Downloader {
    /// Fetches what the transfer lacks from `begin`, from disk, and from the holders that `look` finds, first after
    /// `look_after`.
    ///
    /// # Cancel safety
    /// Safe: all threads end. What was written stays in the partial file, and a checkpoint is written.
    pub(super) async fn fetch<L, F>(
        &self,
        transfer: Transfer,
        local: LocalChunks,
        begin: Begin,
        look: L,
        look_after: Duration,
    ) -> Result<Transferred, Failure>
    where
        L: Fn() -> F,
        F: Future<Output = Vec<Holder>> + Send + 'static,
    {
        local.make_room(&transfer.assembly)?;
        let transfer = Arc::new(transfer);
        let tracker = self.library.tasks.tracker.clone();
        // If the waiting task is dropped: ends the threads and writes a checkpoint.
        let abandoned = scopeguard::guard(Arc::clone(&transfer), move |transfer| {
            transfer.end();
            if transfer.is_resumable {
                // Tracked, so that the peer's shutdown waits for it.
                drop(tracker.spawn_blocking(move || save_checkpoint(&transfer)));
            }
        });
        let mut crew = Crew::new(&transfer, begin);
        for part in local.split(rayon::current_num_threads()) {
            let transfer = Arc::clone(&transfer);
            crew.local.spawn(blocking(move || transfer.take_local(part)));
        }
        self.run(&transfer, &mut crew, look, look_after).await;
        transfer.end();
        crew.join_all().await;
        drop(ScopeGuard::into_inner(abandoned)); // the threads have ended already
        Transfer::into_fetched(transfer)
    }

    async fn run<L, F>(&self, transfer: &Arc<Transfer>, crew: &mut Crew, look: L, first: Duration)
    where
        L: Fn() -> F,
        F: Future<Output = Vec<Holder>> + Send + 'static,
    {
        let (mut look_after, mut round, mut left) = (LOOK_AFTER, 1, transfer.left());
        let mut look_at = Instant::now() + first;
        let mut checkpoint_at = Instant::now() + CHECKPOINT_EVERY;
        let (mut silence, mut addresses) = (interval(SILENCE_EVERY), interfaces::addresses());
        let _told = scopeguard::guard(Arc::clone(&transfer.progress), |progress| progress.waits_for(None));
        while !transfer.is_over() {
            if self.throttle.is_paused() {
                self.suspended(transfer, crew).await;
                crew.looks.spawn(look());
                (look_after, round, left) = (LOOK_AFTER, 1, transfer.left());
                look_at = Instant::now() + look_after;
                continue;
            }
            crew.start(transfer);
            if crew.is_idle() {
                if transfer.left() < left {
                    (left, round) = (transfer.left(), 1); // chunks arrived since the last round
                }
                if round == ROUNDS || crew.is_given_up(transfer) {
                    return;
                }
                round += 1;
                sleep(ROUND_PAUSE).await;
                transfer.forgive();
                for holder in crew.first.clone() {
                    crew.add(transfer, holder, None); // retried even if no indexer can be asked
                }
                crew.looks.spawn(look());
            }
            tokio::select! {
                () = self.throttle.until_paused(true) => {}
                Some(ended) = crew.sources.join_next() => match ended {
                    Ok(node) => crew.ended(node),
                    Err(error) => rethrow(error),
                },
                Some(ended) = crew.local.join_next() => ended.unwrap_or_else(rethrow),
                Some(saved) = crew.checkpoints.join_next() => saved.unwrap_or_else(rethrow),
                Some(found) = crew.looks.join_next() => {
                    for holder in found.unwrap_or_default() {
                        crew.add(transfer, holder, None);
                    }
                }
                () = sleep_until(look_at) => {
                    look_after = (look_after * 2).min(LOOK_EVERY_MAX);
                    look_at = Instant::now() + look_after;
                    if crew.looks.is_empty() {
                        crew.looks.spawn(look());
                    }
                }
                _ = silence.tick() => {
                    if crew.is_given_up(transfer) {
                        return;
                    }
                    if transfer.silence().0 >= STALE_AFTER {
                        let now = interfaces::addresses();
                        let has_moved = !now.is_empty() && std::mem::replace(&mut addresses, now.clone()) != now;
                        transfer.leave_stale(has_moved);
                    }
                }
                () = sleep_until(checkpoint_at) => {
                    checkpoint_at = Instant::now() + CHECKPOINT_EVERY;
                    if transfer.is_resumable && crew.checkpoints.is_empty() {
                        crew.save_checkpoint(transfer);
                    }
                }
            }
        }
    }
}

impl Downloader {
    /// Fetches nothing while downloads are paused; what came stays, and is saved. The sources to start with are asked again
    /// then.
    async fn suspended(&self, transfer: &Arc<Transfer>, crew: &mut Crew) {
        transfer.suspend();
        let name = &transfer.record.name;
        transfer.progress.waits_for(Some(format!("{name} waits: downloads are paused")));
        crew.waiting.clear();
        while crew.sources.join_next().await.is_some() {}
        while crew.checkpoints.join_next().await.is_some() {}
        if transfer.is_resumable {
            crew.save_checkpoint(transfer);
        }
        self.throttle.until_paused(false).await;
        transfer.progress.waits_for(None);
        transfer.resume();
        crew.known.clear();
        for holder in crew.first.clone() {
            crew.add(transfer, holder, None);
        }
    }
}

/// A holder, as users are told of it.
pub(super) fn named(holder: &Holder) -> String {
    format!("source {} at {}", holder.node.short(), holder.addr)
}

fn rethrow(error: tokio::task::JoinError) {
    if let Ok(panic) = error.try_into_panic() {
        std::panic::resume_unwind(panic);
    }
}

fn save_checkpoint(transfer: &Transfer) {
    if let Err(error) = checkpoint::save(transfer.record.manifest, &transfer.assembly) {
        debug!(%error, "progress is not saved"); // the next attempt verifies more of the file
    }
}

/// The tasks of one download.
struct Crew {
    waiting: VecDeque<(Holder, Option<Source>)>,
    first: Vec<Holder>,
    /// Connections per source, open or waiting.
    known: HashMap<NodeId, usize>,
    sources: JoinSet<NodeId>,
    local: JoinSet<()>,
    looks: JoinSet<Vec<Holder>>,
    checkpoints: JoinSet<()>,
}

impl Crew {
    fn new(transfer: &Transfer, begin: Begin) -> Self {
        let mut crew = Self {
            waiting: VecDeque::new(),
            first: begin.iter().map(|(holder, _)| *holder).collect(),
            known: HashMap::new(),
            sources: JoinSet::new(),
            local: JoinSet::new(),
            looks: JoinSet::new(),
            checkpoints: JoinSet::new(),
        };
        // A source that is connected counts at the address where it is.
        let (connected, others): (Begin, Begin) = begin.into_iter().partition(|(_, source)| source.is_some());
        connected.into_iter().chain(others).for_each(|(holder, source)| crew.add(transfer, holder, source));
        crew
    }

    fn add(&mut self, transfer: &Transfer, holder: Holder, source: Option<Source>) {
        if transfer.is_banned(holder.node) {
            return;
        }
        match self.known.entry(holder.node) {
            Entry::Occupied(mut connections) if source.is_some() => {
                *connections.get_mut() += 1;
                self.waiting.push_back((holder, source));
            }
            Entry::Occupied(_) => transfer.is_also_at(&holder),
            Entry::Vacant(new) => {
                new.insert(1);
                transfer.offers(&holder);
                self.waiting.push_back((holder, source));
            }
        }
    }

    /// Starts waiting sources; with few sources, several connections to each.
    fn start(&mut self, transfer: &Arc<Transfer>) {
        let few = self.known.len() < STREAMS_AIMED_AT && transfer.size() >= SECOND_STREAM_FROM;
        let streams = if few { STREAMS_AIMED_AT } else { 1 };
        while self.sources.len() < SOURCES_MAX {
            let Some((holder, source)) = self.waiting.pop_front() else { return };
            self.sources.spawn(run_source(Arc::clone(transfer), holder, source));
            let connections = self.known.entry(holder.node).or_default();
            for _ in *connections..streams {
                *connections += 1;
                self.sources.spawn(run_source(Arc::clone(transfer), holder, None));
            }
        }
    }

    fn save_checkpoint(&mut self, transfer: &Arc<Transfer>) {
        let transfer = Arc::clone(transfer);
        self.checkpoints.spawn(blocking(move || save_checkpoint(&transfer)));
    }

    fn ended(&mut self, node: NodeId) {
        if let Some(count) = self.known.get_mut(&node) {
            *count -= 1;
            if *count == 0 {
                self.known.remove(&node);
            }
        }
    }

    /// Whether no source did what it can for too long. The user is told before.
    fn is_given_up(&self, transfer: &Transfer) -> bool {
        if !self.local.is_empty() {
            transfer.is_alive(); // its silence begins when the disk is done
        }
        let (silence, over, last) = transfer.silence();
        if silence < SILENCE_TOLD && over.is_none() {
            transfer.progress.waits_for(None);
            return false;
        }
        let mut sources: Vec<String> = self.first.iter().map(named).collect();
        sources.dedup();
        let last = last.map(|last| format!("; {last}")).unwrap_or_default();
        let name = &transfer.record.name;
        transfer.progress.waits_for(Some(format!(
            "waiting for {name} from {}, given up after {} s without progress{last}",
            sources.join(" and "),
            SILENCE_MAX.as_secs()
        )));
        if let Some(limit) = over {
            transfer.give_up(&format!("no source sent anything of use for {} s", limit.as_secs()));
        }
        over.is_some()
    }

    fn is_idle(&self) -> bool {
        self.sources.is_empty() && self.waiting.is_empty() && self.local.is_empty() && self.looks.is_empty()
    }

    async fn join_all(&mut self) {
        self.looks.abort_all();
        while self.sources.join_next().await.is_some() {}
        while self.local.join_next().await.is_some() {}
        while self.checkpoints.join_next().await.is_some() {}
    }
}

/// Works on one connection until all is fetched, or the source failed for good.
async fn run_source(transfer: Arc<Transfer>, mut holder: Holder, mut ready: Option<Source>) -> NodeId {
    let mut tried = vec![holder.addr];
    loop {
        let mut was_kept = false;
        let connected = match ready.take() {
            Some(source) => {
                was_kept = source.is_kept();
                Ok(source)
            }
            None => {
                let connecting = Source::connect(&transfer.endpoint, &holder);
                let Some(connected) = transfer.over.run_until_cancelled(connecting).await else {
                    return holder.node;
                };
                connected
            }
        };
        let worked = match connected {
            Ok(source) => {
                let transfer = Arc::clone(&transfer);
                blocking(move || worker::work(&transfer, source, &holder)).await
            }
            Err(error) => Err(error),
        };
        if transfer.is_over() || transfer.is_suspended() {
            return holder.node; // the connection was closed by the end of the download, or by a pause
        }
        let failed = match worked {
            Ok(StreamEnd::Left) => None,
            Ok(StreamEnd::Quiet | StreamEnd::Midway) => return holder.node,
            Err(FetchError::Stream(_)) if was_kept => continue, // it was closed while nothing was asked for
            Err(error) => Some(error),
        };
        if let None | Some(FetchError::Connect(_) | FetchError::Stream(_)) = failed
            && let Some(elsewhere) = transfer.elsewhere(&holder, &tried)
        {
            tried.push(elsewhere.addr);
            holder = elsewhere;
            continue;
        }
        let Some(error) = failed else { continue };
        if transfer.source_failed(&holder, &error) {
            return holder.node; // it struck out
        }
        if transfer.over.run_until_cancelled(sleep(RETRY_AFTER)).await.is_none() {
            return holder.node;
        }
    }
}
