//! Copies of other origins' files in the catalogue: stored, changed, outdated.

use std::{collections::HashMap, sync::Arc};

use nekoproto::{FileName, Record, VerifiedRecord};

use super::{Catalogue, CatalogueError, Copy, Entry, PassedOver, schema::FLOORS};

impl Catalogue {
    /// Whether a copy of `record` may be stored: the name is not published here, and no later version of the
    /// same file is or was held, unless the reader passes that over.
    pub(crate) fn may_hold(&self, record: &Record) -> Result<(), CatalogueError> {
        self.may_put(record, None)
    }

    /// The same of a copy with which the reader passes over further versions.
    pub(crate) fn may_put(
        &self,
        record: &Record,
        passed_over: Option<PassedOver>,
    ) -> Result<(), CatalogueError> {
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
        if is_overtaken { Err(CatalogueError::Overtaken(record.name.clone())) } else { Ok(()) }
    }

    /// Stores a downloaded copy; it replaces any earlier one. Blocking.
    #[cfg(test)]
    pub(crate) fn put_copy(&self, copy: Copy) -> Result<(), CatalogueError> {
        self.put_copies(vec![copy])?.remove(0)
    }

    /// Stores many downloaded copies in one transaction, with what each passes over; each replaces any earlier one.
    /// Forgets that they are on their way. Blocking.
    pub(crate) fn put_copies(
        &self,
        copies: Vec<Copy>,
    ) -> Result<Vec<Result<(), CatalogueError>>, CatalogueError> {
        let write = self.tables.begin()?;
        let mut results = Vec::with_capacity(copies.len());
        let mut entries = Vec::with_capacity(copies.len());
        let placed = write.end_placing(copies.iter().map(|copy| &copy.entry.record.name))?;
        for (mut copy, (is_placed, passed_over)) in copies.into_iter().zip(placed) {
            let name = &copy.entry.record.name;
            let is_removed = !is_placed && self.is_placing(name); // meanwhile
            let may_hold = if is_removed {
                Err(CatalogueError::Overtaken(name.clone()))
            } else {
                self.may_put(&copy.entry.record, passed_over)
            };
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
            let Copy { entry, manifest, outboard } = copy;
            if entry.stores_manifest() {
                write.put_manifest(&entry.record.manifest, &manifest, &outboard)?;
            }
            entries.push(entry);
            results.push(Ok(()));
        }
        // A copy of another origin's file may take the place of a withdrawal, which is forgotten then.
        let withdrawn = entries
            .iter()
            .map(|entry| &entry.record.name)
            .filter(|name| self.get_stated(name).is_some_and(|stated| stated.record.is_withdrawal()));
        write.set_untold(withdrawn.map(|name| (name, None)))?;
        write.with(FLOORS, |table| {
            let mut keys =
                entries.iter().map(|entry| (entry.record.name.as_str(), entry.record.origin.as_bytes()));
            keys.try_for_each(|key| table.remove(key).map(drop))
        })?;
        write.put_entries(&entries)?;
        self.tables.commit(write)?;
        Ok(results)
    }

    /// Changes the entry of `name`, if it exists and `change` returns that it changed. Blocking.
    pub(crate) fn update(
        &self,
        name: &FileName,
        change: impl FnOnce(&mut Entry) -> bool,
    ) -> Result<Option<Arc<Entry>>, CatalogueError> {
        let write = self.tables.begin()?;
        let Some(known) = self.get(name) else { return Ok(None) };
        let mut entry = Entry::clone(&known);
        if !change(&mut entry) {
            return Ok(None);
        }
        write.put_entries(std::slice::from_ref(&entry))?;
        self.tables.commit(write)?;
        Ok(Some(Arc::new(entry)))
    }

    /// Records, in one transaction, later versions of files held here; returns the entries that are newly
    /// outdated. Blocking.
    pub(crate) fn note_newer(&self, records: &[VerifiedRecord]) -> Result<Vec<Arc<Entry>>, CatalogueError> {
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
        write.put_entries(&outdated)?;
        self.tables.commit(write)?;
        Ok(outdated.into_iter().map(Arc::new).collect())
    }
}
