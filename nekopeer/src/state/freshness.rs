//! The freshness of one copy: its state, when to ask its origin again, and the policy for stale copies.

use std::time::{Duration, Instant};

use clap::ValueEnum;
use nekoproto::{Freshness, Mode, VerifiedRecord, Version, transport::Backoff};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Maximum time before the bound expires at which the origin is asked again, so that a copy whose origin
/// answers stays fresh.
const ASK_EARLY_MAX: Duration = Duration::from_secs(1);
/// Under a hybrid policy the time between two questions is halved when one of them finds a version that nobody told of,
/// at most so many times, and doubled again by each that finds none. Up to this share of it is left off at random.
const HASTE_MAX: u8 = 4;
const JITTER: f64 = 0.1;
/// Minimum and maximum pause between attempts to reach an origin.
const RETRY_MIN: Duration = Duration::from_millis(500);
const RETRY_MAX: Duration = Duration::from_secs(30);
/// Pause between questions about a copy that is withdrawn, or outdated and whose origin is away for long, in bounds of the copy,
/// and its limits.
const SELDOM_FACTOR: u32 = 2;
const SELDOM_MIN: Duration = Duration::from_secs(1);
const SELDOM_MAX: Duration = Duration::from_secs(600);

/// Why a question to an origin was not answered with a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoAnswer {
    /// It cannot be asked, or its answer is not valid.
    Away,
    /// It no longer shares the file.
    Withdrawn,
}

/// What a reader does with an outdated copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnStale {
    /// Keep the file, marked as stale.
    #[default]
    Keep,
    /// Download the newer version in its place.
    Refetch,
    /// Delete the file.
    Drop,
}

/// The freshness of one copy. There may be very many: the record itself is in the catalogue.
///
/// Invariants:
/// - `newest` is `None` or a later version of the same file than the one held;
/// - neither is ever replaced by an earlier version.
#[derive(Clone, Debug)]
pub(crate) struct CopyState {
    version: Version,
    /// The beginning of its record's signature, which stands for the record.
    mark: [u8; 8],
    newest: Option<VerifiedRecord>,
    /// When the last confirmed question was *sent*. The answer does not cover changes after that time.
    confirmed_at: Option<Instant>,
    ask_at: Instant,
    /// Backoff between attempts while the origin does not answer.
    retry: Option<Box<Backoff>>,
    is_withdrawn: bool,
    bound_ms: u32,
    /// Whether the time between questions adapts, and how often it was halved.
    adapts: bool,
    haste: u8,
}

impl CopyState {
    /// An unconfirmed copy of `held`; `newest` was known before a restart. The bound is the policy's, or the
    /// reader's own if shorter.
    pub(crate) fn new(
        held: &VerifiedRecord,
        newest: Option<VerifiedRecord>,
        reader_ttr: Option<Duration>,
        now: Instant,
    ) -> Self {
        let mut state = Self {
            version: held.version,
            mark: held.signed().signature().mark(),
            newest: newest.filter(|newest| newest.replaces(held)),
            confirmed_at: None,
            ask_at: now,
            retry: None,
            is_withdrawn: false,
            bound_ms: 0,
            adapts: held.policy.mode() == Mode::Hybrid,
            haste: 0,
        };
        state.limit(held, reader_ttr);
        state
    }

    /// A confirmation counts as long as the policy of `held` says, or as the reader does if that is shorter.
    fn limit(&mut self, held: &VerifiedRecord, reader_ttr: Option<Duration>) {
        let bound = held.policy.bound();
        let bound = reader_ttr.map_or(bound, |ttr| ttr.min(bound));
        self.bound_ms = u32::try_from(bound.as_millis()).unwrap_or(u32::MAX);
    }

    /// The reader wants another bound from now on: the origin of `held` is asked at once.
    pub(crate) fn limited(&mut self, held: &VerifiedRecord, reader_ttr: Option<Duration>, now: Instant) {
        self.limit(held, reader_ttr);
        self.ask_at = self.ask_at.min(now);
    }

    /// The copy replaces that of an earlier version, whose origin is asked as often.
    pub(crate) fn follows(&mut self, before: &Self) {
        self.haste = if self.adapts { before.haste } else { 0 };
    }

    pub(crate) fn holds(&self, record: &VerifiedRecord) -> bool {
        self.version == record.version && self.mark == record.signed().signature().mark()
    }

    /// Whether `record` is that of the version on disk, or of the newest later one known.
    pub(crate) fn is_of(&self, record: &VerifiedRecord) -> bool {
        self.holds(record) || self.newest.as_ref() == Some(record)
    }

    pub(crate) const fn newest(&self) -> Option<&VerifiedRecord> {
        self.newest.as_ref()
    }

    pub(crate) fn freshness(&self, now: Instant) -> Freshness {
        if self.newest.is_some() {
            return Freshness::Stale;
        }
        match self.confirmed_at {
            Some(at) if now.saturating_duration_since(at) < self.bound() => Freshness::Fresh,
            _ => Freshness::Unverified,
        }
    }

    /// When the question was sent that its origin confirmed last, and how long that counts.
    pub(crate) fn confirmation(&self) -> Option<(Instant, Duration)> {
        self.confirmed_at.map(|at| (at, self.bound()))
    }

    pub(crate) const fn ask_at(&self) -> Instant {
        self.ask_at
    }

    /// A question to the origin begins. Its answer says when the next one does; without one, or if it tells of a
    /// later version, that is after a pause.
    pub(crate) fn asked(&mut self, now: Instant) {
        self.ask_at = self.ask_at.max(now + RETRY_MIN);
    }

    /// The origin confirmed, to a question sent at `asked_at`, that `record` is the newest version.
    /// `random` is uniform in 0..1.
    pub(crate) fn confirmed(&mut self, record: &VerifiedRecord, asked_at: Instant, random: f64) {
        (self.retry, self.is_withdrawn) = (None, false);
        if self.holds(record) {
            self.confirmed_at = self.confirmed_at.max(Some(asked_at));
        }
        let is_withdrawn = self.newest.as_ref().is_some_and(|newest| newest.is_withdrawal());
        let pause = if is_withdrawn { self.seldom() } else { self.pause(random) };
        self.haste = self.haste.saturating_sub(1);
        self.ask_at = asked_at + pause;
    }

    /// A question found a later version, of which nobody had told: what is pushed does not arrive.
    pub(crate) fn found_later(&mut self) {
        self.haste = if self.adapts { HASTE_MAX.min(self.haste + 1) } else { 0 };
    }

    fn pause(&self, random: f64) -> Duration {
        // Also while an earlier version is held: the subscription, which lasts as the newest one says, brings the next.
        let lasts = self.newest.as_ref().map(|newest| newest.policy.bound());
        let bound = lasts.map_or(self.bound(), |lasts| lasts.min(self.bound()));
        let longest = bound.saturating_sub(ASK_EARLY_MAX.min(bound / 4));
        if !self.adapts {
            return longest;
        }
        let pause = (longest / (1 << self.haste)).max(RETRY_MIN.min(longest));
        pause.mul_f64(1.0 - JITTER * random.clamp(0.0, 1.0))
    }

    /// The origin did not answer with a version. The bound keeps running. `random` is uniform in 0..1 and spreads
    /// the retries of copies whose origin became unreachable at the same time.
    pub(crate) fn not_confirmed(&mut self, why: NoAnswer, now: Instant, random: f64) {
        let pause = match why {
            NoAnswer::Withdrawn => {
                (self.retry, self.is_withdrawn) = (None, true);
                self.seldom()
            }
            NoAnswer::Away => {
                let retry = self.retry.get_or_insert_with(|| Box::new(Backoff::new(RETRY_MIN, RETRY_MAX)));
                let (pause, is_longest) = (retry.pause(random), retry.is_at_its_longest());
                // One that starts again soon may not know this reader any more, and so tells it nothing.
                if self.newest.is_some() && is_longest { pause.max(self.seldom()) } else { pause }
            }
        };
        self.ask_at = now + pause;
    }

    /// Its origin is asked soon, and not now.
    pub(crate) fn postpone(&mut self, now: Instant) {
        self.ask_at = now + RETRY_MIN;
    }

    fn bound(&self) -> Duration {
        Duration::from_millis(self.bound_ms.into())
    }

    fn seldom(&self) -> Duration {
        self.bound().saturating_mul(SELDOM_FACTOR).clamp(SELDOM_MIN, SELDOM_MAX)
    }

    pub(crate) const fn is_withdrawn(&self) -> bool {
        self.is_withdrawn
    }

    /// Whether the last question to the origin, if any, was answered.
    pub(crate) const fn is_reachable(&self) -> bool {
        self.retry.is_none()
    }

    pub(crate) fn known(&self) -> Version {
        self.newest.as_ref().map_or(self.version, |newest| newest.version)
    }

    /// Records `record`, of the same file; true if it is newer than what was known. The result does not depend
    /// on the order of the records; duplicates are ignored.
    pub(crate) fn learn(&mut self, record: &VerifiedRecord) -> bool {
        let news = record.version > self.known();
        if news {
            (self.newest, self.is_withdrawn) = (Some(record.clone()), false);
        }
        news
    }
}

#[cfg(test)]
mod tests;
