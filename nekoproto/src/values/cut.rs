//! [`Cut`]: how long the chunks of a file are. Arithmetic only, no file is read.

use crate::limits::{CHUNK_AVERAGE_MAX, CHUNK_AVERAGE_MIN, CHUNKS_AIMED_AT, CHUNKS_MAX};

/// A file keeps its average chunk length from version to version until the length for its size differs by
/// this factor.
const AVERAGE_OFF_BY: u32 = 4;
const _: () = assert!(CHUNK_AVERAGE_MAX * (AVERAGE_OFF_BY as u64) <= u32::MAX as u64);

/// How a file of a given size is cut: shortest, average and longest chunk in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// No chunk but the last is shorter.
    pub min: u32,
    /// The average aimed at.
    pub average: u32,
    /// No chunk is longer.
    pub max: u32,
}

impl Cut {
    /// The cut for a file of `size` bytes: the average doubles with the file, so that the manifest stays a
    /// small fraction of it.
    #[must_use]
    pub fn for_size(size: u64) -> Self {
        let wanted = (size / CHUNKS_AIMED_AT).next_power_of_two();
        Self::of_average(wanted.clamp(CHUNK_AVERAGE_MIN, CHUNK_AVERAGE_MAX) as u32)
    }

    /// The cut for a file of `size` bytes whose last version was cut at `last_average` bytes. That average is
    /// kept, so that most chunks stay the same, unless it is a factor of four or more away from that of
    /// [`for_size`](Self::for_size) or could give more than [`CHUNKS_MAX`] chunks.
    #[must_use]
    pub fn for_next_version(size: u64, last_average: Option<u32>) -> Self {
        let ideal = Self::for_size(size);
        let is_kept = |last: &u32| {
            (CHUNK_AVERAGE_MIN..=CHUNK_AVERAGE_MAX).contains(&u64::from(*last))
                && last.is_power_of_two()
                && *last < ideal.average * AVERAGE_OFF_BY
                && ideal.average < *last * AVERAGE_OFF_BY
                && size.div_ceil(u64::from(Self::of_average(*last).min)) <= CHUNKS_MAX
        };
        last_average.filter(is_kept).map_or(ideal, Self::of_average)
    }

    /// `average` is a power of two from [`CHUNK_AVERAGE_MIN`] to [`CHUNK_AVERAGE_MAX`].
    const fn of_average(average: u32) -> Self {
        Self { min: average / 4, average, max: average * 2 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{CHUNK_BYTES_MAX, FILE_BYTES_MAX};

    #[test]
    fn every_allowed_size_gives_an_allowed_number_of_chunks() {
        for size in [0, 1, CHUNK_AVERAGE_MIN, 1 << 30, (1 << 30) + 1, 1 << 36, FILE_BYTES_MAX] {
            let cut = Cut::for_size(size);
            assert!(size / u64::from(cut.min) <= CHUNKS_MAX, "{size}");
            assert!(u64::from(cut.max) <= CHUNK_BYTES_MAX, "{size}");
        }
    }

    #[test]
    fn a_file_that_grows_over_a_border_is_cut_as_before() {
        let border = (CHUNK_AVERAGE_MIN + 1) * CHUNKS_AIMED_AT; // just over 1 GiB
        let (before, after) = (Cut::for_size(border - 1), Cut::for_size(border));
        assert_eq!(after.average, before.average * 2, "a border of two averages");
        assert_eq!(Cut::for_next_version(border, Some(before.average)), before);
        assert_eq!(Cut::for_next_version(border - 1, Some(after.average)), after, "and back");
        assert_eq!(Cut::for_next_version(border, None), after);
    }

    #[test]
    fn an_average_that_is_far_off_or_impossible_is_given_up() {
        let ideal = Cut::for_size(1 << 33);
        for (last, kept) in [(4, false), (2, true), (1, true)] {
            let low = Cut::for_next_version(1 << 33, Some(ideal.average / last));
            assert_eq!(low.average == ideal.average / last, kept, "a {last}th");
        }
        assert_eq!(Cut::for_next_version(1 << 33, Some(ideal.average * 2)).average, ideal.average * 2);
        assert_eq!(Cut::for_next_version(1 << 33, Some(ideal.average * 4)), ideal);
        for nonsense in [0, 1, 65_535, 100_000, u32::MAX] {
            assert_eq!(Cut::for_next_version(1000, Some(nonsense)), Cut::for_size(1000));
        }
        let largest = Cut::for_size(FILE_BYTES_MAX);
        assert_eq!(Cut::for_next_version(FILE_BYTES_MAX, Some(largest.average / 2)), largest);
    }
}
