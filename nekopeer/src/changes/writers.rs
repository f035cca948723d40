//! Lists the files that processes have open for writing, from the links in `/proc/PID/fd` that this user may read.

use std::{
    collections::HashSet,
    fs::{read_dir, read_link, symlink_metadata},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

/// Of a link in `/proc/PID/fd`: what it leads to is open for writing (proc_pid_fd(5)).
const WRITES: u32 = 0o200;

/// The paths that these files have now, also after they were renamed. Blocking: reads each link of each process, and looks at no
/// file, so that a file system that hangs holds nothing up.
pub(super) fn open_for_writing() -> HashSet<PathBuf> {
    let entries = |path: &Path| read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let files = entries(Path::new("/proc")).flat_map(|process| entries(&process.join("fd")));
    let is_written = |file: &PathBuf| symlink_metadata(file).is_ok_and(|link| link.mode() & WRITES != 0);
    files.filter(is_written).filter_map(|file| read_link(file).ok()).collect()
}

#[cfg(test)]
mod tests {
    use std::fs::{File, rename, write};

    use super::*;

    #[test]
    fn files_are_found_by_the_path_that_they_have_now() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        let [written, renamed, read, closed] =
            ["written", "renamed", "read", "closed"].map(|name| dir.join(name));
        let (_written, _renamed) = (File::create(&written).unwrap(), File::create(dir.join("part")).unwrap());
        rename(dir.join("part"), &renamed).unwrap();
        [&read, &closed].iter().for_each(|path| write(path, "").unwrap());
        let _read = File::open(&read).unwrap();
        let open = open_for_writing();
        assert_eq!(
            [written, renamed, read, closed].map(|path| open.contains(&path)),
            [true, true, false, false]
        );
    }
}
