//! Sums up a download at its end ([`SwarmReport`], [`Transferred`]), and counts compressed runs by the bytes that came ([`WireRatio`]).

use std::collections::HashSet;

use nekoproto::{NodeId, VerifiedRecord};

use crate::{
    download::{error::undelivered, file::assembly::Assembly, swarm::source::Source},
    failure::Failure,
};

/// In how many bytes a run came: both numbers are some MiB at most, and their product is no large number.
#[derive(Clone, Copy, Debug)]
pub(in crate::download::swarm) struct WireRatio {
    pub(in crate::download::swarm) bytes: u64,
    /// Those of the run, at least one.
    pub(in crate::download::swarm) run: u64,
}

impl WireRatio {
    /// As many bytes as the run has.
    pub(in crate::download::swarm) const PLAIN: Self = Self { bytes: 1, run: 1 };
    /// It did not come, but an equal one.
    pub(in crate::download::swarm) const CARRIED: Self = Self { bytes: 0, run: 1 };

    /// The bytes in which `len` of the run came.
    pub(super) const fn of(self, len: u64) -> u64 {
        len * self.bytes / self.run
    }

    /// The bytes of the run that `bytes` stand for.
    pub(in crate::download::swarm) const fn unpacked(self, bytes: u64) -> u64 {
        let came = if self.bytes == 0 { 1 } else { self.bytes };
        bytes * self.run / came
    }
}

#[derive(Debug, Default)]
pub(crate) struct SwarmReport {
    /// Bytes received in which useful ones of the file came.
    pub(crate) bytes_moved: u64,
    pub(crate) corrupt_sources: HashSet<NodeId>,
    /// Of the origin, if it fails too: the others lack what it does not give.
    pub(crate) last_failure: Option<String>,
    pub(crate) is_origins_failure: bool,
    /// A connection to the origin on which nothing is under way.
    pub(crate) origin: Option<Source>,
}

impl SwarmReport {
    pub(crate) fn add(&mut self, other: Self) {
        self.bytes_moved += other.bytes_moved;
        self.corrupt_sources.extend(other.corrupt_sources);
        self.last_failure = other.last_failure.or(self.last_failure.take());
        self.origin = other.origin.or(self.origin.take());
    }
}

#[derive(Debug)]
pub(crate) struct Transferred {
    /// The file; complete if `left` is 0.
    pub(crate) assembly: Assembly,
    /// Number of chunks that no source delivered.
    pub(crate) left: usize,
    pub(crate) report: SwarmReport,
}

impl Transferred {
    /// Why `record` is not complete: how much did not come, and the last failure of a source, if there was one.
    pub(crate) fn cut_short(self, record: &VerifiedRecord, kept: &str) -> Failure {
        let percent = (100 * self.left).div_ceil(self.assembly.manifest().chunks().len());
        let why = match self.report.last_failure {
            Some(why) => format!("{percent} % of it did not come; {why}"),
            None => {
                format!("{percent} % of version {} is neither here nor at a known source", record.version)
            }
        };
        undelivered(record, Some(why), kept)
    }
}
