//! [`Policy`]: what the origin promises about the freshness of copies of a file.

use std::{fmt, str::FromStr, time::Duration};

use serde::{Deserialize, Serialize};

use crate::limits::POLICY_SECS_MAX;

/// How copies of a file are kept coherent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Mode {
    /// The origin tells holders of a new version; a subscription lease bounds a lost message.
    Push,
    /// Holders ask the origin again when the time to refresh has passed.
    Pull,
    /// Push, and pull in case an invalidation is lost.
    Hybrid,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Push => "push",
            Self::Pull => "pull",
            Self::Hybrid => "hybrid",
        })
    }
}

/// Text that is not a [`Mode`].
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("expected push, pull or hybrid")]
pub struct NotAMode;

impl FromStr for Mode {
    type Err = NotAMode;

    fn from_str(text: &str) -> Result<Self, NotAMode> {
        match text {
            "push" => Ok(Self::Push),
            "pull" => Ok(Self::Pull),
            "hybrid" => Ok(Self::Hybrid),
            _ => Err(NotAMode),
        }
    }
}

/// How far a copy that is read may be behind its origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Staleness {
    /// Not at all: its origin confirms it for each read, or the read is refused.
    Strict,
    /// As long as a confirmation counts; past that it is not served until it is confirmed.
    Bounded,
    /// The same, and past that it is served marked as stale.
    ServeStale,
}

impl fmt::Display for Staleness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Strict => "strict",
            Self::Bounded => "bounded",
            Self::ServeStale => "serve-stale",
        })
    }
}

/// Text that is not a [`Staleness`].
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("expected strict, bounded or serve-stale")]
pub struct NotAStaleness;

impl FromStr for Staleness {
    type Err = NotAStaleness;

    fn from_str(text: &str) -> Result<Self, NotAStaleness> {
        let all = [Self::Strict, Self::Bounded, Self::ServeStale];
        all.into_iter().find(|one| one.to_string() == text).ok_or(NotAStaleness)
    }
}

/// The policy of one file, set by its origin and part of the signed record: how fresh copies are, and whether it is a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "WirePolicy", into = "WirePolicy")]
pub struct Policy {
    mode: Mode,
    lease_secs: u32,
    ttr_secs: u32,
    staleness: Staleness,
    is_set: bool,
    is_withdrawn: bool,
}

/// A lease or time to refresh that is zero or longer than a week.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a lease or TTR lasts 1 to {POLICY_SECS_MAX} seconds, not {0}")]
pub struct BadPolicy(pub u32);

impl Policy {
    /// A policy of these terms, in seconds.
    ///
    /// # Errors
    /// A term is zero or longer than a week.
    pub fn new(mode: Mode, lease_secs: u32, ttr_secs: u32, staleness: Staleness) -> Result<Self, BadPolicy> {
        for secs in [lease_secs, ttr_secs] {
            if secs == 0 || secs > POLICY_SECS_MAX {
                return Err(BadPolicy(secs));
            }
        }
        Ok(Self { mode, lease_secs, ttr_secs, staleness, is_set: false, is_withdrawn: false })
    }

    /// The same terms, of a set or of a single file.
    #[must_use]
    pub const fn of_set(self, is_set: bool) -> Self {
        Self { is_set, ..self }
    }

    /// The same terms, of a version that withdraws the name: it has no bytes.
    #[must_use]
    pub const fn of_withdrawal(self) -> Self {
        Self { is_set: false, is_withdrawn: true, ..self }
    }

    /// How copies are kept coherent.
    #[must_use]
    pub const fn mode(&self) -> Mode {
        self.mode
    }

    /// Seconds for which a confirmation is valid under push.
    #[must_use]
    pub const fn lease_secs(&self) -> u32 {
        self.lease_secs
    }

    /// Seconds for which a confirmation is valid under pull.
    #[must_use]
    pub const fn ttr_secs(&self) -> u32 {
        self.ttr_secs
    }

    /// How far a copy that is read may be behind.
    #[must_use]
    pub const fn staleness(&self) -> Staleness {
        self.staleness
    }

    /// Whether a holder may serve a copy past its bound, marked as stale.
    #[must_use]
    pub const fn serves_stale(&self) -> bool {
        matches!(self.staleness, Staleness::ServeStale)
    }

    /// Whether each read is confirmed by the origin, or refused.
    #[must_use]
    pub const fn is_strict(&self) -> bool {
        matches!(self.staleness, Staleness::Strict)
    }

    /// Whether the file is a set: a folder in one file, which is unfolded where it is held.
    #[must_use]
    pub const fn is_set(&self) -> bool {
        self.is_set
    }

    /// Whether the version withdraws the name: its origin offers no file under it any more.
    #[must_use]
    pub const fn is_withdrawn(&self) -> bool {
        self.is_withdrawn
    }

    /// How long a copy is fresh after the origin confirmed it: the lease under push, the TTR under pull, the
    /// shorter of the two under hybrid.
    #[must_use]
    pub fn bound(&self) -> Duration {
        let secs = match self.mode {
            Mode::Push => self.lease_secs,
            Mode::Pull => self.ttr_secs,
            Mode::Hybrid => self.lease_secs.min(self.ttr_secs),
        };
        Duration::from_secs(secs.into())
    }

    /// Whether the origin sends invalidations to holders that confirmed.
    #[must_use]
    pub const fn pushes(&self) -> bool {
        matches!(self.mode, Mode::Push | Mode::Hybrid)
    }
}

impl Default for Policy {
    /// Hybrid: invalidations are sent at once, and a copy without contact to its origin is no longer fresh
    /// after 60 seconds.
    fn default() -> Self {
        Self {
            mode: Mode::Hybrid,
            lease_secs: 60,
            ttr_secs: 60,
            staleness: Staleness::ServeStale,
            is_set: false,
            is_withdrawn: false,
        }
    }
}

/// Flag of a policy under which copies are served past their bound. The byte of the flags was that of this one alone.
const SERVE_STALE: u8 = 1;
/// Flag of a policy under which each read is confirmed.
const STRICT: u8 = 4;
const SET: u8 = 2;
const WITHDRAWN: u8 = 8;

#[derive(Serialize, Deserialize)]
struct WirePolicy {
    mode: Mode,
    lease_secs: u32,
    ttr_secs: u32,
    flags: u8,
}

/// Bytes that are no policy.
#[derive(Debug, thiserror::Error)]
enum NotAPolicy {
    #[error(transparent)]
    Terms(#[from] BadPolicy),
    #[error("unknown flags {0:#x}")]
    Flags(u8),
}

impl TryFrom<WirePolicy> for Policy {
    type Error = NotAPolicy;

    fn try_from(wire: WirePolicy) -> Result<Self, NotAPolicy> {
        if wire.flags & !(SERVE_STALE | SET | STRICT | WITHDRAWN) != 0 {
            return Err(NotAPolicy::Flags(wire.flags));
        }
        let staleness = match wire.flags & (SERVE_STALE | STRICT) {
            0 => Staleness::Bounded,
            SERVE_STALE => Staleness::ServeStale,
            STRICT => Staleness::Strict,
            _ => return Err(NotAPolicy::Flags(wire.flags)),
        };
        let policy = Self::new(wire.mode, wire.lease_secs, wire.ttr_secs, staleness)?;
        let policy = policy.of_set(wire.flags & SET != 0);
        match wire.flags & WITHDRAWN != 0 {
            true if policy.is_set => Err(NotAPolicy::Flags(wire.flags)),
            true => Ok(policy.of_withdrawal()),
            false => Ok(policy),
        }
    }
}

impl From<Policy> for WirePolicy {
    fn from(policy: Policy) -> Self {
        let Policy { mode, lease_secs, ttr_secs, staleness, is_set, is_withdrawn } = policy;
        let staleness = match staleness {
            Staleness::Strict => STRICT,
            Staleness::Bounded => 0,
            Staleness::ServeStale => SERVE_STALE,
        };
        let flags = staleness + u8::from(is_set) * SET + u8::from(is_withdrawn) * WITHDRAWN;
        Self { mode, lease_secs, ttr_secs, flags }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endless_or_empty_terms_are_refused_also_when_decoded() {
        for (lease, ttr) in [(0, 1), (1, 0), (u32::MAX, 1), (1, POLICY_SECS_MAX + 1)] {
            assert!(Policy::new(Mode::Push, lease, ttr, Staleness::ServeStale).is_err());
            let wire = WirePolicy { mode: Mode::Push, lease_secs: lease, ttr_secs: ttr, flags: SERVE_STALE };
            let encoded = crate::codec::encode(&wire).unwrap();
            assert!(crate::codec::decode::<Policy>(&encoded).is_err());
        }
    }

    #[test]
    fn flags_take_the_byte_that_a_truth_value_had_and_unknown_ones_are_refused() {
        let before =
            |serve_stale: bool| crate::codec::encode(&(Mode::Pull, 5u32, 7u32, serve_stale)).unwrap();
        for (serve_stale, staleness) in [(false, Staleness::Bounded), (true, Staleness::ServeStale)] {
            let policy = Policy::new(Mode::Pull, 5, 7, staleness).unwrap();
            assert_eq!(crate::codec::encode(&policy).unwrap(), before(serve_stale));
            let set = crate::codec::encode(&policy.of_set(true)).unwrap();
            assert_eq!(crate::codec::decode::<Policy>(&set).unwrap(), policy.of_set(true));
            let withdrawal = crate::codec::encode(&policy.of_withdrawal()).unwrap();
            assert_eq!(*withdrawal.last().unwrap(), WITHDRAWN + u8::from(serve_stale));
            assert_eq!(crate::codec::decode::<Policy>(&withdrawal).unwrap(), policy.of_withdrawal());
        }
        let mut unknown = before(true);
        for flags in [16, SET | WITHDRAWN, SERVE_STALE | STRICT] {
            *unknown.last_mut().unwrap() = flags;
            assert!(crate::codec::decode::<Policy>(&unknown).is_err(), "{flags}");
        }
    }

    #[test]
    fn strict_is_a_flag_of_its_own_that_comes_back() {
        let strict = Policy::new(Mode::Pull, 5, 7, Staleness::Strict).unwrap();
        for policy in [strict, strict.of_set(true), strict.of_withdrawal()] {
            let encoded = crate::codec::encode(&policy).unwrap();
            assert_eq!(encoded.last().unwrap() & (STRICT | SERVE_STALE), STRICT);
            assert_eq!(crate::codec::decode::<Policy>(&encoded).unwrap(), policy);
        }
        for staleness in [Staleness::Strict, Staleness::Bounded, Staleness::ServeStale] {
            assert_eq!(staleness.to_string().parse(), Ok(staleness));
        }
        assert_eq!("Strict".parse::<Staleness>(), Err(NotAStaleness));
    }

    #[test]
    fn bound_is_the_lease_the_ttr_or_the_shorter() {
        let bound = |mode| Policy::new(mode, 20, 5, Staleness::Bounded).unwrap().bound().as_secs();
        assert_eq!([bound(Mode::Push), bound(Mode::Pull), bound(Mode::Hybrid)], [20, 5, 5]);
    }
}
