//! Files that came from pipes and are not published yet. Each is noted durably before it is moved to its place; so one
//! whose process ended between the move and the publish is known to be this peer's, and may be replaced.

use nekoproto::{FileName, codec};

use super::{Catalogue, CatalogueError, schema::PIPED, write::Write};
use crate::content::stamp::Stamp;

impl Catalogue {
    /// Notes that a file with this stamp, from a pipe, will be moved to the place of `name`. Blocking.
    pub(crate) fn note_piped(&self, name: &FileName, stamp: Stamp) -> Result<(), CatalogueError> {
        let write = self.tables.begin()?;
        let row = codec::encode(&stamp).unwrap_or_default(); // numbers only
        write.with(PIPED, |table| table.insert(name.as_str(), row.as_slice()).map(drop))?;
        self.tables.commit(write)
    }

    /// Whether the file with the stamp `there`, in the place of `name`, came from a pipe and was not published.
    /// Blocking.
    pub(crate) fn is_piped(&self, name: &FileName, there: Option<Stamp>) -> Result<bool, CatalogueError> {
        let noted: Option<Stamp> =
            self.tables.value(PIPED, name.as_str(), |row| codec::decode(row).ok())?.flatten();
        Ok(noted.zip(there).is_some_and(|(noted, there)| noted.is_moved_to(&there)))
    }
}

impl Write<'_> {
    /// These files are published.
    pub(super) fn end_piped<'a>(
        &self,
        mut names: impl Iterator<Item = &'a FileName>,
    ) -> Result<(), CatalogueError> {
        self.with(PIPED, |table| names.try_for_each(|name| table.remove(name.as_str()).map(drop)))
    }
}
