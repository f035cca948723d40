//! [`Packer`]: answers with a run of a file in few bytes: packed after the parts of a version that the reader has which are
//! most like it, packed alone, or as it is. No answer waits long for that, and strangers get half of the cores at most.
//!
//! Which parts are like a run is told by its neighbors, where they are chunks of that version too; else by its
//! [`Anchors`], which are looked for once in that version, when a reader first asks for what they help with.

use std::{
    ops::Range,
    sync::Arc,
    thread::{self, available_parallelism},
    time::{Duration, Instant},
};

use nekoproto::{
    ByteRange, ChunkHash, ContentHash, FileName, List, Manifest, Packing,
    codec::CodecError,
    limits::{BASE_BYTES_MAX, BASE_RANGES_MAX},
};
use parking_lot::{Condvar, Mutex};
use tokio::sync::Semaphore;

use crate::{
    content::{
        anchors::{Anchors, PART_BYTES},
        equal_chunks::{by_hash, equal_to},
        packed::pack,
    },
    library::Library,
    storage::catalogue::EarlierVersion,
};

/// How long an answer waits for its turn to be packed, alone and after a version that the reader has: after that it goes as
/// it is.
const TURN_WITHIN: Duration = Duration::from_millis(50);
const TURN_WITH_BASE_WITHIN: Duration = Duration::from_millis(500);
const TURN_LOOK_EVERY: Duration = Duration::from_millis(2);
/// How long answers wait for the anchors of a version: as long as those of 1 GiB take. Later ones do without until they are
/// there.
const ANCHORS_WITHIN: Duration = Duration::from_secs(2);
/// Versions that are open at once, bytes of all their anchors (those of a large one take 16 MiB), and how long after the last
/// answer.
const OPEN_MAX: usize = 32;
const ANCHORS_BYTES_MAX: usize = 32 * 1024 * 1024;
const OPEN_FOR: Duration = Duration::from_secs(30);
/// How much of a version stands in front of a run at most, by the run's length, and at least.
const BASE_TIMES_MAX: u64 = 4;
const BASE_BYTES_USUAL: u64 = 256 * 1024;
/// Bytes that are read at once for anchors.
const READ_BYTES: u64 = 1024 * 1024;

/// Packs, and keeps open what that needs.
#[derive(Debug)]
pub(super) struct Packer {
    turns: Semaphore,
    open: Mutex<Vec<(Instant, OpenPair)>>,
}

/// A file, a version that readers of it have, and that version if it is here.
type OpenPair = ((ContentHash, ContentHash), Option<Arc<OpenBase>>);

/// A version that readers have.
#[derive(Debug)]
struct OpenBase {
    version: EarlierVersion,
    /// Its chunks, [by hash](by_hash).
    sorted: Vec<u32>,
    /// The chunks of the file that is asked for.
    file: Arc<Manifest>,
    anchors: Mutex<Looked>,
    found: Condvar,
}

#[derive(Debug)]
enum Looked {
    Not,
    Since(Instant),
    Found(Arc<Anchors>),
    /// The version cannot be read.
    InVain,
}

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

impl OpenBase {
    fn find(library: &Library, name: &FileName, base: ContentHash, file: Arc<Manifest>) -> Option<Self> {
        let versions = library.catalogue.readable_versions(name);
        let versions =
            versions.inspect_err(|error| tracing::warn!(%name, %error, "no earlier version is read"));
        let version = versions.ok()?.into_iter().find(|version| version.entry.record.content == base)?;
        let sorted = by_hash(&version.manifest, |_| true);
        Some(Self { version, sorted, file, anchors: Mutex::new(Looked::Not), found: Condvar::new() })
    }

    /// The parts of this version that are most like `run`, in its order.
    fn like(&self, range: ByteRange, run: &[u8], anchors: Option<&Anchors>) -> Vec<ByteRange> {
        let (len, size, most) = (range.len, self.version.manifest.size(), most(range.len));
        let after = |left: Option<u64>, len| left.map(|left| left..left + len);
        let before = |right: Option<u64>, len| right.map(|right: u64| right.saturating_sub(len)..right);
        let around = match self.around(range) {
            (Some(left), Some(right)) if left <= right && right - left <= most => [Some(left..right), None],
            (left @ Some(_), right @ Some(_)) => [after(left, len / 2), before(right, len / 2)],
            (left, right) => [after(left, len), before(right, len)],
        };
        let mut ranges: Vec<Range<u64>> = around.into_iter().flatten().collect();
        if let Some(anchors) = anchors {
            let sure: u64 = ranges.iter().map(|range| range.end - range.start).sum();
            let parts = usize::try_from(most.saturating_sub(sure) / PART_BYTES).unwrap_or(0);
            let like = anchors.like(run, parts).into_iter();
            ranges.extend(like.map(|part| part * PART_BYTES..(part + 1) * PART_BYTES));
        }
        merged(ranges, size)
    }

    /// Where this version goes on behind the chunk in front of `range`, and where the chunk behind it begins.
    fn around(&self, range: ByteRange) -> (Option<u64>, Option<u64>) {
        let chunks = self.file.chunks_in(range.offset..range.offset + range.len);
        let (manifest, file) = (&self.version.manifest, self.file.chunks());
        let place = |hash: &ChunkHash| {
            equal_to(hash, &self.sorted, manifest).first().map(|index| manifest.range(*index as usize))
        };
        let left = chunks.start.checked_sub(1).and_then(|index| place(&file[index].hash));
        let right = file.get(chunks.end).and_then(|chunk| place(&chunk.hash));
        (left.map(|left| left.end), right.map(|right| right.start))
    }

    /// The anchors of this version, if they help with the bytes in `range`: not where what is between the chunks around
    /// it is of this version too. `None` too while they are looked for, once that took long.
    fn anchors(self: &Arc<Self>, range: ByteRange) -> Option<Arc<Anchors>> {
        if let (Some(left), Some(right)) = self.around(range)
            && left <= right
            && (range.len / 2..=most(range.len)).contains(&(right - left))
        {
            return None;
        }
        let mut looked = self.anchors.lock();
        if matches!(*looked, Looked::Not) {
            *looked = Looked::Since(Instant::now());
            let base = Arc::clone(self);
            thread::spawn(move || base.look());
        }
        loop {
            let since = match &*looked {
                Looked::Found(anchors) => return Some(Arc::clone(anchors)),
                Looked::Since(since) => *since,
                Looked::Not | Looked::InVain => return None,
            };
            if self.found.wait_until(&mut looked, since + ANCHORS_WITHIN).timed_out() {
                return None;
            }
        }
    }

    /// Reads all of this version for its anchors.
    fn look(&self) {
        let size = self.version.manifest.size();
        let mut anchors = Anchors::new(size);
        let read =
            (0..size).step_by(usize::try_from(READ_BYTES).unwrap_or(usize::MAX)).try_for_each(|offset| {
                let len = READ_BYTES.min(size - offset);
                self.version.read(&[ByteRange { offset, len }]).map(|bytes| anchors.add(&bytes))
            });
        let found = read.map(|()| Looked::Found(Arc::new(anchors)));
        *self.anchors.lock() = found.unwrap_or_else(|error| {
            tracing::debug!(%error, "an earlier version cannot be read");
            Looked::InVain
        });
        self.found.notify_all();
    }
}

/// Bytes of a version that stand in front of a run of `len` bytes at most.
fn most(len: u64) -> u64 {
    (len * BASE_TIMES_MAX).clamp(BASE_BYTES_USUAL, BASE_BYTES_MAX)
}

/// Joins what touches, in order, within a version of `size` bytes and within the limits of a reply.
fn merged(mut ranges: Vec<Range<u64>>, size: u64) -> Vec<ByteRange> {
    ranges.iter_mut().for_each(|range| *range = range.start.min(size)..range.end.min(size));
    ranges.retain(|range| !range.is_empty());
    ranges.sort_unstable_by_key(|range| (range.start, range.end));
    let (mut joined, mut left) = (Vec::<ByteRange>::new(), BASE_BYTES_MAX);
    for range in ranges {
        let end = joined.last().map_or(0, |last| last.offset + last.len);
        let start = range.start.max(end);
        let len = range.end.saturating_sub(start).min(left);
        let is_full = joined.len() == BASE_RANGES_MAX;
        match joined.last_mut() {
            _ if len == 0 => continue,
            Some(last) if start == end => last.len += len,
            _ if is_full => break,
            _ => joined.push(ByteRange { offset: start, len }),
        }
        left -= len;
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_joined_and_stay_within_the_version_and_the_limits() {
        let range = |offset, len| ByteRange { offset, len };
        assert_eq!(merged(vec![20..30, 0..10, 10..15, 12..21], 25), [range(0, 25)]);
        assert_eq!(merged(vec![50..60, 5..5, 0..3], 40), [range(0, 3)]);
        let many = (0..1000).map(|part| 2 * part * PART_BYTES..(2 * part + 1) * PART_BYTES).collect();
        let joined = merged(many, u64::MAX);
        assert_eq!(joined.len(), BASE_RANGES_MAX);
        assert_eq!(joined.iter().map(|range| range.len).sum::<u64>(), BASE_BYTES_MAX);
        assert_eq!(merged(vec![0..9, 9..u64::MAX], u64::MAX), [range(0, BASE_BYTES_MAX)]);
    }
}
