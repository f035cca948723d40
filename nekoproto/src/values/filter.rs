//! [`Filter`], the Bloom filter of an indexer's names.
//!
//! It is part of the wire format: the number of bits, the probes and their positions are all defined here.
//! A name's key is the first 128 bits of its BLAKE3; probe i is at `low + i * high` modulo the number
//! of bits (Kirsch and Mitzenmacher, "Less hashing, same performance", 2006).

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use serde::{Deserialize, Serialize};

use super::{fixed_list::Fixed, list::List, name::FileName, packed::PackedRecord};
use crate::limits::{SUMMARY_PART_WORDS_MAX, SUMMARY_WORDS_MAX};

/// Bits for each name: with as many names as the filter is made for, one lookup in a hundred is a false
/// positive.
const BITS_PER_KEY: usize = 10;
/// Probes for each name: 10 bits times ln 2.
const PROBES: u8 = 7;
/// Names the smallest filter is made for.
const KEYS_MIN: usize = 1024;

/// The key of a name in a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NameKey(#[serde(with = "serde_bytes")] [u8; 16]);

impl Fixed<16> for NameKey {
    fn to_array(self) -> [u8; 16] {
        self.0
    }

    fn from_array(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }
}

impl NameKey {
    /// The key of `name`.
    #[must_use]
    pub fn of(name: &FileName) -> Self {
        Self::of_bytes(name.as_str().as_bytes())
    }

    /// The key of the record's name.
    #[must_use]
    pub fn of_packed(record: &PackedRecord) -> Self {
        Self::of_bytes(record.name_bytes())
    }

    fn of_bytes(name: &[u8]) -> Self {
        let [key, _] = halves(*blake3::hash(name).as_bytes());
        Self(key)
    }

    fn probes(self, bits: u64, probes: u8) -> impl Iterator<Item = u64> {
        let [low, high] = halves(self.0).map(u64::from_le_bytes);
        let step = high | 1; // never 0, or all probes would be the same bit
        (0..u64::from(probes)).map(move |n| low.wrapping_add(n.wrapping_mul(step)) % bits)
    }
}

fn halves<const WHOLE: usize, const HALF: usize>(bytes: [u8; WHOLE]) -> [[u8; HALF]; 2] {
    let mut halves = [[0; HALF]; 2];
    halves[0].copy_from_slice(&bytes[..HALF]);
    halves[1].copy_from_slice(&bytes[HALF..2 * HALF]);
    halves
}

/// A set of names with false positives but no false negatives. Clones share the names: what is added to one is added
/// to all, so that it can be looked at while it grows.
#[derive(Clone, Debug)]
pub struct Filter {
    words: Arc<[AtomicU64]>,
    probes: u8,
}

impl Filter {
    /// An empty filter for about `keys` names; at most [`SUMMARY_WORDS_MAX`] words.
    #[must_use]
    pub fn for_keys(keys: usize) -> Self {
        let words = (keys.max(KEYS_MIN) * BITS_PER_KEY).div_ceil(64).min(SUMMARY_WORDS_MAX);
        Self { words: (0..words).map(|_| AtomicU64::new(0)).collect(), probes: PROBES }
    }

    /// Its length in 64-bit words.
    #[must_use]
    pub fn words(&self) -> usize {
        self.words.len()
    }

    /// The number of names it is made for.
    #[must_use]
    pub fn made_for(&self) -> usize {
        self.words.len() * 64 / BITS_PER_KEY
    }

    /// Whether they share their names.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.words, &other.words)
    }

    fn bits(&self) -> u64 {
        self.words.len() as u64 * 64
    }

    /// Adds a name.
    pub fn insert(&self, key: NameKey) {
        for bit in key.probes(self.bits(), self.probes) {
            if let Some(word) = usize::try_from(bit / 64).ok().and_then(|at| self.words.get(at)) {
                word.fetch_or(1 << (bit % 64), Relaxed);
            }
        }
    }

    /// Whether the name may have been added; `false` is certain.
    #[must_use]
    pub fn may_contain(&self, key: NameKey) -> bool {
        key.probes(self.bits(), self.probes).all(|bit| {
            let word = usize::try_from(bit / 64).ok().and_then(|at| self.words.get(at));
            word.is_none_or(|word| word.load(Relaxed) & (1 << (bit % 64)) != 0)
        })
    }

    /// The filter in parts that fit a message each, in order.
    pub fn parts(&self) -> impl Iterator<Item = FilterPart> {
        (0..).map_while(|n| self.part(n))
    }

    /// The n-th of these parts, from 0; `None` behind the last.
    #[must_use]
    pub fn part(&self, n: usize) -> Option<FilterPart> {
        let words = self.words.chunks(SUMMARY_PART_WORDS_MAX).nth(n)?;
        Some(FilterPart {
            probes: self.probes,
            total: u32::try_from(self.words.len()).ok()?, // at most SUMMARY_WORDS_MAX
            at: u32::try_from(n * SUMMARY_PART_WORDS_MAX).ok()?,
            words: List::first_of(words.iter().map(|word| Word(word.load(Relaxed).to_le_bytes()))),
        })
    }
}

/// 64 bits of a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Word(#[serde(with = "serde_bytes")] [u8; 8]);

/// A part of a filter; parts are sent in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilterPart {
    /// Bits set for each name.
    pub probes: u8,
    /// Words of the whole filter.
    pub total: u32,
    /// The first word in this part.
    pub at: u32,
    /// The words.
    pub words: List<Word, SUMMARY_PART_WORDS_MAX>,
}

/// A filter being put together from its parts.
#[derive(Debug)]
pub struct Assembly {
    words: Vec<AtomicU64>,
    probes: u8,
    total: usize,
}

impl Assembly {
    /// Starts with the first part, which is then to be added; `None` if it is not a first part, or its
    /// filter is not allowed.
    #[must_use]
    pub fn begin(part: &FilterPart) -> Option<Self> {
        let total =
            usize::try_from(part.total).ok().filter(|total| (1..=SUMMARY_WORDS_MAX).contains(total))?;
        let is_allowed = part.at == 0 && (1..=32).contains(&part.probes);
        is_allowed.then_some(Self { words: Vec::new(), probes: part.probes, total })
    }

    /// The length of the whole filter, in words.
    #[must_use]
    pub const fn words(&self) -> usize {
        self.total
    }

    /// Adds the next part; `false` if it is not the next one.
    pub fn add(&mut self, part: &FilterPart) -> bool {
        let words = &mut self.words;
        let fits = usize::try_from(part.at).is_ok_and(|at| at == words.len())
            && usize::try_from(part.total).is_ok_and(|total| total == self.total)
            && part.probes == self.probes
            && words.len() + part.words.len() <= self.total;
        if fits {
            words.extend(part.words.iter().map(|word| AtomicU64::new(u64::from_le_bytes(word.0))));
        }
        fits
    }

    /// The filter.
    ///
    /// # Errors
    /// Parts are missing yet.
    pub fn finish(self) -> Result<Filter, Self> {
        if self.words.len() == self.total {
            Ok(Filter { words: self.words.into(), probes: self.probes })
        } else {
            Err(self)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: usize) -> NameKey {
        NameKey::of(&FileName::new(&format!("file-{n}")).unwrap())
    }

    #[test]
    fn no_name_is_lacking_and_few_seem_to_be_there() {
        for keys in [10, 5000] {
            let filter = Filter::for_keys(keys);
            (0..keys).for_each(|n| filter.insert(key(n)));
            assert!((0..keys).all(|n| filter.may_contain(key(n))));
            let wrong = (keys..keys + 20_000).filter(|n| filter.may_contain(key(*n))).count();
            assert!(wrong < 400, "{wrong} of 20000 with {keys} names");
        }
    }

    #[test]
    fn a_filter_arrives_in_parts_as_it_was() {
        let filter = Filter::for_keys(200_000);
        (0..1000).for_each(|n| filter.insert(key(n)));
        let parts: Vec<_> = filter.parts().collect();
        assert!(parts.len() > 1);
        let mut assembly = Assembly::begin(&parts[0]).unwrap();
        for part in &parts {
            assembly = assembly.finish().unwrap_err();
            assert!(assembly.add(part));
        }
        assert!(!assembly.add(&parts[1]), "a part too many");
        assert!(assembly.finish().unwrap().parts().eq(parts.clone()));
        let mut assembly = Assembly::begin(&parts[0]).unwrap();
        assert!(!assembly.add(&parts[1]), "the wrong part first");
    }

    #[test]
    fn filters_that_are_none_are_refused() {
        let part = Filter::for_keys(1).parts().next().unwrap();
        assert!(Assembly::begin(&part).is_some());
        for wrong in [
            FilterPart { total: 0, ..part.clone() },
            FilterPart { total: u32::MAX, ..part.clone() },
            FilterPart { at: 1, ..part.clone() },
            FilterPart { probes: 0, ..part.clone() },
            FilterPart { probes: 33, ..part.clone() },
        ] {
            assert!(Assembly::begin(&wrong).is_none(), "{} {} {}", wrong.total, wrong.at, wrong.probes);
        }
    }

    #[test]
    fn keys_and_bits_are_pinned() {
        assert_eq!(key(7).0[..4], *blake3::hash(b"file-7").as_bytes().first_chunk::<4>().unwrap());
        let probes: Vec<u64> =
            NameKey([1, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0]).probes(10, 4).collect();
        assert_eq!(probes, [1, 4, 7, 0]);
    }
}
