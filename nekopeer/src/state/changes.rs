//! Which changed files are published or withdrawn, and when: once they were quiet, never while they are written.
//!
//! Events are signs that something happened at a path; they may be late, repeated or lost. What counts is what
//! two looks at the path find, with no sign between them and a quiet time before the second. A file that was
//! opened for writing, and of whose end nothing was heard, has to be quiet for longer.

pub(crate) mod failures;
pub(crate) mod presence;
pub(crate) mod rescans;
#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// Time without a change after which a file is taken.
pub(crate) const QUIET: Duration = Duration::from_millis(300);
/// The same of a file that was written and not closed, as far as is known: its writer may only pause.
pub(crate) const QUIET_OPEN: Duration = Duration::from_secs(2);
const _: () = assert!(QUIET.as_millis() < QUIET_OPEN.as_millis());
/// Paths that are looked at in one round, at most.
const LOOKS_MAX: usize = 4096;

/// What an event says of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sign {
    /// It was created or written, and more may follow.
    Written,
    /// It is complete: closed by its writer, or moved to this path.
    Complete,
    /// Something else: its attributes changed, or it is gone.
    Touched,
}

/// What is found at a path. `S` tells whether it is the same file with the same bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look<S> {
    File(S),
    Missing,
    /// It is being written by this peer, or cannot be looked at now.
    Busy,
}

/// The paths that something happened to, and nothing was done about yet.
#[derive(Debug)]
pub(crate) struct Changes<S> {
    paths: HashMap<PathBuf, Change<S>>,
}

#[derive(Debug)]
struct Change<S> {
    /// Of a file: whether it may be open for writing.
    is_open: bool,
    /// The last sign, or the last look that found something else than the look before.
    since: Instant,
    /// What the last look found, if there was no sign since.
    seen: Option<Look<S>>,
    look_at: Instant,
}

impl<S> Change<S> {
    const fn quiet(&self) -> Duration {
        if self.is_open { QUIET_OPEN } else { QUIET }
    }
}

impl<S> Default for Changes<S> {
    fn default() -> Self {
        Self { paths: HashMap::new() }
    }
}

impl<S: Copy + Eq> Changes<S> {
    pub(crate) fn note(&mut self, path: PathBuf, sign: Sign, now: Instant) {
        let change =
            self.paths.entry(path).or_insert(Change { is_open: false, since: now, seen: None, look_at: now });
        match sign {
            Sign::Written => change.is_open = true,
            Sign::Complete => change.is_open = false,
            Sign::Touched => {}
        }
        (change.since, change.seen) = (now, None);
        change.look_at = now + change.quiet() / 2;
    }

    /// A rescan found that `path` is not as it was published. Nothing is known of who writes it.
    pub(crate) fn found(&mut self, path: PathBuf, look: Look<S>, now: Instant) {
        let is_open = matches!(look, Look::File(_));
        self.paths.entry(path).or_insert_with(|| {
            let mut change = Change { is_open, since: now, seen: Some(look), look_at: now };
            change.look_at = now + change.quiet();
            change
        });
    }

    /// Events were lost: any of the paths may be written by now.
    pub(crate) fn lost(&mut self, now: Instant) {
        for change in self.paths.values_mut() {
            (change.is_open, change.since, change.seen) = (true, now, None);
            change.look_at = now + change.quiet() / 2;
        }
    }

    pub(crate) fn forget(&mut self, path: &Path) {
        self.paths.remove(path);
    }

    pub(crate) fn forget_below(&mut self, folder: &Path) {
        self.paths.retain(|path, _| !path.starts_with(folder));
    }

    /// The paths to look at now, some of them if they are many; [`looked`](Self::looked) is to be called for each.
    pub(crate) fn due(&self, now: Instant) -> Vec<PathBuf> {
        let due = self.paths.iter().filter(|(_, change)| change.look_at <= now);
        due.take(LOOKS_MAX).map(|(path, _)| path.clone()).collect()
    }

    pub(crate) fn next_at(&self) -> Option<Instant> {
        self.paths.values().map(|change| change.look_at).min()
    }

    /// A look at `path` found this. Returns what is to be done something about, and forgets the path then: publish the file that
    /// was seen, and if another is there by now, this must fail; or withdraw what is missing.
    pub(crate) fn looked(&mut self, path: &Path, look: Look<S>, now: Instant) -> Option<Look<S>> {
        let change = self.paths.get_mut(path)?;
        if change.seen == Some(look) && look != Look::Busy && now >= change.since + change.quiet() {
            self.paths.remove(path);
            return Some(look);
        }
        if change.seen.is_some_and(|seen| seen != look) {
            (change.is_open, change.since) = (true, now); // it changed without a sign
        }
        change.seen = Some(look);
        change.look_at = (change.since + change.quiet()).max(now + change.quiet() / 2);
        None
    }
}
