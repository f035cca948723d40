//! How stale copies are: lines over the TTR or the replicas, and how often which age was read.

use serde_json::Value;

use super::{tables::Line, tables::Which};
use crate::plot::histogram;
use crate::scenarios::prelude::*;

/// What there is to see of a table; `None` if a table says it all.
pub(crate) fn picture(which: Which, all: &[Line]) -> Option<Picture> {
    let curves =
        |x, y, label: &dyn Fn(&Row) -> String| of_rows(all.iter().map(|line| &line.row), x, y, label);
    let updates = |row: &Row| format!("an update each {} s", row.get("update_s"));
    let ages = |of: &str, at: &[(&str, Value)]| {
        let is_shown = |line: &&Line| at.iter().all(|(key, value)| line.row.0.get(*key) == Some(value));
        let ages: Vec<f64> = all.iter().filter(is_shown).flat_map(|line| &line.stale_s).copied().collect();
        histogram(&format!("{of}: age of the version that was read, s"), "reads", &ages, Vec::new())
    };
    let (title, charts) = match which {
        Which::C2 => ("Pull: reads of a version that was replaced", {
            let mut reads = curves("ttr_s", "stale_percent", &updates);
            reads.extend(curves("ttr_s", "theory_percent", &|row| updates(row) + ", 1-(1-e^-x)/x"));
            vec![lines("TTR, s", "stale reads, %", reads), ages("all TTRs", &[])]
        }),
        Which::C3 => ("Stale reads served as fresh, 5 % loss, sessions of 30 min", {
            let at = |mode| [("mode", json!(mode)), ("loss_percent", json!(5)), ("session_min", json!(30))];
            ["push", "pull", "hybrid"].map(|mode| ages(mode, &at(mode))).into()
        }),
        Which::C4 => ("Stale reads served as fresh, links cut for 300 s", {
            [5, 10, 30].map(|lease| ages(&format!("lease {lease} s"), &[("lease_s", json!(lease))])).into()
        }),
        Which::C6 => ("Messages for an update", {
            let indexers = |row: &Row| format!("{} indexers", row.get("indexers"));
            vec![lines("replicas", "messages", curves("readers", "messages_per_update", &indexers))]
        }),
        Which::C1 | Which::C5 => return None,
    };
    Some(Picture {
        title: title.to_owned(),
        subtitle: "simulated in virtual time, all seeds".to_owned(),
        charts,
    })
}
