//! What is to be run, and what is broken on purpose.

use tokio::runtime::Handle;

use super::{Load, origin::Protocol};
use crate::scenarios::prelude::*;

/// What a slow reader takes for a message.
const SLOW_MS: u64 = 2;

/// What happens under load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Trial {
    /// The reader is told of each version right after it was shared
    Live,
    /// The reader takes 2 ms for each message
    Slow,
    /// The reader, then its indexer, is killed half-way and comes back
    Crash,
    /// Two private networks with the same names try each other's indexers
    Isolation,
    /// All nodes are killed after the last publication; the reader begins after they are back
    Disk,
}

/// One run of a trial.
pub(crate) struct Plan {
    pub(crate) trial: Trial,
    pub(crate) protocol: Protocol,
    /// As results call it.
    pub(crate) label: String,
    pub(crate) options: Load,
    pub(crate) on: Deployment,
    /// Where the origin, if it is in this process, and the workers run.
    pub(crate) runtime: Handle,
}

impl Plan {
    pub(crate) fn duration(&self) -> Duration {
        Duration::from_secs_f64(self.options.duration)
    }

    /// Workers of each network.
    pub(crate) const fn workers(&self) -> usize {
        self.options.workers.div_ceil(self.trial.networks())
    }

    /// Between two publications of a worker; `None`: as fast as it can.
    pub(crate) fn every(&self) -> Option<Duration> {
        let names = count(self.trial.networks() * self.workers() * self.options.names);
        self.options.rate.map(|rate| Duration::from_secs(1).mul_f64(names) / rate)
    }
}

/// A promise that is broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Broken {
    /// The reader drops the newest version of one name.
    Drop,
    /// Both networks have one name and one secret.
    Mix,
    /// The origin comes back with the folder of before the load.
    Lose,
}

impl Broken {
    /// Whether `scenario` makes the promise.
    pub(crate) const fn is_of(self, scenario: Trial) -> bool {
        match self {
            Self::Drop => matches!(scenario, Trial::Live | Trial::Slow | Trial::Crash),
            Self::Mix => matches!(scenario, Trial::Isolation),
            Self::Lose => matches!(scenario, Trial::Disk),
        }
    }
}

impl Trial {
    pub(crate) const fn networks(self) -> usize {
        if matches!(self, Self::Isolation) { 2 } else { 1 }
    }

    pub(crate) const fn pause_ms(self) -> u64 {
        if matches!(self, Self::Slow) { SLOW_MS } else { 0 }
    }
}
