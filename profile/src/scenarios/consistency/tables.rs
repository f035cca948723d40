//! The tables: columns, lines, goals, and how a line is measured.

use std::ops::RangeInclusive;

use super::{aims, aims::Aim, cells, cells::Cell, cells::theory, log::Coherence, log::judge, world::run};
use crate::scenarios::prelude::*;

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

/// What there is to a table: seeds unless told otherwise, columns, lines, and what must hold in them.
type Parts = (u64, &'static str, fn() -> Vec<Cell>, fn(&[Row]) -> Vec<Aim>);

/// What came of one line.
pub struct Line {
    /// What it is about, and the figures.
    pub row: Row,
    /// Ages of stale reads, of all seeds, in seconds.
    pub stale_s: Vec<f64>,
}

impl Which {
    pub(super) fn parts(self) -> Parts {
        let c1 = "topology readers update_s invalid_percent invalid_late_percent stale_percent stale_max_s \
                  messages_per_update questions_per_update bytes_per_update origin_per_update";
        let c2 = "update_s ttr_s stale_percent theory_percent off_points off_asked_points stale_mean_s \
                  stale_max_s questions_per_update";
        let c3 = "mode session_min loss_percent fidelity_percent fresh_percent stale_mean_s stale_max_s \
                  messages_per_update questions_per_update all_per_update flood bytes_per_update \
                  origin_per_update";
        let c4 = "cut lease_s fresh_percent stale_percent stale_mean_s stale_max_s past_bound";
        let c5 = "mishaps updates forged fresh_percent past_bound went_back never_shared two_contents";
        let c6 = "indexers readers messages_per_update questions_per_update flood bytes_per_update \
                  origin_per_update";
        match self {
            Self::C1 => (20, c1, cells::c1, aims::c1),
            Self::C2 => (20, c2, cells::c2, aims::c2),
            Self::C3 => (20, c3, cells::c3, aims::c3),
            Self::C4 => (1000, c4, cells::c4, aims::c4),
            Self::C5 => (1000, c5, cells::c5, aims::c5),
            Self::C6 => (20, c6, cells::c6, aims::c6),
        }
    }

    /// Its lines.
    pub fn cells(self) -> Vec<Cell> {
        self.parts().2()
    }

    /// What must hold.
    pub(super) fn goals(self, lines: &[Line], seeds: u64) -> Vec<Goal> {
        let rows: Vec<Row> = lines.iter().map(|line| line.row.clone()).collect();
        let name = option_name(&self);
        let command = format!("profile consistency --table {name} --seeds {seeds}");
        let goal = |(what, bound, is)| Goal::new(format!("{name}: {what}"), bound, is, &command);
        self.parts().3(&rows).into_iter().map(goal).collect()
    }

    /// Simulates one line with each of `seeds`.
    ///
    /// # Errors
    /// Its indexers cannot be linked.
    pub fn measure(self, cell: Cell, seeds: RangeInclusive<u64>) -> anyhow::Result<Line> {
        let judged = |seed| Ok(judge(&run(&cell.setting, seed)?, &cell.setting));
        let judged = seeds.map(judged).collect::<anyhow::Result<Vec<Coherence>>>()?;
        let mut row = summarized(cell.about, &judged);
        if self == Self::C2 {
            let (ttr_s, stale) = (row.get("ttr_s"), row.get("stale_percent"));
            let early_s = ASKED_EARLY_S.min(ttr_s / 4.0);
            let asked = 100.0 * theory((ttr_s - early_s) / row.get("update_s"));
            let off = stale - row.get("theory_percent");
            row = row.with("off_points", off).with("off_asked_points", stale - asked);
        }
        Ok(Line { row, stale_s: judged.into_iter().flat_map(|one| one.stale_s).collect() })
    }
}

/// Figures of several seeds: the mean of each, and half of its 95 % interval under the same key and `_ci`; of the longest
/// the longest. Counts are added up.
fn summarized(row: Row, seeds: &[Coherence]) -> Row {
    let Some(Coherence { figures, counts, .. }) = seeds.first() else { return row };
    let row = figures.keys().fold(row.with("seeds", seeds.len()), |row, key| {
        let values: Vec<f64> = seeds.iter().map(|one| one.figures[key]).collect();
        let (mean, half) = interval(&values);
        let is_longest = *key == "stale_max_s";
        let figure = if is_longest { values.into_iter().fold(0.0, f64::max) } else { mean };
        row.with(key, figure).with(&format!("{key}_ci"), (!is_longest).then_some(half))
    });
    let sum = |key| seeds.iter().map(|one| one.counts[key]).sum::<usize>();
    counts.keys().fold(row, |row, key| row.with(key, sum(key)))
}

/// The mean, and half of its 95 % interval by Student's t, whose quantile is right within 3 % from 5 values on.
pub fn interval(values: &[f64]) -> (f64, f64) {
    let n = count(values.len());
    let mean = values.iter().sum::<f64>() / n;
    let free = n - 1.0;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / free;
    let quantile = 1.96 + 2.37 / free + 2.8 / (free * free);
    (mean, if free > 0.0 { quantile * (variance / n).sqrt() } else { f64::NAN })
}
