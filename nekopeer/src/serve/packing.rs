//! [`Packer`]: compresses a requested run: as a delta to a version that the reader has, else alone, else not at all. On half of
//! the cores at most, and no reply waits long for its turn.

mod open_base;

use std::{
    sync::Arc,
    thread::{self, available_parallelism},
    time::{Duration, Instant},
};

use nekoproto::{ByteRange, ContentHash, FileName, List, Manifest, Packing, codec::CodecError};
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use self::open_base::OpenBase;
use crate::{
    content::{anchors::Anchors, packed::pack},
    library::Library,
};

/// How long an answer waits for its turn to be packed, alone and after a version that the reader has: after that it goes as
/// it is.
const TURN_WITHIN: Duration = Duration::from_millis(50);
const TURN_WITH_BASE_WITHIN: Duration = Duration::from_millis(500);
const TURN_LOOK_EVERY: Duration = Duration::from_millis(2);
/// Versions that are open at once, bytes of all their anchors (those of a large one take 16 MiB), and how long after the last
/// answer.
const OPEN_MAX: usize = 32;
const ANCHORS_BYTES_MAX: usize = 32 * 1024 * 1024;
const OPEN_FOR: Duration = Duration::from_secs(30);
#[derive(Debug)]
pub(super) struct Packer {
    turns: Semaphore,
    open: Mutex<Vec<(Instant, OpenPair)>>,
}

/// A file, a version that readers of it have, and that version if it is here.
type OpenPair = ((ContentHash, ContentHash), Option<Arc<OpenBase>>);

impl Default for Packer {
    fn default() -> Self {
        let half = available_parallelism().map_or(1, |cores| (cores.get() / 2).max(1));
        Self { turns: Semaphore::new(half), open: Mutex::default() }
    }
}

impl Packer {
    /// The body of the reply: `run`, which are the bytes in `range` of the file `content`, for a reader that has `bases`.
    /// `named` is that file's name and manifest. Blocking.
    pub(super) fn packed(
        &self,
        library: &Library,
        content: ContentHash,
        named: impl Fn() -> Option<(FileName, Arc<Manifest>)>,
        range: ByteRange,
        run: &[u8],
        bases: &[ContentHash],
    ) -> Result<Vec<u8>, CodecError> {
        // The first is the newest: what is further off has less in common.
        let mut bases = (0u8..).zip(bases);
        let base = bases.find_map(|(place, base)| Some((place, self.open(library, content, *base, &named)?)));
        let anchors = base.as_ref().and_then(|(_, base)| base.anchors(range)); // many may wait for them
        let patience = if base.is_some() { TURN_WITH_BASE_WITHIN } else { TURN_WITHIN };
        let Some(_turn) = self.turn(patience) else { return Packing::Plain.before(run) };
        if let Some((place, base)) = base {
            let ranges = base.like(range, run, anchors.as_deref());
            let prefix = Some(&ranges).filter(|ranges| !ranges.is_empty());
            let prefix = prefix.and_then(|ranges| base.version.read(ranges).ok());
            if let Some(frame) = prefix.and_then(|prefix| pack(&prefix, run)) {
                return Packing::After { base: place, ranges: List::first_of(ranges) }.before(&frame);
            }
        }
        match pack(&[], run) {
            Some(frame) => Packing::Frame.before(&frame),
            None => Packing::Plain.before(run),
        }
    }

    fn turn(&self, patience: Duration) -> Option<impl Sized> {
        let began = Instant::now();
        loop {
            match self.turns.try_acquire() {
                Ok(turn) => return Some(turn),
                Err(_) if began.elapsed() >= patience => return None,
                Err(_) => thread::sleep(TURN_LOOK_EVERY),
            }
        }
    }

    /// The version `base`, if it is one of the file `content` and is here: it stays open for a while.
    fn open(
        &self,
        library: &Library,
        content: ContentHash,
        base: ContentHash,
        named: impl Fn() -> Option<(FileName, Arc<Manifest>)>,
    ) -> Option<Arc<OpenBase>> {
        let mut open = self.open.lock();
        open.retain(|(since, _)| since.elapsed() < OPEN_FOR);
        let known = open.iter().position(|(_, (pair, _))| *pair == (content, base));
        let found = match known {
            Some(place) => open.remove(place).1.1,
            None => named().and_then(|(name, file)| OpenBase::find(library, &name, base, file).map(Arc::new)),
        };
        open.push((Instant::now(), ((content, base), found.clone())));
        while open.len() > OPEN_MAX
            || open.iter().map(|(_, (_, base))| bytes_of(base)).sum::<usize>() > ANCHORS_BYTES_MAX
        {
            let absent = open.iter().position(|(_, (_, base))| base.is_none());
            open.remove(absent.unwrap_or(0)); // what is not here, or was asked for longest ago
        }
        found
    }

    /// Closes what was not asked for lately. Returns whether something is open.
    pub(super) fn close_idle(&self) -> bool {
        let mut open = self.open.lock();
        open.retain(|(since, _)| since.elapsed() < OPEN_FOR);
        !open.is_empty()
    }
}

/// Bytes of the anchors of a version that is here, once they are found.
fn bytes_of(base: &Option<Arc<OpenBase>>) -> usize {
    base.as_ref().map_or(0, |base| Anchors::bytes(base.version.manifest.size()))
}
