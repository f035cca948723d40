//! [`Record`]: how a neighbor is judged, by the ratio of its answers and by their usual time. That it gives any sign of life
//! counts nothing.
//!
//! Whoever a record judges is not asked until it has answered probes, which nobody waits for. A guest that was good is
//! doubted first: it stays asked for a while, and nobody waits for it long.

use std::{
    sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};

use super::{Standing, Worth};

/// A guest that is asked, but has found nothing for this long, makes room where no place is free.
const IDLE_AFTER: Duration = Duration::from_secs(60);
/// Time for a guest to give a summary and to answer a probe.
const PROVES_WITHIN: Duration = Duration::from_secs(2);
/// Time that a query gives a guest at least, so that a moment of much work is no miss: several times what an answer
/// takes between busy nodes.
const PATIENCE_MIN: Duration = Duration::from_millis(250);
/// The same as a multiple of the usual time of its answers.
const PATIENCE_TIMES: u32 = 3;
/// The most of it, which a guest that is good gets at once: it is late only where much is to be done.
const PATIENCE_MAX: Duration = Duration::from_millis(600);
const _: () = assert!(PATIENCE_MAX.as_millis() == USUAL_MAX.as_millis() * PATIENCE_TIMES as u128);
/// Bounds of the time for a guest that is doubted, or of which little is known once others like it have used up
/// what there is for [`Stalls`](super::Stalls).
const PATIENCE_SHORT: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(100));
/// A guest whose answers usually take longer is not asked: it would hold up each answer.
const USUAL_MAX: Duration = Duration::from_millis(200);
/// Signatures of a guest that do not hold, before only what is known already is believed of it; and the time in which one
/// of them is forgotten. An honest guest has few: a peer may have registered its own files with it signed wrongly.
const FORGED_MAX: u32 = 32;
const FORGED_FOR: Duration = Duration::from_millis(125);
/// Misses among the latest 32 answers that are forgiven a configured neighbor or a member.
const MISSES_MAX: u32 = 3;
/// Those forgiven a guest, once it has answered [`ANSWERS_PER_MISS`] times as often.
const GUEST_MISSES_MAX: u32 = 2;
const ANSWERS_PER_MISS: u32 = 16;
/// Answers after which a guest is good: it is doubted before it is judged, and missed where this node itself is at fault.
const GOOD_FROM: u32 = 16;
/// How long a guest that was good stays asked though it leaves questions unanswered.
const DOUBTED_FOR: Duration = Duration::from_secs(10);
/// Answers in a row that end the doubt.
const DOUBT_ENDS_WITH: u32 = 4;
/// Probes that a guest has to answer in a row after its n-th judgement: this to the power of n, at most [`PROBES_MAX`].
const PROBES_TIMES: u32 = 2;
const PROBES_MAX: u32 = 256;
/// Answers after which a guest's earlier judgements are forgotten.
const FORGOTTEN_AFTER: u32 = 1024;

/// How a neighbor answered. All of it is relaxed: queries note their outcomes without a lock, and one that is lost
/// between two threads changes no judgement for long.
#[derive(Debug)]
pub struct Record {
    is_guest: AtomicBool,
    /// The latest 32 outcomes, the last one in the lowest bit; 1: missed.
    outcomes: AtomicU32,
    /// Answers of a guest since it was last judged.
    answers: AtomicU32,
    /// The usual time of a guest's answers in microseconds; 0: not known yet.
    usual_us: AtomicU32,
    /// Probes that it has to answer in a row before it is asked; 0: it is asked.
    probes: AtomicU32,
    /// How often it was judged.
    judged: AtomicU32,
    /// Answers of it in which something was found.
    finds: AtomicU32,
    is_probed: AtomicBool,
    was_probed: AtomicBool,
    /// Whether a guest has answered [`GOOD_FROM`] questions since it was last judged.
    is_good: AtomicBool,
    /// Since when a guest is doubted, in milliseconds since `made`, at least 1; 0: it is not.
    doubted_ms: AtomicU64,
    /// When the forged signatures of it are forgotten, in milliseconds since `made`.
    forged_ms: AtomicU64,
    made: Instant,
}

impl Record {
    /// Nothing is known of it: a guest has to answer a probe first.
    #[must_use]
    pub fn new(standing: Standing, made: Instant) -> Self {
        let is_guest = standing.is_guest();
        let (outcomes, answers, usual_us, judged, finds, is_probed, was_probed) = <_>::default();
        let (is_good, doubted_ms, forged_ms) = <_>::default();
        let probes = AtomicU32::new(u32::from(is_guest));
        let is_guest = AtomicBool::new(is_guest);
        Self {
            is_guest,
            outcomes,
            answers,
            usual_us,
            probes,
            judged,
            finds,
            is_probed,
            was_probed,
            is_good,
            doubted_ms,
            forged_ms,
            made,
        }
    }

    /// A connection to it was opened because the configuration says so: it is asked, whatever was before.
    pub fn trust(&self) {
        self.is_guest.store(false, Relaxed);
        self.outcomes.store(0, Relaxed);
        self.probes.store(0, Relaxed);
    }

    /// Whether queries go to it.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        self.probes.load(Relaxed) == 0
    }

    /// Whether it may be anybody; see [`Standing`].
    #[must_use]
    pub fn is_guest(&self) -> bool {
        self.is_guest.load(Relaxed)
    }

    /// It answered. How long it took counts for guests only. Returns whether it is judged by that at `now`.
    pub fn answered(&self, took: Duration, now: Instant) -> bool {
        let outcomes = self.outcomes.load(Relaxed);
        if outcomes != 0 {
            self.outcomes.store(outcomes << 1, Relaxed);
        }
        if !self.is_guest() {
            return false;
        }
        let answers = self.answers.load(Relaxed).saturating_add(1);
        self.answers.store(answers, Relaxed);
        if answers == GOOD_FROM {
            self.is_good.store(true, Relaxed);
        }
        if answers == FORGOTTEN_AFTER {
            self.judged.store(0, Relaxed);
        }
        if answers >= DOUBT_ENDS_WITH && self.is_doubted() {
            self.doubted_ms.store(0, Relaxed);
            self.outcomes.store(0, Relaxed);
        }
        self.note_time(took);
        self.usual() > USUAL_MAX && self.judge(now)
    }

    /// It did not answer in time. Where this node was busy (`is_ours`), that counts only against who answers nothing at
    /// all. Returns whether it is judged by that at `now`.
    pub fn missed(&self, is_ours: bool, now: Instant) -> bool {
        let outcomes = (self.outcomes.load(Relaxed) << 1) | 1;
        self.outcomes.store(outcomes, Relaxed);
        if self.is_doubted() {
            self.answers.store(0, Relaxed);
        }
        let forgiven = if is_ours {
            u32::BITS - 1
        } else if self.is_guest() {
            (self.answers.load(Relaxed) / ANSWERS_PER_MISS).min(GUEST_MISSES_MAX)
        } else {
            MISSES_MAX
        };
        outcomes.count_ones() > forgiven && self.judge(now)
    }

    /// A guest that was good is doubted for `DOUBTED_FOR`; then it, and all others at once, are not asked until they have
    /// answered probes. Returns whether it was asked until `now`.
    pub fn judge(&self, now: Instant) -> bool {
        if !self.is_asked() {
            return false;
        }
        if self.is_guest() && self.is_good() {
            match self.doubted_for(now) {
                None => {
                    self.doubted_ms.store(self.millis(now).max(1), Relaxed);
                    self.answers.store(0, Relaxed);
                    return false;
                }
                Some(time) if time < DOUBTED_FOR => return false,
                Some(_) => {}
            }
        }
        self.is_good.store(false, Relaxed);
        self.doubted_ms.store(0, Relaxed);
        let judged = self.judged.load(Relaxed).saturating_add(1);
        self.judged.store(judged, Relaxed);
        self.outcomes.store(0, Relaxed);
        self.answers.store(0, Relaxed);
        self.usual_us.store(0, Relaxed);
        self.probes.store(self.probes_needed(), Relaxed);
        true
    }

    /// Whether it is a guest that has answered some questions since it was last judged: an answer lacks something without
    /// it, if this node itself is at fault.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.is_good.load(Relaxed)
    }

    /// Whether it was good, and has left questions unanswered since.
    #[must_use]
    pub fn is_doubted(&self) -> bool {
        self.doubted_ms.load(Relaxed) != 0
    }

    fn doubted_for(&self, now: Instant) -> Option<Duration> {
        let since = Some(self.doubted_ms.load(Relaxed)).filter(|since| *since != 0)?;
        Some(now.saturating_duration_since(self.made + Duration::from_millis(since)))
    }

    /// It had time enough to answer again: judges it if it has not, and returns whether it is judged.
    pub fn ends_doubt(&self, now: Instant) -> bool {
        self.doubted_for(now).is_some_and(|time| time >= DOUBTED_FOR) && self.judge(now)
    }

    /// How many probes in a row.
    fn probes_needed(&self) -> u32 {
        let judged = if self.is_guest() { self.judged.load(Relaxed) } else { 0 };
        PROBES_TIMES.saturating_pow(judged).min(PROBES_MAX)
    }

    /// Whether it has never been probed or judged.
    #[must_use]
    pub fn is_new(&self) -> bool {
        !self.was_probed.load(Relaxed)
    }

    /// Whether probes may change how it is judged.
    #[must_use]
    pub fn is_to_be_probed(&self) -> bool {
        !self.is_asked() || self.is_doubted()
    }

    /// Begins a probe, if none is under way.
    pub fn begin_probe(&self) -> bool {
        self.was_probed.store(true, Relaxed);
        self.is_to_be_probed() && !self.is_probed.swap(true, Relaxed)
    }

    /// The probe says nothing: this node was busy.
    pub fn probed_in_vain(&self) {
        self.is_probed.store(false, Relaxed);
    }

    /// The probe took this long until `now`, or was not answered. Returns whether it is asked from now on.
    pub fn probed(&self, took: Option<Duration>, now: Instant) -> bool {
        self.is_probed.store(false, Relaxed);
        let took = took.filter(|took| !self.is_guest() || *took <= USUAL_MAX);
        if self.is_asked() {
            if let Some(took) = took.filter(|_| self.is_doubted()) {
                self.answered(took, now);
            }
            return false;
        }
        match took {
            None => self.probes.store(self.probes_needed(), Relaxed),
            Some(took) => {
                self.note_time(took);
                return self.probes.fetch_sub(1, Relaxed) == 1;
            }
        }
        false
    }

    /// Something was found in its answer.
    pub fn found(&self) {
        self.finds.fetch_add(1, Relaxed);
    }

    /// How long a query waits for a guest; with little time if guests have used up what there is for
    /// [`Stalls`](super::Stalls).
    #[must_use]
    pub fn patience(&self, is_used_up: bool) -> Duration {
        let several = PATIENCE_TIMES * self.usual();
        let is_new = self.answers.load(Relaxed) < FORGOTTEN_AFTER;
        if self.is_doubted() || (is_used_up && is_new) {
            return several.clamp(PATIENCE_SHORT.0, PATIENCE_SHORT.1);
        }
        if self.is_good() { PATIENCE_MAX } else { several.clamp(PATIENCE_MIN, PATIENCE_MAX) }
    }

    /// The usual time of its answers; zero if it is not known yet.
    #[must_use]
    pub fn usual(&self) -> Duration {
        Duration::from_micros(self.usual_us.load(Relaxed).into())
    }

    fn note_time(&self, took: Duration) {
        let took = u32::try_from(took.as_micros()).unwrap_or(u32::MAX).max(1);
        let usual = self.usual_us.load(Relaxed);
        let usual = if usual == 0 { took } else { usual - usual / 8 + took / 8 };
        self.usual_us.store(usual, Relaxed);
    }

    /// A signature that it passed on does not hold.
    pub fn forged(&self, now: Instant) {
        let before = self.forged_ms.load(Relaxed).max(self.millis(now));
        let each = u64::try_from(FORGED_FOR.as_millis()).unwrap_or(u64::MAX);
        self.forged_ms.store(before.saturating_add(each), Relaxed);
    }

    /// Whether signatures that it passes on are checked.
    #[must_use]
    pub fn is_checked(&self, now: Instant) -> bool {
        let debt = self.forged_ms.load(Relaxed).saturating_sub(self.millis(now));
        u128::from(debt) < (FORGED_FOR * FORGED_MAX).as_millis()
    }

    fn millis(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.made).as_millis()).unwrap_or(u64::MAX)
    }

    /// What it is worth to whoever hands out places.
    #[must_use]
    pub fn worth(&self, since: Instant, now: Instant) -> Worth {
        let is_idle = self.finds.load(Relaxed) == 0 && now.saturating_duration_since(since) > IDLE_AFTER;
        match (self.is_asked(), is_idle) {
            (false, _) if now.saturating_duration_since(since) > PROVES_WITHIN => Worth::Unproven,
            (false, _) => Worth::Proving,
            (true, true) => Worth::Idle,
            (true, false) => Worth::Kept,
        }
    }
}

#[cfg(test)]
mod tests;
