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
        let before = set_partial(&write, name, path)?;
        self.tables.commit(write)?;
        Ok(before)
    }

    /// Stores the checkpoint of the partial download at `path`. Blocking.
    ///
    /// # Errors
    /// The previous checkpoint still holds.
    pub(crate) fn note_progress(&self, path: &Path, note: &[u8]) -> Result<(), CatalogueError> {
        let write = self.tables.begin()?;
        write.set_progress(path, Some(note))?;
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

pub(super) fn set_partial(
    write: &Write<'_>,
    name: &FileName,
    path: Option<&Path>,
) -> Result<Option<PathBuf>, CatalogueError> {
    let before = write.set_partial(name, path)?;
    if let Some(before) = before.as_deref().filter(|before| path != Some(*before)) {
        write.set_progress(before, None)?;
    }
    Ok(before)
}

pub(super) fn forget_partial(write: &Write<'_>, name: &FileName) -> Result<(), CatalogueError> {
    set_partial(write, name, None).map(drop)
}
