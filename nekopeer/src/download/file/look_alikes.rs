//! Names that other file systems take for one another, among what is downloaded together.

use std::{
    collections::{HashMap, hash_map::Entry},
    path::{Path, PathBuf},
};

use nekoproto::FileName;

use crate::{
    download::error::DownloadError,
    storage::{folded, share_folder::ShareFolder},
};

/// Which names of many look like one that is there, or like another of them: each folder is read once.
#[derive(Debug, Default)]
pub(crate) struct LookAlikes {
    /// Of each folder, relative to the share folder: its entries by what file systems may take them for.
    folders: HashMap<PathBuf, HashMap<String, PathBuf>>,
}

impl LookAlikes {
    /// Refuses `name` if it looks like another, and takes note of it otherwise. Blocking.
    pub(crate) fn refuse(&mut self, share: &ShareFolder, name: &FileName) -> Result<(), DownloadError> {
        let path = name.as_path();
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        if !self.folders.contains_key(&folder) {
            refuse_look_alike(share, name)?;
            let entries = share.entries_by_look(&folder)?;
            self.folders.insert(folder.clone(), entries);
        }
        let Some(own) = path.file_name().map(PathBuf::from) else { return Ok(()) };
        let Some(entries) = self.folders.get_mut(&folder) else { return Ok(()) };
        match entries.entry(folded(&own.to_string_lossy())) {
            Entry::Occupied(known) if *known.get() != own => {
                let existing = share.root().join(folder).join(known.get());
                Err(DownloadError::Collides { name: name.clone(), existing })
            }
            Entry::Occupied(_) => Ok(()),
            Entry::Vacant(free) => {
                free.insert(own);
                Ok(())
            }
        }
    }
}

/// Refuses `name` if another file system takes it for one that is there. Blocking.
pub(crate) fn refuse_look_alike(share: &ShareFolder, name: &FileName) -> Result<(), DownloadError> {
    match share.look_alike(name)? {
        Some(existing) => Err(DownloadError::Collides { name: name.clone(), existing }),
        None => Ok(()),
    }
}
