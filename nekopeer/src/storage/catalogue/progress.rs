//! Partial downloads in the catalogue: their paths and checkpoints.

use std::path::{Path, PathBuf};

use nekoproto::FileName;

use super::{Catalogue, CatalogueError, write::Write};

impl Catalogue {
    /// The path of the partial download of `name`. Blocking.
    ///
    /// # Errors
    /// The database failed.
    pub(crate) fn partial(&self, name: &FileName) -> Result<Option<PathBuf>, CatalogueError> {
        self.tables.partial(name)
    }

    /// Stores that the partial download of `name` is at `path`; returns the previous path. Blocking.
    ///
    /// # Errors
    /// The catalogue is as before.
    pub(crate) fn note_partial(
        &self,
        name: &FileName,
        path: Option<&Path>,
    ) -> Result<Option<PathBuf>, CatalogueError> {
        let write = self.tables.begin()?;
        let before = set_partials(&write, &[(name, path)])?.pop().flatten();
        self.tables.commit(write)?;
        Ok(before)
    }

    /// Stores the checkpoint of the partial download at `path`. Blocking.
    ///
    /// # Errors
    /// The previous checkpoint still holds.
    pub(crate) fn note_progress(&self, path: &Path, note: &[u8]) -> Result<(), CatalogueError> {
        let write = self.tables.begin()?;
        write.set_progress(path, note)?;
        self.tables.commit(write)
    }

    /// The checkpoint of the partial download at `path`. Blocking.
    ///
    /// # Errors
    /// The database failed.
    pub(crate) fn progress(&self, path: &Path) -> Result<Option<Vec<u8>>, CatalogueError> {
        self.tables.progress(path)
    }
}

/// Stores the paths of partial downloads, removes those without one, and the checkpoints at paths that are none any
/// more; returns the paths before.
pub(super) fn set_partials(
    write: &Write<'_>,
    changes: &[(&FileName, Option<&Path>)],
) -> Result<Vec<Option<PathBuf>>, CatalogueError> {
    let before = write.set_partials(changes.iter().copied())?;
    let both = before.iter().map(Option::as_deref).zip(changes);
    write
        .end_progress(both.filter_map(|(before, (_, now))| before.filter(|before| *now != Some(*before))))?;
    Ok(before)
}
