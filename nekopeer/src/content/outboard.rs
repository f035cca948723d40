//! BLAKE3 of a whole file, computed from segments hashed in any order on any thread.
//!
//! BLAKE3 is a binary tree over leaves of 1 KiB. A segment is an aligned subtree, so it can be hashed
//! without its neighbors; the `hazmat` module of the `blake3` crate gives the rules.

use std::ops::Range;

use blake3::{
    Hasher,
    hazmat::{
        ChainingValue, HasherExt, Mode, left_subtree_len, merge_subtrees_non_root, merge_subtrees_root,
    },
};
use nekoproto::ContentHash;

/// Minimum length of a segment in bytes.
const SEGMENT_BYTES_MIN: u64 = 128 * 1024;
/// Maximum number of segments per file; it bounds the memory for their hashes.
const SEGMENTS_MAX: u64 = 64 * 1024;

pub(crate) type SegmentHash = ChainingValue;

/// Length of the segments of a file of `size` bytes: a power of two.
pub(crate) fn segment_bytes(size: u64) -> u64 {
    size.div_ceil(SEGMENTS_MAX).next_power_of_two().max(SEGMENT_BYTES_MIN)
}

/// The hashes of a file's segments, collected in any order.
///
/// Invariant: `missing` counts the `None` entries of `hashes`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Segments {
    size: u64,
    hashes: Vec<Option<SegmentHash>>,
    missing: usize,
}

impl Segments {
    /// All segments of a file of `size` bytes, no hash known yet. An empty file has one segment.
    pub(crate) fn new(size: u64) -> Self {
        let count = size.div_ceil(segment_bytes(size)).max(1);
        let count = usize::try_from(count).unwrap_or(usize::MAX); // at most SEGMENTS_MAX
        Self { size, hashes: vec![None; count], missing: count }
    }

    pub(crate) const fn len(&self) -> usize {
        self.hashes.len()
    }

    pub(crate) fn range(&self, index: usize) -> Range<u64> {
        let step = segment_bytes(self.size);
        let start = index as u64 * step;
        start..(start + step).min(self.size)
    }

    pub(crate) fn get(&self, index: usize) -> Option<SegmentHash> {
        self.hashes.get(index).copied().flatten()
    }

    /// The encoded outboard: all hashes concatenated. Empty while one is missing.
    pub(crate) fn to_outboard(&self) -> Vec<u8> {
        if self.missing > 0 { Vec::new() } else { self.hashes.iter().flatten().flatten().copied().collect() }
    }

    /// Decodes the outboard of a file of `size` bytes. `None` unless the hashes combine to `content`, so
    /// an outboard may come from an untrusted node.
    pub(crate) fn from_outboard(outboard: &[u8], size: u64, content: &ContentHash) -> Option<Self> {
        let mut segments = Self::new(size);
        let (hashes, rest) = outboard.as_chunks();
        if hashes.len() != segments.len() || !rest.is_empty() {
            return None;
        }
        hashes.iter().enumerate().for_each(|(index, hash)| segments.put(index, *hash));
        segments.whole().is_some_and(|whole| whole == *content).then_some(segments)
    }

    /// Stores the hash of segment `index`.
    ///
    /// # Panics
    /// There is no such segment.
    pub(crate) fn put(&mut self, index: usize, hash: SegmentHash) {
        if self.hashes[index].replace(hash).is_none() {
            self.missing -= 1;
        }
    }

    /// The hash of the whole file, once all segments are known.
    pub(crate) fn whole(&self) -> Option<ContentHash> {
        if self.missing > 0 {
            return None;
        }
        let hashes: Vec<SegmentHash> = self.hashes.iter().copied().flatten().collect();
        let root = match hashes.as_slice() {
            [only] => *only, // it was hashed as the root
            hashes => {
                let (left, right) = self.halves(hashes, self.size);
                *merge_subtrees_root(&left, &right, Mode::Hash).as_bytes()
            }
        };
        Some(ContentHash::from_bytes(root))
    }

    /// The hashes of the left and the right subtree of a tree over `bytes` bytes, more than one segment.
    fn halves(&self, hashes: &[SegmentHash], bytes: u64) -> (SegmentHash, SegmentHash) {
        let left = left_subtree_len(bytes);
        let in_left = usize::try_from(left / segment_bytes(self.size)).unwrap_or(usize::MAX);
        let (on_left, on_right) = hashes.split_at(in_left);
        (self.subtree(on_left, left), self.subtree(on_right, bytes - left))
    }

    fn subtree(&self, hashes: &[SegmentHash], bytes: u64) -> SegmentHash {
        match hashes {
            [only] => *only,
            _ => {
                let (left, right) = self.halves(hashes, bytes);
                merge_subtrees_non_root(&left, &right, Mode::Hash)
            }
        }
    }
}

/// Hashes a file's bytes from an offset on, and reports each segment that it hashed completely.
#[derive(Debug)]
pub(crate) struct SegmentHasher {
    size: u64,
    at: u64,
    /// Hasher of the current segment; `None` if hashing started inside it.
    hasher: Option<Hasher>,
}

impl SegmentHasher {
    pub(crate) fn new(size: u64, offset: u64) -> Self {
        let mut feed = Self { size, at: offset, hasher: None };
        feed.begin_segment();
        feed
    }

    /// Offset of the next byte.
    pub(crate) const fn at(&self) -> u64 {
        self.at
    }

    fn begin_segment(&mut self) {
        let begins = self.at < self.size && self.at.is_multiple_of(segment_bytes(self.size));
        self.hasher = begins.then(|| {
            let mut hasher = Hasher::new();
            hasher.set_input_offset(self.at);
            hasher
        });
    }

    /// Hashes the next bytes of the file, at most up to its end; `done` gets each segment that they complete.
    pub(crate) fn update(&mut self, mut bytes: &[u8], mut done: impl FnMut(usize, SegmentHash)) {
        let step = segment_bytes(self.size);
        while !bytes.is_empty() {
            let segment = self.at / step;
            let end = ((segment + 1) * step).min(self.size);
            let left = usize::try_from(end.saturating_sub(self.at)).unwrap_or(usize::MAX);
            debug_assert!(left > 0, "no more bytes than the file has");
            let (now, later) = bytes.split_at(left.min(bytes.len()));
            if let Some(hasher) = &mut self.hasher {
                hasher.update(now);
            }
            self.at += now.len() as u64;
            bytes = later;
            if self.at == end {
                if let Some(hasher) = self.hasher.take() {
                    let only = self.size <= step;
                    let hash = if only { *hasher.finalize().as_bytes() } else { hasher.finalize_non_root() };
                    done(usize::try_from(segment).unwrap_or(usize::MAX), hash);
                }
                self.begin_segment();
            }
            if left == 0 {
                return;
            }
        }
    }
}

/// The hash of an empty file's only segment.
pub(crate) fn of_nothing() -> SegmentHash {
    *blake3::hash(b"").as_bytes()
}

#[cfg(test)]
mod tests {
    use testkit::goods::bytes;

    use super::*;

    fn whole_by_feeds(bytes: &[u8], cuts: &[usize]) -> Option<ContentHash> {
        let size = bytes.len() as u64;
        let mut segments = Segments::new(size);
        let mut at = 0;
        for cut in cuts.iter().copied().chain([bytes.len()]) {
            let cut = cut.min(bytes.len()).max(at);
            let mut feed = SegmentHasher::new(size, at as u64);
            for piece in bytes[at..cut].chunks(100_003) {
                feed.update(piece, |index, hash| segments.put(index, hash));
            }
            at = cut;
        }
        for index in 0..segments.len() {
            if segments.get(index).is_none() {
                let range = segments.range(index);
                let mut feed = SegmentHasher::new(size, range.start);
                let range = usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap();
                feed.update(&bytes[range], |index, hash| segments.put(index, hash));
            }
        }
        segments.whole()
    }

    #[test]
    fn segments_in_any_pieces_make_the_hash_of_the_file() {
        let step = usize::try_from(SEGMENT_BYTES_MIN).unwrap();
        for len in [1, 1023, 1025, step - 1, step, step + 1, 2 * step, 3 * step + 17, 4 * step, 7 * step + 1]
        {
            let bytes = bytes(1, len);
            let expected = ContentHash::from_bytes(*blake3::hash(&bytes).as_bytes());
            for cuts in [&[][..], &[1], &[step / 2, step + 5, 3 * step], &[step, 2 * step]] {
                assert_eq!(whole_by_feeds(&bytes, cuts), Some(expected), "{len} {cuts:?}");
            }
        }
    }

    #[test]
    fn a_missing_segment_gives_no_hash() {
        let mut segments = Segments::new(SEGMENT_BYTES_MIN * 2);
        segments.put(0, [1; 32]);
        assert_eq!(segments.whole(), None);
        segments.put(1, [2; 32]);
        assert!(segments.whole().is_some());
    }

    #[test]
    fn an_outboard_proves_itself() {
        let bytes = bytes(1, 5 * usize::try_from(SEGMENT_BYTES_MIN).unwrap() + 99);
        let size = bytes.len() as u64;
        let content = ContentHash::from_bytes(*blake3::hash(&bytes).as_bytes());
        let mut segments = Segments::new(size);
        assert!(segments.to_outboard().is_empty());
        SegmentHasher::new(size, 0).update(&bytes, |index, hash| segments.put(index, hash));
        let outboard = segments.to_outboard();
        assert_eq!(Segments::from_outboard(&outboard, size, &content), Some(segments));
        let mut forged = outboard.clone();
        forged[40] ^= 1;
        for wrong in [&forged[..], &outboard[1..], &outboard[32..], &[]] {
            assert_eq!(Segments::from_outboard(wrong, size, &content), None);
        }
        assert_eq!(Segments::from_outboard(&outboard, size + SEGMENT_BYTES_MIN, &content), None);
    }

    #[test]
    fn large_files_have_few_segments() {
        assert_eq!(segment_bytes(1 << 30), SEGMENT_BYTES_MIN);
        assert!(Segments::new(1 << 40).len() as u64 <= SEGMENTS_MAX);
    }
}
