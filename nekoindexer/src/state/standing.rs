//! Who counts as a neighbor: [`Standing`]. How each is judged ([`Record`]), what waiting in vain may cost in all
//! ([`Stalls`]), and which guests have a place ([`place_for`]).

mod record;
mod seats;
mod stalls;

use std::time::{Duration, Instant};

pub use self::{
    record::Record,
    seats::{GUESTS_MAX, GUESTS_OF_SITE_MAX, Place, Seated, Worth, place_for},
    stalls::Stalls,
};

/// A timer that fires this much later than it was set for says that this node was busy: nobody else is judged by that.
const BUSY_FROM: Duration = Duration::from_millis(50);

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
