//! Bulk downloads. Small files are pipelined over one connection to each source, and made durable and
//! catalogued in batches; of large ones a few are downloaded at once.

mod batch;
mod large;

use std::{
    collections::{HashMap, HashSet, VecDeque},
    path::PathBuf,
    sync::Arc,
    time::Instant,
};

use nekoproto::{FileName, Holder, Manifest, NodeId, VerifiedRecord};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use self::batch::{Arrived, Small, WAITING_MAX};
use super::{
    Delivery, DownloadOptions, Downloaded, Downloader,
    error::already_running,
    file::destination::{Destination, destination},
    finding::Finding,
    plan::Landing,
    swarm::source::Source,
};
use crate::{
    failure::Failure,
    indexers::Answer,
    library::{Library, NameInUse},
    peers::Peers,
    state::choice::Target,
    storage::place::FolderCache,
    util::progress::Progress,
};

/// Names that are looked for and then downloaded together: at first, so that it soon begins, and at most; each time so many
/// times as many as before, so that between them the sources wait seldom.
const NAMES_AT_FIRST: usize = 128;
const NAMES_AT_ONCE: usize = 4096;
const NAMES_GROW_BY: usize = 8;

/// Lists of further names that wait until those before are begun.
const LISTS_WAITING_MAX: usize = 8;

/// A name, and what the network knows of it.
pub(crate) type Located = (FileName, Answer);

/// Outcomes by name, in the order of the names.
pub(crate) type Outcomes = Vec<(FileName, Result<Downloaded, Failure>)>;

/// Downloads of many files, whose outcomes come in batches: what it takes grows with the list of names alone.
/// Dropped, it stops; complete files stay, the others are as before.
#[derive(Debug)]
pub(crate) struct Downloads {
    downloader: Arc<Downloader>,
    /// Names that are not begun.
    names: VecDeque<FileName>,
    /// What was found of some of them.
    known: HashMap<FileName, Answer>,
    /// Where further names come from.
    further: Option<mpsc::Receiver<Vec<Located>>>,
    /// Something was found of all names: their bytes are in the total of `progress`, or are once all are listed.
    is_total_known: bool,
    /// How many of them are looked for next.
    at_once: usize,
    options: DownloadOptions,
    progress: Arc<Progress>,
    /// Open connections, reused for the next batch.
    streams: HashMap<NodeId, Source>,
    /// And for the next file that is downloaded by itself.
    idle: Mutex<Vec<(NodeId, Source)>>,
    began: Instant,
    /// The names at hand, or found ahead, that have no outcome yet.
    running: Mutex<HashMap<FileName, NameInUse>>,
    /// What is found of the next names while those before are downloaded.
    ahead: Option<NameBatch>,
    /// Of the names at hand.
    outcomes: Mutex<HashMap<FileName, Result<Downloaded, Failure>>>,
    /// What is done, and its origins are not asked yet.
    done: Option<Outcomes>,
    /// What asks the origins, over a connection that is kept.
    peers: Arc<Peers>,
    /// Origins that did not answer; they are not asked again.
    away: HashSet<NodeId>,
    /// Sources that were late; the others are asked.
    late: HashSet<NodeId>,
    /// Sources of a file of which none delivered it, and that have delivered nothing since; and when one did not take a
    /// connection since then.
    silent: Mutex<HashMap<NodeId, Option<Instant>>>,
}

impl Downloads {
    /// Downloads of `names`, of which those that are `known` are not searched for; nothing begins yet. A duplicate name is
    /// downloaded once.
    pub(crate) fn new(
        downloader: &Arc<Downloader>,
        names: &[FileName],
        known: HashMap<FileName, Answer>,
        options: &DownloadOptions,
        progress: &Arc<Progress>,
    ) -> Self {
        let mut seen = HashSet::with_capacity(names.len());
        let names: VecDeque<FileName> = names.iter().filter(|name| seen.insert(*name)).cloned().collect();
        let bytes: Option<u64> = names.iter().map(|name| known.get(name).map(Answer::bytes)).sum();
        progress.set_total(progress.done() + bytes.unwrap_or(0));
        Self {
            downloader: Arc::clone(downloader),
            names,
            known,
            further: None,
            is_total_known: bytes.is_some(),
            at_once: NAMES_AT_FIRST,
            options: options.clone(),
            progress: Arc::clone(progress),
            streams: HashMap::new(),
            began: Instant::now(),
            idle: Mutex::default(),
            running: Mutex::default(),
            ahead: None,
            outcomes: Mutex::default(),
            done: None,
            peers: downloader.peers.keeping(),
            away: HashSet::new(),
            late: HashSet::new(),
            silent: Mutex::default(),
        }
    }

    /// Where further names are sent, each once, while those before are downloaded. The last have come once this is dropped.
    pub(crate) fn further(&mut self) -> mpsc::Sender<Vec<Located>> {
        let (names, further) = mpsc::channel(LISTS_WAITING_MAX);
        self.further = Some(further);
        names
    }

    /// Takes the names that were sent; if it `waits`, and all are begun, some that are sent then.
    async fn take_further(&mut self, waits: bool) {
        let Some(further) = &mut self.further else { return };
        while self.names.len() < self.at_once {
            let listed = match waits && self.names.is_empty() {
                true => further.recv().await,
                false => further.try_recv().ok(),
            };
            let Some(listed) = listed else { return };
            self.names.extend(listed.iter().map(|(name, _)| name.clone()));
            self.known.extend(listed);
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
            let (peers, downloader) = (Arc::clone(&self.peers), Arc::clone(&self.downloader));
            let batch = match self.ahead.take() {
                Some(batch) => batch,
                None => {
                    self.take_further(done.is_none()).await; // what is done waits for no list
                    Box::pin(self.reserve_next().find()).await
                }
            };
            // The origins of one batch are asked, and the indexers list it, while the next is downloaded, and the one after that is
            // looked for.
            self.take_further(false).await;
            let further = self.reserve_next();
            let NameBatch { names: next, found } = batch;
            let (fetching, finding) = (Box::pin(self.fetch(found)), Box::pin(further.find())); // they are large
            let new = done.iter().flatten().filter_map(|(_, outcome)| outcome.as_ref().ok());
            let (away, (), (), ahead) =
                tokio::join!(peers.confirm(asked), downloader.listed(new), fetching, finding);
            self.away.extend(away);
            self.ahead = (!ahead.names.is_empty()).then_some(ahead);
            if !next.is_empty() {
                let mut outcomes = std::mem::take(&mut *self.outcomes.lock());
                let outcome = |name: FileName| outcomes.remove_entry(&name);
                self.done = Some(next.into_iter().filter_map(outcome).collect());
            }
            let library = &self.downloader.library;
            done.iter_mut()
                .flatten()
                .filter_map(|(_, outcome)| outcome.as_mut().ok())
                .for_each(|done| done.look_again(library));
            if !library.is_serving {
                library.forget(done.iter().flatten().map(|(name, _)| name));
            }
            if done.is_some() || self.done.is_none() {
                return done;
            }
        }
    }

    /// Reserves the next names, which are to be [found](Reserved::find).
    fn reserve_next(&mut self) -> Reserved {
        let names: Vec<FileName> = self.names.drain(..self.names.len().min(self.at_once)).collect();
        self.at_once = NAMES_AT_ONCE.min(NAMES_GROW_BY * self.at_once);
        let (mut wanted, mut known, mut found) = (Vec::with_capacity(names.len()), Vec::new(), Vec::new());
        for name in &names {
            match self.downloader.library.reserve(name, &self.progress) {
                Some(guard) => {
                    self.running.get_mut().insert(name.clone(), guard);
                    match self.known.remove_entry(name) {
                        Some(answered) => known.push(answered),
                        None => wanted.push(name.clone()),
                    }
                }
                None => found.push((name.clone(), Err(already_running(name)))),
            }
        }
        let batch = NameBatch { names, found };
        let (downloader, options) = (Arc::clone(&self.downloader), self.options.clone());
        Reserved { downloader, options, batch, wanted, known }
    }

    async fn fetch(&mut self, found: Vec<Finding>) {
        let mut targets = Vec::with_capacity(found.len());
        for (name, found) in found {
            match found {
                Ok(target) => targets.push(target),
                Err(error) => self.ended(&name, Err(error)),
            }
        }
        if !self.is_total_known {
            let bytes: u64 = targets.iter().map(|target| target.record.size).sum();
            self.progress.set_total(self.progress.total() + bytes);
        }
        let (small, large) = self.look_at_places(targets).await;
        let (streams, mut late) = (std::mem::take(&mut self.streams), std::mem::take(&mut self.late));
        let fetching = self.fetch_small(small, streams, &mut late);
        let ((streams, by_themselves), ()) = tokio::join!(fetching, self.fetch_large(large));
        (self.streams, self.late) = (streams, late);
        // A download by itself tries all sources and reports what is wrong with them. That may take minutes: what came is
        // stored before.
        self.fetch_large(by_themselves).await;
    }

    /// Drops small files that are up to date or cannot be stored; returns the others, and large ones.
    async fn look_at_places(&self, targets: Vec<Target>) -> (Vec<Small>, Vec<Target>) {
        let (mut small, mut large) = (Vec::new(), Vec::new());
        for target in targets {
            let is_alone = target.record.policy.is_set() || target.sources.is_empty();
            match Manifest::implied_by(&target.record).filter(|_| !is_alone) {
                Some(manifest) => small.push((target, manifest)),
                None => large.push(target),
            }
        }
        let (output, force) = (self.options.output.clone(), self.options.force);
        let stop = self.downloader.library.tasks.stop.child_token();
        let _stop = stop.clone().drop_guard();
        let look = move |library: &Arc<Library>| {
            let mut folders = FolderCache::default();
            let mut found = |target: &Target| {
                destination(library, &target.record, output.as_deref(), force, &mut folders, &stop)
            };
            let looked = small.into_iter().map(|(target, manifest)| (found(&target), target, manifest));
            looked.collect::<Vec<_>>()
        };
        let mut small = Vec::new();
        for (found, target, (manifest, encoded)) in self.downloader.library.blocking(look).await {
            match found {
                Ok(Destination::UpToDate(path)) => {
                    let Target { record, others, .. } = target;
                    self.progress.add_kept(record.size);
                    let (name, began) = (record.name.clone(), self.began);
                    let done = Downloaded::new(record, others, path, 0, began);
                    self.ended(&name, Ok(Downloaded { was_here: true, ..done }));
                }
                Ok(Destination::Replaceable(replaceable)) => {
                    let output = self.options.output.clone();
                    let landing = Landing { output, replaceable, passed_over: None };
                    let stop = self.stop(&target.record.name);
                    small.push(Small { target, manifest, encoded, landing, stop });
                }
                Ok(Destination::OtherKind) => large.push(target),
                Err(error) => self.ended(&target.record.name, Err(error)),
            }
        }
        (small, large)
    }

    /// Fetches the files while those that came are made durable. Returns connections that are still usable, and what no
    /// source delivered.
    async fn fetch_small(
        &self,
        small: Vec<Small>,
        streams: HashMap<NodeId, Source>,
        late: &mut HashSet<NodeId>,
    ) -> (HashMap<NodeId, Source>, Vec<Target>) {
        let (sender, arrived) = mpsc::channel(WAITING_MAX);
        let fetching = async {
            let fetched = self.downloader.fetch_small(streams, small, late, &self.progress, &sender).await;
            drop(sender); // all have been sent
            fetched
        };
        let storing = self.downloader.store_small(arrived, |stored| self.take_stored(stored));
        let (fetched, ()) = tokio::join!(fetching, storing);
        (fetched.streams, fetched.failed.into_iter().map(|small| small.target).collect())
    }

    fn take_stored(&self, stored: Vec<(Arrived, Result<PathBuf, Failure>)>) {
        for (arrived, result) in stored {
            let Target { record, others, .. } = arrived.small.target;
            let bytes = arrived.bytes.len() as u64;
            let name = record.name.clone();
            let Holder { node, addr, .. } = arrived.from;
            let outcome = result.map(|path| {
                let done = Downloaded::new(record, others, path, bytes, self.began);
                Downloaded { sources: vec![Delivery { node, addr, bytes, banned: false }], ..done }
            });
            self.ended(&name, outcome);
        }
    }

    fn stop(&self, name: &FileName) -> CancellationToken {
        self.running.lock().get(name).map(|running| running.stop.clone()).unwrap_or_default() // it is there
    }

    fn ended(&self, name: &FileName, outcome: Result<Downloaded, Failure>) {
        self.running.lock().remove(name);
        self.outcomes.lock().insert(name.clone(), outcome);
    }
}

/// Names that are downloaded one after the other, and what was found of them.
#[derive(Debug)]
struct NameBatch {
    names: Vec<FileName>,
    found: Vec<Finding>,
}

/// Names that nobody else downloads meanwhile.
struct Reserved {
    downloader: Arc<Downloader>,
    options: DownloadOptions,
    batch: NameBatch,
    wanted: Vec<FileName>,
    known: Vec<(FileName, Answer)>,
}

impl Reserved {
    async fn find(self) -> NameBatch {
        let Self { downloader, options, mut batch, wanted, known } = self;
        if !(wanted.is_empty() && known.is_empty()) {
            batch.found.extend(downloader.find_all(wanted, known, &options).await);
        }
        batch
    }
}

#[cfg(test)]
mod tests;
