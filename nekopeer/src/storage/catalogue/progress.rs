//! Partial downloads in the catalogue: their paths and checkpoints.

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use nekoproto::FileName;

use super::{
    Catalogue, CatalogueError,
    schema::{PARTIALS, PROGRESS},
    write::Write,
};

impl Catalogue {
    /// The path of the partial download of `name`. Blocking.
    pub(crate) fn partial(&self, name: &FileName) -> Result<Option<PathBuf>, CatalogueError> {
        self.tables.read(PARTIALS, name.as_str(), |path| PathBuf::from(OsStr::from_bytes(path)))
    }

    /// Notes where the partial files of these names will be, before they are made, so that no crash leaves one of
    /// which nobody knows. One of another version, which will not be completed, is deleted. Blocking.
    pub(crate) fn begin_partials(&self, partials: &[(&FileName, PathBuf)]) -> Result<(), CatalogueError> {
        for (name, path) in partials {
            if let Some(abandoned) = self.partial(name)?.filter(|noted| noted != path) {
                drop(std::fs::remove_file(abandoned)); // it may be gone already
            }
        }
        let write = self.tables.begin()?;
        let changes = partials.iter().map(|(name, path)| (*name, Some(path.as_path())));
        set_partials(&write, &changes.collect::<Vec<_>>())?;
        self.tables.commit(write)
    }

    /// Stores the checkpoint of the partial download at `path`. Blocking.
    pub(crate) fn note_progress(&self, path: &Path, note: &[u8]) -> Result<(), CatalogueError> {
        let write = self.tables.begin()?;
        write.with(PROGRESS, |table| table.insert(path.as_os_str().as_bytes(), note).map(drop))?;
        self.tables.commit(write)
    }

    /// The checkpoint of the partial download at `path`. Blocking.
    pub(crate) fn progress(&self, path: &Path) -> Result<Option<Vec<u8>>, CatalogueError> {
        self.tables.read(PROGRESS, path.as_os_str().as_bytes(), <[u8]>::to_vec)
    }
}

/// Stores the paths of partial downloads, removes those without one, and the checkpoints at paths that are none any
/// more.
pub(super) fn set_partials(
    write: &Write<'_>,
    changes: &[(&FileName, Option<&Path>)],
) -> Result<(), CatalogueError> {
    let before = write.set_partials(changes.iter().copied())?;
    let both = before.iter().map(Option::as_deref).zip(changes);
    let mut ended = both.filter_map(|(before, (_, now))| before.filter(|before| *now != Some(*before)));
    write.with(PROGRESS, |table| {
        ended.try_for_each(|path| table.remove(path.as_os_str().as_bytes()).map(drop))
    })
}
