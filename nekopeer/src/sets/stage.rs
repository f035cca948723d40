//! Where folders of sets are made, and where those that were replaced stay for a while.

use std::{
    ffi::OsStr,
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use nekoproto::FileName;

use super::digits;
use crate::{
    content::stamp::now_ns,
    library::Library,
    storage::{StoreError, place::Place},
};

/// Folder of the folders that are made, or were replaced; in the data folder, if that is on the same disk.
const STAGES: &str = "trees";
/// What such a folder is called beside its place otherwise, before the digits of its name.
const BESIDE: &str = ".neko-trees-";
/// The folder that is made.
const NEW: &str = "new";
/// What a replaced folder is called, before the time.
const OLD: &str = "old-";
/// How long a replaced folder stays for whoever has it open.
pub(crate) const OLD_KEPT: Duration = Duration::from_secs(10);
/// How many stay at most.
const OLD_MAX: usize = 1024;

/// The folder in which those of one set are made, on the disk of its place.
#[derive(Clone, Debug)]
pub(super) struct Stage(PathBuf);

impl Stage {
    /// That of the set `name` with this place. Blocking.
    pub(super) fn of(library: &Library, name: &FileName, place: &Place) -> Self {
        Self(match place.is_on_disk_of(&library.data_dir) {
            true => library.data_dir.join(STAGES).join(digits(name)),
            false => {
                let beside = place.path().parent().unwrap_or(Path::new("/"));
                beside.join(format!("{BESIDE}{}", digits(name)))
            }
        })
    }

    /// Those in the data folder, of all sets. Blocking.
    pub(super) fn all(library: &Library) -> Vec<Self> {
        let found = fs::read_dir(library.data_dir.join(STAGES)).into_iter().flatten().flatten();
        found.map(|stage| Self(stage.path())).collect()
    }

    /// Removes what a process had not completed when it ended. What it replaced stays as long as by any other. Blocking.
    pub(super) fn begin(&self) {
        remove(&self.0.join(NEW));
        self.sweep();
    }

    /// Where a new folder is to be made; nothing is there. Blocking.
    pub(super) fn new_folder(&self) -> Result<PathBuf, StoreError> {
        fs::create_dir_all(&self.0).map_err(|error| StoreError::at(&self.0, error))?;
        let new = self.0.join(NEW);
        remove(&new);
        Ok(new)
    }

    /// The new folder is in its place, or could not be put there: what is where it was made goes later if it `was_used`,
    /// and otherwise now. Blocking.
    pub(super) fn end(&self, was_used: bool) {
        let new = self.0.join(NEW);
        let is_kept = was_used && fs::rename(&new, self.0.join(format!("{OLD}{:032}", now_ns()))).is_ok();
        if !is_kept {
            remove(&new);
        }
        self.sweep();
    }

    /// Removes the replaced folders that nobody needs any more; whether any is left. Blocking.
    pub(super) fn sweep(&self) -> bool {
        let names = fs::read_dir(&self.0).into_iter().flatten().flatten().map(|found| found.file_name());
        let since = |name: &OsStr| name.to_str()?.strip_prefix(OLD)?.parse::<i128>().ok();
        let mut old: Vec<(i128, PathBuf)> =
            names.filter_map(|name| Some((since(&name)?, self.0.join(&name)))).collect();
        old.sort_unstable();
        let (now, too_many) = (now_ns(), old.len().saturating_sub(OLD_MAX));
        for (index, (since, folder)) in old.iter().enumerate() {
            let is_young = u128::try_from(now - since).is_ok_and(|age| age < OLD_KEPT.as_nanos());
            if index < too_many || !is_young {
                remove(folder);
            }
        }
        fs::remove_dir(&self.0).is_err() && self.0.exists() // it is not empty
    }
}

/// Removes a folder, if it is there.
pub(super) fn remove(folder: &Path) {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(folder = %folder.display(), %error, "a folder of a set stays on disk");
        }
        _ => {}
    }
}

/// Removes what is left of the set `name` in the data folder. Blocking.
pub(super) fn remove_stage(library: &Library, name: &FileName) {
    remove(&library.data_dir.join(STAGES).join(digits(name)));
}
