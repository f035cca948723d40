//! Where each chunk of one download stands: missing, leased to a source, or had.

use std::{
    collections::{BTreeSet, HashMap},
    ops::Range,
};

use nekoproto::{Manifest, NodeId};

/// Tells apart the sources of one download.
pub type SourceId = NodeId;

/// Failures of one source before it is left alone. A corrupt chunk counts as all of them.
pub const STRIKES_MAX: u32 = 3;

/// Invariants:
/// - each chunk is in exactly one of `missing`, `leased`, had (counted);
/// - a chunk leased to a source that struck out or ended goes back to `missing`;
/// - had only grows, and only by chunks whose hash matched.
#[derive(Debug)]
pub struct Schedule {
    lens: Vec<u32>,
    missing: BTreeSet<usize>,
    leased: HashMap<usize, SourceId>,
    strikes: HashMap<SourceId, u32>,
}

/// What a source is to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Fetch these chunks, which follow each other in the file.
    Fetch(Range<usize>),
    /// Nothing at the moment: others fetch the rest. They may yet fail.
    Wait,
    /// Every chunk is there.
    Done,
    /// This source struck out.
    StruckOut,
}

impl Schedule {
    /// All chunks of `manifest` but those that `had` says are there.
    #[must_use]
    pub fn new(manifest: &Manifest, had: impl Fn(usize) -> bool) -> Self {
        let lens: Vec<u32> = manifest.chunks().iter().map(|chunk| chunk.len).collect();
        let missing = (0..lens.len()).filter(|index| !had(*index)).collect();
        Self { lens, missing, leased: HashMap::new(), strikes: HashMap::new() }
    }

    /// Leases to `source` a run of missing chunks of about `bytes` bytes, at least one chunk.
    pub fn next(&mut self, source: SourceId, bytes: u64) -> Next {
        if self.strikes.get(&source).is_some_and(|strikes| *strikes >= STRIKES_MAX) {
            return Next::StruckOut;
        }
        let Some(first) = self.missing.first().copied() else {
            return if self.leased.is_empty() { Next::Done } else { Next::Wait };
        };
        let mut end = first;
        let mut sum = 0;
        while self.missing.contains(&end) && (end == first || sum + u64::from(self.lens[end]) <= bytes) {
            sum += u64::from(self.lens[end]);
            end += 1;
        }
        for index in first..end {
            self.missing.remove(&index);
            self.leased.insert(index, source);
        }
        Next::Fetch(first..end)
    }

    /// Chunk `index` is verified and written.
    pub fn had(&mut self, index: usize) {
        self.leased.remove(&index);
        self.missing.remove(&index);
    }

    /// `source` fetches no more of what is leased to it: the chunks are missing again.
    pub fn give_back(&mut self, source: SourceId) {
        let back: Vec<usize> =
            self.leased.iter().filter(|(_, who)| **who == source).map(|(index, _)| *index).collect();
        for index in back {
            self.leased.remove(&index);
            self.missing.insert(index);
        }
    }

    /// `source` failed in a way that may pass.
    pub fn strike(&mut self, source: SourceId) {
        *self.strikes.entry(source).or_default() += 1;
        self.give_back(source);
    }

    /// `source` is proved to lie, or cannot serve this: it is asked no more.
    pub fn ban(&mut self, source: SourceId) {
        self.strikes.insert(source, STRIKES_MAX);
        self.give_back(source);
    }

    /// Chunks still to come.
    #[must_use]
    pub fn left(&self) -> usize {
        self.missing.len() + self.leased.len()
    }

    #[cfg(test)]
    fn check(&self) {
        assert!(self.leased.keys().all(|index| !self.missing.contains(index)));
        assert!(self.leased.values().all(|who| self.strikes.get(who).is_none_or(|s| *s < STRIKES_MAX)));
    }
}

#[cfg(test)]
mod tests {
    use nekoproto::{Chunk, ChunkHash, Identity};
    use proptest::prelude::*;

    use super::*;

    fn source(n: u8) -> SourceId {
        Identity::from_seed(&[n; 32]).id()
    }

    fn manifest(lens: &[u32]) -> Manifest {
        let chunk = |len: &u32| Chunk { len: *len, hash: ChunkHash::from_bytes([0; 32]) };
        Manifest::new(lens.iter().map(chunk).collect()).unwrap()
    }

    #[test]
    fn runs_are_contiguous_and_bounded_but_never_empty() {
        let mut schedule = Schedule::new(&manifest(&[10, 10, 10, 99, 10]), |index| index == 1);
        assert_eq!(schedule.next(source(1), 25), Next::Fetch(0..1), "chunk 1 is there already");
        assert_eq!(schedule.next(source(1), 25), Next::Fetch(2..3));
        assert_eq!(schedule.next(source(1), 25), Next::Fetch(3..4), "one long chunk is taken all the same");
        assert_eq!(schedule.next(source(1), 25), Next::Fetch(4..5));
        assert_eq!(schedule.next(source(1), 25), Next::Wait);
        (0..5).for_each(|index| schedule.had(index));
        assert_eq!(schedule.next(source(1), 25), Next::Done);
    }

    #[test]
    fn corrupt_source_is_banned_and_its_chunks_are_missing_again() {
        let mut schedule = Schedule::new(&manifest(&[10, 10]), |_| false);
        assert_eq!(schedule.next(source(1), 99), Next::Fetch(0..2));
        assert_eq!(schedule.next(source(2), 99), Next::Wait);
        schedule.had(0);
        schedule.ban(source(1));
        assert_eq!(schedule.next(source(1), 99), Next::StruckOut);
        assert_eq!(schedule.next(source(2), 99), Next::Fetch(1..2));
    }

    #[test]
    fn failing_source_strikes_out_after_a_few_tries() {
        let mut schedule = Schedule::new(&manifest(&[10]), |_| false);
        for _ in 0..STRIKES_MAX {
            assert_eq!(schedule.next(source(1), 99), Next::Fetch(0..1));
            schedule.strike(source(1));
        }
        assert_eq!(schedule.next(source(1), 99), Next::StruckOut);
        assert_eq!(schedule.left(), 1);
    }

    proptest! {
        /// Whatever sources do, each chunk is fetched by one at a time and all end up had.
        #[test]
        fn every_chunk_ends_up_had(
            lens in prop::collection::vec(1..50u32, 1..40),
            steps in prop::collection::vec((0..4u8, 0..10u8), 0..300),
        ) {
            let mut schedule = Schedule::new(&manifest(&lens), |index| index % 7 == 0);
            for (who, what) in steps {
                match what {
                    0 => schedule.strike(source(who)),
                    1 if who > 0 => schedule.ban(source(who)),
                    _ => if let Next::Fetch(run) = schedule.next(source(who), 60) {
                        for index in run {
                            prop_assert!(!schedule.missing.contains(&index));
                            if what > 4 { schedule.had(index); }
                        }
                    },
                }
                schedule.check();
            }
            (0..4).for_each(|who| schedule.give_back(source(who)));
            while let Next::Fetch(run) = schedule.next(source(200), 60) {
                run.for_each(|index| schedule.had(index));
            }
            prop_assert_eq!(schedule.left(), 0);
        }
    }
}
