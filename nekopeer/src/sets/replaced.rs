//! A folder that was replaced or dropped: the files of its version are removed one by one, and what somebody else put or
//! changed there is brought back.

use std::{
    fs::{self, File},
    io::{BufReader, BufWriter},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use nekoproto::FileName;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;
use walkdir::WalkDir;

use crate::{
    content::{
        stamp::{Looker, open_file},
        whole::hash_of,
    },
    failure::Failure,
    storage::{
        catalogue::{Tree, TreeFile},
        error_at,
        file_id::FileId,
        place::keep_at,
    },
};

/// What the name of a note begins with; that of its folder follows.
const NOTE: &str = "note-";

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Replaced {
    pub(super) place: PathBuf,
    pub(super) tree: Tree,
    /// It was replaced whatever is in it.
    pub(super) forced: bool,
}

impl Replaced {
    fn note(stage: &Path, folder: FileId) -> PathBuf {
        stage.join(format!("{NOTE}{folder}"))
    }

    /// Notes it in `stage`, durably, before the folder comes there. Blocking.
    pub(super) fn save(&self, stage: &Path) -> Result<(), Failure> {
        let note = Self::note(stage, self.tree.folder);
        let saved = File::create(&note).and_then(|file| {
            let mut out = BufWriter::new(file);
            serde_json::to_writer(&mut out, self)?;
            out.into_inner()?.sync_all()
        });
        saved.map_err(error_at(&note))
    }

    /// What was noted of `folder`, which is in `stage`; nothing of one that never stood in a place. Blocking.
    pub(super) fn of(stage: &Path, folder: &Path) -> Option<Self> {
        let note = File::open(Self::note(stage, FileId::of(folder).ok()?)).ok()?;
        serde_json::from_reader(BufReader::new(note)).ok()
    }

    /// It did not come to `stage`, or is gone from there. Blocking.
    pub(super) fn forget(&self, stage: &Path) {
        drop(fs::remove_file(Self::note(stage, self.tree.folder))); // or it was forgotten before
    }

    /// Brings what is in `folder` and not of the version back to its place: under its name, or behind it `.kept` and a number
    /// where that is taken. Blocking.
    pub(super) fn bring_back(&self, folder: &Path) {
        if self.forced {
            return;
        }
        let mut looker = Looker::default();
        let found = WalkDir::new(folder).into_iter().flatten();
        for found in found.filter(|found| !found.file_type().is_dir()) {
            let relative = found.path().strip_prefix(folder).unwrap_or(folder);
            let own = FileName::from_path(relative).ok();
            let own = own.as_ref().and_then(|name| self.tree.file(name));
            if own.is_some_and(|own| is_of(found.path(), own, &mut looker, &CancellationToken::new())) {
                continue;
            }
            // What is in another folder of the set too, or in its place, is not lost with this one; that decides.
            if found.metadata().is_ok_and(|found| found.is_file() && found.nlink() > 1) {
                drop(fs::remove_file(found.path())); // or the next sweep does
                continue;
            }
            match keep_at(found.path(), &self.place.join(relative)) {
                Ok(at) => {
                    tracing::warn!(file = %at.display(), "was put or changed there meanwhile, and is kept")
                }
                Err(error) => tracing::warn!(file = %found.path().display(), %error, "stays there"),
            }
        }
    }

    /// Removes the files of the version from `folder`, and the folders that are empty then. What is not of the version stays;
    /// whether nothing does. Blocking.
    pub(super) fn remove(&self, folder: &Path) -> bool {
        if self.forced {
            return fs::remove_dir_all(folder).is_ok();
        }
        let mut looker = Looker::default();
        for file in &self.tree.files {
            let at = folder.join(file.path.as_path());
            if is_of(&at, file, &mut looker, &CancellationToken::new()) {
                drop(fs::remove_file(at)); // or it is gone
            }
        }
        let folders = WalkDir::new(folder).contents_first(true).into_iter().flatten();
        for found in folders.filter(|found| found.file_type().is_dir()) {
            drop(fs::remove_dir(found.path())); // or something is in it
        }
        !folder.exists()
    }
}

/// Whether the file at `at` is `file`: its bytes, whatever its time and its mode are.
pub(super) fn is_of(at: &Path, file: &TreeFile, looker: &mut Looker, stop: &CancellationToken) -> bool {
    let Ok(stamp) = looker.stamp(at) else { return false };
    // Its time may have changed and its bytes not.
    let has_its_bytes = || {
        let hash = hash_of(&mut open_file(at).ok()?, stop).ok().flatten();
        (hash? == file.content).then_some(())
    };
    file.stamp.is_moved_to(&stamp) || (stamp.size() == file.stamp.size() && has_its_bytes().is_some())
}
