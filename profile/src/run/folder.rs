//! The folder that files go to: in memory if the system has such a place, gone at the end.

use crate::prelude::*;
use crate::report::{machine, units::shown};

const IN_MEMORY: &str = "/dev/shm";
const MEMORY_KINDS: [&str; 2] = ["tmpfs", "ramfs"];

/// How the name of every folder of a run begins.
pub const PREFIX: &str = "profile-transfer-";
/// Tries to remove the folder, and the pause between them: a node that is being killed may still write.
const TRIES: u32 = 20;
const TRY_AGAIN_AFTER: Duration = Duration::from_millis(20);

/// A folder of this run; removed when dropped.
#[derive(Debug)]
pub struct Folder {
    pub(crate) path: PathBuf,
    kind: Option<String>,
}

impl Folder {
    /// Makes one in `dir`, or where files are memory.
    pub fn prepare(dir: Option<&Path>) -> Result<Self> {
        let make = |dir: &Path| tempfile::Builder::new().prefix(PREFIX).tempdir_in(dir);
        let folder = match dir {
            Some(dir) => {
                let cannot = || format!("cannot use the folder {}", dir.display());
                make(&dir.canonicalize().with_context(cannot)?).with_context(cannot)?
            }
            None => make(Path::new(IN_MEMORY))
                .or_else(|_| make(&std::env::temp_dir()))
                .context("cannot make a temporary folder: name one with --dir")?,
        };
        // Where the system does not say what is mounted, the kind is not known.
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let kind = kind_of(&mounts, folder.path());
        Ok(Self { path: folder.keep(), kind })
    }

    /// An error if this number of bytes does not fit.
    pub fn has_room(&self, bytes: u64) -> Result<()> {
        let room = rustix::fs::statvfs(&self.path).context("cannot ask for free space")?;
        let mut free = room.f_bavail.saturating_mul(room.f_frsize);
        if self.is_memory() {
            free = machine::available_bytes().map_or(free, |available| free.min(available));
        }
        ensure!(
            bytes <= free,
            "the files need {}, and {} has {} left: choose a smaller --size or another --dir",
            shown(bytes),
            self.outside().display(),
            shown(free)
        );
        Ok(())
    }

    pub(crate) fn in_words(&self) -> String {
        let kind = self.kind.as_deref().unwrap_or("an unknown file system");
        let memory = if self.is_memory() { ", which is memory" } else { "" };
        format!("files in {} ({kind}{memory})", self.outside().display())
    }

    fn is_memory(&self) -> bool {
        self.kind.as_deref().is_some_and(|kind| MEMORY_KINDS.contains(&kind))
    }

    /// The folder around it, which is there before and after.
    fn outside(&self) -> PathBuf {
        self.path.parent().unwrap_or(&self.path).to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

/// Removes the folder of the run that a node with its files in `dir` belongs to, for the profiler was
/// killed and cannot. A folder that is none of a run stays.
pub fn remove_around(dir: &Path) {
    let is_of_run = |name: &std::ffi::OsStr| name.to_string_lossy().starts_with(PREFIX);
    dir.parent().filter(|around| around.file_name().is_some_and(is_of_run)).into_iter().for_each(remove);
}

/// Removes a folder of a run. What cannot be removed stays: nobody is left to tell.
fn remove(path: &Path) {
    for _ in 0..TRIES {
        match fs::remove_dir_all(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => thread::sleep(TRY_AGAIN_AFTER),
            _ => return,
        }
    }
}

/// The kind of file system that `path` is on: that of the innermost mount around it.
pub fn kind_of(mounts: &str, path: &Path) -> Option<String> {
    let mounts = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        Some((words.next()?, words.next()?))
    });
    let around = mounts.filter(|(place, _)| path.starts_with(place));
    around.max_by_key(|(place, _)| place.len()).map(|(_, kind)| kind.to_owned())
}
