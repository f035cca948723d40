//! Copies of other origins' files in the catalogue: stored, changed, outdated.

use std::{collections::HashMap, sync::Arc};

use nekoproto::{FileName, Record, VerifiedRecord};

use super::{Catalogue, CatalogueError, Entry, progress::forget_partial};

/// A downloaded file.
#[derive(Clone, Debug)]
pub(crate) struct Copy {
    /// What it is, and where.
    pub entry: Entry,
    /// Its encoded manifest.
    pub manifest: Vec<u8>,
    /// The hashes of its segments, see [`outboard`](crate::content::outboard); none for small files.
    pub outboard: Vec<u8>,
}

impl Catalogue {
    /// Whether a copy of `record` may be stored: the name is not published here, and no later version of the
    /// same file is held.
    ///
    /// # Errors
    /// `Overtaken`.
    pub(crate) fn may_hold(&self, record: &Record) -> Result<(), CatalogueError> {
        match self.get(&record.name) {
            Some(known) if self.is_own(&known) || known.record.replaces(record) => {
                Err(CatalogueError::Overtaken(record.name.clone()))
            }
            _ => Ok(()),
        }
    }

    /// Stores a downloaded copy; it replaces any earlier one. Blocking.
    ///
    /// # Errors
    /// The catalogue is as before.
    pub(crate) fn put_copy(&self, copy: Copy) -> Result<(), CatalogueError> {
        self.put_copies(vec![copy])?.remove(0)
    }

    /// Stores many downloaded copies in one transaction; each replaces any earlier one. Forgets their partial
    /// downloads. Blocking.
    ///
    /// # Errors
    /// The catalogue is as before. The error of a single copy is in its result; the others are stored.
    pub(crate) fn put_copies(
        &self,
        copies: Vec<Copy>,
    ) -> Result<Vec<Result<(), CatalogueError>>, CatalogueError> {
        let _changing = self.changing.lock();
        let write = self.tables.begin()?;
        let mut results = Vec::with_capacity(copies.len());
        let mut stored = Vec::with_capacity(copies.len());
        for Copy { mut entry, manifest, outboard } in copies {
            if let Err(error) = self.may_hold(&entry.record) {
                results.push(Err(error));
                continue;
            }
            // A newer version that became known before or during the download stays known.
            let known = self.get(&entry.record.name).and_then(|known| known.newest.clone());
            entry.newest = known.filter(|newest| newest.replaces(&entry.record));
            results.push(Ok(()));
            stored.push(Copy { entry, manifest, outboard });
        }
        self.drop_replaced_manifests(&write, stored.iter().map(|copy| &copy.entry.record))?;
        // After all removals: a manifest that one entry drops may be another's new one.
        for Copy { entry, manifest, outboard } in &stored {
            write.put_manifest(&entry.record.manifest, manifest, outboard)?;
            write.put_entry(entry)?;
            forget_partial(&write, &entry.record.name)?;
        }
        write.commit()?;
        self.remember(stored.into_iter().map(|copy| copy.entry).collect());
        Ok(results)
    }

    /// Changes the entry of `name`, if it exists and `change` returns that it changed. Blocking.
    ///
    /// # Errors
    /// The catalogue is as before.
    pub(crate) fn update(
        &self,
        name: &FileName,
        change: impl FnOnce(&mut Entry) -> bool,
    ) -> Result<Option<Arc<Entry>>, CatalogueError> {
        let _changing = self.changing.lock();
        let write = self.tables.begin()?;
        let Some(known) = self.get(name) else { return Ok(None) };
        let mut entry = Entry::clone(&known);
        if !change(&mut entry) {
            return Ok(None);
        }
        write.put_entry(&entry)?;
        write.commit()?;
        self.remember(vec![entry]);
        Ok(self.get(name))
    }

    /// Records, in one transaction, later versions of files held here; returns the entries that are newly
    /// outdated. Blocking.
    ///
    /// # Errors
    /// The catalogue is as before.
    pub(crate) fn note_newer(&self, records: &[VerifiedRecord]) -> Result<Vec<Arc<Entry>>, CatalogueError> {
        let _changing = self.changing.lock();
        let write = self.tables.begin()?;
        let mut outdated: HashMap<FileName, Entry> = HashMap::new();
        for record in records {
            let Some(known) = self.get(&record.name) else { continue };
            let entry = outdated.remove(&record.name).unwrap_or_else(|| Entry::clone(&known));
            let newer = record.replaces(entry.newest.as_ref().unwrap_or(&entry.record));
            let newest = if newer { Some(record.clone()) } else { entry.newest.clone() };
            if newest != known.newest {
                outdated.insert(record.name.clone(), Entry { newest, ..entry });
            }
        }
        outdated.values().try_for_each(|entry| write.put_entry(entry))?;
        write.commit()?;
        let names: Vec<FileName> = outdated.keys().cloned().collect();
        self.remember(outdated.into_values().collect());
        Ok(names.iter().filter_map(|name| self.get(name)).collect())
    }
}
