//! Whose database it is, and the step from an older form.

use std::ops::Bound;

use nekoproto::NodeId;
use redb::ReadableTable;

use super::{
    entry::{Entry, from_row_without_sum, row_of_untimed},
    error::CatalogueError,
    schema::{
        AVERAGES, CONTENTS, Definition, FILES, FLOORS, MANIFEST_USERS, MANIFESTS, META, OUTBOARDS, PARTIALS,
        PIPED, PLACING, PROGRESS, SIZES, UNTOLD, VERSIONS,
    },
    write::Write,
};

/// Number of the stored forms; changes with each of them.
pub(super) const SCHEMA: u64 = 6;
/// The form with an index in memory: rows without a checksum, and the manifests of small files stored.
const SCHEMA_FIRST: u64 = 1;
/// The form without the files that came from pipes.
const SCHEMA_SECOND: u64 = 2;
/// The form whose records do not state when they were published.
const SCHEMA_THIRD: u64 = 3;
/// The form without versions that withdraw their names, which earlier programs take for damaged entries.
const SCHEMA_FOURTH: u64 = 4;
/// Rows read before they are written in the new form.
const STEP_ROWS: usize = 1024;

/// Name -> entry, in the first form.
const ENTRIES_FIRST: Definition<&str, &[u8]> = Definition::new("entries");

impl Write<'_> {
    /// Creates every table, and brings an older form to this one; whether anything was to be done.
    pub(super) fn prepare(&self, node: NodeId) -> Result<bool, CatalogueError> {
        let meta = |key| self.with(META, |table| Ok(table.get(key)?.map(|found| found.value().to_vec())));
        if meta("node")?.is_some_and(|found| found != node.as_bytes()) {
            return Err(CatalogueError::OtherIdentity(self.path.to_owned()));
        }
        let schema = meta("schema")?.map(|found| found.try_into().map_or(0, u64::from_le_bytes));
        if schema == Some(SCHEMA) {
            return Ok(false);
        }
        self.create_tables()?;
        match schema {
            None => {}
            Some(SCHEMA_FIRST) => self.step_from_first()?,
            Some(SCHEMA_FOURTH) => {}
            Some(SCHEMA_SECOND | SCHEMA_THIRD) => self.step_to_timed()?,
            Some(found) => {
                return Err(CatalogueError::OtherProgram {
                    path: self.path.to_owned(),
                    found,
                    known: SCHEMA,
                });
            }
        }
        self.with(META, |table| {
            table.insert("node", node.as_bytes().as_slice())?;
            table.insert("schema", SCHEMA.to_le_bytes().as_slice()).map(|_| true)
        })
    }

    fn create_tables(&self) -> Result<(), CatalogueError> {
        self.with(FILES, |_| Ok(()))?;
        self.with(CONTENTS, |_| Ok(()))?;
        self.with(MANIFEST_USERS, |_| Ok(()))?;
        self.with(SIZES, |_| Ok(()))?;
        self.with(VERSIONS, |_| Ok(()))?;
        self.with(AVERAGES, |_| Ok(()))?;
        self.with(PIPED, |_| Ok(()))?;
        self.with(MANIFESTS, |_| Ok(()))?;
        self.with(PARTIALS, |_| Ok(()))?;
        self.with(FLOORS, |_| Ok(()))?;
        self.with(PLACING, |_| Ok(()))?;
        self.with(OUTBOARDS, |_| Ok(()))?;
        self.with(PROGRESS, |_| Ok(()))?;
        self.with(UNTOLD, |_| Ok(()))
    }

    /// Writes every row that holds records in this form. A damaged one stays as it is, and is reported when it is used.
    fn step_to_timed(&self) -> Result<(), CatalogueError> {
        let mut last: Option<String> = None;
        loop {
            let after = last.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
            let rows: Vec<(String, Option<Vec<u8>>)> = self.with(FILES, |table| {
                let rows = table.range::<&str>((after, Bound::Unbounded))?.take(STEP_ROWS);
                rows.map(|row| row.map(|(name, row)| (name.value().to_owned(), row_of_untimed(row.value()))))
                    .collect()
            })?;
            let Some((name, _)) = rows.last() else { break };
            last = Some(name.clone());
            self.with(FILES, |table| {
                let mut good = rows.iter().filter_map(|(name, row)| Some((name, row.as_ref()?)));
                good.try_for_each(|(name, row)| table.insert(name.as_str(), row.as_slice()).map(drop))
            })?;
        }
        self.with(FLOORS, |table| {
            let mut changed = Vec::new();
            for row in table.iter()? {
                let (key, row) = row?;
                let (name, origin) = key.value();
                changed.extend(row_of_untimed(row.value()).map(|row| (name.to_owned(), *origin, row)));
            }
            let mut changed = changed.iter();
            changed.try_for_each(|(name, origin, row)| {
                table.insert((name.as_str(), origin), row.as_slice()).map(drop)
            })
        })?;
        self.with(PLACING, |table| {
            let mut changed = Vec::new();
            for row in table.iter()? {
                let (name, row) = row?;
                let (row, manifest, outboard) = row.value();
                let row = row_of_untimed(row).map(|row| (row, manifest.to_vec(), outboard.to_vec()));
                changed.extend(row.map(|row| (name.value().to_owned(), row)));
            }
            changed.iter().try_for_each(|(name, (row, manifest, outboard))| {
                let row = (row.as_slice(), manifest.as_slice(), outboard.as_slice());
                table.insert(name.as_str(), row).map(drop)
            })
        })
    }

    /// Writes every entry of the first form in this one. A row that does not decode, or whose signature is
    /// wrong, becomes a damaged one: it is reported by its name when it is used.
    fn step_from_first(&self) -> Result<(), CatalogueError> {
        let mut last: Option<String> = None;
        loop {
            let after = last.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
            let rows = self.with(ENTRIES_FIRST, |table| {
                let rows = table.range::<&str>((after, Bound::Unbounded))?.take(STEP_ROWS);
                rows.map(|row| row.map(|(name, row)| (name.value().to_owned(), row.value().to_vec())))
                    .collect::<Result<Vec<_>, _>>()
            })?;
            let Some((name, _)) = rows.last() else { break };
            last = Some(name.clone());
            let mut entries: Vec<Entry> = Vec::with_capacity(rows.len());
            for (name, row) in rows {
                match from_row_without_sum(&row) {
                    Some(entry) => entries.push(entry),
                    None => {
                        self.with(FILES, |table| table.insert(name.as_str(), row.as_slice()).map(drop))?;
                    }
                }
            }
            for entry in entries.iter().filter(|entry| !entry.stores_manifest()) {
                self.remove_manifest(&entry.record.manifest)?;
            }
            self.put_entries(&entries)?;
        }
        self.transaction
            .delete_table(ENTRIES_FIRST)
            .map_err(|error| CatalogueError::database(self.path, error))?;
        Ok(())
    }
}
