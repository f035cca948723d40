//! Compares the size of a file with the room on its disk before anything of it is fetched.

use std::{os::unix::fs::MetadataExt, path::Path};

use rustix::fs::StatVfs;

use crate::{
    failure::{Failure, FailureKind},
    terminal::units,
};

/// Unit of the blocks in a file's metadata, whatever the file system.
const BLOCK_BYTES: u64 = 512;

/// Refuses a file of `size` bytes for the folder of `path`, if fewer are free there. What its `partial` file takes
/// counts as free. Blocking.
pub(crate) fn refuse_too_large(path: &Path, partial: &Path, size: u64) -> Result<(), Failure> {
    let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Some(free) = free_in(folder) else { return Ok(()) }; // writing tells what is wrong
    if size <= free {
        return Ok(());
    }
    let there = partial.symlink_metadata().map_or(0, |metadata| metadata.blocks() * BLOCK_BYTES);
    let free = free.saturating_add(there);
    if size <= free {
        return Ok(());
    }
    let (path, [size, free]) = (path.display(), [size, free].map(units::size));
    let have = format!("no space is left to write {path}: it has {size}, and {free} of its disk are free");
    let help = "free some, or force it, if most of it is zeros";
    Err(Failure::with(FailureKind::Full, format!("{have}: {help}")))
}

/// The bytes that are free on the disk of `folder`; `None` where that is not known: some file systems do not even tell their
/// size, as ramfs and some of FUSE. Blocking.
pub(crate) fn free_in(folder: &Path) -> Option<u64> {
    room_of(&rustix::fs::statvfs(folder).ok()?)
}

fn room_of(disk: &StatVfs) -> Option<u64> {
    (disk.f_blocks > 0).then(|| disk.f_bavail.saturating_mul(disk.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_of_a_disk_without_a_size_is_not_known_and_a_full_disk_has_none() {
        let mut disk = rustix::fs::statvfs(".").unwrap();
        disk.f_bavail = 0;
        assert_eq!(room_of(&disk), Some(0));
        disk.f_blocks = 0;
        assert_eq!(room_of(&disk), None);
    }

    #[test]
    fn what_does_not_fit_is_refused_with_both_numbers() {
        let (_folder, path) = testkit::temp_path("a");
        refuse_too_large(&path, &path, 1).unwrap();
        let error = refuse_too_large(&path, &path, 1 << 60).unwrap_err().to_string();
        assert!(error.contains(&units::size(1 << 60)) && error.contains("are free"), "{error}");
    }
}
