//! What came of the probes, as tables and a picture: what each node counted, how long it took, what its process takes.

use super::{Passed, Relayed, Ring, off};
use crate::scenarios::prelude::*;
use crate::{run::growth::Growth, run::growth::chart};

/// By how much memory may grow after a third of a run.
const GROWN_MIB_MAX: f64 = 1.0;
/// Goals: microseconds in a node, and floors from a node to the next and back.
const PROCESSING_US_MAX: f64 = 10.0;
const FLOORS_MAX: f64 = 3.0;

impl Relayed {
    /// By how many MiB the memory of a node grew after the warm-up.
    fn grown(seen: &Passed) -> Option<f64> {
        let [first, last] = Growth::all(&seen.taken).next()?.line;
        Some(last - first)
    }

    /// Of each node what it counted, its times, and those to the next.
    fn rows(&self) -> [Vec<Row>; 3] {
        let counted = |(n, seen): (usize, &Passed)| {
            let ProbeCounts { received, forwarded, circles, out_of_hops, nowhere, lost, refused } =
                seen.counted;
            Row::of(json!({
                "received": received, "forwarded": forwarded, "dropped": out_of_hops, "circles": circles,
                "drops": { "nowhere": nowhere, "lost": lost, "refused": refused },
                "errors": off(&seen.counted, &self.ring.counts(n, self.probes)),
                "memory_mib": seen.taken.last().map(|taken| taken.memory_mib), "tasks": seen.tasks,
                "grown_mib": Self::grown(seen),
            }))
        };
        let times = |times: &Times| Row::default().with("min_us", times.min_us()).times(&times.figures());
        let rows = |row: &dyn Fn((usize, &Passed)) -> Row| {
            let named = |(n, seen)| row((n, seen)).with("scenario", format!("node {}", n + 1));
            self.nodes.iter().enumerate().map(named).collect()
        };
        [
            rows(&counted),
            rows(&|(_, seen)| times(&seen.processing)),
            rows(&|(_, seen)| times(&seen.forwarding)),
        ]
    }

    fn goals(&self, [counts, processing, forwarding]: &[Vec<Row>; 3]) -> Vec<Goal> {
        let worst = |rows: &[Row], key| rows.iter().map(|row| row.get(key)).fold(0.0, f64::max);
        let command = format!("profile relay --nodes {} --hops {}", self.ring.nodes, self.ring.hops);
        let all_right = self.is_all_well();
        let goal = |what, most, measured| Goal {
            all_right,
            ..Goal::new(what, Bound::AtMost(most), measured, &command)
        };
        let forwarding = worst(forwarding, "p50_us");
        let [raw, call] = [&self.floor.raw, &self.floor.call].map(|floor| forwarding / floor.p50);
        let grown = worst(counts, "grown_mib");
        vec![
            goal("processing in a node, mean us, worst", PROCESSING_US_MAX, worst(processing, "mean_us")),
            goal("forwarding, p50, in floors of raw TCP, worst", FLOORS_MAX, raw),
            goal("forwarding, p50, in floors of an echo call, worst", FLOORS_MAX, call),
            goal("what was not as computed", 0.0, bytes(self.errors)),
            goal("memory of a node, grown MiB after a third of the run, worst", GROWN_MIB_MAX, grown),
        ]
    }

    pub(super) fn report(&self, deployment: &Deployment) -> Report {
        let Self { ring: ring @ Ring { nodes, hops }, probes, .. } = *self;
        let rows = self.rows();
        let (picture, goals) = (self.picture(&rows), goals::section(&self.goals(&rows)));
        let [counts, processing, forwarding] = rows;
        let times = "scenario min_us mean_us p50_us p99_us max_us";
        let counted = "scenario received forwarded dropped circles errors memory_mib grown_mib tasks";
        let onward = "From each node to the next and back, with writing and reading the call:";
        let (dropped_at, last, wall_s) =
            (ring.dropped_at() + 1, usize::from(hops) + 1, self.wall.as_secs_f64());
        let foot = vec![
            format!(
                "Computed: node {dropped_at} is stop {last} and has no hops left. {} of {probes} probes ended there.",
                self.nodes[ring.dropped_at()].counted.out_of_hops
            ),
            "A relay that was measured elsewhere, over HTTP, for 1.25 h: 6 234 requests, 116 to 157 us in a node, \
             1 870 to 2 060 us to the next, another machine.".to_owned(),
        ];
        let per_s = bytes(probes) / wall_s;
        let (security, machine) = (security_name(deployment.security), machine::in_words());
        let facts = Row::of(json!({
            "probes": probes, "errors": self.errors, "dropped_at": dropped_at, "per_s": per_s, "fault": self.fault,
            "faults": self.faults,
        }));
        let report = Report {
            kind: Some("relay"),
            head: format!(
                "{probes} probes of {hops} hops round {nodes} indexers, each a process of its own, {security}, {wall_s:.1} s, \
                 {per_s:.0} a second; {machine}.\n{}",
                self.floor.in_words()
            ),
            sections: vec![
                Section::new("Counted at each node, in the order of the way:", counted, counts),
                Section::new("In each node, without waiting for the next:", times, processing),
                Section::new(onward, times, forwarding),
                goals,
            ],
            foot,
            facts: self.floor.facts().and(facts),
            is_broken: !self.is_all_well(),
            pictures: vec![picture],
            ..Report::default()
        };
        let missing = "Interrupted: not all of it was measured.";
        let mut report = report.ended(deployment.watch.is_stopped(), missing, self.fault.as_ref());
        report.foot.extend(self.faults.iter().cloned());
        report
    }

    fn picture(&self, [counts, processing, forwarding]: &[Vec<Row>; 3]) -> Picture {
        let others =
            self.nodes.iter().map(|Passed { counted, .. }| counted.nowhere + counted.lost + counted.refused);
        let counts: Vec<Row> =
            counts.iter().zip(others).map(|(row, others)| row.clone().with("others", others)).collect();
        let times = [("p50_us", "p50"), ("mean_us", "mean"), ("p99_us", "p99")];
        let memory = (1..).zip(&self.nodes).map(|(n, seen)| (format!("node {n}"), &seen.taken[..]));
        let node = "node, in the order of the way";
        let dropped = [("dropped", "no hops left"), ("others", "no next node, lost or refused")];
        let (probes, Ring { hops, nodes }) = (self.probes, self.ring);
        let charts = vec![
            bars(node, "probes dropped", &counts, &dropped),
            bars(node, "time in the node, us", processing, &times),
            bars(node, "to the next node and back, us", forwarding, &times),
            chart("resident, MiB", |taken| taken.memory_mib, memory),
        ];
        let title = format!("{probes} probes of {hops} hops round {nodes} nodes");
        Picture::new("relay", title, "what each node dropped, how long it took, and its memory", charts)
    }
}
