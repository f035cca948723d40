//! Copies of other origins' files in the catalogue: stored, changed, outdated; and what is remembered of those that are
//! held no more, so that no older version takes their place later.

use std::{collections::HashMap, sync::Arc};

use nekoproto::{FileName, NodeId, Record, VerifiedRecord};

use super::{
    Catalogue, Entry, PassedOver, StoredCopy, error::overtaken, schema::FLOORS, untold::UNTOLD, write::Write,
};
use crate::failure::Failure;

impl Catalogue {
    /// Whether a copy of `record` may be stored: the name is not published here, and no later version of the same file is or was
    /// held, unless the reader passes that over, or does so with this copy.
    pub(crate) fn may_put(&self, record: &Record, passed_over: Option<PassedOver>) -> Result<(), Failure> {
        let (known, floor) = (self.entry(&record.name)?, self.floor(&record.name, &record.origin)?);
        let is_own = known.as_ref().is_some_and(|known| self.is_own(known));
        let held = known.iter().map(AsRef::as_ref).chain(&floor).map(|entry| &entry.record);
        let mut is_overtaken = is_own;
        for later in held.filter(|held| held.replaces(record)) {
            // The user, or the failure of a command, wants one before those that are passed over.
            let mut reader = self.reader(&record.name)?;
            reader.passed_over = passed_over.or(reader.passed_over);
            is_overtaken |= !reader.passes_over(later);
        }
        if is_overtaken { Err(overtaken(&record.name)) } else { Ok(()) }
    }

    /// Stores a downloaded copy; it replaces any earlier one. Blocking.
    #[cfg(test)]
    pub(crate) fn put_copy(&self, copy: StoredCopy) -> Result<(), Failure> {
        self.put_copies(vec![copy])?.remove(0)
    }

    /// Stores many downloaded copies in one transaction, with what each passes over; each replaces any earlier one.
    /// Forgets that they are on their way. Blocking.
    pub(crate) fn put_copies(&self, copies: Vec<StoredCopy>) -> Result<Vec<Result<(), Failure>>, Failure> {
        let write = self.tables.begin()?;
        let mut results = Vec::with_capacity(copies.len());
        let mut entries = Vec::with_capacity(copies.len());
        let placed = write.end_placing(copies.iter().map(|copy| &copy.entry.record.name))?;
        for (mut copy, (is_placed, passed_over)) in copies.into_iter().zip(placed) {
            let name = &copy.entry.record.name;
            let is_removed = !is_placed && self.is_placing(name); // meanwhile
            let may_hold =
                if is_removed { Err(overtaken(name)) } else { self.may_put(&copy.entry.record, passed_over) };
            if let Err(error) = may_hold {
                results.push(Err(error));
                continue;
            }
            // What stands in its place is not passed over any more.
            let passes_more = |passed: &PassedOver| {
                passed.origin == copy.entry.record.origin && passed.version > copy.entry.record.version
            };
            self.write_readers(&write, [name], |reader| {
                reader.passed_over = passed_over.or(reader.passed_over.filter(passes_more));
            })?;
            // A newer version that became known before or during the download stays known.
            self.complete(&write, &mut copy)?;
            let StoredCopy { entry, manifest, outboard } = copy;
            write.put_manifest(&entry, &manifest, &outboard)?;
            entries.push(entry);
            results.push(Ok(()));
        }
        // A copy of another origin's file may take the place of a withdrawal, which is forgotten then.
        let withdrawn = entries
            .iter()
            .map(|entry| &entry.record.name)
            .filter(|name| self.get_stated(name).is_some_and(|stated| stated.record.is_withdrawal()));
        write.remove(UNTOLD, withdrawn.map(FileName::as_str))?;
        let records = entries.iter().map(|entry| &entry.record);
        write.remove(FLOORS, records.map(|record| (record.name.as_str(), record.origin.as_bytes())))?;
        write.put_entries(entries)?;
        self.tables.commit(write)?;
        Ok(results)
    }

    /// Changes the entry of `name`, if it exists and `change` returns that it changed. Blocking.
    pub(crate) fn update(
        &self,
        name: &FileName,
        change: impl FnOnce(&mut Entry) -> bool,
    ) -> Result<Option<Arc<Entry>>, Failure> {
        let write = self.tables.begin()?;
        let Some(known) = self.get(name) else { return Ok(None) };
        let mut entry = Entry::clone(&known);
        if !change(&mut entry) {
            return Ok(None);
        }
        write.put_entries(vec![entry.clone()])?;
        self.tables.commit(write)?;
        Ok(Some(Arc::new(entry)))
    }

    /// In one transaction; returns the entries that are newly outdated. Blocking.
    pub(crate) fn note_newer(&self, records: &[VerifiedRecord]) -> Result<Vec<Arc<Entry>>, Failure> {
        let write = self.tables.begin()?;
        let mut outdated: HashMap<FileName, Entry> = HashMap::new();
        for record in records {
            let Some(known) = self.get_stated(&record.name) else { continue };
            let entry = outdated.remove(&record.name).unwrap_or_else(|| Entry::clone(&known));
            let last = entry.newest.as_ref().unwrap_or(&entry.record);
            // Of two files of this peer under one number the one that ranks higher counts.
            let ranks_higher = self.is_own(&known) && record.contradicts(last) && record.outranks(last);
            let newer = record.replaces(last) || ranks_higher;
            let newest = if newer { Some(record.clone()) } else { entry.newest.clone() };
            if newest != known.newest {
                outdated.insert(record.name.clone(), Entry { newest, ..entry });
            }
        }
        let outdated: Vec<Entry> = outdated.into_values().collect();
        write.put_entries(outdated.clone())?;
        self.tables.commit(write)?;
        Ok(outdated.into_iter().map(Arc::new).collect())
    }

    /// The last entries of the copies of `name` that were dropped, deregistered, or replaced by a copy of another
    /// origin's file; one for each origin. A damaged one is left out.
    pub(crate) fn floors(&self, name: &FileName) -> Result<Vec<Entry>, Failure> {
        let range = (name.as_str(), &[0; 32])..=(name.as_str(), &[u8::MAX; 32]);
        self.tables.rows(FLOORS, range, usize::MAX, |_, floor| floor.value())
    }

    /// The last entry of a copy of `name` from `origin`, if it is held no more.
    pub(crate) fn floor(&self, name: &FileName, origin: &NodeId) -> Result<Option<Entry>, Failure> {
        self.tables.row(FLOORS, (name.as_str(), origin.as_bytes()))
    }

    /// Completes the entry of a new copy with what is known of the file: a later version, and where its origin is.
    pub(super) fn complete(&self, write: &Write<'_>, copy: &mut StoredCopy) -> Result<(), Failure> {
        let entry = &mut copy.entry;
        let held = self.entry(&entry.record.name)?;
        let floor = self.floor(&entry.record.name, &entry.record.origin)?;
        for known in held.iter().map(AsRef::as_ref).chain(&floor) {
            if known.record.origin == entry.record.origin {
                entry.origin_addr = entry.origin_addr.or(known.origin_addr);
            }
            // What is replaced is later itself where the reader went back.
            for later in [Some(&known.record), known.newest.as_ref()].into_iter().flatten() {
                if later.replaces(entry.newest.as_ref().unwrap_or(&entry.record)) {
                    entry.newest = Some(later.clone());
                }
            }
        }
        match held.filter(|held| !self.is_own(held) && !held.record.same_file(&entry.record)) {
            Some(other) => write.put_floor(Entry::clone(&other)),
            None => Ok(()),
        }
    }
}
