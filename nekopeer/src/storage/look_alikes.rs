//! Names that other file systems take for the same: they differ in case or Unicode form alone.

use std::{
    collections::HashMap,
    io,
    path::{Path, PathBuf},
};

use cap_std::fs::Dir;
use nekoproto::FileName;
use unicode_normalization::UnicodeNormalization;

use super::{
    error::{StoreError, error_at},
    share_folder::ShareFolder,
};

/// Entries of a folder among which names are sought that are the same elsewhere. That many take some
/// milliseconds; a folder with more is not searched to its end.
const LOOK_ALIKES_AMONG: usize = 16 * 1024;

impl ShareFolder {
    /// The file or folder that keeps `name` from being a name of its own on file systems that do not
    /// tell upper from lower case, or one Unicode form of a letter from another: it differs from a part
    /// of `name` in nothing else. None where `name` itself is there.
    ///
    /// Only the first 16 384 entries of a folder are looked at.
    ///
    /// # Errors
    /// A part of `name` is no folder, or leads out of the share folder.
    pub(crate) fn look_alike(&self, name: &FileName) -> Result<Option<PathBuf>, StoreError> {
        let whole = self.root.join(name.as_path());
        let failed = error_at(&whole);
        let (mut folder, mut path) = (self.handle.try_clone().map_err(&failed)?, self.root.clone());
        let mut parts = name.as_str().split('/').peekable();
        while let Some(part) = parts.next() {
            match folder.symlink_metadata(part) {
                Ok(_) if parts.peek().is_none() => break,
                Ok(_) => folder = folder.open_dir(part).map_err(&failed)?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    let found = entry_like(&folder, part).map_err(&failed)?;
                    return Ok(found.map(|found| path.join(found)));
                }
                Err(error) => return Err(failed(error)),
            }
            path.push(part);
        }
        Ok(None)
    }

    /// What is in `folder`, a path within, by what other file systems may take it for. A folder that is
    /// not there has nothing in it; of very many entries only some are looked at.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn entries_by_look(&self, folder: &Path) -> Result<HashMap<String, PathBuf>, StoreError> {
        let path = self.root.join(folder);
        let opened = if folder.as_os_str().is_empty() {
            self.handle.try_clone()
        } else {
            self.handle.open_dir(folder)
        };
        let opened = match opened {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(HashMap::new()),
            opened => opened.map_err(error_at(&path))?,
        };
        let mut entries = HashMap::new();
        for entry in opened.entries().map_err(error_at(&path))?.take(LOOK_ALIKES_AMONG) {
            let name = entry.map_err(error_at(&path))?.file_name();
            entries.insert(folded(&name.to_string_lossy()), PathBuf::from(name));
        }
        Ok(entries)
    }
}

/// The entry of `folder` whose name is the same as `name` where case and Unicode form do not count.
fn entry_like(folder: &Dir, name: &str) -> io::Result<Option<String>> {
    let wanted = folded(name);
    for entry in folder.entries()?.take(LOOK_ALIKES_AMONG) {
        let Ok(found) = entry?.file_name().into_string() else { continue }; // no shared name is like it
        let is_like = if found.is_ascii() {
            found.eq_ignore_ascii_case(&wanted) // most are, and need no memory to be compared
        } else {
            folded(&found) == wanted
        };
        if is_like {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// In lower case, each letter in its composed form.
pub(crate) fn folded(name: &str) -> String {
    name.to_lowercase().nfc().collect()
}
