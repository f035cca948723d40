//! The folders that are watched: whether each is there, and whether events tell of all that changes in it.

use std::{
    fs::{Metadata, read_dir, symlink_metadata},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{Left, Told, Watching};
use crate::{
    library::Library,
    publish::tree::PublishedTree,
    state::changes::{
        QUIET_OPEN,
        presence::{FolderThere, Presence, Turn},
        rescans::EVERY_BLIND,
    },
    storage::file_id::FileId,
    util::clock,
};

/// File systems, by the type that `statfs` tells, whose events are only of what this machine does: NFS, SMB, CIFS,
/// SMB 2, 9P, FUSE, Ceph, AFS, Lustre.
const REMOTE: [u64; 9] = [
    0x6969,
    0x517b,
    0xff53_4d42,
    0xfe53_4d42,
    0x0102_1997,
    0x6573_5546,
    0x00c3_6400,
    0x5346_414f,
    0x0bd0_0bd0,
];

#[derive(Debug)]
pub(super) struct WatchedFolder {
    pub(super) path: PathBuf,
    /// All below it is watched, not only what is in it.
    pub(super) is_deep: bool,
    /// It is watched together with one above it.
    pub(super) is_covered: bool,
    pub(super) presence: Presence<FileId>,
    /// What the next rescan misses in it was missing before it was watched.
    pub(super) excuses: bool,
}

pub(super) fn folders_of(trees: &[PublishedTree]) -> Vec<WatchedFolder> {
    let mut folders: Vec<WatchedFolder> = Vec::new();
    for tree in trees {
        let is_deep = tree.folder() == tree.root();
        match folders.iter_mut().find(|folder| folder.path == tree.folder()) {
            Some(folder) => folder.is_deep |= is_deep,
            None => folders.push(WatchedFolder {
                path: tree.folder().to_owned(),
                is_deep,
                is_covered: false,
                // It was there a moment ago.
                presence: id_of(tree.folder())
                    .map_or(Presence::new(FileId::default(), 0), |(id, disk)| Presence::new(id, disk)),
                excuses: true,
            }),
        }
    }
    let deep: Vec<PathBuf> =
        folders.iter().filter(|folder| folder.is_deep).map(|folder| folder.path.clone()).collect();
    for folder in &mut folders {
        folder.is_covered = deep.iter().any(|above| *above != folder.path && folder.path.starts_with(above));
    }
    folders
}

fn id_of(folder: &Path) -> Option<(FileId, u64)> {
    let found = symlink_metadata(folder).ok().filter(Metadata::is_dir)?;
    Some((FileId::of_metadata(&found), found.dev()))
}

pub(super) fn look(folder: &Path) -> Option<FolderThere<FileId>> {
    let is_empty = || read_dir(folder).map_or(true, |mut entries| entries.next().is_none());
    id_of(folder).map(|(id, disk)| FolderThere { id, disk, is_empty: is_empty() })
}

/// Whether other machines may change files in `folder`, of which no event tells. Blocking.
pub(super) fn is_remote(folder: &Path) -> bool {
    let kind = rustix::fs::statfs(folder).ok().and_then(|found| u64::try_from(found.f_type).ok());
    kind.is_some_and(|kind| REMOTE.contains(&kind))
}

impl Watching {
    /// Has events told of this folder, from now on.
    pub(super) async fn watch_folder(&mut self, folder: usize) -> Result<(), Left> {
        let WatchedFolder { path, is_deep, is_covered, .. } = &self.folders[folder];
        let (path, is_deep, is_covered, signs) =
            (path.clone(), *is_deep, *is_covered, Arc::clone(&self.signs));
        let shown = path.display().to_string();
        let why_blind = move |_: &Arc<Library>| match signs.watch(&path, is_deep) {
            _ if is_covered => None, // with the folder above
            Err(why) => Some(why),
            Ok(()) if is_remote(&path) => Some("other machines may change them".to_owned()),
            Ok(()) => None,
        };
        if let Some(why) = self.library.blocking(why_blind).await {
            self.set_blind(&shown, &why).await?;
        }
        Ok(())
    }

    pub(super) async fn set_blind(&mut self, folder: &str, why: &str) -> Result<(), Left> {
        self.rescans.set_blind(clock::now());
        self.changes.set_blind();
        if !self.told_blind.insert(why.to_owned()) {
            return Ok(());
        }
        let (every, quiet) = (EVERY_BLIND.as_secs(), QUIET_OPEN.as_secs());
        let note = format!(
            "note: no event tells of all changes of files in {folder}: {why}; all are looked at every {every} s, and what \
             changed unseen is shared once it is unchanged for {quiet} s"
        );
        self.tell(Told::Note(note)).await
    }

    pub(super) async fn look_at_folders(&mut self, anew: Option<usize>) -> Result<(), Left> {
        let paths: Vec<PathBuf> = self.folders.iter().map(|folder| folder.path.clone()).collect();
        let look = move |_: &Arc<Library>| paths.iter().map(|path| look(path)).collect::<Vec<_>>();
        let found = self.library.blocking(look).await;
        self.looked_at_folders = clock::now();
        for (place, found) in found.into_iter().enumerate() {
            let folder = &mut self.folders[place];
            let (turn, path) = (folder.presence.looked(found), folder.path.clone());
            let shown = path.display();
            let note = match turn {
                Turn::Away => continue,
                Turn::Here if anew == Some(place) => None,
                Turn::Here => continue,
                Turn::Vanished => {
                    self.changes.forget_below(&path);
                    let note = format!(
                        "{shown} is gone: nothing in it is unshared, and it is watched again when it is back"
                    );
                    self.tell(Told::Note(note)).await?;
                    continue;
                }
                Turn::Back => Some(format!("{shown} is back, and is watched again")),
                Turn::Replaced => Some(format!("{shown} was made anew, and is watched")),
                Turn::Mounted => {
                    folder.excuses = true;
                    Some(format!(
                        "{shown} is on another disk now, and is watched; what is missing in it stays shared"
                    ))
                }
            };
            self.watch_folder(place).await?;
            self.rescans.soon(clock::now());
            if let Some(note) = note {
                self.tell(Told::Note(note)).await?;
            }
        }
        Ok(())
    }

    pub(super) fn trees_here(&self) -> Arc<[PublishedTree]> {
        let is_here = |tree: &&PublishedTree| {
            let folder = self.folders.iter().find(|folder| folder.path == tree.folder());
            folder.is_some_and(|folder| folder.presence.is_here())
        };
        self.trees.iter().filter(is_here).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_is_known_by_more_than_its_path() {
        let dir = tempfile::tempdir().unwrap();
        let (watched, moved) = (dir.path().join("a"), dir.path().join("b"));
        std::fs::create_dir(&watched).unwrap();
        let Some(FolderThere { id, is_empty: true, .. }) = look(&watched) else { panic!("it is there") };
        std::fs::rename(&watched, &moved).unwrap();
        assert_eq!(look(&watched), None);
        std::fs::create_dir(&watched).unwrap();
        std::fs::write(watched.join("f"), "").unwrap();
        assert!(
            matches!(look(&watched), Some(FolderThere { id: other, is_empty: false, .. }) if other != id)
        );
        std::fs::remove_dir_all(&watched).unwrap();
        std::os::unix::fs::symlink(&moved, &watched).unwrap();
        assert_eq!(look(&watched), None, "a link leads elsewhere");
        assert!(!is_remote(dir.path()));
    }
}
