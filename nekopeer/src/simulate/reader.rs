//! A reader that keeps a copy and downloads newer versions: `library::{learn, copies}`, `watch` and `peers::origins`.

use std::{sync::Arc, time::Instant};

use nekoproto::{Freshness, Verdict, VerifiedRecord, Verifier};

use crate::state::{
    copies::Copies,
    freshness::CopyState,
    outdated::{Ended, Need, Outdated},
    verdict::later,
};

/// A reader with a copy of one file.
#[derive(Debug)]
pub struct Reader {
    verifier: Arc<Verifier>,
    /// The version on disk.
    pub held: VerifiedRecord,
    /// The newest later one, on disk too.
    newest: Option<VerifiedRecord>,
    copies: Copies,
    outdated: Outdated,
}

impl Reader {
    /// A reader with the copy `held` on disk; [`restart`](Self::restart) starts it.
    #[must_use]
    pub fn new(held: VerifiedRecord, verifier: Arc<Verifier>) -> Self {
        Self { verifier, held, newest: None, copies: Copies::default(), outdated: Outdated::default() }
    }

    /// It starts again, with what is on disk.
    pub fn restart(&mut self, now: Instant) {
        (self.copies, self.outdated) = (Copies::default(), Outdated::default());
        self.watch(now);
        self.newest.iter().for_each(|newest| add(&mut self.outdated, newest));
    }

    fn watch(&mut self, now: Instant) {
        let state = CopyState::new(&self.held, self.newest.clone(), None, now);
        self.copies.insert(&self.held.name, self.held.origin, state);
    }

    /// The newest version that it knows.
    #[must_use]
    pub fn known(&self) -> &VerifiedRecord {
        self.newest.as_ref().unwrap_or(&self.held)
    }

    /// How fresh the copy is.
    #[must_use]
    pub fn freshness(&self, now: Instant) -> Freshness {
        let copy = self.copies.get(&self.held.name).filter(|copy| copy.holds(&self.held));
        copy.map_or(Freshness::Unverified, |copy| copy.freshness(now))
    }

    /// What begins at `now`: a download of the newest version, a question to the origin whether the newest known
    /// version is the newest; and when something is next.
    pub fn wake(&mut self, now: Instant) -> (bool, bool, Option<Instant>) {
        let (fetches, asks) = (!self.outdated.begin(now).is_empty(), !self.copies.ask(now).is_empty());
        (fetches, asks, self.outdated.next_at(now).into_iter().chain(self.copies.next_at(now)).min())
    }

    /// A version was heard of, from anyone.
    pub fn learn(&mut self, record: VerifiedRecord) {
        if record.replaces(self.known()) {
            self.copies.learn(&record);
            add(&mut self.outdated, &record);
            self.newest = Some(record);
        }
    }

    /// The question about `copy` was answered; `None` if no answer came in time. `random` is uniform in 0..1. Returns
    /// whether the origin is to be sent `copy`, since it does not know it.
    pub fn answered(
        &mut self,
        (copy, asked_at): (&VerifiedRecord, Instant),
        verdict: Option<Verdict>,
        now: Instant,
        random: f64,
    ) -> bool {
        self.copies.asked(copy.origin, verdict.is_some(), now, random);
        let is_lost = verdict == Some(Verdict::Unknown);
        match later(copy, verdict, &self.verifier) {
            Ok(None) => {
                self.copies.change_of(copy, |state| state.confirmed(copy, asked_at, random));
            }
            Ok(Some(record)) => {
                self.copies.change_of(copy, CopyState::found_later);
                self.learn(record);
            }
            Err(why) => {
                self.copies.change_of(copy, |state| state.not_confirmed(why, now, random));
            }
        }
        is_lost
    }

    /// The download has ended; `None` if it failed. Returns whether another version is held, which is to be registered.
    pub fn fetched(&mut self, found: Option<VerifiedRecord>, now: Instant, random: f64) -> bool {
        let newer = found.filter(|record| self.newest.is_some() && record.replaces(&self.held));
        let (is_wanted, is_newer) = (self.newest.is_some(), newer.is_some());
        if let Some(record) = newer {
            self.newest.take_if(|newest| !newest.replaces(&record));
            self.held = record;
            self.watch(now);
        }
        let how = match (is_wanted, is_newer) {
            (true, false) => Ended::Failed,
            (true, true) if self.newest.is_some() => Ended::Outdated,
            _ => Ended::Done,
        };
        self.outdated.ended(&self.held.name, how, now, random);
        is_newer
    }
}

fn add(outdated: &mut Outdated, newest: &VerifiedRecord) {
    let need = Need { origin: newest.origin, size: newest.size, late_at: None };
    outdated.add(newest.name.clone(), need);
}
