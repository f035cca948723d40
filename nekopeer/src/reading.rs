//! [`Reading`]: which bytes whoever reads a name through this peer gets, and where they come from.
//!
//! A held file that is fresh, and not strict, is read from the disk. Otherwise its origin and the indexers are asked, and the newest
//! version is fetched if it can be had; only if not is a held one read that is not fresh, where its policy allows it.
//! What is fetched stands on the disk until it is read; a slow reader makes room for others.

use std::{
    io::{self, Write},
    ops::Range,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use nekoproto::{
    FileName, Freshness,
    transport::slots::{Activity, Slot, SlotLimits, SlotOwner, Slots},
};
use tokio::{
    runtime::Handle,
    sync::mpsc::{self, error::TrySendError},
};
use tokio_util::task::AbortOnDropHandle;

use crate::{
    download::{DownloadOptions, Downloaded, Downloader, free_in, plan::Plan},
    failure::{Failure, FailureKind, Reason},
    library::{
        Library,
        opened::{Holding, OpenFile, Validity},
    },
    peers::Peers,
    sets::is_folder,
    state::choice::Target,
};

/// Maximum number of names that are looked for or fetched at once; further ones are refused. Each fetch takes a
/// thread, a file as large as what is fetched, and connections to its sources.
const FETCHES_MAX: usize = 64;
/// MiB that are fetched at once: they stand on the disk until they are read. What is longer is fetched alone.
const FETCHED_MIB_MAX: u32 = 4096;
const PIECE_BYTES: usize = 128 * 1024;
/// How long a reader may let the next piece wait before another gets its slot, if all are taken.
pub(crate) const SLOW_AFTER: Duration = Duration::from_secs(2);
/// Pieces that wait to be taken; the fetch is slowed down beyond.
const PIECES_WAITING_MAX: usize = 4;

#[derive(Debug)]
pub(crate) struct Reading {
    library: Arc<Library>,
    peers: Arc<Peers>,
    /// Asks about what is read here and not kept.
    unlisted: Option<Arc<Peers>>,
    downloader: Arc<Downloader>,
    /// Where connections to other nodes are driven; whoever reads may run on another runtime.
    runtime: Handle,
    slots: Slots,
}

#[derive(Debug)]
pub(crate) enum ReadSource {
    Held(Box<OpenFile>),
    /// From other nodes, by [`Reading::fetch`].
    Elsewhere(Elsewhere),
}

/// A version that other nodes hold, and the right to fetch it.
#[derive(Debug)]
pub(crate) struct Elsewhere {
    pub(crate) target: Target,
    /// How fresh it is, if its origin has just confirmed it.
    pub(crate) validity: Option<Validity>,
    /// The copy that is held here, of an earlier version.
    pub(crate) held: Option<Box<OpenFile>>,
    slot: Slot,
}

/// A file on its way here. Dropping it ends the fetch.
#[derive(Debug)]
pub(crate) struct Fetch {
    /// The verified bytes in order. They end with the fetch, however it ends.
    pub(crate) pieces: mpsc::Receiver<Bytes>,
    /// `None`: its slot was given to another reader.
    task: AbortOnDropHandle<Option<Option<Result<Downloaded, Failure>>>>,
}

impl Reading {
    /// To be called on the runtime of the peer.
    pub(crate) fn new(library: &Arc<Library>, peers: &Arc<Peers>, downloader: &Arc<Downloader>) -> Self {
        let (library, peers, downloader) = (Arc::clone(library), Arc::clone(peers), Arc::clone(downloader));
        let limits = SlotLimits::new(FETCHES_MAX);
        let slots =
            Slots::with(SlotLimits { weight: FETCHED_MIB_MAX.into(), idle_after: SLOW_AFTER, ..limits });
        let unlisted = peers.unlisted().map(Arc::new).ok(); // the key is fine: it listens with it
        Self { library, peers, unlisted, downloader, runtime: Handle::current(), slots }
    }

    /// Finds what to read as `name`; with `origin`, only of origins whose id begins with these digits.
    ///
    /// # Cancel safety
    /// Safe: what is asked of other nodes ends.
    pub(crate) async fn find(&self, name: &FileName, origin: Option<&str>) -> Result<ReadSource, Failure> {
        let found = self.find_any(name, origin).await?;
        let record = match &found {
            ReadSource::Held(file) => &file.entry.record,
            ReadSource::Elsewhere(elsewhere) => &elsewhere.target.record,
        };
        match record.policy.is_set() {
            true => Err(is_folder(name)),
            false => Ok(found),
        }
    }

    async fn find_any(&self, name: &FileName, origin: Option<&str>) -> Result<ReadSource, Failure> {
        let held = match self.open(name, origin).await {
            Holding::Open(file) if self.library.catalogue.is_own(&file.entry) => {
                return match file.validity.freshness {
                    Freshness::Fresh => Ok(ReadSource::Held(Box::new(file))),
                    _ => in_spite(file).map(ReadSource::Held),
                };
            }
            Holding::Open(file) if is_fresh(&file) => return Ok(ReadSource::Held(Box::new(file))),
            Holding::Damaged(entry) if self.library.catalogue.is_own(&entry) => {
                let what = "was changed on disk since it was shared here: share it again";
                return Err(Failure::conflict(format!("{name} {what}")));
            }
            Holding::Open(file) => Some(file),
            Holding::Damaged(_) | Holding::Nothing => None,
        };
        let (slot, held) = match (self.slots.enter(SlotOwner::LOCAL, Activity::busy()), held) {
            (Some(slot), held) => (slot, held),
            (None, Some(file)) => return in_spite(file).map(ReadSource::Held),
            (None, None) => return Err(busy()),
        };
        let found = self.ask(name, origin, held.as_ref()).await?;
        let Some(before) = held else {
            let (target, validity) = found?;
            return Ok(ReadSource::Elsewhere(Elsewhere { target, validity, held: None, slot }));
        };
        // The answers may have made it fresh, or another version have taken its place.
        let now = match self.open(name, origin).await {
            Holding::Open(file) => file,
            Holding::Damaged(_) | Holding::Nothing => before,
        };
        let is_strict = now.entry.record.policy.is_strict();
        match found {
            Ok((target, validity)) if !is_fresh(&now) && target.record.replaces(&now.entry.record) => {
                Ok(ReadSource::Elsewhere(Elsewhere { target, validity, held: Some(Box::new(now)), slot }))
            }
            // The origin confirmed it for this read.
            Ok((target, _)) if is_strict && target.record == now.entry.record => {
                Ok(ReadSource::Held(Box::new(now)))
            }
            Err(error) if is_strict || error.reason == Reason::Withdrawn => Err(error),
            _ => in_spite(now).map(ReadSource::Held),
        }
    }

    /// What is held under `name`, if it is of the wanted origin.
    async fn open(&self, name: &FileName, origin: Option<&str>) -> Holding {
        let name = name.clone();
        let held = self.library.blocking(move |library| library.open_named(&name)).await;
        let of = match &held {
            Holding::Nothing => return held,
            Holding::Damaged(entry) => entry,
            Holding::Open(file) => &file.entry,
        };
        let is_wanted = origin.is_none_or(|digits| of.record.origin.to_string().starts_with(digits));
        if is_wanted { held } else { Holding::Nothing }
    }

    /// Looks for `name` in the network, and asks the origin of a held copy meanwhile, if no later version is known; then the
    /// origin of what was found, if that is another version.
    async fn ask(
        &self,
        name: &FileName,
        origin: Option<&str>,
        held: Option<&OpenFile>,
    ) -> Result<Result<(Target, Option<Validity>), Failure>, Failure> {
        let began = Instant::now();
        let record = held.map(|file| file.entry.record.clone());
        let unverified = held
            .filter(|file| file.validity.freshness == Freshness::Unverified)
            .map(|file| file.entry.record.clone())
            .filter(|record| self.library.is_worth_asking(record));
        let (downloader, peers, name) = (Arc::clone(&self.downloader), Arc::clone(&self.peers), name.clone());
        let (library, unlisted) = (Arc::clone(&self.library), self.unlisted.clone());
        let options = DownloadOptions { origin: origin.map(ToOwned::to_owned), ..DownloadOptions::default() };
        let asking = self.spawn(async move {
            let confirming = async {
                if let Some(record) = unverified {
                    peers.confirm(vec![record]).await;
                }
            };
            let target = futures::join!(downloader.find(&name, &options), confirming).0?;
            // Its origin knows this peer for a reader of what it holds.
            let (known, asking) = match record.filter(|held| held.origin == target.record.origin) {
                Some(held) if held == target.record => return Ok((target, None)),
                Some(held) => (held, Some(peers)),
                None => (target.record.clone(), unlisted),
            };
            let Some(asking) = asking else { return Ok((target, None)) };
            let (target, is_confirmed) = downloader.confirm_found(&asking, target, known).await?;
            let record = target.record.clone();
            let validity =
                library.blocking(move |library| library.validity_of_found(&record, began.elapsed()));
            let validity = validity.await;
            Ok((target, is_confirmed.then_some(validity)))
        });
        ended(asking).await
    }

    pub(crate) fn fetch(&self, found: Elsewhere, range: Range<u64>) -> Result<Fetch, Failure> {
        let Elsewhere { target, slot, .. } = found;
        if !slot.grow(mib(&range).into(), Instant::now()) {
            return Err(busy());
        }
        self.has_disk()?;
        let activity = slot.activity().clone();
        let (sender, pieces) = mpsc::channel(PIECES_WAITING_MAX);
        let out = PiecesOut { sender, activity, runtime: self.runtime.clone() };
        let (downloader, options) = (Arc::clone(&self.downloader), DownloadOptions::default());
        let task = self.spawn(async move {
            let progress = Arc::default();
            let plan = Plan::new(target, None);
            let reading = downloader.read_planned(plan, range, &options, out, &progress);
            slot.activity().ended().run_until_cancelled(reading).await
        });
        Ok(Fetch { pieces, task })
    }

    /// Whether the disk has room for all that is being fetched, as if none of it had been written yet.
    fn has_disk(&self) -> Result<(), Failure> {
        let folder = &self.library.data_dir;
        let Some(free) = free_in(folder) else { return Ok(()) }; // writing will say what is wrong
        if self.slots.weight().saturating_mul(1024 * 1024) <= free.saturating_add(1024 * 1024) {
            return Ok(());
        }
        let what = "has no room for the file, which stands there until it is read";
        let message = format!("the disk of {} {what}: free some space, or read a part", folder.display());
        Err(Failure::with(FailureKind::Full, message))
    }

    /// Runs `work` on the peer's runtime until it is done, the handle is dropped, or the peer ends.
    fn spawn<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> AbortOnDropHandle<Option<T>> {
        let tasks = &self.library.tasks;
        let until_stop = tasks.stop.clone().run_until_cancelled_owned(work);
        AbortOnDropHandle::new(tasks.tracker.spawn_on(until_stop, &self.runtime))
    }
}

fn busy() -> Failure {
    let message = format!(
        "{FETCHES_MAX} files are looked for or fetched for others already, or as much as {FETCHED_MIB_MAX} MiB with this \
         one: try again later"
    );
    Failure::with(FailureKind::Busy, message)
}

/// What fetching `range` takes of [`FETCHED_MIB_MAX`].
fn mib(range: &Range<u64>) -> u32 {
    let mib = (range.end - range.start).div_ceil(1024 * 1024);
    u32::try_from(mib).unwrap_or(u32::MAX).clamp(1, FETCHED_MIB_MAX)
}

/// Whether a copy may be read without a question.
fn is_fresh(file: &OpenFile) -> bool {
    file.validity.freshness == Freshness::Fresh && !file.entry.record.policy.is_strict()
}

/// A held file although it may not be fresh.
pub(crate) fn in_spite(file: OpenFile) -> Result<Box<OpenFile>, Failure> {
    let record = &file.entry.record;
    if is_fresh(&file) || record.policy.serves_stale() {
        Ok(Box::new(file))
    } else {
        let message = format!(
            "the copy of {} is not known to be the newest version any more, its policy forbids to hand it out, and a \
             newer one cannot be had: try again when its origin is reachable",
            record.name
        );
        Err(Failure::with(FailureKind::Away, message).because(Reason::Unconfirmed))
    }
}

impl Fetch {
    /// How the fetch ended; to be called once `pieces` have ended.
    pub(crate) async fn end(self) -> Result<(), Failure> {
        let too_slow = "it was read too slowly while others waited: read it faster";
        let downloaded = ended(self.task).await?;
        downloaded.unwrap_or_else(|| Err(Failure::with(FailureKind::Busy, too_slow))).map(drop)
    }
}

async fn ended<T>(task: AbortOnDropHandle<Option<T>>) -> Result<T, Failure> {
    let result = match task.await {
        Ok(result) => result,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => None,
        },
    };
    result.ok_or_else(|| Failure::with(FailureKind::Busy, "this peer is about to end"))
}

/// Passes bytes on in pieces. It blocks, and fails once the slot was given to another reader.
struct PiecesOut {
    sender: mpsc::Sender<Bytes>,
    activity: Activity,
    runtime: Handle,
}

impl Write for PiecesOut {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let piece = &bytes[..bytes.len().min(PIECE_BYTES)];
        let Self { sender, activity, runtime } = self;
        let is_sent = match sender.try_send(Bytes::copy_from_slice(piece)) {
            Err(TrySendError::Full(bytes)) => {
                activity.idle_since(Instant::now());
                let sent = runtime.block_on(activity.ended().run_until_cancelled(sender.send(bytes)));
                activity.set_busy(true);
                matches!(sent, Some(Ok(())))
            }
            sent => sent.is_ok(),
        };
        if is_sent { Ok(piece.len()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_files_take_the_room_of_many_and_the_longest_all_of_it() {
        let takes = [(0, 0), (0, 1), (5, (1 << 20) + 5), (0, (1 << 20) + 1), (0, 5 << 30), (0, u64::MAX)];
        let takes = takes.map(|(start, end)| mib(&(start..end)));
        assert_eq!(takes, [1, 1, 1, 2, FETCHED_MIB_MAX, FETCHED_MIB_MAX]);
    }
}
