//! Files that cannot be published: each is told once, and read again only if that may help.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

#[derive(Debug, Default)]
pub(crate) struct Failures<S>(HashMap<PathBuf, Failure<S>>);

#[derive(Debug)]
struct Failure<S> {
    /// The file that was tried; `None`: trying the same again may help.
    tried: Option<S>,
    why: String,
}

impl<S: Copy + Eq> Failures<S> {
    /// The file at `path` cannot be published. With `tried` it is pointless to try the same file again. Returns
    /// whether the user does not know yet.
    pub(crate) fn note(&mut self, path: &Path, tried: Option<S>, why: &str) -> bool {
        let failure = Failure { tried, why: why.to_owned() };
        self.0.insert(path.to_owned(), failure).is_none_or(|before| before.why != why)
    }

    /// Whether a rescan may try this file at `path`.
    pub(crate) fn may_try(&self, path: &Path, stamp: S) -> bool {
        self.0.get(path).is_none_or(|failure| failure.tried != Some(stamp))
    }

    pub(crate) fn forget(&mut self, path: &Path) {
        self.0.remove(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failure_is_told_once_and_tried_again_where_that_may_help() {
        let (mut failures, path) = (Failures::default(), Path::new("/a"));
        assert!(failures.may_try(path, 1));
        assert!(failures.note(path, Some(1), "a copy"));
        assert!(!failures.may_try(path, 1) && failures.may_try(path, 2));
        assert!(!failures.note(path, Some(2), "a copy"));
        assert!(failures.note(path, None, "disk full") && failures.may_try(path, 2));
        failures.forget(path);
        assert!(failures.note(path, None, "disk full"));
    }
}
