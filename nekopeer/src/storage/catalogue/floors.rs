//! What is remembered of copies that are held no more: no older version takes their place later.

use nekoproto::{FileName, NodeId};

use super::{Catalogue, CatalogueError, Copy, Entry, entry::from_row, write::Write};

impl Catalogue {
    /// The last entries of the copies of `name` that were dropped, deregistered, or replaced by a copy of another
    /// origin's file; one for each origin. A damaged one is left out.
    pub(crate) fn floors(&self, name: &FileName) -> Result<Vec<Entry>, CatalogueError> {
        let name = name.as_str();
        self.tables.database.read(|committed| {
            let mut floors = Vec::new();
            for row in committed.floors.range((name, &[0; 32])..=(name, &[u8::MAX; 32]))? {
                floors.extend(from_row(name, row?.1.value()));
            }
            Ok(floors)
        })
    }

    /// The last entry of a copy of `name` from `origin`, if it is held no more.
    pub(crate) fn floor(&self, name: &FileName, origin: &NodeId) -> Result<Option<Entry>, CatalogueError> {
        Ok(self.floors(name)?.into_iter().find(|floor| floor.record.origin == *origin))
    }

    /// Completes the entry of a new copy with what is known of the file: a later version, and where its origin is.
    pub(super) fn complete(&self, write: &Write<'_>, copy: &mut Copy) -> Result<(), CatalogueError> {
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
            Some(other) => write.put_floor(&other),
            None => Ok(()),
        }
    }
}
