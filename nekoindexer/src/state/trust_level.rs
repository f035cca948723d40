//! Why a node is a neighbor, and with that whether it is trusted: [`TrustLevel`].

/// Why a node is a neighbor. The first two are trusted; a guest can add answers, and neither remove nor delay one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrustLevel {
    /// The configuration names it.
    Configured,
    /// It connected, and proved the network's secret or is on the list of allowed nodes.
    Member,
    /// It connected, and may be anybody.
    Guest,
}

impl TrustLevel {
    /// That of a node that connected to this one, in a network that is `closed` by a secret or a list, or open.
    #[must_use]
    pub const fn of_arrival(closed: bool) -> Self {
        if closed { Self::Member } else { Self::Guest }
    }

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
