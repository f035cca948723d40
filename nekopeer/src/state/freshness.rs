//! The freshness of one copy: its state, when to ask its origin again, and the policy for stale copies.

use std::time::{Duration, Instant};

use nekoproto::{Freshness, VerifiedRecord, transport::Backoff};
use serde::{Deserialize, Serialize};

/// Maximum time before the bound expires at which the origin is asked again, so that a copy whose origin
/// answers stays fresh.
const ASK_EARLY_MAX: Duration = Duration::from_secs(2);
/// Minimum and maximum pause between attempts to reach an origin.
const RETRY_MIN: Duration = Duration::from_millis(500);
const RETRY_MAX: Duration = Duration::from_secs(30);

/// What a reader does with an outdated copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum OnStale {
    /// Keep the file, marked as stale.
    #[default]
    Keep,
    /// Download the newer version in its place.
    Refetch,
    /// Delete the file.
    Drop,
}

/// The freshness of one copy.
///
/// Invariants:
/// - `newest` is `None` or a later version of the same file than `held`;
/// - neither is ever replaced by an earlier version.
#[derive(Clone, Debug)]
pub(crate) struct CopyState {
    held: VerifiedRecord,
    newest: Option<VerifiedRecord>,
    /// When the last confirmed question was *sent*. The answer does not cover changes after that time.
    confirmed_at: Option<Instant>,
    /// When to ask next.
    ask_at: Instant,
    /// Backoff between attempts while the origin does not answer.
    retry: Option<Box<Backoff>>,
    /// How long a confirmation counts.
    bound: Duration,
}

impl CopyState {
    /// An unconfirmed copy of `held`; `newest` was known before a restart. The bound is the policy's, or the
    /// reader's own if shorter.
    pub(crate) fn new(
        held: VerifiedRecord,
        newest: Option<VerifiedRecord>,
        reader_ttr: Option<Duration>,
        now: Instant,
    ) -> Self {
        let bound = held.policy.bound();
        let bound = reader_ttr.map_or(bound, |ttr| ttr.min(bound));
        let newest = newest.filter(|newest| newest.replaces(&held));
        Self { held, newest, confirmed_at: None, ask_at: now, retry: None, bound }
    }

    /// The version on disk.
    pub(crate) const fn held(&self) -> &VerifiedRecord {
        &self.held
    }

    /// The newest later version known.
    pub(crate) const fn newest(&self) -> Option<&VerifiedRecord> {
        self.newest.as_ref()
    }

    /// The freshness of the copy at `now`.
    pub(crate) fn freshness(&self, now: Instant) -> Freshness {
        if self.newest.is_some() {
            return Freshness::Stale;
        }
        match self.confirmed_at {
            Some(at) if now.saturating_duration_since(at) < self.bound => Freshness::Fresh,
            _ => Freshness::Unverified,
        }
    }

    /// When to ask the origin next; `None` for an outdated copy.
    pub(crate) const fn ask_at(&self) -> Option<Instant> {
        if self.newest.is_some() { None } else { Some(self.ask_at) }
    }

    /// The origin confirmed, to a question sent at `asked_at`, that this is the newest version.
    pub(crate) fn confirmed(&mut self, asked_at: Instant) {
        self.retry = None;
        self.confirmed_at = self.confirmed_at.max(Some(asked_at));
        self.ask_at = asked_at + self.bound.saturating_sub(ASK_EARLY_MAX.min(self.bound / 4));
    }

    /// The origin did not answer, or does not know the file. The bound keeps running. `random` is uniform in
    /// 0..1 and spreads the retries of copies whose origin became unreachable at the same time.
    pub(crate) fn not_confirmed(&mut self, now: Instant, random: f64) {
        let retry = self.retry.get_or_insert_with(|| Box::new(Backoff::new(RETRY_MIN, RETRY_MAX)));
        self.ask_at = now + retry.pause(random);
    }

    /// Whether the last question to the origin, if any, was answered.
    pub(crate) const fn is_reachable(&self) -> bool {
        self.retry.is_none()
    }

    /// Records `record`; true if it is newer than what was known. The result does not depend on the order of
    /// the records; duplicates and records of other files are ignored.
    pub(crate) fn learn(&mut self, record: &VerifiedRecord) -> bool {
        let known = self.newest.as_ref().unwrap_or(&self.held);
        let news = record.replaces(known);
        if news {
            self.newest = Some(record.clone());
        }
        news
    }
}

#[cfg(test)]
mod tests {
    use nekoproto::{ContentHash, FileName, Identity, ManifestHash, Mode, Policy, Record, Version};
    use proptest::prelude::*;

    use super::*;

    const TTR: Duration = Duration::from_secs(5);

    fn record(version: u64) -> VerifiedRecord {
        let origin = Identity::from_seed(&[1; 32]);
        let record = Record {
            origin: origin.id(),
            name: FileName::new("a").unwrap(),
            version: Version::new(version).unwrap(),
            size: 1,
            content: ContentHash::from_bytes([0; 32]),
            manifest: ManifestHash::from_bytes([0; 32]),
            policy: Policy::new(Mode::Pull, 60, 5, true).unwrap(),
        };
        record.sign(&origin).unwrap()
    }

    #[test]
    fn a_copy_is_fresh_for_its_bound_after_the_question_not_the_answer() {
        let asked = Instant::now();
        let mut copy = CopyState::new(record(1), None, None, asked);
        assert_eq!(copy.freshness(asked), Freshness::Unverified, "nobody confirmed it yet");
        copy.confirmed(asked);
        assert_eq!(copy.freshness(asked + TTR - Duration::from_millis(1)), Freshness::Fresh);
        assert_eq!(copy.freshness(asked + TTR), Freshness::Unverified);
        let again = copy.ask_at().unwrap();
        assert!(asked < again && again < asked + TTR, "asked again before the bound ends");
    }

    #[test]
    fn a_late_answer_to_an_early_question_does_not_shorten_a_later_one() {
        let now = Instant::now();
        let mut copy = CopyState::new(record(1), None, None, now);
        copy.confirmed(now + Duration::from_secs(2));
        copy.confirmed(now);
        assert_eq!(copy.freshness(now + Duration::from_secs(6)), Freshness::Fresh);
    }

    #[test]
    fn an_unreachable_origin_makes_the_copy_unverified_and_is_asked_less_and_less() {
        let now = Instant::now();
        let mut copy = CopyState::new(record(1), None, None, now);
        copy.confirmed(now);
        let mut at = now + TTR;
        let mut pauses = Vec::new();
        for _ in 0..8 {
            copy.not_confirmed(at, 1.0);
            pauses.push(copy.ask_at().unwrap() - at);
            at = copy.ask_at().unwrap();
        }
        assert_eq!(copy.freshness(at), Freshness::Unverified);
        assert!(pauses.is_sorted() && pauses[0] == RETRY_MIN && pauses[7] == RETRY_MAX);
    }

    #[test]
    fn a_reader_may_be_stricter_but_not_laxer() {
        let now = Instant::now();
        for (reader, fresh_for) in [(Some(2), 2), (Some(99), 5), (None, 5)] {
            let mut copy = CopyState::new(record(1), None, reader.map(Duration::from_secs), now);
            copy.confirmed(now);
            let end = now + Duration::from_secs(fresh_for);
            assert_eq!(copy.freshness(end - Duration::from_millis(1)), Freshness::Fresh);
            assert_eq!(copy.freshness(end), Freshness::Unverified);
        }
    }

    #[test]
    fn stale_is_remembered_over_a_restart_and_survives_a_late_confirmation() {
        let now = Instant::now();
        let mut copy = CopyState::new(record(1), Some(record(2)), None, now);
        copy.confirmed(now);
        assert_eq!((copy.freshness(now), copy.ask_at()), (Freshness::Stale, None));
        assert_eq!(CopyState::new(record(2), Some(record(2)), None, now).newest(), None);
    }

    proptest! {
        /// In any order and with duplicates, the known version only increases.
        #[test]
        fn knowledge_only_grows(held in 1..5u64, heard in prop::collection::vec(1..9u64, 0..30)) {
            let now = Instant::now();
            let mut copy = CopyState::new(record(held), None, None, now);
            let mut best = held;
            for version in heard {
                prop_assert_eq!(copy.learn(&record(version)), version > best);
                best = best.max(version);
                let known = copy.newest().map_or(held, |newest| newest.version.get());
                prop_assert_eq!(known, best);
                prop_assert_eq!(copy.freshness(now) == Freshness::Stale, best > held);
            }
        }
    }
}
