//! [`NameLog`]: all names one after the other, so that a search reads memory in its order instead of a million places.

use std::{mem, ops::ControlFlow, sync::Arc};

use memchr::{memchr, memmem::Finder, memrchr};
use parking_lot::Mutex;

/// Bytes of a full piece. A scan takes the pieces and copies the one that is being filled.
const PIECE_BYTES: usize = 64 * 1024;
/// Ends each name: no name contains it.
const END: u8 = b'\n';
/// Bytes of names that are gone before they are worth a rebuild.
const GONE_BYTES_MIN: usize = 1024 * 1024;

/// The names that have an entry, each at least once, and some that have none any more.
///
/// A name is added after its entry was made. So whoever has the pieces knows each name whose entry was made before.
#[derive(Debug, Default)]
pub(super) struct NameLog(Mutex<Pieces>);

#[derive(Debug, Default)]
struct Pieces {
    full: Vec<Arc<[u8]>>,
    open: Vec<u8>,
    bytes: usize,
    /// Bytes of names that are gone.
    gone: usize,
    /// What is added while a rebuild runs.
    fresh: Option<Box<Pieces>>,
}

impl Pieces {
    fn add(&mut self, name: &[u8]) {
        if let Some(fresh) = &mut self.fresh {
            fresh.add(name);
        }
        if self.open.len() + name.len() >= PIECE_BYTES {
            self.full.push(mem::take(&mut self.open).into());
        }
        self.open.extend_from_slice(name);
        self.open.push(END);
        self.bytes += name.len() + 1;
    }
}

impl NameLog {
    pub(super) fn add(&self, name: &[u8]) {
        self.0.lock().add(name);
    }

    /// A name of this length has lost its entry.
    pub(super) fn note_gone(&self, len: usize) {
        let mut pieces = self.0.lock();
        pieces.gone += len + 1;
        if let Some(fresh) = &mut pieces.fresh {
            fresh.gone += len + 1; // it may have been looked at already
        }
    }

    /// Whether so many names are gone that a rebuild is worth its time.
    pub(super) fn is_worn(&self) -> bool {
        let pieces = self.0.lock();
        pieces.gone > GONE_BYTES_MIN.max(pieces.bytes / 2)
    }

    /// Begins a rebuild, before the entries are looked at.
    pub(super) fn begin_rebuild(&self) {
        self.0.lock().fresh = Some(Box::default());
    }

    /// Ends it: `names` have had an entry since it began.
    pub(super) fn end_rebuild<'a>(&self, names: impl Iterator<Item = &'a [u8]>) {
        let mut rebuilt = Pieces::default();
        names.for_each(|name| rebuilt.add(name));
        let mut pieces = self.0.lock();
        let Some(fresh) = pieces.fresh.take() else { return };
        rebuilt.full.push(mem::take(&mut rebuilt.open).into());
        rebuilt.full.extend(fresh.full);
        rebuilt.open = fresh.open;
        (rebuilt.bytes, rebuilt.gone) = (rebuilt.bytes + fresh.bytes, fresh.gone);
        *pieces = rebuilt;
    }

    /// Shows each name to `look`, or each that has the `needle`, at least once, until it breaks off; whether it is known to be
    /// ASCII; and how many bytes of how many are looked through before.
    pub(super) fn each(
        &self,
        needle: Option<&Finder<'_>>,
        mut look: impl FnMut(&[u8], bool, (usize, usize)) -> ControlFlow<()>,
    ) {
        let (full, open, all) = {
            let pieces = self.0.lock();
            (pieces.full.clone(), pieces.open.clone(), pieces.bytes)
        };
        let mut before = 0;
        for piece in full.iter().map(AsRef::as_ref).chain([open.as_slice()]) {
            // One look at the piece costs less than one at each name.
            let (is_ascii, mut start) = (needle.is_none() && piece.is_ascii(), 0);
            while let Some(at) = needle.map_or(Some(0), |needle| needle.find(&piece[start..])) {
                let Some(end) = memchr(END, &piece[start + at..]).map(|end| start + at + end) else { break };
                let begin = memrchr(END, &piece[start..start + at]).map_or(start, |end| start + end + 1);
                if look(&piece[begin..end], is_ascii, (before + begin, all)).is_break() {
                    return;
                }
                start = end + 1;
            }
            before += piece.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn names(log: &NameLog) -> Vec<String> {
        let mut names = Vec::new();
        log.each(None, |name, _, _| {
            names.push(String::from_utf8(name.to_vec()).unwrap());
            ControlFlow::Continue(())
        });
        names
    }

    #[test]
    fn names_are_shown_in_their_order_over_many_pieces() {
        let log = NameLog::default();
        let expected: Vec<String> = (0..30_000).map(|n| format!("some/name-{n}")).collect();
        expected.iter().for_each(|name| log.add(name.as_bytes()));
        assert!(log.0.lock().full.len() > 3);
        assert_eq!(names(&log), expected);
        let mut found = Vec::new();
        log.each(Some(&Finder::new("e-29")), |name, _, _| {
            found.push(String::from_utf8(name.to_vec()).unwrap());
            if found.len() == 2000 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        let expected: Vec<String> = expected.into_iter().filter(|name| name.contains("e-29")).collect();
        assert_eq!(found, expected[..found.len()]);
        assert_eq!(found.len(), expected.len().min(2000));
    }

    #[test]
    fn rebuild_drops_what_is_gone_and_keeps_what_comes_meanwhile() {
        let log = NameLog::default();
        let long = "x".repeat(999);
        (0..2000).for_each(|n| log.add(format!("{long}{n}").as_bytes()));
        assert!(!log.is_worn());
        (0..1100).for_each(|_| log.note_gone(1003));
        assert!(log.is_worn());
        log.begin_rebuild();
        log.add(b"meanwhile");
        log.end_rebuild(["kept".as_bytes(), b"meanwhile"].into_iter());
        log.add(b"later");
        assert!(!log.is_worn());
        assert_eq!(names(&log), ["kept", "meanwhile", "meanwhile", "later"]);
        assert_eq!(names(&log).iter().collect::<BTreeSet<_>>().len(), 3);
    }
}
