//! Names that other file systems treat as equal: they differ only in case or Unicode form.

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

/// Maximum number of entries of a folder that are compared; these take a few milliseconds.
const LOOK_ALIKES_AMONG: usize = 16 * 1024;

impl ShareFolder {
    /// An existing file or folder whose path differs from `name`, or from a leading part of it, only in case
    /// or Unicode form, so that some file systems treat them as equal. `None` if `name` itself exists.
    ///
    /// Only the first 16 384 entries of a folder are compared.
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

    /// The entries of `folder`, a path within the share folder, by case-folded, normalized name. Empty if the
    /// folder does not exist; only the first 16 384 entries are listed.
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

/// The entry of `folder` that equals `name` up to case and Unicode form.
fn entry_like(folder: &Dir, name: &str) -> io::Result<Option<String>> {
    let wanted = folded(name);
    for entry in folder.entries()?.take(LOOK_ALIKES_AMONG) {
        let Ok(found) = entry?.file_name().into_string() else { continue }; // no shared name equals it
        let is_like = if found.is_ascii() {
            found.eq_ignore_ascii_case(&wanted) // the common case, without allocation
        } else {
            folded(&found) == wanted
        };
        if is_like {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// The name in lower case and composed Unicode form.
pub(crate) fn folded(name: &str) -> String {
    name.to_lowercase().nfc().collect()
}
