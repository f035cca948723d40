//! Bit fields: which chunks of a file are present, shared between threads or sent to another node.

use std::sync::atomic::{AtomicUsize, Ordering};

/// A set of chunk numbers below a bound.
pub(crate) use fixedbitset::FixedBitSet as Bitfield;

const WORD: usize = usize::BITS as usize;

/// Decodes a bit field of `len` chunks. `None` if there are too few or too many bytes, or if a bit is
/// set beyond `len`.
pub(crate) fn from_bytes(bytes: &[u8], len: usize) -> Option<Bitfield> {
    let bit = |index: usize| bytes[index / 8] >> (index % 8) & 1 == 1;
    if bytes.len() != len.div_ceil(8) || (len..bytes.len() * 8).any(bit) {
        return None;
    }
    let mut bits = Bitfield::with_capacity(len);
    bits.extend((0..len).filter(|index| bit(*index)));
    Some(bits)
}

/// Encodes one bit per chunk; chunk 0 is the lowest bit of the first byte.
pub(crate) fn to_bytes(bits: &Bitfield) -> Vec<u8> {
    let mut bytes: Vec<u8> = bits.as_slice().iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.truncate(bits.len().div_ceil(8));
    bytes
}

/// The chunks that a download has; any thread may add to them.
#[derive(Debug)]
pub(crate) struct SharedBitfield {
    words: Vec<AtomicUsize>,
    len: usize,
    count: AtomicUsize,
}

impl SharedBitfield {
    pub(crate) fn new(begin: &Bitfield) -> Self {
        let words = begin.as_slice().iter().map(|word| AtomicUsize::new(*word)).collect();
        Self { words, len: begin.len(), count: AtomicUsize::new(begin.count_ones(..)) }
    }

    pub(crate) fn contains(&self, index: usize) -> bool {
        let word = self.words.get(index / WORD).map_or(0, |word| word.load(Ordering::Acquire));
        word >> (index % WORD) & 1 == 1
    }

    /// Adds chunk `index`, whose bytes are on disk.
    pub(crate) fn insert(&self, index: usize) {
        let bit = 1 << (index % WORD);
        if self.words[index / WORD].fetch_or(bit, Ordering::AcqRel) & bit == 0 {
            self.count.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Removes chunk `index`: its bytes on disk are not the right ones.
    pub(crate) fn remove(&self, index: usize) {
        let bit = 1 << (index % WORD);
        if self.words[index / WORD].fetch_and(!bit, Ordering::AcqRel) & bit != 0 {
            self.count.fetch_sub(1, Ordering::AcqRel);
        }
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.count.load(Ordering::Acquire) == self.len
    }

    pub(crate) fn snapshot(&self) -> Bitfield {
        let words = self.words.iter().map(|word| word.load(Ordering::Acquire));
        Bitfield::with_capacity_and_blocks(self.len, words)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_set_survives_the_wire(len in 0..300usize, picks in prop::collection::vec(0..300usize, 0..50)) {
            let mut bits = Bitfield::with_capacity(len);
            bits.extend(picks.into_iter().filter(|index| *index < len));
            let again = from_bytes(&to_bytes(&bits), len);
            prop_assert_eq!(again.as_ref(), Some(&bits));
            prop_assert_eq!(SharedBitfield::new(&bits).snapshot(), bits);
        }
    }

    #[test]
    fn bytes_that_name_chunks_past_the_end_are_refused() {
        assert!(from_bytes(&[0b1000], 3).is_none());
        assert!(from_bytes(&[0b0111], 3).is_some());
        assert!(from_bytes(&[], 3).is_none());
        assert!(from_bytes(&[0, 0], 3).is_none());
    }

    #[test]
    fn a_chunk_counts_once() {
        let have = SharedBitfield::new(&Bitfield::with_capacity(2));
        have.insert(1);
        have.insert(1);
        assert!(!have.is_complete());
        have.insert(0);
        assert!(have.is_complete());
        have.remove(1);
        have.remove(1);
        assert!(!have.is_complete() && have.contains(0) && !have.contains(1));
    }
}
