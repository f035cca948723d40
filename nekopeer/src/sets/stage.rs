//! Where folders of sets are made, and where those that were replaced stay for a while.

use std::{
    ffi::OsStr,
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use nekoproto::FileName;
use parking_lot::Mutex;

use super::{folders_of_copies, replaced::Replaced};
use crate::{
    content::stamp::now_ns,
    failure::Failure,
    library::Library,
    storage::{
        digits, error_at,
        file_id::FileId,
        place::{Place, sync_folder},
    },
};

/// Folder of the folders that are made, or were replaced; in the data folder, if that is on the same disk.
pub(super) const STAGES: &str = "trees";
/// What such a folder is called beside its place otherwise, before the digits of its name.
const BESIDE: &str = ".neko-trees-";
const NEW: &str = "new";
const MADE: &str = "made";
/// What a replaced folder is called, before the time; and one of somebody else.
const OLD: &str = "old-";
const KEPT: &str = "kept-";
/// How long a replaced folder stays for whoever has it open.
pub(super) const OLD_KEPT: Duration = Duration::from_secs(10);
const OLD_MAX: usize = 1024;
/// One replaced folder is removed at a time: otherwise what one sweep removes is taken by the next for a file of a user's.
static REMOVING: Mutex<()> = Mutex::new(());

/// The folder in which those of one set are made, on the disk of its place.
#[derive(Clone, Debug)]
pub(super) struct Stage(PathBuf);

impl Stage {
    /// That of the set `name` with this place. Blocking.
    pub(super) fn of(library: &Library, name: &FileName, place: &Place) -> Self {
        match place.is_on_disk_of(&library.data_dir) {
            true => Self::in_data_folder(library, name),
            false => Self::beside(place.path(), name),
        }
    }

    fn in_data_folder(library: &Library, name: &FileName) -> Self {
        Self(library.data_dir.join(STAGES).join(digits(name)))
    }

    fn beside(place: &Path, name: &FileName) -> Self {
        Self(place.with_file_name(format!("{BESIDE}{}", digits(name))))
    }

    #[cfg(test)]
    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Those in the data folder, and those that there may be beside the places of copies. Blocking.
    pub(super) fn all(library: &Library) -> Vec<Self> {
        let found = fs::read_dir(library.data_dir.join(STAGES)).into_iter().flatten().flatten();
        let copies = folders_of_copies(library).unwrap_or_default();
        let beside = copies.iter().map(|(name, place)| Self::beside(place, name));
        found.map(|stage| Self(stage.path())).chain(beside).collect()
    }

    /// The new folder, which is `made`, is complete, and will be exchanged with the one that is in its place, if any; that is
    /// of `replaced`, if it is of a version. Blocking.
    pub(super) fn exchange(&self, made: FileId, replaced: Option<&Replaced>) -> Result<(), Failure> {
        let file = self.0.join(MADE);
        fs::write(&file, made.to_string()).map_err(error_at(&file))?;
        replaced.map_or(Ok(()), |replaced| replaced.save(&self.0))?;
        sync_folder(&self.0);
        Ok(())
    }

    /// Where a new folder is to be made; nothing is there. Blocking.
    pub(super) fn new_folder(&self) -> Result<PathBuf, Failure> {
        fs::create_dir_all(&self.0).map_err(error_at(&self.0))?;
        self.end();
        Ok(self.0.join(NEW))
    }

    /// The new folder is in its place, or could not be put there. What is where it was made goes now if it was made here;
    /// otherwise later, and what is not of its version is brought back. A folder of somebody else stays. Blocking.
    pub(super) fn end(&self) {
        let (new, file) = (self.0.join(NEW), self.0.join(MADE));
        let there = FileId::of(&new).map(|there| there.to_string());
        let is_made_here = fs::read_to_string(&file).map_or(true, |made| there.as_ref().ok() == Some(&made));
        if is_made_here {
            remove(&new);
        } else if there.is_ok() {
            let called = match Replaced::of(&self.0, &new) {
                Some(replaced) => {
                    replaced.bring_back(&new);
                    OLD
                }
                None => KEPT,
            };
            let to = self.0.join(format!("{called}{:032}", now_ns()));
            match fs::rename(&new, &to) {
                Ok(()) if called == KEPT => {
                    tracing::warn!(folder = %to.display(), "was put in the place of a set meanwhile, and is kept");
                }
                Ok(()) => {}
                Err(error) => {
                    tracing::warn!(folder = %new.display(), %error, "a replaced folder stays there")
                }
            }
        }
        drop(fs::remove_file(file)); // there is none before the first exchange
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
                self.remove(folder);
            }
        }
        fs::remove_dir(&self.0).is_err() && self.0.exists() // it is not empty
    }
}

impl Stage {
    /// Removes a replaced folder. What a program that has it open put there meanwhile is brought back. Blocking.
    fn remove(&self, folder: &Path) {
        let _removing = REMOVING.lock();
        let Some(replaced) = Replaced::of(&self.0, folder) else { return remove(folder) };
        replaced.bring_back(folder);
        if replaced.remove(folder) {
            replaced.forget(&self.0);
        }
    }
}

fn remove(folder: &Path) {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(folder = %folder.display(), %error, "a folder of a set stays on disk");
        }
        _ => {}
    }
}

/// Removes what is left of the set `name` in the data folder and beside its place. Blocking.
pub(super) fn remove_stages(library: &Library, name: &FileName) {
    let place = library.catalogue.place_of_trees(name).ok().flatten();
    let beside = place.map(|place| Stage::beside(&place, name));
    for stage in beside.into_iter().chain([Stage::in_data_folder(library, name)]) {
        stage.end();
        for old in fs::read_dir(&stage.0).into_iter().flatten().flatten() {
            if old.file_name().as_encoded_bytes().starts_with(OLD.as_bytes()) {
                stage.remove(&old.path());
            }
        }
        drop(fs::remove_dir(&stage.0)); // or something of a user's is in it
    }
}
