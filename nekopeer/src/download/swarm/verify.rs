//! Verifies received bytes by the segments of the outboard, if known: one hash pass verifies both the
//! chunks and the whole file. Bytes in no complete segment are verified by their chunks' hashes.

use std::{ops::Range, sync::Arc};

use crate::content::outboard::{SegmentHash, SegmentHasher, Segments, segment_bytes};

/// Maximum segment length used here, in bytes: bytes stay in memory until their segment is complete.
const SEGMENT_BYTES_MAX: u64 = 1024 * 1024;

/// How far the bytes of one stream are verified.
///
/// Invariant: all bytes in `verified` belong to segments whose hash matched.
#[derive(Debug)]
pub(super) struct Verifier {
    expected: Option<Arc<Segments>>,
    size: u64,
    hasher: SegmentHasher,
    verified: Range<u64>,
}

impl Verifier {
    pub(super) fn new(expected: Option<Arc<Segments>>, size: u64) -> Self {
        let expected = expected.filter(|_| segment_bytes(size) <= SEGMENT_BYTES_MAX);
        Self { expected, size, hasher: SegmentHasher::new(size, 0), verified: 0..0 }
    }

    /// Whether segments are known, and all have matched so far.
    pub(super) const fn is_used(&self) -> bool {
        self.expected.is_some()
    }

    /// The next bytes start at `offset`.
    pub(super) fn begin(&mut self, offset: u64) {
        if self.hasher.at() != offset {
            self.hasher = SegmentHasher::new(self.size, offset);
            self.verified = offset..offset;
        }
    }

    /// End of the bytes needed to verify `chunk`, given that those up to `end` have arrived.
    pub(super) fn needs(&self, chunk: &Range<u64>, end: u64) -> u64 {
        if !self.may_yet_verify(chunk) {
            return chunk.end;
        }
        chunk.end.next_multiple_of(segment_bytes(self.size)).min(end)
    }

    /// Hashes `bytes`, which start at `offset`, except those hashed before. `right` gets each complete
    /// segment that matched.
    pub(super) fn feed(&mut self, offset: u64, bytes: &[u8], mut right: impl FnMut(usize, SegmentHash)) {
        let Some(expected) = &self.expected else { return };
        let hashed = usize::try_from(self.hasher.at() - offset).unwrap_or(usize::MAX);
        let (verified, mut wrong) = (&mut self.verified, false);
        self.hasher.update(&bytes[hashed.min(bytes.len())..], |index, hash| {
            wrong |= expected.get(index) != Some(hash);
            if wrong {
                return;
            }
            let range = expected.range(index);
            *verified = if verified.end == range.start { verified.start..range.end } else { range };
            right(index, hash);
        });
        if wrong {
            // The chunks' hashes decide which chunk is corrupt and which source to blame.
            self.expected = None;
        }
    }

    pub(super) fn has_verified(&self, chunk: &Range<u64>) -> bool {
        self.verified.start <= chunk.start && chunk.end <= self.verified.end
    }

    /// Whether further bytes may verify `chunk`: not if the start of its first segment was not received here.
    pub(super) fn may_yet_verify(&self, chunk: &Range<u64>) -> bool {
        let begins = if self.verified.is_empty() {
            self.verified.start.next_multiple_of(segment_bytes(self.size))
        } else {
            self.verified.start
        };
        self.is_used() && begins <= chunk.start
    }
}

#[cfg(test)]
mod tests {
    use nekoproto::ContentHash;
    use testkit::goods::bytes;

    use super::*;

    fn expected(bytes: &[u8]) -> Option<Arc<Segments>> {
        let mut segments = Segments::new(bytes.len() as u64);
        SegmentHasher::new(bytes.len() as u64, 0).update(bytes, |index, hash| segments.put(index, hash));
        let content = ContentHash::from_bytes(*blake3::hash(bytes).as_bytes());
        assert_eq!(segments.whole(), Some(content));
        Some(Arc::new(segments))
    }

    #[test]
    fn what_whole_segments_cover_is_verified_and_the_edges_are_not() {
        let step = segment_bytes(0);
        let size = 5 * step + 100;
        let bytes = bytes(1, usize::try_from(size).unwrap());
        let mut verifier = Verifier::new(expected(&bytes), size);
        let begin = step / 2;
        verifier.begin(begin);
        assert!(!verifier.may_yet_verify(&(begin..begin + 10)), "its segment began before");
        assert!(verifier.may_yet_verify(&(step..step + 10)));
        assert_eq!(verifier.needs(&(begin..begin + 10), size), begin + 10);
        assert_eq!(verifier.needs(&(step..step + 10), size), 2 * step);
        assert_eq!(verifier.needs(&(step..step + 10), step + 50), step + 50, "no more was asked for");
        let at = |from: u64, to: u64| &bytes[usize::try_from(from).unwrap()..usize::try_from(to).unwrap()];
        let mut right = Vec::new();
        verifier.feed(begin, at(begin, 3 * step + 7), |index, _| right.push(index));
        assert_eq!(right, [1, 2]);
        assert!(verifier.has_verified(&(step..3 * step)) && !verifier.has_verified(&(step..3 * step + 1)));
        // The buffer moves on and still holds some bytes that were hashed.
        verifier.feed(2 * step, at(2 * step, size), |index, _| right.push(index));
        assert_eq!(right, [1, 2, 3, 4, 5]);
        assert!(verifier.has_verified(&(step..size)));
    }

    #[test]
    fn a_wrong_segment_leaves_the_rest_to_the_chunks() {
        let step = segment_bytes(0);
        let size = 3 * step;
        let good = bytes(1, usize::try_from(size).unwrap());
        let mut verifier = Verifier::new(expected(&good), size);
        let mut bad = good;
        bad[usize::try_from(step).unwrap() + 5] ^= 1;
        verifier.begin(0);
        let mut right = Vec::new();
        verifier.feed(0, &bad, |index, _| right.push(index));
        assert_eq!(right, [0]);
        assert!(verifier.has_verified(&(0..step)) && !verifier.has_verified(&(step..step + 1)));
        assert!(!verifier.is_used() && !verifier.may_yet_verify(&(2 * step..3 * step)));
    }
}
