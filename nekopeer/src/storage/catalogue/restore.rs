//! What was lost with a catalogue, brought back: versions published here and copies, under the numbers they had.

use nekoproto::{FileName, Version};

use super::{
    Catalogue, Entry,
    schema::{AVERAGES, META},
};
use crate::{
    content::{chunker::Chunked, stamp::now_ns},
    failure::Failure,
};

/// The key of [`META`] that says that a catalogue was lost before this one.
pub(super) const LOST: &str = "lost";
/// The key of [`META`] with the number above which names begin.
const ABOVE: &str = "above";

/// When this program first gave numbers, in seconds since 1970: the beginning of 2026.
const FIRST_NUMBERS_S: u64 = 1_767_225_600;

/// A file whose bytes are those of a known record.
pub(crate) struct Restored {
    pub(crate) entry: Entry,
    pub(crate) chunked: Chunked,
    /// Whether it was published here and no indexer is known to list it.
    pub(crate) is_untold: bool,
}

impl Catalogue {
    /// Stores files, and last numbers, below which none is given again, in one transaction. A name that has an entry
    /// keeps it. Blocking.
    pub(crate) fn restore(
        &self,
        files: Vec<Restored>,
        versions: &[(FileName, Version)],
        floors: &[Entry],
    ) -> Result<(), Failure> {
        let write = self.tables.begin()?;
        write.use_up(versions.iter().map(|(name, version)| (name, *version)))?;
        floors.iter().try_for_each(|floor| write.put_floor(floor.clone()))?;
        let (mut untold, mut listed) = (Vec::new(), Vec::new());
        for Restored { entry, chunked, is_untold } in files {
            if self.entry(&entry.record.name)?.is_some() {
                continue;
            }
            write.put_manifest(&entry, &chunked.manifest, &chunked.outboard)?;
            if self.is_own(&entry) {
                write.put(AVERAGES, [(entry.record.name.as_str(), chunked.average)])?;
            }
            if is_untold { &mut untold } else { &mut listed }.push(entry);
        }
        self.commit_published(write, untold, listed)
    }

    /// From now on every new number is above the seconds since 1970: the names may have been published before, also later
    /// than is known, but not once a second. So that needs a clock that goes right: not one that stands at 1970 because
    /// the machine has lost the time. Blocking.
    pub(crate) fn number_above_all(&self) -> Result<(), Failure> {
        self.number_above(u64::try_from(now_ns() / 1_000_000_000).unwrap_or_default())
    }

    /// The same, where so many seconds passed since 1970.
    pub(super) fn number_above(&self, seconds: u64) -> Result<(), Failure> {
        if seconds < FIRST_NUMBERS_S {
            return Err(Failure::new(
                "the clock of this machine stands before 2026, and the numbers of new versions follow it: set it, then run \
                 this again",
            ));
        }
        let write = self.tables.begin()?;
        write.put(META, [(ABOVE, seconds.to_be_bytes().as_slice())])?;
        self.tables.commit(write)
    }

    /// The last number that may have been used for any name; see [`number_above_all`](Self::number_above_all).
    pub(super) fn above(&self) -> Result<Option<Version>, Failure> {
        let bytes = self.tables.value(META, ABOVE, |bytes| bytes.first_chunk().copied())?;
        Ok(bytes.flatten().and_then(|bytes| Version::new(u64::from_be_bytes(bytes))))
    }

    /// Notes whether an earlier catalogue was lost, and nothing was brought back yet. Blocking.
    pub(crate) fn set_lost(&self, is_lost: bool) -> Result<(), Failure> {
        let write = self.tables.begin()?;
        if is_lost { write.put(META, [(LOST, [].as_slice())]) } else { write.remove(META, [LOST]) }?;
        self.tables.commit(write)
    }

    /// Whether an earlier catalogue was lost, and nothing was brought back yet. Blocking.
    pub(crate) fn is_lost(&self) -> Result<bool, Failure> {
        Ok(self.tables.value(META, LOST, |_| ())?.is_some())
    }
}
