//! Which changed files are published or withdrawn, and when: once they were quiet, never while they are written.
//!
//! Events are signs that something happened at a path; they may be late, repeated or lost. What counts is what
//! two looks at the path find, with no sign between them and a quiet time before the second. A file that may be open
//! for writing has to be quiet for long, and one that is gone may be about to be made anew.

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

/// Time without a change after which a file is taken that its writer closed.
pub(crate) const QUIET: Duration = Duration::from_millis(300);
/// The same of a file that no event told of, although events come: whoever still writes it gives a sign.
pub(crate) const QUIET_FOUND: Duration = Duration::from_secs(2);
/// The same of a file that may be open: it was written and not closed, as a log is, or no close can be seen, as on network
/// file systems and of mapped memory. Its writer may only pause.
pub(crate) const QUIET_OPEN: Duration = Duration::from_secs(60);
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
    /// How long a file has to be gone before it counts as removed.
    settle: Duration,
    /// How long a file that may be open has to be quiet.
    pub(crate) quiet_open: Duration,
    /// Not every close is seen.
    is_blind: bool,
}

#[derive(Debug)]
struct Change<S> {
    /// How long it has to be quiet, if it is there.
    quiet: Duration,
    /// The last sign, or the last look that found something else than the look before.
    since: Instant,
    /// What the last look found, if there was no sign since.
    seen: Option<Look<S>>,
    look_at: Instant,
}

impl<S: Copy + Eq> Changes<S> {
    pub(crate) fn new(settle: Duration) -> Self {
        Self { paths: HashMap::new(), settle, quiet_open: QUIET_OPEN, is_blind: false }
    }

    /// From now on a close may be missed.
    pub(crate) const fn set_blind(&mut self) {
        self.is_blind = true;
    }

    pub(crate) fn note(&mut self, path: PathBuf, sign: Sign, now: Instant) {
        let new = Change { quiet: QUIET, since: now, seen: None, look_at: now };
        let change = self.paths.entry(path).or_insert(new);
        match sign {
            Sign::Written => change.quiet = self.quiet_open,
            Sign::Complete => change.quiet = QUIET,
            Sign::Touched => {}
        }
        (change.since, change.seen) = (now, None);
        change.look_at = now + change.quiet / 2;
    }

    /// A rescan found that `path` is not as it was published.
    pub(crate) fn found(&mut self, path: PathBuf, look: Look<S>, now: Instant) {
        let quiet = if self.is_blind { self.quiet_open } else { QUIET_FOUND };
        let wait = if look == Look::Missing { self.settle } else { quiet };
        let change = Change { quiet, since: now, seen: Some(look), look_at: now + wait };
        self.paths.entry(path).or_insert(change);
    }

    /// Whether a short quiet is enough for `path`, as its file was closed for all that the signs say.
    pub(crate) fn is_brief(&self, path: &Path) -> bool {
        self.paths.get(path).is_some_and(|change| change.quiet < self.quiet_open)
    }

    /// The file that [`looked`](Self::looked) just returned for `path` is open for writing: it waits for a sign of its close, or for
    /// a long quiet.
    pub(crate) fn found_open(&mut self, path: PathBuf, look: Look<S>, now: Instant) {
        let (quiet, seen) = (self.quiet_open, Some(look));
        self.paths.insert(path, Change { quiet, since: now, seen, look_at: now + quiet });
    }

    /// Events were lost: any of the paths may be written by now.
    pub(crate) fn lost(&mut self, now: Instant) {
        for change in self.paths.values_mut() {
            (change.quiet, change.since, change.seen) = (change.quiet.max(QUIET_FOUND), now, None);
            change.look_at = now + change.quiet / 2;
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
        if change.seen.is_some_and(|seen| seen != look) {
            // It changed without a sign; one that is back may have been moved with its folder.
            change.since = now;
            change.quiet = match (change.seen, look) {
                (Some(Look::File(_)), Look::File(_)) => self.quiet_open,
                _ => QUIET_FOUND,
            };
        }
        let wait = if look == Look::Missing { self.settle.max(QUIET) } else { change.quiet };
        if change.seen == Some(look) && look != Look::Busy && now >= change.since + wait {
            self.paths.remove(path);
            return Some(look);
        }
        change.seen = Some(look);
        change.look_at = (change.since + wait).max(now + wait.min(change.quiet) / 2);
        None
    }
}
