//! The tables: what is simulated for each, and what must hold.

use std::ops::RangeInclusive;

use super::cells::{self, Cell, theory};
use super::tally::{Tally, summarize};
use super::world::run;
use crate::report::Row;
use clap::ValueEnum;

/// How long before the end of the TTR the shipped code asks at most.
const ASKED_EARLY_S: f64 = 1.0;
/// A table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Which {
    /// Push: invalid results and messages for each update
    C1,
    /// Pull: stale reads over the TTR
    C2,
    /// Push, pull and hybrid under loss and with sessions
    C3,
    /// The bound, with links cut
    C4,
    /// The order, with delayed, doubled, replayed and forged messages, restarts, and restored folders
    C5,
    /// Messages over replicas and indexers
    C6,
}

/// What came of one line.
pub struct Measured {
    /// What it is about, and the figures.
    pub row: Row,
    /// Ages of stale reads, of all seeds, in seconds.
    pub stale_s: Vec<f64>,
}

impl Which {
    /// Seeds, unless told otherwise.
    pub const fn seeds(self) -> u64 {
        match self {
            Self::C4 | Self::C5 => 1000,
            _ => 20,
        }
    }

    /// Its columns.
    pub const fn columns(self) -> &'static str {
        match self {
            Self::C1 => {
                "topology readers update_s invalid_percent invalid_late_percent stale_percent stale_max_s \
                 messages_per_update questions_per_update bytes_per_update origin_per_update"
            }
            Self::C2 => {
                "update_s ttr_s stale_percent theory_percent off_points off_asked_points stale_mean_s stale_max_s \
                 questions_per_update"
            }
            Self::C3 => {
                "mode session_min loss_percent fidelity_percent fresh_percent stale_mean_s stale_max_s \
                 messages_per_update questions_per_update all_per_update flood bytes_per_update origin_per_update"
            }
            Self::C4 => "cut lease_s fresh_percent stale_percent stale_mean_s stale_max_s past_bound",
            Self::C5 => "mishaps updates forged fresh_percent past_bound went_back never_shared two_contents",
            Self::C6 => {
                "indexers readers messages_per_update questions_per_update flood bytes_per_update \
                 origin_per_update"
            }
        }
    }

    /// Its lines.
    pub fn cells(self) -> Vec<Cell> {
        match self {
            Self::C1 => cells::c1(),
            Self::C2 => cells::c2(),
            Self::C3 => cells::c3(),
            Self::C4 => cells::c4(),
            Self::C5 => cells::c5(),
            Self::C6 => cells::c6(),
        }
    }

    /// Simulates one line with each of `seeds`.
    ///
    /// # Errors
    /// Its indexers cannot be linked.
    pub fn measure(self, cell: &Cell, seeds: RangeInclusive<u64>) -> anyhow::Result<Measured> {
        let mut tallies = seeds.map(|seed| run(&cell.setting, seed)).collect::<Result<Vec<Tally>, _>>()?;
        let mut row = summarize(cell.about.clone(), &tallies);
        if self == Self::C2 {
            let (ttr_s, stale) = (row.get("ttr_s"), row.get("stale_percent"));
            let early_s = ASKED_EARLY_S.min(ttr_s / 4.0);
            let asked = 100.0 * theory((ttr_s - early_s) / row.get("update_s"));
            let off = stale - row.get("theory_percent");
            row = row.figure("off_points", off).figure("off_asked_points", stale - asked);
        }
        let stale_s = tallies.iter_mut().flat_map(|tally| std::mem::take(&mut tally.stale_s)).collect();
        Ok(Measured { row, stale_s })
    }
}
