//! What is simulated: how many nodes, on which links, for how long, and what goes wrong.

use std::{
    ops::{Range, RangeInclusive},
    time::Duration,
};

use nekoproto::Policy;

use crate::plan::topology::Topology;

/// A kind of link, by its ends: readers, the origin, indexers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    ReaderOrigin,
    OriginIndexer,
    ReaderIndexer,
    Indexers,
}

/// What is simulated.
#[derive(Clone, Debug)]
pub struct Setting {
    pub(crate) indexers: usize,
    pub(crate) topology: Topology,
    pub(crate) readers: usize,
    pub(crate) policy: Policy,
    /// Mean time between updates.
    pub(crate) update_every: Duration,
    /// Mean time between reads of one copy.
    pub(crate) read_every: Duration,
    /// How long it lasts.
    pub lasts: Duration,
    /// Of a message. Delays are uniform, and independent: messages overtake each other.
    pub(crate) delay: RangeInclusive<Duration>,
    /// Share of messages that are lost.
    pub(crate) loss: f64,
    /// Share of invalidations that arrive twice.
    pub(crate) doubled: f64,
    /// Which links, `None`: all, carry nothing and when. Nobody is told: calls over them time out.
    pub(crate) cut: Option<(Option<Link>, Range<Duration>)>,
    /// Mean time that a peer is there; `None`: always.
    pub(crate) session: Option<Duration>,
    pub(crate) mishaps: Option<Mishaps>,
    /// Readers also ask the indexers for the file, each time that they read it.
    pub(crate) queries: bool,
}

/// What goes wrong on top of links and sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mishaps {
    /// Older and forged versions are sent to anybody.
    Messages,
    /// Nodes start again.
    Restarts,
    /// The folder starts again with an older backup of itself.
    Backups,
}
