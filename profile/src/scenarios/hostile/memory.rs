//! What attacked nodes take of memory, and give back.

use std::collections::HashMap;

use crate::arena::Arena;
use crate::report::{machine, mib};

/// What each node had before the attack, in MiB, by its process.
pub(super) struct Memory(HashMap<u32, f64>);

impl Memory {
    /// Looks at it now; peaks count from here on.
    pub(super) fn before(arena: &Arena) -> Self {
        let now = Self::now(arena);
        now.0.keys().for_each(|pid| machine::forget_peak(*pid));
        now
    }

    fn now(arena: &Arena) -> Self {
        let of = |(_, pid)| Some((pid, mib(machine::rss_bytes(pid)?)));
        Self(arena.ids().into_iter().filter_map(of).collect())
    }

    /// How much more the node has now that grew most.
    pub(super) fn kept_mib(&self, arena: &Arena) -> f64 {
        let grown = Self::now(arena).0.into_iter().filter_map(|(pid, now)| Some(now - self.0.get(&pid)?));
        grown.fold(0.0, f64::max)
    }
}
