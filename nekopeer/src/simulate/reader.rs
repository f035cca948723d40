//! A reader that keeps a copy and downloads newer versions: `library::{learn, copies}`, `watch` and `peers::origins`.

use std::{sync::Arc, time::Instant};

use nekoproto::{Freshness, SignedRecord, Verdict, VerifiedRecord, Verifier};

use super::{Act, Question};
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
    /// On disk: the version held, and the newest later one.
    held: VerifiedRecord,
    newest: Option<VerifiedRecord>,
    /// In memory.
    copies: Copies,
    outdated: Outdated,
}

impl Reader {
    /// A reader that has just downloaded `held`.
    #[must_use]
    pub fn new(held: VerifiedRecord, verifier: &Arc<Verifier>, now: Instant) -> Self {
        let mut reader = Self {
            verifier: Arc::clone(verifier),
            held,
            newest: None,
            copies: Copies::default(),
            outdated: Outdated::default(),
        };
        reader.keep(now);
        reader
    }

    /// It starts again, with what is on disk.
    pub fn restart(&mut self, now: Instant) {
        (self.copies, self.outdated) = (Copies::default(), Outdated::default());
        self.keep(now);
        if let Some(newest) = &self.newest {
            self.outdated.add(newest.name.clone(), need(newest));
        }
    }

    fn keep(&mut self, now: Instant) {
        let state = CopyState::new(&self.held, self.newest.clone(), None, now);
        self.copies.insert(&self.held.name, self.held.origin, state);
    }

    /// The version on disk.
    #[must_use]
    pub const fn held(&self) -> &VerifiedRecord {
        &self.held
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

    /// What is due at `now`, and when something is next.
    pub fn wake(&mut self, now: Instant) -> (Vec<Act>, Option<Instant>) {
        let mut acts: Vec<Act> = self.outdated.begin(now).into_iter().map(|_| Act::Fetch).collect();
        for _ in self.copies.ask(now) {
            let copy = self.known().clone();
            acts.push(Act::Ask(Question { copy, asked_at: now }));
        }
        (acts, self.outdated.next_at(now).into_iter().chain(self.copies.next_at(now)).min())
    }

    /// News arrives, from anyone.
    pub fn hear(&mut self, news: SignedRecord) {
        if let Ok(record) = self.verifier.verify(news) {
            self.learn(record);
        }
    }

    fn learn(&mut self, record: VerifiedRecord) {
        if !record.replaces(self.known()) {
            return;
        }
        self.newest = Some(record.clone());
        self.copies.learn(&record);
        self.outdated.add(record.name.clone(), need(&record));
    }

    /// The question was answered; `None` if no answer came in time. `random` is uniform in 0..1.
    pub fn answered(
        &mut self,
        question: &Question,
        verdict: Option<Verdict>,
        now: Instant,
        random: f64,
    ) -> Vec<Act> {
        self.copies.asked(question.copy.origin, verdict.is_some(), now, random);
        let copy = &question.copy;
        let reminds = verdict == Some(Verdict::Unknown);
        match later(copy, verdict, &self.verifier) {
            Ok(None) => {
                self.copies.change_of(copy, |state| state.confirmed(copy, question.asked_at, random));
            }
            Ok(Some(record)) => {
                self.copies.change_of(copy, CopyState::found_later);
                self.learn(record);
            }
            Err(why) => {
                self.copies.change_of(copy, |state| state.not_confirmed(why, now, random));
            }
        }
        reminds.then(|| Act::Remind(copy.clone())).into_iter().collect()
    }

    /// The download has ended; `None` if it failed.
    pub fn fetched(&mut self, found: Option<SignedRecord>, now: Instant, random: f64) -> Vec<Act> {
        let found = found.and_then(|record| self.verifier.verify(record).ok());
        let (name, mut acts) = (self.held.name.clone(), Vec::new());
        let how = match found {
            _ if self.newest.is_none() => Ended::Done,
            Some(record) if record.replaces(&self.held) => {
                self.newest.take_if(|newest| !newest.replaces(&record));
                self.held = record.clone();
                self.keep(now);
                acts.push(Act::Offer { record, is_new: false, announce: false });
                if self.newest.is_some() { Ended::Outdated } else { Ended::Done }
            }
            _ => Ended::Failed,
        };
        self.outdated.ended(&name, how, now, random);
        acts
    }
}

fn need(newest: &VerifiedRecord) -> Need {
    Need { origin: newest.origin, size: newest.size, late_at: None }
}
