//! [`Untouched`]: notices what other programs write into a file while this one writes it.
//!
//! Each write changes the stamp of a file. So before an own write the stamp has to be the one that the last own write
//! left. That tells all where two writes never have one time: on Linux from 6.13 on with ext4, XFS, Btrfs and tmpfs.
//! Elsewhere a write within a few milliseconds of an own one looks like it.

use std::{fs::File, io};

use parking_lot::Mutex;

use crate::content::stamp::Stamp;

/// Changes of a file that must all have times of their own, so that its clock counts as exact.
const PROBES: usize = 3;

/// What is known of one file's writers.
#[derive(Debug)]
pub(super) struct Untouched(Mutex<State>);

#[derive(Debug)]
struct State {
    /// The stamp that the last own change left.
    left: Stamp,
    is_touched: bool,
}

impl Untouched {
    pub(super) fn new(file: &File) -> io::Result<Self> {
        Ok(Self(Mutex::new(State { left: stamp(file)?, is_touched: false })))
    }

    /// Runs `change`, an own change of `file`; one at a time.
    pub(super) fn change<T>(&self, file: &File, change: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let mut state = self.0.lock();
        state.look(file)?;
        let changed = change();
        state.left = stamp(file)?;
        changed
    }

    /// The stamp that the last own change left, unless another program wrote into `file` since it was
    /// [asked](Self::is_proven) last.
    pub(super) fn left(&self, file: &File) -> io::Result<Option<Stamp>> {
        let mut state = self.0.lock();
        state.look(file)?;
        Ok((!state.is_touched).then_some(state.left))
    }

    /// Whether it is certain that no other program wrote into `file` since this was asked last.
    pub(super) fn is_proven(&self, file: &File) -> io::Result<bool> {
        let mut state = self.0.lock();
        state.look(file)?;
        let mut is_exact = true;
        for _ in 0..PROBES {
            // The same mode again: that changes the time of the last change and nothing else.
            let changed = file.metadata().and_then(|before| file.set_permissions(before.permissions()));
            let now = stamp(file)?;
            is_exact &= changed.is_ok() && now != state.left;
            state.left = now;
        }
        Ok(!std::mem::take(&mut state.is_touched) && is_exact)
    }
}

impl State {
    fn look(&mut self, file: &File) -> io::Result<()> {
        let now = stamp(file)?;
        self.is_touched |= now != self.left;
        self.left = now;
        Ok(())
    }
}

fn stamp(file: &File) -> io::Result<Stamp> {
    file.metadata().map(|metadata| Stamp::of(&metadata))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn what_others_write_between_own_writes_is_noticed_where_the_clock_is_exact() {
        let path = tempfile::NamedTempFile::new().unwrap();
        let file = path.as_file();
        let untouched = Untouched::new(file).unwrap();
        let own = || untouched.change(file, || file.write_all_at(b"own", 0)).unwrap();
        (0..100).for_each(|_| own());
        let is_exact = untouched.is_proven(file).unwrap();
        for n in 0..100 {
            own();
            assert_eq!(untouched.left(file).unwrap(), Some(stamp(file).unwrap()));
            path.reopen().unwrap().write_all_at(b"other", 1).unwrap();
            own();
            assert!(!untouched.is_proven(file).unwrap(), "write {n}");
            own();
            assert_eq!(untouched.is_proven(file).unwrap(), is_exact);
        }
    }
}
