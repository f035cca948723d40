//! Copies on their way to their places. What is about to be moved is noted durably before; so a process that ends
//! between the move and the catalogue's change leaves no file of which nobody knows whose it is.

use std::{
    collections::HashSet,
    fs::{self, symlink_metadata},
    path::Path,
};

use nekoproto::{FileName, Record};
use tokio_util::sync::CancellationToken;

use super::{
    Catalogue, Entry, PassedOver, StoredCopy,
    error::overtaken,
    schema::{PASSING, PIPED, PLACING},
    write::Write,
};
use crate::{
    content::{
        stamp::{Stamp, open_file},
        whole::hash_of,
    },
    failure::Failure,
    storage::{partial::partial_paths, place::keep_at},
};

/// Copies that are being moved to their places, until dropped. Their files are no changes of a user's meanwhile.
#[derive(Debug)]
pub(crate) struct Placing<'a> {
    catalogue: &'a Catalogue,
    names: HashSet<FileName>,
}

pub(crate) struct ToPlace<'a> {
    pub(crate) copy: &'a StoredCopy,
    pub(crate) passed_over: Option<PassedOver>,
    /// Cancelled if it is not wanted any more.
    pub(crate) stop: &'a CancellationToken,
}

impl Catalogue {
    /// Notes, in one transaction, that each of `copies` is complete in its partial file and will be moved to its
    /// place, unless it is not wanted any more or may not be held: see [`Placing::check`]. Its entry has the
    /// stamp of the partial file. [`put_copies`](Self::put_copies) ends that; if the process ends before,
    /// [`settle`](Self::settle) does. Blocking.
    pub(crate) fn place<'a>(
        &self,
        copies: impl Iterator<Item = ToPlace<'a>>,
    ) -> Result<Placing<'_>, Failure> {
        let name = |to_place: &ToPlace<'a>| &to_place.copy.entry.record.name;
        let mut copies: Vec<ToPlace<'_>> = copies.collect();
        // Before it is asked who still wants them: whoever ended one then waits in `settle` for what is on its way.
        let mut placing = self.marked(copies.iter().map(name).cloned().collect());
        let write = self.tables.begin()?;
        let is_wanted = |to_place: &ToPlace<'_>| {
            !to_place.stop.is_cancelled()
                && self.may_put(&to_place.copy.entry.record, to_place.passed_over).is_ok()
        };
        copies.retain(|to_place| {
            let is_wanted = is_wanted(to_place);
            if !is_wanted {
                placing.release(name(to_place));
            }
            is_wanted
        });
        let passing = |to_place: &ToPlace<'a>| Some((name(to_place), to_place.passed_over?));
        let passing = copies.iter().filter_map(passing);
        write.put(PASSING, passing.map(|(name, passed)| (name.as_str(), Some(passed))))?;
        let stored = |copy: &'a StoredCopy| (Some(copy.entry.clone()), &*copy.manifest, &*copy.outboard);
        let rows = copies.iter().map(|to_place| (name(to_place).as_str(), stored(to_place.copy)));
        write.put(PLACING, rows)?;
        self.tables.commit(write)?;
        Ok(placing)
    }

    /// The file of `name`, or the folder of the set, is being replaced or removed, until the guard is dropped; waits for
    /// whoever else does. Blocking.
    pub(crate) fn replacing(&self, name: &FileName) -> Placing<'_> {
        self.marked(HashSet::from([name.clone()]))
    }

    /// Whether the file of `name` is being replaced or removed by this peer.
    pub(crate) fn is_placing(&self, name: &FileName) -> bool {
        self.placing.lock().contains(name)
    }

    /// Ends what was interrupted in the placing of `name`: a copy that reached its place is catalogued, any other is
    /// forgotten. The name must not be in use; what a dropped download still moves is waited for. Returns the entry of a
    /// copy that is catalogued now. Blocking.
    pub(crate) fn settle(&self, name: &FileName) -> Result<Option<Entry>, Failure> {
        let _settling = self.marked(HashSet::from([name.clone()]));
        let copy = self.tables.value(PLACING, name.as_str(), StoredCopy::of)?.flatten();
        let Some(copy) = copy else { return Ok(None) };
        let Entry { path, .. } = &copy.entry;
        let moved = stamp_at(path).filter(|there| is_still(&copy.entry, path, there));
        self.end_exchange(&copy.entry, moved.is_some());
        let Some(stamp) = moved else {
            let write = self.tables.begin()?;
            write.end_placing(std::iter::once(name))?;
            self.tables.commit(write)?;
            return Ok(None);
        };
        let entry = Entry { stamp, ..copy.entry };
        let stored = self.put_copies(vec![StoredCopy { entry: entry.clone(), ..copy }])?.remove(0);
        Ok(stored.is_ok().then_some(entry)) // or it was overtaken, which ends it too
    }

    /// After an exchange of names, what had been in the place of `placed` is where the partial file was. The file that is
    /// known here is removed, any other is kept: it may have been saved there just before.
    fn end_exchange(&self, placed: &Entry, is_moved: bool) {
        let Record { name, .. } = &*placed.record;
        for path in partial_paths(&self.data_dir, name, &placed.path) {
            let Some(there) = stamp_at(&path) else { continue };
            let is_partial = placed.stamp.is_same_file(&there);
            if is_partial && !is_moved {
                continue; // nothing was exchanged
            }
            if is_partial || self.get(name).is_some_and(|before| is_still(&before, &path, &there)) {
                drop(fs::remove_file(path)); // or it is gone
                continue;
            }
            match keep_at(&path, &placed.path) {
                Ok(at) => {
                    tracing::warn!(file = %at.display(), "stood in the place of {name} when that was replaced, and is kept")
                }
                Err(error) => {
                    tracing::warn!(file = %path.display(), %error, "stood in the place of {name}, and stays there")
                }
            }
        }
    }

    /// Notes that a file with this stamp, from a pipe, will be moved to the place of `name`: if the process ends before it
    /// is published, it is known to be this peer's, and may be replaced. Blocking.
    pub(crate) fn note_piped(&self, name: &FileName, stamp: Stamp) -> Result<(), Failure> {
        let write = self.tables.begin()?;
        write.put(PIPED, [(name.as_str(), Some(stamp))])?;
        self.tables.commit(write)
    }

    /// Whether the file with the stamp `there`, in the place of `name`, came from a pipe and was not published. Blocking.
    pub(crate) fn is_piped(&self, name: &FileName, there: Option<Stamp>) -> Result<bool, Failure> {
        let noted = self.tables.row(PIPED, name.as_str())?;
        Ok(noted.zip(there).is_some_and(|(noted, there)| noted.is_moved_to(&there)))
    }

    /// Ends all that the last process left. Blocking.
    pub(crate) fn settle_all(&self) -> Result<(), Failure> {
        let placing = self.tables.rows(PLACING, .., usize::MAX, |name, _| FileName::new(name).ok())?;
        placing.iter().try_for_each(|name| self.settle(name).map(drop))?;
        // What is kept belongs to a catalogue that may come back.
        if self.is_lost()? { Ok(()) } else { self.sweep_packs() }
    }

    /// Marks `names` once none of them is marked: one at a time changes the file of a name.
    fn marked(&self, names: HashSet<FileName>) -> Placing<'_> {
        let mut placing = self.placing.lock();
        self.placed.wait_while(&mut placing, |placing| !placing.is_disjoint(&names));
        placing.extend(names.iter().cloned());
        Placing { catalogue: self, names }
    }
}

impl Write<'_> {
    /// Returns for each name whether it had a row, and what its copy passes over.
    pub(super) fn end_placing<'a>(
        &self,
        names: impl Iterator<Item = &'a FileName> + Clone,
    ) -> Result<Vec<(bool, Option<PassedOver>)>, Failure> {
        let passing = self.take(PASSING, names.clone().map(FileName::as_str), |passed| passed.value())?;
        let placing = self.take(PLACING, names.map(FileName::as_str), |_| ())?;
        Ok(placing.iter().map(Option::is_some).zip(passing.into_iter().map(Option::flatten)).collect())
    }
}

fn stamp_at(path: &Path) -> Option<Stamp> {
    symlink_metadata(path).ok().map(|metadata| Stamp::of(&metadata))
}

/// Whether the file at `path`, with the stamp `there`, is that of `entry`: it was moved, or only its times or its mode were
/// changed.
fn is_still(entry: &Entry, path: &Path, there: &Stamp) -> bool {
    let has_its_bytes = || {
        open_file(path)
            .and_then(|mut file| hash_of(&mut file, &CancellationToken::new()))
            .is_ok_and(|content| content == Some(entry.record.content))
    };
    entry.stamp.is_moved_to(there)
        || entry.stamp.is_same_file(there) && there.size() == entry.record.size && has_its_bytes()
}

impl Placing<'_> {
    /// Whether the copy of this name is to be moved to its place.
    pub(crate) fn check(&self, name: &FileName) -> Result<(), Failure> {
        if self.names.contains(name) { Ok(()) } else { Err(overtaken(name)) }
    }

    fn release(&mut self, name: &FileName) {
        self.names.remove(name);
        self.catalogue.placing.lock().remove(name);
        self.catalogue.placed.notify_all();
    }
}

impl Drop for Placing<'_> {
    fn drop(&mut self) {
        self.catalogue.placing.lock().retain(|name| !self.names.contains(name));
        self.catalogue.placed.notify_all();
    }
}
