//! What is simulated: how many nodes, on which links, for how long, and what goes wrong.

use std::time::Duration;

use nekoproto::Policy;

use super::link::Weather;
use crate::plan::topology::Topology;

/// What is simulated.
#[derive(Clone, Debug)]
pub struct Setting {
    /// How many indexers.
    pub indexers: usize,
    /// How they are linked.
    pub topology: Topology,
    /// How many readers.
    pub readers: usize,
    /// The policy of the file.
    pub policy: Policy,
    /// Mean time between updates.
    pub update_every: Duration,
    /// Mean time between reads of one copy.
    pub read_every: Duration,
    /// How long it lasts.
    pub lasts: Duration,
    /// How links behave.
    pub weather: Weather,
    /// Mean time that a peer is there; `None`: always.
    pub session: Option<Duration>,
    /// Mean time between mishaps of each kind; `None`: there are none.
    pub mishaps: Option<Mishaps>,
    /// Readers also ask the indexers for the file, each time that they read it.
    pub queries: bool,
    /// Readers serve as fresh what is past its bound. It breaks the promise, to see that this is noticed.
    pub ignores_bound: bool,
}

/// What goes wrong on top of links and sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mishaps {
    /// Older and forged versions are sent to anybody.
    Messages,
    /// Nodes start again.
    Restarts,
    /// The folder starts again with an older backup of itself.
    Backups,
}
