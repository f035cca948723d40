//! [`OpenBase`]: a delta base, and which of its parts become the prefix of a run.
//!
//! That is told by the run's neighbors, where they are chunks of that version too; else by its [`Anchors`], which are looked for
//! once in that version, when a reader first asks for what they help with.

use std::{
    ops::Range,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use nekoproto::{
    ByteRange, ChunkHash, ContentHash, FileName, Manifest,
    limits::{BASE_BYTES_MAX, BASE_RANGES_MAX},
};
use parking_lot::{Condvar, Mutex};

use crate::{
    content::{
        anchors::{Anchors, PART_BYTES},
        equal_chunks::{by_hash, equal_to},
    },
    library::Library,
    storage::catalogue::EarlierVersion,
};

/// How long answers wait for the anchors of a version: as long as those of 1 GiB take. Later ones do without until they are
/// there.
const ANCHORS_WITHIN: Duration = Duration::from_secs(2);
/// How much of a version stands in front of a run at most, by the run's length, and at least.
const BASE_TIMES_MAX: u64 = 4;
const BASE_BYTES_USUAL: u64 = 256 * 1024;
const READ_BYTES: u64 = 1024 * 1024;

/// A version that readers have.
#[derive(Debug)]
pub(super) struct OpenBase {
    pub(super) version: EarlierVersion,
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

impl OpenBase {
    /// The version `base` of the file `name`, if it is here; `file` has the chunks that are asked for. Blocking.
    pub(super) fn find(
        library: &Library,
        name: &FileName,
        base: ContentHash,
        file: Arc<Manifest>,
    ) -> Option<Self> {
        let versions = library.catalogue.readable_versions(name);
        let versions =
            versions.inspect_err(|error| tracing::warn!(%name, %error, "no earlier version is read"));
        let version = versions.ok()?.into_iter().find(|version| version.entry.record.content == base)?;
        let sorted = by_hash(&version.manifest, |_| true);
        Some(Self { version, sorted, file, anchors: Mutex::new(Looked::Not), found: Condvar::new() })
    }

    /// The parts of this version that are most like `run`, in its order.
    pub(super) fn like(&self, range: ByteRange, run: &[u8], anchors: Option<&Anchors>) -> Vec<ByteRange> {
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
    pub(super) fn anchors(self: &Arc<Self>, range: ByteRange) -> Option<Arc<Anchors>> {
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
