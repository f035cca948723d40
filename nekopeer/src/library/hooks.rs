//! Lists the followers that run a command on each version of a name, with what each refused last, and waits for what they say of
//! a version that was put back in its place.

use std::{
    collections::HashSet,
    sync::Arc,
    time::{Duration, Instant},
};

use nekoproto::{FileName, VerifiedRecord, Version};
use tokio::sync::Notify;

use super::Library;
use crate::{
    failure::{Failure, FailureKind},
    storage::catalogue::{CommandId, PassedOver, Why, overtaken},
};

/// A follower whose command runs on each version of a name.
#[derive(Clone, Debug)]
pub(crate) struct FollowerHook {
    /// Unique in this process.
    id: u64,
    pub(crate) command: CommandId,
    /// Since when the command runs, if it does: what stands there is up to it.
    pub(crate) runs_since: Option<Instant>,
    /// How often it ran since it is listed.
    pub(crate) runs: u64,
    pub(crate) refused: Option<RefusedVersion>,
    wake: Arc<Notify>,
}

/// The version on which the command failed when it ran last.
#[derive(Clone, Debug)]
pub(crate) struct RefusedVersion {
    pub(crate) record: VerifiedRecord,
    pub(crate) why: String,
    pub(crate) outcome: RefusedOutcome,
}

/// What became of the place of a refused version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RefusedOutcome {
    /// The version before is still to be put back.
    NotYet,
    /// It stays there.
    Stays,
    PutBack(Version),
}

/// A [`FollowerHook`] that is listed until this is dropped.
#[derive(Debug)]
pub(crate) struct HookListing {
    library: Arc<Library>,
    name: FileName,
    id: u64,
}

impl Library {
    /// Lists a follower that runs `command` on each version of `name`; `wake` has it look at the name again.
    pub(crate) fn list_hook(
        self: &Arc<Self>,
        name: &FileName,
        command: CommandId,
        wake: &Arc<Notify>,
    ) -> HookListing {
        let (id, wake) = (rand::random(), Arc::clone(wake));
        let hook = FollowerHook { id, command, runs_since: None, runs: 0, refused: None, wake };
        self.hooks.lock().entry(name.clone()).or_default().push(hook);
        HookListing { library: Arc::clone(self), name: name.clone(), id }
    }

    pub(crate) fn hooks_on(&self, name: &FileName) -> Vec<FollowerHook> {
        self.hooks.lock().get(name).cloned().unwrap_or_default()
    }

    /// How long the command of a follower has been running on `name`, if one is.
    pub(crate) fn hook_runs_for(&self, name: &FileName) -> Option<Duration> {
        let since = |hooks: &Vec<FollowerHook>| hooks.iter().filter_map(|hook| hook.runs_since).min();
        self.hooks.lock().get(name).and_then(since).map(|since| since.elapsed())
    }

    /// Whether a version that passes others over may take its place: not at the user's wish while a command runs on the one there.
    pub(crate) fn may_go_back(
        &self,
        name: &FileName,
        passed_over: Option<PassedOver>,
    ) -> Result<(), Failure> {
        let is_told = passed_over.is_some_and(|passed| passed.why == Why::RolledBack);
        if !is_told || self.hook_runs_for(name).is_none() {
            return Ok(());
        }
        let runs = format!("the command of follow is running on {name}");
        let decides = "its exit code decides what stays in its place: try again when it has ended";
        Err(Failure::with(FailureKind::Busy, format!("{runs}, and {decides}")))
    }

    /// The user asked for the versions of `names` that are in their places: each follower looks at them, and its command runs
    /// again on what it refused and what stayed there.
    pub(crate) fn ask_again<'a>(&self, names: impl IntoIterator<Item = &'a FileName>) {
        let mut listed = self.hooks.lock();
        for name in names {
            for hook in listed.get_mut(name).into_iter().flatten() {
                hook.refused.take_if(|refused| refused.outcome == RefusedOutcome::Stays);
                hook.wake.notify_one();
            }
        }
    }

    /// Waits for what followers say of `restored`, which was put back in its place; `before` are those that were listed before
    /// that. A command that accepted it last says nothing again. That one of them ends before all have answered is an error:
    /// nobody knows what it would have said.
    pub(crate) async fn answered(
        &self,
        restored: &VerifiedRecord,
        before: Vec<FollowerHook>,
    ) -> Result<(), Failure> {
        let mut asked = self.hooks_on(&restored.name);
        let known: HashSet<u64> = asked.iter().map(|hook| hook.id).collect();
        asked.extend(before.iter().filter(|hook| !known.contains(&hook.id)).cloned());
        loop {
            let freed = self.freed.notified(); // counts from here
            if self.have_accepted(restored, &before, &asked)? {
                return Ok(());
            }
            freed.await;
        }
    }

    /// Whether all commands that were `asked` have accepted `restored`; an error if that cannot be any more.
    fn have_accepted(
        &self,
        restored: &VerifiedRecord,
        before: &[FollowerHook],
        asked: &[FollowerHook],
    ) -> Result<bool, Failure> {
        let (name, version, listed) = (&restored.name, restored.version, self.hooks_on(&restored.name));
        let is_of_before = |hook: &FollowerHook| {
            before.iter().any(|before| (before.id, before.runs) == (hook.id, hook.runs))
        };
        let refused =
            listed.iter().filter(|hook| !is_of_before(hook)).filter_map(|hook| hook.refused.as_ref());
        let refused: Vec<_> = refused.filter(|refused| refused.record == *restored).collect();
        let place = refused.iter().find_map(|refused| match refused.outcome {
            RefusedOutcome::NotYet => None,
            RefusedOutcome::Stays => Some((refused, "it stays in its place".to_owned())),
            RefusedOutcome::PutBack(back) => Some((refused, format!("version {back} was put back"))),
        });
        if let Some((RefusedVersion { why, .. }, place)) = place {
            let what = format!("the command of follow refused version {version} of {name}");
            return Err(Failure::new(format!("{what}: {why}; {place}")));
        }
        let reader = self.catalogue.reader(name)?;
        let by = |hook: &&FollowerHook| reader.accepted_by(hook.command) == Some((restored.origin, version));
        let accepted = asked.iter().filter(by).count();
        if accepted == asked.len() {
            return Ok(true);
        }
        if !asked.iter().all(|asked| listed.iter().any(|hook| hook.id == asked.id)) {
            let what = format!("{accepted} of {} commands accepted version {version} of {name}", asked.len());
            let which = "which is in its place, when a follow ended without an answer";
            return Err(Failure::new(format!("{what}, {which}")));
        }
        let is_there = self.catalogue.get(name).is_some_and(|held| held.record == *restored);
        if refused.is_empty() && !is_there { Err(overtaken(name)) } else { Ok(false) }
    }
}

impl HookListing {
    /// What is listed now.
    pub(crate) fn refused(&self) -> Option<RefusedVersion> {
        let hooks = self.library.hooks_on(&self.name);
        hooks.into_iter().find(|hook| hook.id == self.id)?.refused
    }

    /// Changes what is listed, and tells who waits for an answer.
    pub(crate) fn change(&self, change: impl FnOnce(&mut FollowerHook)) {
        let mut listed = self.library.hooks.lock();
        let hook =
            listed.get_mut(&self.name).and_then(|hooks| hooks.iter_mut().find(|hook| hook.id == self.id));
        if let Some(hook) = hook {
            change(hook);
        }
        drop(listed);
        self.library.freed.notify_waiters();
    }
}

impl Drop for HookListing {
    fn drop(&mut self) {
        let mut listed = self.library.hooks.lock();
        if let Some(hooks) = listed.get_mut(&self.name) {
            hooks.retain(|hook| hook.id != self.id);
            if hooks.is_empty() {
                listed.remove(&self.name);
            }
        }
        drop(listed);
        self.library.freed.notify_waiters();
    }
}
