//! Keeps which commands of followers run on a name, and which version each accepted last.

use std::{
    collections::HashMap,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
};

use nekoproto::{FileName, NodeId, Version};
use parking_lot::Mutex;

/// The followers that have a command.
#[derive(Debug, Default)]
pub(crate) struct Judged(Mutex<HashMap<FileName, Vec<Weak<Judge>>>>);

/// One command on one name.
#[derive(Debug, Default)]
pub(crate) struct Judge {
    /// The last version that it accepted, and its origin.
    pub(crate) accepted: Mutex<Option<(NodeId, Version)>>,
    pub(crate) is_running: AtomicBool,
}

impl Judged {
    /// A command that is run on `name` until the result is dropped.
    pub(crate) fn join(&self, name: &FileName, accepted: Option<(NodeId, Version)>) -> Arc<Judge> {
        let judge = Arc::new(Judge { accepted: Mutex::new(accepted), ..Judge::default() });
        let mut all = self.0.lock();
        all.retain(|_, of_name| of_name.iter().any(|one| one.strong_count() > 0));
        all.entry(name.clone()).or_default().push(Arc::downgrade(&judge));
        judge
    }

    fn all(&self, name: &FileName, is_it: impl Fn(&Judge) -> bool) -> bool {
        let all = self.0.lock();
        all.get(name).into_iter().flatten().filter_map(Weak::upgrade).all(|one| is_it(&one))
    }

    /// Whether one is running.
    pub(crate) fn has(&self, name: &FileName) -> bool {
        !self.all(name, |one| !one.is_running.load(Ordering::Relaxed))
    }

    /// Whether each of them has accepted this version.
    pub(crate) fn accept(&self, name: &FileName, version: Option<(NodeId, Version)>) -> bool {
        self.all(name, |one| *one.accepted.lock() == version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_is_judged_until_the_last_command_has_ended() {
        let (judged, name) = (Judged::default(), FileName::new("a").unwrap());
        let version = |n| Some((NodeId::from_bytes([1; 32]), Version::new(n).unwrap()));
        let (one, two) = (judged.join(&name, version(1)), judged.join(&name, version(1)));
        assert!(!judged.has(&name) && judged.accept(&name, version(1)));
        one.is_running.store(true, Ordering::Relaxed);
        two.is_running.store(true, Ordering::Relaxed);
        one.is_running.store(false, Ordering::Relaxed);
        *one.accepted.lock() = version(2);
        assert!(judged.has(&name) && !judged.accept(&name, version(2)));
        drop(two); // it was interrupted
        assert!(!judged.has(&name) && judged.accept(&name, version(2)));
    }
}
