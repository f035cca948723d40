//! Bulk downloads. Small files are pipelined over one connection to each source, and made durable and
//! catalogued in batches; of large ones a few are downloaded at once.

mod batch;

use std::{
    collections::{HashMap, HashSet},
    path::PathBuf,
    sync::Arc,
    time::Instant,
};

use futures::{StreamExt, stream};
use nekoproto::{FileName, Freshness, Holder, Manifest, NodeId, VerifiedRecord};
use tokio_util::sync::CancellationToken;

use self::batch::{Arrived, Batch, Fetched, Small};
use super::{
    Delivery, DownloadOptions, Downloaded, Downloader, deliveries,
    error::DownloadError,
    file::destination::{Destination, destination},
    swarm::source::Source,
    unless_ended,
};
use crate::{
    content::stamp::Stamp,
    indexers::Scope,
    library::{Library, NameInUse},
    state::choice::Target,
    util::progress::Progress,
};

/// Maximum number of names in one search.
const NAMES_AT_ONCE: usize = 1024;
/// Names that are searched for at once by the ids of their origins.
const WISHED_AT_ONCE: usize = 16;
/// Large files that are downloaded at once: with two connections to a source each, fewer than the requests that a
/// source answers one reader.
const LARGE_AT_ONCE: usize = 3;
/// Limits of a batch: its files, and their bytes, which are in memory together.
const BATCH_FILES: usize = 512;
const BATCH_BYTES: u64 = 8 * 1024 * 1024;

/// Outcomes by name, in the order of the names.
pub(crate) type Outcomes = Vec<(FileName, Result<Downloaded, DownloadError>)>;

/// Downloads of many files, whose outcomes come in pieces: what it takes grows with the list of names alone.
/// Dropped, it stops; complete files stay, the others are as before.
#[derive(Debug)]
pub(crate) struct Downloads {
    downloader: Arc<Downloader>,
    /// Names that are not begun, the next one last.
    names: Vec<FileName>,
    options: DownloadOptions,
    progress: Arc<Progress>,
    /// Open connections, reused for the next batch.
    streams: HashMap<NodeId, Source>,
    began: Instant,
    /// The names at hand that have no outcome yet.
    running: HashMap<FileName, NameInUse>,
    /// Of the names at hand.
    outcomes: HashMap<FileName, Result<Downloaded, DownloadError>>,
    /// What is done, and its origins are not asked yet.
    done: Option<Outcomes>,
    /// Origins that did not answer; they are not asked again.
    away: HashSet<NodeId>,
    /// Sources that were late; the others are asked.
    late: HashSet<NodeId>,
}

impl Downloads {
    /// Downloads of `names`; nothing begins yet. A duplicate name is downloaded once.
    pub(crate) fn new(
        downloader: &Arc<Downloader>,
        names: &[FileName],
        options: &DownloadOptions,
        progress: &Arc<Progress>,
    ) -> Self {
        let mut seen = HashSet::with_capacity(names.len());
        let mut names: Vec<FileName> = names.iter().filter(|name| seen.insert(*name)).cloned().collect();
        names.reverse();
        Self {
            downloader: Arc::clone(downloader),
            names,
            options: options.clone(),
            progress: Arc::clone(progress),
            streams: HashMap::new(),
            began: Instant::now(),
            running: HashMap::new(),
            outcomes: HashMap::new(),
            done: None,
            away: HashSet::new(),
            late: HashSet::new(),
        }
    }

    /// Downloads the next files, at most some thousand, and returns their outcomes in the order of their names;
    /// `None` after the last.
    ///
    /// # Cancel safety
    /// The outcomes of the call are lost, the files are not.
    pub(crate) async fn next(&mut self) -> Option<Outcomes> {
        loop {
            let mut done = self.done.take();
            let records =
                done.iter().flatten().filter_map(|(_, outcome)| Some(outcome.as_ref().ok()?.record.clone()));
            let asked: Vec<VerifiedRecord> =
                records.filter(|record| !self.away.contains(&record.origin)).collect();
            let peers = Arc::clone(&self.downloader.peers);
            let next = self.names.split_off(self.names.len().saturating_sub(NAMES_AT_ONCE));
            let next: Vec<FileName> = next.into_iter().rev().collect();
            // The origins of one piece are asked while the next is downloaded.
            let (away, ()) = tokio::join!(peers.confirm(asked), self.some(&next));
            self.away.extend(away);
            if !next.is_empty() {
                let mut outcomes = std::mem::take(&mut self.outcomes);
                let outcome = |name: FileName| outcomes.remove_entry(&name);
                self.done = Some(next.into_iter().filter_map(outcome).collect());
            }
            let library = &self.downloader.library;
            for (_, outcome) in done.iter_mut().flatten() {
                if let Ok(done) = outcome {
                    done.freshness = library.freshness(&done.record);
                    done.doubt = library.doubt(&done.record);
                }
            }
            if !library.is_serving {
                library.forget(done.iter().flatten().map(|(name, _)| name));
            }
            if done.is_some() || self.done.is_none() {
                return done;
            }
        }
    }

    async fn some(&mut self, names: &[FileName]) {
        if names.is_empty() {
            return;
        }
        let mut wanted = Vec::new();
        for name in names {
            match self.downloader.library.reserve(name, &self.progress) {
                Some(guard) => {
                    self.running.insert(name.clone(), guard);
                    wanted.push(name.clone());
                }
                None => self.ended(name, Err(DownloadError::AlreadyRunning(name.clone()))),
            }
        }
        let targets = self.targets(wanted).await;
        let (small, large) = self.look_at_places(targets).await;
        self.fetch_small(small).await;
        self.fetch_large(large).await;
    }

    /// Finds the version to download of each name.
    async fn targets(&mut self, names: Vec<FileName>) -> Vec<Target> {
        let scope = Scope::Network { ttl_hops: self.options.ttl_hops };
        let (mut targets, mut chosen) = (Vec::with_capacity(names.len()), Vec::with_capacity(names.len()));
        match self.downloader.indexers.search_all(&names, scope, &self.options.via).await {
            Ok(answers) => {
                for (name, found) in names.into_iter().zip(answers) {
                    let target = self.downloader.choose(&name, &self.options, found);
                    chosen.push((name, target));
                }
            }
            Err(error) => {
                let source = Arc::new(error);
                chosen.extend(names.into_iter().map(|name| {
                    let source = Arc::clone(&source);
                    (name.clone(), Err(DownloadError::NobodyAsked { name, source }))
                }));
            }
        }
        let wished = stream::iter(chosen).map(async |(name, found)| {
            let found = self.downloader.find_wished(&name, &self.options, found).await;
            (name, found)
        });
        let chosen = wished.buffered(WISHED_AT_ONCE).collect().await;
        for (name, found) in self.downloader.ask_further(chosen, &self.options).await {
            match found {
                Ok(target) => targets.push(target),
                Err(error) => self.ended(&name, Err(error)),
            }
        }
        let bytes: u64 = targets.iter().map(|target| target.record.size).sum();
        self.progress.set_total(self.progress.total() + bytes);
        targets
    }

    /// Drops names that are up to date or cannot be stored; returns small files and large ones, or such whose version
    /// before is kept.
    async fn look_at_places(&mut self, targets: Vec<Target>) -> (Vec<Small>, Vec<(Target, Option<Stamp>)>) {
        let options = self.options.clone();
        let stop = self.downloader.library.tasks.stop.child_token();
        let _stop = stop.clone().drop_guard();
        let look = move |library: &Arc<Library>| {
            let mut looked = Vec::with_capacity(targets.len());
            for target in targets {
                let found = destination(library, &target.record, &options, &stop);
                let keeps = matches!(found, Ok(Destination::Replaceable(Some(_))))
                    && library.catalogue.reader(&target.record.name).is_ok_and(|reader| reader.keep > 0);
                looked.push((target, found, keeps));
            }
            looked
        };
        let looked = self.downloader.library.blocking(look).await;
        let (mut small, mut large) = (Vec::new(), Vec::new());
        for (target, found, keeps) in looked {
            match found {
                Ok(_) if target.record.policy.is_set() => large.push((target, None)),
                Ok(Destination::UpToDate(path)) => {
                    self.progress.add_kept(target.record.size);
                    let record = target.record;
                    let (done, others) = (self.downloaded(record.clone(), path, 0), target.others);
                    let done = Downloaded { was_here: true, others, ..done };
                    self.ended(&record.name, Ok(done));
                }
                Ok(Destination::Replaceable(stamp)) => match Manifest::implied_by(&target.record) {
                    Some((_, manifest)) if !target.sources.is_empty() && !keeps => {
                        let stop = self.stop(&target.record.name);
                        small.push(Small { target, manifest, replaceable: stamp, stop });
                    }
                    _ => large.push((target, stamp)),
                },
                Err(error) => self.ended(&target.record.name, Err(error)),
            }
        }
        (small, large)
    }

    /// Fetches one batch after the other; the next batch is fetched while one is made durable.
    async fn fetch_small(&mut self, small: Vec<Small>) {
        let (mut storing, mut by_themselves) = (None, Vec::new());
        for batch in batches(small) {
            let stored = async {
                match storing.take() {
                    Some(arrived) => Some(self.downloader.store_batch(arrived, &self.options).await),
                    None => None,
                }
            };
            let streams = std::mem::take(&mut self.streams);
            let how = (&self.options, &self.progress);
            let fetching = self.downloader.fetch_batch(streams, batch, &mut self.late, how);
            let (before, Fetched { streams, arrived, stored, failed }) = tokio::join!(stored, fetching);
            self.streams = streams;
            self.take_stored(before.unwrap_or_default());
            self.take_stored(stored);
            storing = Some(arrived);
            by_themselves.extend(failed.into_iter().map(|small| (small.target, small.replaceable)));
        }
        if let Some(arrived) = storing {
            let stored = self.downloader.store_batch(arrived, &self.options).await;
            self.take_stored(stored);
        }
        // A download by itself tries all sources and reports what is wrong with them. That may take minutes: what came is
        // stored before.
        self.fetch_large(by_themselves).await;
    }

    fn take_stored(&mut self, stored: Vec<(Arrived, Result<PathBuf, DownloadError>)>) {
        for (arrived, result) in stored {
            let Target { record, others, .. } = arrived.small.target;
            let bytes = arrived.bytes.len() as u64;
            let name = record.name.clone();
            let Holder { node, addr, .. } = arrived.from;
            let sources = vec![Delivery { node, addr, bytes, banned: false }];
            let done = |path| Downloaded { sources, others, ..self.downloaded(record, path, bytes) };
            let outcome = result.map(done);
            self.ended(&name, outcome);
        }
    }

    /// Downloads files by themselves, a few at once.
    async fn fetch_large(&mut self, large: Vec<(Target, Option<Stamp>)>) {
        // Each name is free again as soon as its file is complete.
        let with_name = |(target, replaceable): (Target, Option<Stamp>)| {
            let in_use = self.running.remove(&target.record.name);
            (target, replaceable, in_use)
        };
        let large: Vec<_> = large.into_iter().map(with_name).collect();
        let this = &*self;
        let fetching = large.into_iter().map(async |(target, replaceable, in_use)| {
            let name = target.record.name.clone();
            let stop = in_use.as_ref().map(|in_use| in_use.stop.clone()).unwrap_or_default(); // it is there
            (name, this.fetch_by_itself(target, replaceable, stop).await)
        });
        let mut fetching = stream::iter(fetching).buffer_unordered(LARGE_AT_ONCE);
        let mut ended = Vec::new();
        while let Some(outcome) = fetching.next().await {
            ended.push(outcome);
        }
        drop(fetching);
        for (name, outcome) in ended {
            self.ended(&name, outcome);
        }
    }

    async fn fetch_by_itself(
        &self,
        target: Target,
        replaceable: Option<Stamp>,
        stop: CancellationToken,
    ) -> Result<Downloaded, DownloadError> {
        let (name, others) = (target.record.name.clone(), target.others.clone());
        let part = self.progress.part(&name);
        part.progress.set_total(target.record.size);
        if target.record.policy.is_set() {
            let downloading =
                self.downloader.download_found(&stop, target, &self.options, (&part.progress, self.began));
            return unless_ended(&self.downloader.library, &name, &stop, downloading).await;
        }
        let obtaining =
            self.downloader.obtain_anywhere(target, replaceable, &self.options, &part.progress, &stop);
        let (entry, report) = unless_ended(&self.downloader.library, &name, &stop, obtaining).await?;
        self.downloader.indexers.offer([&entry.record]).await;
        let sources = deliveries(&part.progress, &report);
        let done = self.downloaded(entry.record, entry.path, report.bytes_moved);
        Ok(Downloaded { sources, others, ..done })
    }

    fn downloaded(&self, record: VerifiedRecord, path: PathBuf, bytes_moved: u64) -> Downloaded {
        let (took, freshness) = (self.began.elapsed(), Freshness::Unverified);
        Downloaded {
            record,
            others: Vec::new(),
            path,
            bytes_moved,
            was_here: false,
            took,
            freshness,
            doubt: None,
            sources: Vec::new(),
        }
    }

    /// What ends the download of `name`.
    fn stop(&self, name: &FileName) -> CancellationToken {
        self.running.get(name).map(|running| running.stop.clone()).unwrap_or_default() // it is there
    }

    fn ended(&mut self, name: &FileName, outcome: Result<Downloaded, DownloadError>) {
        self.running.remove(name);
        self.outcomes.insert(name.clone(), outcome);
    }
}

/// Divides small files into batches bounded in files and bytes.
fn batches(small: Vec<Small>) -> Vec<Batch> {
    let mut batches: Vec<Batch> = Vec::new();
    let mut bytes = 0;
    for small in small {
        let size = small.target.record.size;
        let has_room = |batch: &Batch| batch.len() < BATCH_FILES && bytes + size <= BATCH_BYTES;
        match batches.last_mut().filter(|batch| has_room(batch)) {
            Some(batch) => batch.push(small),
            None => {
                batches.push(vec![small]);
                bytes = 0;
            }
        }
        bytes += size;
    }
    batches
}
