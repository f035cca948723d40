//! Who counts as a neighbor, and how each is judged: by the ratio of its answers and by their usual time. That it gives
//! any sign of life counts nothing.
//!
//! Whoever a record judges is not asked until it has answered probes, which nobody waits for. A guest that was good is
//! doubted first: it stays asked for a while, and nobody waits for it long.

use std::{
    net::{IpAddr, Ipv6Addr, SocketAddr},
    sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};

/// Guests that have a place; further ones are served but neither asked nor told of names until one is free.
pub const GUESTS_MAX: usize = 256;
/// Those of them from one address or, with IPv6, from one /64. Loopback addresses are not grouped.
pub const GUESTS_OF_GROUP_MAX: usize = 64;
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
/// [`STALLS_MAX`].
const PATIENCE_SHORT: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(100));
/// Time that answers wait in vain for guests, before less time is given to those of which little is known; and one of how
/// many parts of all time that is in the long run.
const STALLS_MAX: Duration = Duration::from_millis(500);
const STALLS_PARTS: u32 = 200;
/// A guest whose answers usually take longer is not asked: it would hold up each answer.
pub const USUAL_MAX: Duration = Duration::from_millis(200);
/// A timer that fires this much later than it was set for says that this node was busy: nobody else is judged by that.
const BUSY_FROM: Duration = Duration::from_millis(50);
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

/// Why a node is a neighbor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The configuration names it.
    Configured,
    /// It connected, and proved that it belongs to the private network.
    Member,
    /// It connected and calls itself an indexer. It may be anybody.
    Guest,
}

/// The standing of a neighbor that this node dialed, or that connected, in a network that is private or open.
#[must_use]
pub const fn standing_of(is_dialed: bool, is_private: bool) -> Standing {
    match (is_dialed, is_private) {
        (true, _) => Standing::Configured,
        (false, true) => Standing::Member,
        (false, false) => Standing::Guest,
    }
}

/// Whether this node itself had no time for what was due at `due`, and is done at `now`.
#[must_use]
pub fn was_busy(due: Instant, now: Instant) -> bool {
    now.saturating_duration_since(due) > BUSY_FROM
}

impl Standing {
    /// Whether it may be anybody.
    #[must_use]
    pub const fn is_guest(self) -> bool {
        matches!(self, Self::Guest)
    }

    /// As it is shown.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Configured => "configured",
            Self::Member => "member",
            Self::Guest => "guest",
        }
    }
}

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

    /// How long a query waits for a guest; with little time if guests have used up what there is for [`Stalls`].
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

/// The time that answers waited in vain for guests, whichever they were: with a key for each, every one of them would
/// be the first that does not answer. Relaxed, as [`Record`] is.
#[derive(Debug)]
pub struct Stalls {
    made: Instant,
    /// Until when the latest wait lasted, and when all of them are paid off, in microseconds since `made`.
    ended_us: AtomicU64,
    paid_us: AtomicU64,
}

impl Stalls {
    /// Nobody has waited yet.
    #[must_use]
    pub const fn new(made: Instant) -> Self {
        Self { made, ended_us: AtomicU64::new(0), paid_us: AtomicU64::new(0) }
    }

    /// An answer has waited in vain from `began` until `now`. What several wait at the same time counts once.
    pub fn note(&self, began: Instant, now: Instant) {
        let (began, now) = (self.micros(began), self.micros(now));
        let waited = now.saturating_sub(began.max(self.ended_us.fetch_max(now, Relaxed)));
        let paid = self.paid_us.load(Relaxed).max(now);
        self.paid_us.store(paid.saturating_add(waited.saturating_mul(STALLS_PARTS.into())), Relaxed);
    }

    /// Whether it was more than `STALLS_MAX`.
    #[must_use]
    pub fn are_used_up(&self, now: Instant) -> bool {
        let debt = self.paid_us.load(Relaxed).saturating_sub(self.micros(now));
        u128::from(debt) >= (STALLS_MAX * STALLS_PARTS).as_micros()
    }

    fn micros(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.made).as_micros()).unwrap_or(u64::MAX)
    }
}

/// What a guest is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Worth {
    /// It had time to prove that it answers, and did not.
    Unproven,
    /// It answers, and has found nothing for a while.
    Idle,
    /// It has just come.
    Proving,
    /// It keeps its place.
    Kept,
}

/// A guest among those that have a place.
#[derive(Clone, Copy, Debug)]
pub struct Seated<K> {
    /// Who it is.
    pub who: K,
    /// Where it connected from.
    pub addr: SocketAddr,
    /// Since when it has the place.
    pub since: Instant,
    /// What it is worth.
    pub worth: Worth,
}

/// Whose place a newcomer gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place<K> {
    /// One that is free.
    Free,
    /// That of this guest.
    Of(K),
    /// None at the moment.
    None,
}

/// Finds a place for a newcomer from `addr`: a free one, or that of the least worthy, and of these the oldest.
#[must_use]
pub fn place_for<K: Copy>(seated: &[Seated<K>], addr: SocketAddr) -> Place<K> {
    let group = group(addr.ip());
    let is_of_group = |one: &&Seated<K>| group.is_some() && self::group(one.addr.ip()) == group;
    let is_group_full = seated.iter().filter(is_of_group).count() >= GUESTS_OF_GROUP_MAX;
    if !is_group_full && seated.len() < GUESTS_MAX {
        return Place::Free;
    }
    let candidates = seated.iter().filter(|one| !is_group_full || is_of_group(one));
    let least = candidates.min_by_key(|one| (one.worth, one.since));
    least.filter(|one| one.worth < Worth::Kept).map_or(Place::None, |one| Place::Of(one.who))
}

/// Addresses that one host may have; `None` for its own.
fn group(ip: IpAddr) -> Option<IpAddr> {
    let ip = ip.to_canonical();
    match ip {
        _ if ip.is_loopback() => None,
        IpAddr::V4(_) => Some(ip),
        IpAddr::V6(ip) => Some(Ipv6Addr::from_bits(ip.to_bits() >> 64 << 64).into()),
    }
}

#[cfg(test)]
mod tests;
