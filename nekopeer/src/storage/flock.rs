//! Locks files for one process, also on file systems that have no `flock` (Lustre, some of FUSE): there a file beside says who
//! has the lock.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Write as _},
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::io::Errno;

use crate::util::reaping::stat;

/// What the file that says who has the lock is called, beside the one that is locked.
const HELD: &str = "held";
/// What a process makes while it takes over the lock of one that is gone. It takes a moment: an older one is left behind.
const TAKING: &str = "taking";
const TAKEN_WITHIN: Duration = Duration::from_secs(10);

/// A lock that a file beside stands for, which goes with it; none where the system locks the file itself.
#[derive(Debug)]
pub(crate) struct HeldLock(Option<PathBuf>);

impl Drop for HeldLock {
    fn drop(&mut self) {
        self.0.iter().for_each(|path| drop(fs::remove_file(path))); // or it is stale from now on
    }
}

/// Locks `file`, which is at `path`, until both it and what is returned are dropped. Blocking, but it does not wait.
pub(crate) fn try_lock(file: &File, path: &Path) -> Result<HeldLock, TryLockError> {
    match file.try_lock() {
        Err(TryLockError::Error(error)) if is_unknown(&error) => hold(&path.with_extension(HELD)),
        locked => locked.map(|()| HeldLock(None)),
    }
}

/// The process that has locked the file at `path`, where the system does not lock it: it is on this machine, or nobody knows.
pub(super) fn holder_beside(path: &Path) -> Option<u32> {
    let who = fs::read_to_string(path.with_extension(HELD)).ok()?;
    is_alive(&who).then(|| who.split_whitespace().next()?.parse().ok()).flatten()
}

/// Whether the file system knows no locks.
pub(crate) fn is_unknown(error: &io::Error) -> bool {
    let unknown = [Errno::NOSYS, Errno::OPNOTSUPP, Errno::NOLCK];
    error.raw_os_error().is_some_and(|error| unknown.iter().any(|unknown| unknown.raw_os_error() == error))
}

fn hold(path: &Path) -> Result<HeldLock, TryLockError> {
    match write_new(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => take_over(path)?,
        written => written.map_err(TryLockError::Error)?,
    }
    Ok(HeldLock(Some(path.to_owned())))
}

/// Takes the lock of a process that is gone. One process at a time does: else two could remove each other's file.
fn take_over(path: &Path) -> Result<(), TryLockError> {
    let is_held = || fs::read_to_string(path).map_or(true, |who| is_alive(&who));
    if is_held() {
        return Err(TryLockError::WouldBlock);
    }
    let taking = path.with_extension(TAKING);
    if let Err(error) = write_new(&taking) {
        let age = taking.metadata().and_then(|made| made.modified()).map(|made| made.elapsed());
        if age.is_ok_and(|age| age.is_ok_and(|age| age > TAKEN_WITHIN)) {
            drop(fs::remove_file(&taking)); // the next attempt takes it
        }
        return Err(match error.kind() {
            io::ErrorKind::AlreadyExists => TryLockError::WouldBlock,
            _ => TryLockError::Error(error),
        });
    }
    let taken = match is_held() {
        true => Err(io::ErrorKind::AlreadyExists.into()),
        false => fs::remove_file(path).and_then(|()| write_new(path)),
    };
    drop(fs::remove_file(taking)); // only this process removes it
    taken.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => TryLockError::WouldBlock,
        _ => TryLockError::Error(error),
    })
}

fn write_new(path: &Path) -> io::Result<()> {
    OpenOptions::new().write(true).create_new(true).open(path)?.write_all(this_process().as_bytes())
}

/// Which process this is: its number, when it began, and on which machine since which start of it.
fn this_process() -> String {
    let id = std::process::id();
    format!("{id} {} {} {}\n", began(id).unwrap_or_default(), kernel("random/boot_id"), kernel("hostname"))
}

/// Whether the process that wrote this may have the lock; one of another machine may, and one that has not written all yet.
fn is_alive(who: &str) -> bool {
    let mut words = who.split_whitespace();
    let (Some(id), Some(since), Some(of_boot), Some(host)) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return true;
    };
    let is_here = host == kernel("hostname");
    !is_here
        || of_boot == kernel("random/boot_id") && id.parse().ok().and_then(began).as_deref() == Some(since)
}

/// What the kernel says of itself; `-` if that cannot be read.
fn kernel(what: &str) -> String {
    let said = fs::read_to_string(format!("/proc/sys/kernel/{what}")).unwrap_or_default();
    said.split_whitespace().next().unwrap_or("-").to_owned()
}

/// When the process began, in ticks since the machine did; `None` if there is none.
fn began(process: u32) -> Option<String> {
    stat(process)?.into_iter().nth(19)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lock_beside_is_held_by_one_and_taken_over_from_a_process_that_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock.held");
        let held = hold(&path).unwrap();
        assert!(matches!(hold(&path), Err(TryLockError::WouldBlock)));
        assert_eq!(holder_beside(&folder.path().join("lock")), Some(std::process::id()));
        drop(held);
        assert!(!path.exists());
        let mut gone = std::process::Command::new("true").spawn().unwrap();
        let ours = this_process();
        let others = ours.split_once(' ').unwrap().1;
        gone.wait().unwrap();
        for stale in [format!("{} {others}", gone.id()), ours.replace(&kernel("random/boot_id"), "earlier")] {
            fs::write(&path, stale).unwrap();
            assert_eq!(holder_beside(&folder.path().join("lock")), None);
            drop(hold(&path).unwrap());
        }
        for kept in [format!("{} another-machine", ours.rsplit_once(' ').unwrap().0), String::new(), ours] {
            fs::write(&path, kept).unwrap();
            assert!(matches!(hold(&path), Err(TryLockError::WouldBlock)));
        }
        assert_eq!(folder.path().read_dir().unwrap().count(), 1, "nothing is left of taking it over");
    }
}
