//! The arguments of transfers.

use std::path::PathBuf;

use clap::Args as ClapArgs;

use super::Detailed;
use crate::goals::transfer as goals;
use crate::transfer::scenario::{Bulk, Change, How, Scenario, What};
use crate::{cluster::deployment::security, transfer::units};

/// Files from peer to peer.
///
/// Bytes are given as 4096, 64MiB, 1GiB (units of 1024) or 50MB (units of 1000). Every node is a process of
/// its own; every file that arrives is held against the one that was shared.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct Transfer {
    /// Bytes of the file; several, separated by commas, are measured one after the other
    #[arg(long, value_name = "BYTES", value_delimiter = ',', default_value = "1GiB", value_parser = units::bytes)]
    pub(crate) size: Vec<u64>,
    #[command(flatten)]
    pub(crate) scenario: Scenario,
    /// Plain TCP instead of TLS
    #[arg(long)]
    pub(crate) insecure: bool,
    /// Many small files instead of a large one: how many are shared, and fetched
    #[arg(long, value_name = "N", conflicts_with_all = ["change", "share", "sparse"])]
    pub(crate) files: Option<usize>,
    /// The least and the most bytes of a small file
    #[arg(long, value_name = "MIN-MAX", default_value = "1KiB-10KiB", value_parser = units::range)]
    pub(crate) file_bytes: (u64, u64),
    /// The file is fetched, changes by this much, in percent, and is fetched again: how much moves
    #[arg(long, value_name = "PERCENT", value_parser = units::percent, conflicts_with_all = ["share", "sparse"])]
    pub(crate) change: Option<f64>,
    /// At how many places it changes
    #[arg(long, value_name = "N", default_value_t = 20, requires = "change")]
    pub(crate) places: u64,
    /// How it changes
    #[arg(long, default_value = "in-place", requires = "change")]
    pub(crate) how: How,
    /// The file is only shared, and nobody fetches it
    #[arg(long, conflicts_with_all = ["readers", "sources", "corrupt"])]
    pub(crate) share: bool,
    /// The file is a hole but for 64 KiB at either end
    #[arg(long)]
    pub(crate) sparse: bool,
    /// All goals in one run: what is aimed at, what was measured, reached or missed
    #[arg(long, conflicts_with_all = ["sources", "readers", "insecure", "cap_up", "cap_down", "corrupt", "change",
          "share", "sparse", "csv", "plot"])]
    pub(crate) goals: bool,
    /// Where the files go, in a folder that is removed at the end [default: in memory if the system has such a
    /// place, as /dev/shm]
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) output: Detailed,
}

impl Transfer {
    /// What to measure.
    pub(crate) fn scenarios(&self) -> Vec<Scenario> {
        if self.goals {
            return goals::scenarios(&self.goals());
        }
        let base = Scenario { security: security(self.insecure), ..self.scenario.clone() };
        if let Some(count) = self.files {
            return vec![Scenario { what: What::Files { count, bytes: self.file_bytes }, ..base }];
        }
        let what = |size: u64| {
            let bulk = Bulk { size, sparse: self.sparse };
            let change = self.change.map(|percent| Change { percent, places: self.places, how: self.how });
            match change {
                Some(change) => What::Change(bulk, change),
                None if self.share => What::Publish(bulk),
                None => What::Whole(bulk),
            }
        };
        self.size.iter().map(|size| Scenario { what: what(*size), ..base.clone() }).collect()
    }

    /// How much is measured for the goals.
    pub(crate) fn goals(&self) -> goals::Options {
        let Scenario { rounds, seed, .. } = self.scenario;
        let size = self.size.first().copied().unwrap_or(1);
        goals::Options {
            size,
            files: self.files.unwrap_or(goals::FILES),
            file_bytes: self.file_bytes,
            rounds,
            seed,
        }
    }
}
