//! Which chunks of a file are there: a bit for each, shared between threads or sent to another node.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

const WORD: usize = u64::BITS as usize;

/// A set of chunk numbers below a bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bits {
    words: Vec<u64>,
    len: usize,
}

impl Bits {
    /// None of `len` chunks.
    #[must_use]
    pub fn none(len: usize) -> Self {
        Self { words: vec![0; len.div_ceil(WORD)], len }
    }

    /// The set that [`to_bytes`](Self::to_bytes) made of `len` chunks; `None` if the bytes are too few,
    /// too many, or name a chunk that is not there.
    #[must_use]
    pub fn from_bytes(bytes: &[u8], len: usize) -> Option<Self> {
        if bytes.len() != len.div_ceil(8) {
            return None;
        }
        let mut bits = Self::none(len);
        for (n, byte) in bytes.iter().enumerate() {
            bits.words[n / 8] |= u64::from(*byte) << (n % 8 * 8);
        }
        let past_end =
            !len.is_multiple_of(WORD) && bits.words.last().is_some_and(|word| word >> (len % WORD) != 0);
        (!past_end).then_some(bits)
    }

    /// A bit for each chunk, the lowest bit of the first byte for the first.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes: Vec<u8> = self.words.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.truncate(self.len.div_ceil(8));
        bytes
    }

    /// Whether chunk `index` is in the set.
    #[must_use]
    pub fn has(&self, index: usize) -> bool {
        self.words.get(index / WORD).is_some_and(|word| word >> (index % WORD) & 1 == 1)
    }

    /// Puts chunk `index` in; true if it was not there.
    ///
    /// # Panics
    /// There is no such chunk.
    pub fn set(&mut self, index: usize) -> bool {
        let (word, bit) = (&mut self.words[index / WORD], 1 << (index % WORD));
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    /// Takes chunk `index` out.
    pub fn clear(&mut self, index: usize) {
        if let Some(word) = self.words.get_mut(index / WORD) {
            *word &= !(1 << (index % WORD));
        }
    }

    /// How many are in the set.
    #[must_use]
    pub fn count(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Those in the set, ascending.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.len).filter(|index| self.has(*index))
    }
}

/// The chunks that a download has by now; any thread may add to them.
#[derive(Debug)]
pub struct Have {
    words: Vec<AtomicU64>,
    len: usize,
    count: AtomicUsize,
}

impl Have {
    /// Begins with these.
    #[must_use]
    pub fn new(begin: &Bits) -> Self {
        let count = AtomicUsize::new(begin.count());
        Self { words: begin.words.iter().map(|word| AtomicU64::new(*word)).collect(), len: begin.len, count }
    }

    /// Whether chunk `index` is there.
    #[must_use]
    pub fn has(&self, index: usize) -> bool {
        let word = self.words.get(index / WORD).map_or(0, |word| word.load(Ordering::Acquire));
        word >> (index % WORD) & 1 == 1
    }

    /// Adds chunk `index`, whose bytes are on disk; true if it was not there.
    pub fn set(&self, index: usize) -> bool {
        let bit = 1 << (index % WORD);
        let is_new = self.words[index / WORD].fetch_or(bit, Ordering::AcqRel) & bit == 0;
        if is_new {
            self.count.fetch_add(1, Ordering::AcqRel);
        }
        is_new
    }

    /// Takes chunk `index` out: its bytes turned out not to be there.
    pub fn clear(&self, index: usize) {
        let bit = 1 << (index % WORD);
        if self.words[index / WORD].fetch_and(!bit, Ordering::AcqRel) & bit != 0 {
            self.count.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// Whether all are there.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.count.load(Ordering::Acquire) == self.len
    }

    /// Those that are there now.
    #[must_use]
    pub fn snapshot(&self) -> Bits {
        let words = self.words.iter().map(|word| word.load(Ordering::Acquire)).collect();
        Bits { words, len: self.len }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_set_survives_the_wire(len in 0..300usize, picks in prop::collection::vec(0..300usize, 0..50)) {
            let mut bits = Bits::none(len);
            picks.iter().filter(|index| **index < len).for_each(|index| { bits.set(*index); });
            let again = Bits::from_bytes(&bits.to_bytes(), len);
            prop_assert_eq!(again.as_ref(), Some(&bits));
            prop_assert_eq!(bits.iter().count(), bits.count());
            let have = Have::new(&bits);
            prop_assert_eq!(have.snapshot(), bits);
        }
    }

    #[test]
    fn bytes_that_name_chunks_past_the_end_are_refused() {
        assert!(Bits::from_bytes(&[0b1000], 3).is_none());
        assert!(Bits::from_bytes(&[0b0111], 3).is_some());
        assert!(Bits::from_bytes(&[], 3).is_none());
        assert!(Bits::from_bytes(&[0, 0], 3).is_none());
    }

    #[test]
    fn a_chunk_counts_once() {
        let have = Have::new(&Bits::none(2));
        assert!(have.set(1) && !have.set(1));
        assert!(!have.is_complete());
        assert!(have.set(0) && have.is_complete());
        have.clear(1);
        have.clear(1);
        assert!(!have.is_complete() && have.has(0) && !have.has(1));
    }
}
