//! The folders that are watched, and whether each is there.

use std::{
    fs::{read_dir, symlink_metadata},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use crate::{
    publish::tree::Tree,
    state::changes::presence::{Found, Presence},
};

/// Device and inode.
pub(super) type FolderId = (u64, u64);

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
pub(super) struct Folder {
    pub(super) path: PathBuf,
    /// All below it is watched, not only what is in it.
    pub(super) is_deep: bool,
    /// It is watched together with one above it.
    pub(super) is_covered: bool,
    pub(super) presence: Presence<FolderId>,
    /// What the next rescan misses in it was missing before it was watched.
    pub(super) excuses: bool,
}

/// The folders of these trees. Blocking.
pub(super) fn folders_of(trees: &[Tree]) -> Vec<Folder> {
    let mut folders: Vec<Folder> = Vec::new();
    for tree in trees {
        let is_deep = tree.folder() == tree.root();
        match folders.iter_mut().find(|folder| folder.path == tree.folder()) {
            Some(folder) => folder.is_deep |= is_deep,
            None => folders.push(Folder {
                path: tree.folder().to_owned(),
                is_deep,
                is_covered: false,
                // It was there a moment ago.
                presence: Presence::new(id_of(tree.folder()).unwrap_or_default()),
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

fn id_of(folder: &Path) -> Option<FolderId> {
    let found = symlink_metadata(folder).ok().filter(std::fs::Metadata::is_dir)?;
    Some((found.dev(), found.ino()))
}

/// What stands at the path of a folder. Blocking.
pub(super) fn look(folder: &Path) -> Found<FolderId> {
    match id_of(folder) {
        Some(id) => {
            let is_empty = read_dir(folder).map_or(true, |mut entries| entries.next().is_none());
            Found::Folder { id, is_empty }
        }
        None => Found::Nothing,
    }
}

/// Whether other machines may change files in `folder`, of which no event tells. Blocking.
pub(super) fn is_remote(folder: &Path) -> bool {
    let kind = rustix::fs::statfs(folder).ok().and_then(|found| u64::try_from(found.f_type).ok());
    kind.is_some_and(|kind| REMOTE.contains(&kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_is_known_by_more_than_its_path() {
        let dir = tempfile::tempdir().unwrap();
        let (watched, moved) = (dir.path().join("a"), dir.path().join("b"));
        std::fs::create_dir(&watched).unwrap();
        let Found::Folder { id, is_empty: true } = look(&watched) else { panic!("it is there") };
        std::fs::rename(&watched, &moved).unwrap();
        assert_eq!(look(&watched), Found::Nothing);
        std::fs::create_dir(&watched).unwrap();
        std::fs::write(watched.join("f"), "").unwrap();
        assert!(matches!(look(&watched), Found::Folder { id: other, is_empty: false } if other != id));
        std::fs::remove_dir_all(&watched).unwrap();
        std::os::unix::fs::symlink(&moved, &watched).unwrap();
        assert_eq!(look(&watched), Found::Nothing, "a link leads elsewhere");
        assert!(!is_remote(dir.path()));
    }
}
