//! Small files: requested ahead on one connection to each source; what has arrived is committed in groups meanwhile.

use std::{
    collections::{HashMap, HashSet},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use futures::{StreamExt, stream};
use nekoproto::{ContentHash, Holder, Manifest, NodeId};
use tokio::{
    sync::mpsc,
    time::{Instant, timeout, timeout_at},
};
use tokio_util::sync::CancellationToken;

use crate::{
    download::{
        Downloader,
        file::{
            destination::place_in,
            placement::{Complete, copy_entry, put_in_place},
        },
        keep,
        plan::Landing,
        swarm::source::{FetchError, Source},
    },
    failure::{Failure, FailureKind},
    library::Library,
    state::{choice::Target, pace::PACE_WINDOW},
    storage::{
        catalogue::{Entry, StoredCopy},
        full,
        place::FolderCache,
    },
    util::{progress::Progress, tasks::blocking},
};

/// Maximum number of sources asked concurrently.
const SOURCES_MAX: usize = 8;
/// Maximum number of outstanding requests per connection: a link with a long way has a batch of small files in it.
const ASKED_AHEAD: usize = 512;
/// Requests in one write.
const ASKED_AT_ONCE: usize = 64;
/// Time limit for connecting to a source,
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// and, where others have the files too, for that and for the first of the bytes each: then the others are asked, and it is
/// asked for no more files of this command that others have.
const ASK_ANOTHER_AFTER: Duration = Duration::from_secs(1);
/// The same without another file, once it has begun,
const SILENT_AFTER: Duration = Duration::from_secs(3);
/// and where nobody else has all of the files: what did not come is then downloaded by itself, and its sources looked for.
const SILENT_ALONE_AFTER: Duration = PACE_WINDOW;

/// Limits of what is stored together: files, and their bytes.
const STORED_FILES: usize = 512;
const STORED_BYTES: usize = 8 * 1024 * 1024;
/// Files that wait to be stored, at most 64 KiB each.
pub(super) const WAITING_MAX: usize = 256;
/// Time after the first of them: an interrupted download keeps what came before.
const STORED_AFTER: Duration = Duration::from_millis(300);

/// A file of a single chunk.
pub(super) struct Small {
    pub(super) target: Target,
    pub(super) manifest: Manifest,
    pub(super) encoded: Vec<u8>,
    pub(super) landing: Landing,
    /// Cancelled if it is not wanted any more.
    pub(super) stop: CancellationToken,
}

pub(super) type SmallFiles = Vec<Small>;

/// A file whose verified bytes have arrived.
pub(super) struct Arrived {
    pub(super) small: Small,
    pub(super) bytes: Vec<u8>,
    pub(super) from: Holder,
}

pub(super) struct Fetched {
    /// Connections that are still usable.
    pub(super) streams: HashMap<NodeId, Source>,
    /// Files that their source did not deliver.
    pub(super) failed: SmallFiles,
}

impl Downloader {
    /// Fetches each file from one of its sources, and from another one where that is `late`, which grows. What comes goes to
    /// `arrived`, which holds the sources back where it is full.
    pub(super) async fn fetch_small(
        &self,
        streams: HashMap<NodeId, Source>,
        mut small: SmallFiles,
        late: &mut HashSet<NodeId>,
        progress: &Arc<Progress>,
        arrived: &mpsc::Sender<Arrived>,
    ) -> Fetched {
        let mut fetched = Fetched { streams, failed: Vec::new() };
        while !small.is_empty() {
            self.throttle.until_paused(false).await; // what is under way comes to its end: it is small
            let fetching = shared_out(std::mem::take(&mut small), late).into_iter().map(|part| {
                let ready = fetched.streams.remove(&part.holder.node);
                self.fetch_from(part, ready, progress, arrived.clone())
            });
            let fetching: Vec<_> = fetching.collect();
            let mut ended = stream::iter(fetching).buffer_unordered(SOURCES_MAX);
            while let Some((node, source, failed, is_late)) = ended.next().await {
                fetched.streams.extend(source.map(|source| (node, source)));
                if is_late && late.insert(node) { &mut small } else { &mut fetched.failed }.extend(failed);
            }
        }
        fetched
    }

    /// Fetches a part; returned are the source, what did not come, and whether that is as the source took too long to begin.
    async fn fetch_from(
        &self,
        SourceShare { holder, batch, has_others }: SourceShare,
        ready: Option<Source>,
        progress: &Arc<Progress>,
        arrived: mpsc::Sender<Arrived>,
    ) -> (NodeId, Option<Source>, SmallFiles, bool) {
        let connect_within = if has_others { ASK_ANOTHER_AFTER } else { CONNECT_WITHIN };
        let connecting = async {
            match ready {
                Some(source) => Ok(source),
                None => {
                    let connected = timeout(connect_within, Source::connect(&self.endpoint, &holder)).await;
                    connected.map_or(Err(has_others), |connected| connected.map_err(|_| false))
                }
            }
        };
        let mut source = match connecting.await {
            Ok(source) => source,
            Err(is_late) => return (holder.node, None, batch, is_late),
        };
        let (throttle, counter) = (Arc::clone(&self.throttle), progress.source(holder.node, holder.addr));
        let (progress, counters) = (Arc::clone(progress), Arc::clone(&self.library.counters));
        let (hang_up, guard) = (source.hang_up(), source.hang_up().on_drop());
        let (may_be_silent, came) = (self.throttle.down.limit().is_none(), Arc::clone(&counter));
        let (mut bytes_before, disk) = (came.bytes(), arrived.clone());
        let fetching = blocking(move || {
            let mut failed = Vec::new();
            let (mut asked, mut broken) = (0, false);
            let record = |small: &Small| (small.target.record.content, small.target.record.size);
            let names: Vec<(ContentHash, u64)> = batch.iter().map(record).collect();
            for (place, small) in batch.into_iter().enumerate() {
                let ahead = names.len().min(place + ASKED_AHEAD);
                if !broken && asked < ahead && (asked + ASKED_AT_ONCE <= ahead || ahead == names.len()) {
                    broken = source.ask_whole(&names[asked..ahead]).is_err();
                    asked = ahead;
                }
                let (content, size) = names[place];
                match (!broken).then(|| source.whole(content, size, &throttle.down)) {
                    Some(Ok(bytes)) => {
                        counter.add(bytes.len() as u64);
                        counters.bytes_down.inc_by(bytes.len() as u64);
                        progress.add_done(bytes.len() as u64);
                        // Nobody takes it where the download was dropped.
                        broken |= arrived.blocking_send(Arrived { small, bytes, from: holder }).is_err();
                    }
                    Some(Err(error)) => {
                        broken |= !matches!(error, FetchError::Refused(_));
                        failed.push(small);
                    }
                    None => failed.push(small),
                }
            }
            ((!broken).then_some(source), failed)
        });
        tokio::pin!(fetching);
        let (mut patience, later) = match has_others {
            true => (ASK_ANOTHER_AFTER, SILENT_AFTER),
            false => (SILENT_ALONE_AFTER, SILENT_ALONE_AFTER),
        };
        let mut is_silent = false;
        let (source, failed) = loop {
            if let Ok(fetched) = timeout(patience, &mut fetching).await {
                break fetched;
            }
            // What waits for a slow disk came in time.
            is_silent |= may_be_silent && came.bytes() == bytes_before && disk.capacity() > 0;
            if is_silent {
                hang_up.now();
            }
            (patience, bytes_before) = (later, came.bytes());
        };
        guard.disarm();
        (holder.node, source, failed, is_silent && has_others)
    }

    /// Stores what comes, some hundred files together, until nobody sends any more; each outcome goes to `stored`.
    pub(super) async fn store_small(
        &self,
        mut arrived: mpsc::Receiver<Arrived>,
        mut stored: impl FnMut(Vec<(Arrived, Result<PathBuf, Failure>)>),
    ) {
        while let Some(first) = arrived.recv().await {
            let (mut bytes, until) = (first.bytes.len(), Instant::now() + STORED_AFTER);
            let mut group = vec![first];
            while group.len() < STORED_FILES && bytes < STORED_BYTES {
                let Ok(Some(next)) = timeout_at(until, arrived.recv()).await else { break };
                bytes += next.bytes.len();
                group.push(next);
            }
            stored(self.store_batch(group).await);
        }
    }

    /// [Puts](put_in_place) all files of a batch in their places.
    ///
    /// # Cancel safety
    /// Safe: once started it runs to its end.
    async fn store_batch(&self, arrived: Vec<Arrived>) -> Vec<(Arrived, Result<PathBuf, Failure>)> {
        let indexers = Arc::clone(&self.indexers);
        let store = move |library: &Arc<Library>| {
            let stored = store_all(library, arrived);
            let kept: Vec<Entry> =
                stored.iter().filter_map(|(_, entry)| entry.as_ref().ok().cloned()).collect();
            keep(library, &indexers, &kept);
            stored
        };
        let stored = self.library.blocking(store).await;
        stored.into_iter().map(|(arrived, entry)| (arrived, entry.map(|entry| entry.path))).collect()
    }
}

/// The files that one source is asked for.
struct SourceShare {
    holder: Holder,
    batch: SmallFiles,
    /// All of them have another source that was not late.
    has_others: bool,
}

/// Each file at one of its sources that was not late, if there is one: complete ones come first, and share the work.
fn shared_out(batch: SmallFiles, late: &HashSet<NodeId>) -> Vec<SourceShare> {
    let mut parts: HashMap<NodeId, SourceShare> = HashMap::new();
    for (place, small) in batch.into_iter().enumerate() {
        let all = &small.target.sources;
        let in_time: Vec<Holder> =
            all.iter().filter(|source| !late.contains(&source.node)).copied().collect();
        let (sources, has_others) =
            if in_time.is_empty() { (all, false) } else { (&in_time, in_time.len() > 1) };
        let complete = sources.iter().filter(|source| !source.partial).count().max(1);
        let holder = sources[place % complete];
        let part =
            parts.entry(holder.node).or_insert_with(|| SourceShare { holder, batch: Vec::new(), has_others });
        part.has_others &= has_others;
        part.batch.push(small);
    }
    parts.into_values().collect()
}

fn store_all(library: &Library, arrived: Vec<Arrived>) -> Vec<(Arrived, Result<Entry, Failure>)> {
    let (mut complete, mut failed) = (Vec::with_capacity(arrived.len()), Vec::with_capacity(arrived.len()));
    let mut folders = FolderCache::default();
    for one in &arrived {
        failed.push(write(library, one, &mut folders).map(|file| complete.push(file)).err());
    }
    let mut stored = put_in_place(&library.catalogue, complete).into_iter(); // what is not failed, in order
    let outcome = |(arrived, failed): (Arrived, Option<_>)| {
        let outcome = failed.map(Err).or_else(|| stored.next())?;
        Some((arrived, outcome))
    };
    arrived.into_iter().zip(failed).filter_map(outcome).collect()
}

fn write<'a>(
    library: &Library,
    arrived: &'a Arrived,
    folders: &mut FolderCache,
) -> Result<Complete<'a>, Failure> {
    let Small { target: Target { record, sources, .. }, manifest, encoded, landing, stop } = &arrived.small;
    library.catalogue.may_put(record, landing.passed_over)?;
    let place = place_in(folders, library, record, landing.output.as_deref())?;
    let partial = place.partial(&library.data_dir, &record.name)?;
    match partial.write_at(&arrived.bytes, 0).and_then(|()| partial.complete(record.size)) {
        Ok(stamp) => {
            let origin = sources.iter().find(|source| source.node == record.origin);
            let (origin_addr, path) = (origin.map(|origin| origin.addr), partial.target().to_owned());
            let entry = copy_entry(record.clone(), origin_addr, stamp, path);
            let copy = StoredCopy { entry, manifest: encoded.clone(), outboard: Vec::new() };
            Ok(Complete { copy, partial, manifest, landing, stop })
        }
        Err(error) => {
            partial.discard()?; // it is small enough to be fetched again
            Err(if error.kind == FailureKind::Full { full(partial.target()) } else { error })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::download::file::kills::{Killed, content, download, record, start};

    #[test]
    fn partial_file_of_an_older_version_is_used_up() {
        let folder = tempfile::tempdir().unwrap();
        let library = start(folder.path());
        download(&library, 2, Killed::Half);
        let record = record(3);
        let from = Holder::new(record.origin, ([127, 0, 0, 1], 1).into());
        let (manifest, encoded) = Manifest::implied_by(&record).unwrap();
        let (target, landing) = (Target::new(record, Vec::new()), Landing::default());
        let small = Small { target, manifest, encoded, landing, stop: CancellationToken::new() };
        let stored = store_all(&library, vec![Arrived { small, bytes: content(3), from }]);
        assert!(stored.iter().all(|(_, result)| result.is_ok()));
        let files = std::fs::read_dir(folder.path().join("docs")).unwrap();
        let names: Vec<_> = files.map(|file| file.unwrap().file_name()).collect();
        assert_eq!(names, ["a"]);
        assert_eq!(std::fs::read(folder.path().join("docs/a")).unwrap(), content(3));
        assert_eq!(std::fs::read_dir(library.data_dir.join("parts")).unwrap().count(), 0);
    }
}
