//! Finds names in a bulk download that other file systems treat as equal.

use std::{
    collections::{HashMap, hash_map::Entry},
    path::{Path, PathBuf},
};

use nekoproto::FileName;

use crate::{
    download::error::DownloadError,
    storage::{folded, share_folder::ShareFolder},
};

/// Detects names that look like an existing one or like each other. Each folder is read once.
#[derive(Debug, Default)]
pub(crate) struct LookAlikes {
    /// Folder relative to the share folder -> its entries by case-folded, normalized name.
    folders: HashMap<PathBuf, HashMap<String, PathBuf>>,
}

impl LookAlikes {
    /// Refuses `name` if it looks like another; otherwise records it. Blocking.
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

/// Refuses `name` if other file systems treat it as equal to an existing one. Blocking.
pub(crate) fn refuse_look_alike(share: &ShareFolder, name: &FileName) -> Result<(), DownloadError> {
    match share.look_alike(name)? {
        Some(existing) => Err(DownloadError::Collides { name: name.clone(), existing }),
        None => Ok(()),
    }
}
