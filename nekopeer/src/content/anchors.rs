//! [`Anchors`]: an index of a file by sampled hashes of 32-byte windows; finds which of its 32 KiB parts a run resembles.
//!
//! A window is an anchor if some bits of its rolling hash are zero, wherever it stands: so both have the same
//! anchors where they have the same bytes. Each anchor of the run that the file has too is a vote for its part.

use std::collections::HashMap;

/// Bytes of one part, for which votes are counted: 32 KiB are worth 0.4 points over 64 KiB on a kernel package.
pub(crate) const PART_BYTES: u64 = 32 * 1024;
/// Anchors of one file, 8 bytes each in a table that is a third to two thirds full. One for each KiB of 1 GiB is nearly as
/// good as one for each 16 bytes.
const ANCHORS_MAX: u64 = 1024 * 1024;
/// One anchor for so many bytes at least, as a power of two.
const SPACING_LOG_MIN: u32 = 4;
/// Slots that are looked at for one anchor.
const PROBES_MAX: usize = 8;
/// Parts with less than this share of the votes of the best one are left out.
const VOTES_SHARE_MIN: usize = 64;
/// Bytes of a window: each shifts the hash by two bits.
const WINDOW_BYTES: usize = 32;
const MIX: u64 = 0x9E37_79B9_7F4A_7C15;

const GEAR: [u64; 256] = {
    let (mut table, mut at, mut state) = ([0; 256], 0, MIX);
    while at < table.len() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        table[at] = state.wrapping_mul(0x2545_F491_4F6C_DD1D);
        at += 1;
    }
    table
};

/// The anchors of one file: where each was seen first.
#[derive(Debug)]
pub(crate) struct Anchors {
    /// Its hash, and its part; `u32::MAX`: free.
    slots: Vec<(u32, u32)>,
    spacing_log: u32,
    at: u64,
}

impl Anchors {
    pub(crate) fn new(size: u64) -> Self {
        let (spacing_log, slots) = shape(size);
        Self { slots: vec![(0, u32::MAX); slots], spacing_log, at: 0 }
    }

    /// The bytes that those of a file of `size` bytes take.
    pub(crate) fn bytes(size: u64) -> usize {
        shape(size).1 * size_of::<(u32, u32)>()
    }

    pub(crate) fn add(&mut self, bytes: &[u8]) {
        let (start, spacing_log) = (self.at, self.spacing_log);
        each_anchor(bytes, spacing_log, |at, hash| {
            let part = u32::try_from((start + at as u64) / PART_BYTES).unwrap_or(u32::MAX - 1);
            if let Some(slot) = self.slot(hash).filter(|slot| self.slots[*slot].1 == u32::MAX) {
                self.slots[slot] = (hash, part);
            }
        });
        self.at += bytes.len() as u64;
    }

    /// The slot of an anchor, or the free one where it would be; `None` if the table is full there.
    fn slot(&self, hash: u32) -> Option<usize> {
        let mask = self.slots.len() - 1;
        let mut places = (0..PROBES_MAX).map(|step| (hash as usize + step) & mask);
        places.find(|place| matches!(self.slots[*place], (known, part) if known == hash || part == u32::MAX))
    }

    /// The parts of the file, by their number, that are most like `piece`, at most `max` of them.
    pub(crate) fn like(&self, piece: &[u8], max: usize) -> Vec<u64> {
        let mut votes: HashMap<u32, usize> = HashMap::new();
        each_anchor(piece, self.spacing_log, |_, hash| {
            if let Some((_, part)) = self.slot(hash).map(|slot| self.slots[slot])
                && part != u32::MAX
            {
                *votes.entry(part).or_default() += 1;
            }
        });
        let mut parts: Vec<(usize, u32)> = votes.into_iter().map(|(part, votes)| (votes, part)).collect();
        parts.sort_unstable_by(|one, other| other.cmp(one));
        let most = parts.first().map_or(0, |(votes, _)| *votes);
        let worth = parts.into_iter().take_while(|(votes, _)| votes * VOTES_SHARE_MIN >= most);
        worth.take(max).map(|(_, part)| part.into()).collect()
    }
}

/// One anchor for so many bytes of a file of `size` bytes, as a power of two, and the slots for all of them.
fn shape(size: u64) -> (u32, usize) {
    let mut spacing_log = SPACING_LOG_MIN;
    while size >> spacing_log > ANCHORS_MAX {
        spacing_log += 1;
    }
    let anchors = usize::try_from(size >> spacing_log).unwrap_or(usize::MAX).max(64); // at most ANCHORS_MAX
    (spacing_log, (anchors * 3 / 2).next_power_of_two())
}

/// Calls `each` with the place and the hash of each anchor in `bytes`.
fn each_anchor(bytes: &[u8], spacing_log: u32, mut each: impl FnMut(usize, u32)) {
    let mut hash = 0u64; // a byte leaves it after 32 shifts
    for (at, byte) in bytes.iter().enumerate() {
        hash = (hash << 2).wrapping_add(GEAR[usize::from(*byte)]);
        if hash >> (u64::BITS - spacing_log) == 0 && at + 1 >= WINDOW_BYTES {
            let mixed = hash.wrapping_mul(MIX) >> u32::BITS;
            each(at + 1 - WINDOW_BYTES, u32::try_from(mixed).unwrap_or(0)); // 32 bits are left
        }
    }
}

#[cfg(test)]
mod tests {
    use testkit::goods::{MIB, bytes};

    use super::*;

    #[test]
    fn parts_that_a_piece_was_moved_from_get_its_votes() {
        let file = bytes(1, 4 * MIB);
        let mut anchors = Anchors::new(file.len() as u64);
        file.chunks(MIB).for_each(|bytes| anchors.add(bytes));
        let part = usize::try_from(PART_BYTES).unwrap();
        let mut piece = bytes(2, 3 * part + 11); // with the parts 70 and 9 in it, at odd places
        piece[7..7 + part].copy_from_slice(&file[70 * part..71 * part]);
        piece[2 * part + 5..3 * part + 5].copy_from_slice(&file[9 * part..10 * part]);
        let mut found = anchors.like(&piece, 10);
        found.sort_unstable();
        assert_eq!(found, [9, 70]);
        assert_eq!(anchors.like(&piece, 1).len(), 1);
        assert!(Anchors::new(0).like(&piece, 10).is_empty());
    }

    #[test]
    fn anchors_of_a_large_file_are_bounded() {
        for size in [0, 1 << 20, 1 << 30, 1 << 40] {
            let slots = Anchors::new(size).slots.len();
            assert!(slots <= 2 << 20, "{slots} for {size}");
        }
    }
}
