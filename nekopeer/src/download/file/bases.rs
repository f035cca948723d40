//! [`Bases`]: the versions of a file on this disk, which a reader names to sources as delta bases.

use std::sync::atomic::{AtomicBool, Ordering};

use nekoproto::{
    ByteRange, ContentHash, List, Record,
    limits::{BASE_BYTES_MAX, BASES_MAX},
};

use crate::storage::catalogue::{Catalogue, EarlierVersion};

/// Versions of one file that can be read here at any place, the newest first.
#[derive(Debug, Default)]
pub(crate) struct Bases {
    versions: Vec<EarlierVersion>,
    /// What was packed after one of them was not what it should be: another program changed it, or a source lies.
    are_wrong: AtomicBool,
}

/// Why nothing can be unpacked after a base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BaseError {
    /// The source names parts that no honest one does.
    Outside,
    Unreadable,
}

impl Bases {
    /// Those of the file of `record`, that version left out. What cannot be read is left out, and logged. Blocking.
    pub(crate) fn find(catalogue: &Catalogue, record: &Record) -> Self {
        let found = catalogue.readable_versions(&record.name);
        let found = found.inspect_err(|error| tracing::warn!(name = %record.name, %error, "no base is read"));
        let mut versions = found.unwrap_or_default();
        versions.retain(|version| version.entry.record.content != record.content);
        versions.truncate(BASES_MAX);
        Self { versions, are_wrong: AtomicBool::new(false) }
    }

    /// Their contents, as long as they are good.
    pub(crate) fn contents(&self) -> List<ContentHash, BASES_MAX> {
        let good = self.versions.iter().filter(|_| !self.are_wrong.load(Ordering::Relaxed));
        List::first_of(good.map(|version| version.entry.record.content))
    }

    /// They are not what their records say: none is used any more.
    pub(crate) fn are_wrong(&self) {
        self.are_wrong.store(true, Ordering::Relaxed);
    }

    /// The bytes of `ranges` of that base, which a source named. Blocking.
    pub(crate) fn read(&self, base: u8, ranges: &[ByteRange]) -> Result<Vec<u8>, BaseError> {
        let version = self.versions.get(usize::from(base)).ok_or(BaseError::Outside)?;
        let size = version.entry.record.size;
        let mut bytes = 0u64;
        for range in ranges {
            let end = range.offset.checked_add(range.len).filter(|end| range.len > 0 && *end <= size);
            bytes = end.and_then(|_| bytes.checked_add(range.len)).ok_or(BaseError::Outside)?;
        }
        if bytes > BASE_BYTES_MAX {
            return Err(BaseError::Outside);
        }
        version.read(ranges).map_err(|_| BaseError::Unreadable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_no_honest_source_names_are_refused_before_anything_is_read() {
        let bases = Bases { versions: vec![EarlierVersion::of_test(100)], ..Bases::default() };
        let range = |offset, len| ByteRange { offset, len };
        let wrong = [
            vec![range(0, 101)],
            vec![range(100, 1)],
            vec![range(5, 0)],
            vec![range(u64::MAX, 1)],
            vec![range(1, u64::MAX)],
            vec![range(0, 100), range(0, u64::MAX)],
            vec![range(0, 100); 128 * 1024],
        ];
        for ranges in wrong {
            assert_eq!(bases.read(0, &ranges[..]), Err(BaseError::Outside), "{:?}", &ranges[..1]);
        }
        assert_eq!(bases.read(1, &[range(0, 1)]), Err(BaseError::Outside), "no such base");
        assert_eq!(bases.contents().len(), 1);
        bases.are_wrong();
        assert!(bases.contents().is_empty());
    }
}
