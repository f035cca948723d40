//! Who counts as a neighbor, and how each is judged: by the ratio of its answers and by their usual time. That it gives
//! any sign of life counts nothing.
//!
//! Whoever a record judges is not asked until it has answered probes, which nobody waits for.

use std::{
    net::{IpAddr, Ipv6Addr, SocketAddr},
    sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
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
/// A guest whose answers usually take longer is not asked: it would hold up each answer.
pub const USUAL_MAX: Duration = Duration::from_millis(200);
/// A timer that fires this much later than it was set for says that this node was busy: nobody else is judged by that.
const BUSY_FROM: Duration = Duration::from_millis(50);
/// Misses among the latest 32 answers that are forgiven a configured neighbor or a member.
const MISSES_MAX: u32 = 3;
/// Those forgiven a guest, once it has answered [`ANSWERS_PER_MISS`] times as often.
const GUEST_MISSES_MAX: u32 = 2;
const ANSWERS_PER_MISS: u32 = 16;
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
}

impl Record {
    /// Nothing is known of it: a guest has to answer a probe first.
    #[must_use]
    pub fn new(standing: Standing) -> Self {
        let is_guest = standing.is_guest();
        let (outcomes, answers, usual_us, judged, finds, is_probed, was_probed) = <_>::default();
        let probes = AtomicU32::new(u32::from(is_guest));
        let is_guest = AtomicBool::new(is_guest);
        Self { is_guest, outcomes, answers, usual_us, probes, judged, finds, is_probed, was_probed }
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

    /// It answered. `took` reads a clock, for guests only. Returns whether it is judged by that.
    pub fn answered(&self, took: impl FnOnce() -> Duration) -> bool {
        let outcomes = self.outcomes.load(Relaxed);
        if outcomes != 0 {
            self.outcomes.store(outcomes << 1, Relaxed);
        }
        if !self.is_guest() {
            return false;
        }
        let answers = self.answers.load(Relaxed).saturating_add(1);
        self.answers.store(answers, Relaxed);
        if answers == FORGOTTEN_AFTER {
            self.judged.store(0, Relaxed);
        }
        self.note_time(took());
        self.usual() > USUAL_MAX && self.judge()
    }

    /// It did not answer in time. Returns whether it is judged by that.
    pub fn missed(&self) -> bool {
        let outcomes = (self.outcomes.load(Relaxed) << 1) | 1;
        self.outcomes.store(outcomes, Relaxed);
        let forgiven = if self.is_guest() {
            (self.answers.load(Relaxed) / ANSWERS_PER_MISS).min(GUEST_MISSES_MAX)
        } else {
            MISSES_MAX
        };
        outcomes.count_ones() > forgiven && self.judge()
    }

    /// It is not asked until it has answered probes. Returns whether it was asked before.
    pub fn judge(&self) -> bool {
        if !self.is_asked() {
            return false;
        }
        let judged = self.judged.load(Relaxed).saturating_add(1);
        self.judged.store(judged, Relaxed);
        self.outcomes.store(0, Relaxed);
        self.answers.store(0, Relaxed);
        self.usual_us.store(0, Relaxed);
        self.probes.store(self.probes_needed(), Relaxed);
        true
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

    /// Begins a probe, if none is under way.
    pub fn begin_probe(&self) -> bool {
        self.was_probed.store(true, Relaxed);
        !self.is_asked() && !self.is_probed.swap(true, Relaxed)
    }

    /// The probe says nothing: this node was busy.
    pub fn probed_in_vain(&self) {
        self.is_probed.store(false, Relaxed);
    }

    /// The probe took this long, or was not answered. Returns whether it is asked from now on.
    pub fn probed(&self, took: Option<Duration>) -> bool {
        self.is_probed.store(false, Relaxed);
        if self.is_asked() {
            return false;
        }
        match took.filter(|took| !self.is_guest() || *took <= USUAL_MAX) {
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

    /// How long a query waits for a guest.
    #[must_use]
    pub fn patience(&self) -> Duration {
        (PATIENCE_TIMES * self.usual()).clamp(PATIENCE_MIN, PATIENCE_TIMES * USUAL_MAX)
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
