//! The names in the catalogue of a folder where no peer runs; nothing there is changed or made.

use std::path::Path;

use redb::{ReadOnlyDatabase, ReadableDatabase};

use super::{
    FILE,
    guard::{guarded, guarded_part},
    schema::FILES,
};

/// At most `max` names of entries that begin with `begin`. Blocking.
///
/// # Errors
/// There is no catalogue, a process has it open, or one that had it open was killed.
pub(crate) fn names_in(folder: &Path, begin: &str, max: usize) -> Result<Vec<String>, redb::Error> {
    let database = guarded_part(|| ReadOnlyDatabase::open(folder.join(FILE)))?;
    let transaction = guarded_part(|| database.begin_read())?;
    guarded(|| {
        let mut names = Vec::new();
        for row in transaction.open_table(FILES)?.range(begin..)? {
            let (name, row) = row?;
            if !name.value().starts_with(begin) || names.len() == max {
                break;
            }
            let entry = row.value().filter(|entry| !entry.record.is_withdrawal());
            names.extend(entry.map(|_| name.value().to_owned()));
        }
        Ok::<_, redb::Error>(names)
    })
}
