//! What came of the probes, as tables and a picture: what each node counted, how long it took, what its process takes.

use nekoindexer::ProbeCounts;
use serde_json::json;

use super::ring::off;
use super::{Relayed, Seen};
use crate::cluster::deployment::Deployment;
use crate::goals::{self, Bound, Goal};
use crate::plot::{
    Picture,
    by_node::{self, numbers},
    proof::{Figure, over_minutes},
};
use crate::report::figures::{Figures, Times};
use crate::report::machine::{self, Taken};
use crate::report::{Report, Row, Section, bytes, security_name};
use crate::soak::growth::Growth;

/// By how much memory may grow after a third of a run.
const GROWN_MIB_MAX: f64 = 1.0;
/// Goals: microseconds in a node, and floors from a node to the next and back.
const PROCESSING_US_MAX: f64 = 10.0;
const FLOORS_MAX: f64 = 3.0;

impl Relayed {
    /// By how many MiB the memory of a node grew after the warm-up.
    fn grown(seen: &Seen) -> Option<f64> {
        let taken: Vec<Taken> = seen.taken.iter().map(|(taken, _)| *taken).collect();
        let [first, last] = Growth::all(&taken).next()?.line;
        Some(last - first)
    }

    fn rows(&self) -> [Vec<Row>; 3] {
        let named = |n: usize| Row::named(format!("node {}", n + 1));
        let counted = |(n, seen): (usize, &Seen)| {
            let ProbeCounts { received, forwarded, circles, out_of_hops, nowhere, lost, refused } =
                seen.counted;
            let row = named(n).with("received", received).with("forwarded", forwarded);
            let row = row.with("dropped", out_of_hops).with("circles", circles);
            let errors = off(&seen.counted, &self.ring.counts(n, self.probes));
            let row = row.with("drops", json!({"nowhere": nowhere, "lost": lost, "refused": refused}));
            let last = seen.taken.last().map(|(taken, tasks)| (taken.memory_mib, *tasks));
            row.with("errors", errors)
                .figure("memory_mib", last.map(|(mib, _)| mib))
                .figure("grown_mib", Self::grown(seen))
                .with("tasks", last.map(|(_, tasks)| tasks))
        };
        let times = |of: fn(&Seen) -> &Times| {
            let row = move |(n, seen): (usize, &Seen)| {
                named(n).figure("min_us", of(seen).min_us()).times(&of(seen).figures())
            };
            self.nodes.iter().enumerate().map(row).collect::<Vec<_>>()
        };
        let counts = self.nodes.iter().enumerate().map(counted).collect();
        [counts, times(|seen| &seen.processing), times(|seen| &seen.forwarding)]
    }

    fn goals(&self) -> Vec<Goal> {
        let worst = |of: &dyn Fn(&Seen) -> f64| self.nodes.iter().map(of).fold(0.0, f64::max);
        let command = format!("profile relay --nodes {} --hops {}", self.ring.nodes, self.ring.hops);
        let all_right = self.is_all_well();
        let goal = |what, most, measured| Goal {
            all_right,
            ..Goal::new(what, Bound::AtMost(most), measured, &command)
        };
        let processing = worst(&|seen| seen.processing.figures().mean);
        let forwarding = worst(&|seen| seen.forwarding.figures().p50);
        let [raw, call] = [&self.floor.raw, &self.floor.call].map(|floor| forwarding / floor.p50);
        let grown = worst(&|seen| Self::grown(seen).unwrap_or(f64::NAN));
        vec![
            goal("processing in a node, mean us, worst", PROCESSING_US_MAX, processing),
            goal("forwarding, p50, in floors of raw TCP, worst", FLOORS_MAX, raw),
            goal("forwarding, p50, in floors of an echo call, worst", FLOORS_MAX, call),
            goal("what was not as computed", 0.0, bytes(self.errors)),
            goal("memory of a node, grown MiB after a third of the run, worst", GROWN_MIB_MAX, grown),
        ]
    }

    pub(super) fn report(&self, deployment: &Deployment) -> Report {
        let Self { ring, probes, .. } = *self;
        let [counts, processing, forwarding] = self.rows();
        let times = "scenario times min_us mean_us p50_us p99_us max_us";
        let counted = "scenario received forwarded dropped circles errors memory_mib grown_mib tasks";
        let onward = "From each node to the next and back, with writing and reading the call:";
        let sections = vec![
            Section::new("Counted at each node, in the order of the way:", counted, counts),
            Section::new("In each node, without waiting for the next:", times, processing),
            Section::new(onward, times, forwarding),
            goals::section(&self.goals()),
        ];
        let dropped_at = ring.dropped_at() + 1;
        let last = usize::from(ring.hops) + 1;
        let foot = vec![
            format!(
                "Computed: node {dropped_at} is stop {last} and has no hops left. {} of {probes} probes ended there.",
                self.nodes[ring.dropped_at()].counted.out_of_hops
            ),
            "A relay that was measured elsewhere, over HTTP, for 1.25 h: 6 234 requests, 116 to 157 us in a node, \
             1 870 to 2 060 us to the next, another machine.".to_owned(),
        ];
        let per_s = bytes(probes) / self.wall.as_secs_f64();
        let report = Report {
            kind: Some("relay"),
            head: format!(
                "{probes} probes of {} hops round {} indexers, each a process of its own, {}, {:.1} s, {per_s:.0} a second; {}.\n{}",
                ring.hops,
                ring.nodes,
                security_name(deployment.security),
                self.wall.as_secs_f64(),
                machine::in_words(),
                self.floor.in_words()
            ),
            sections,
            foot,
            facts: self
                .floor
                .facts()
                .with("probes", probes)
                .with("errors", self.errors)
                .with("dropped_at", dropped_at)
                .figure("per_s", per_s)
                .with("fault", self.fault.clone())
                .with("faults", json!(self.faults)),
            ..Report::default()
        };
        let missing = "Interrupted: not all of it was measured.";
        let mut report = report.ended(deployment.watch.is_stopped(), missing, self.fault.as_ref());
        report.foot.extend(self.faults.iter().cloned());
        report
    }

    /// Of each node what it dropped, how long a probe took there and to the next, and its memory over time.
    pub(super) fn picture(&self) -> Picture {
        let line = |label: &str, figure: &dyn Fn(&Seen) -> f64| {
            let points = (1..).zip(&self.nodes).map(|(n, seen)| (f64::from(n), figure(seen)));
            (label.to_owned(), points.filter(|(_, figure)| figure.is_finite()).collect())
        };
        let times = |of: fn(&Seen) -> &Times| {
            let figure = |label, which: fn(&Figures) -> f64| line(label, &|seen| which(&of(seen).figures()));
            vec![figure("p50", |all| all.p50), figure("mean", |all| all.mean), figure("p99", |all| all.p99)]
        };
        let others = |counted: &ProbeCounts| counted.nowhere + counted.lost + counted.refused;
        let dropped = vec![
            line("no hops left", &|seen| bytes(seen.counted.out_of_hops)),
            line("no next node, lost or refused", &|seen| bytes(others(&seen.counted))),
        ];
        let nodes =
            self.nodes.iter().enumerate().map(|(n, seen)| (format!("node {}", n + 1), &seen.taken[..]));
        let memory: [Figure<_>; 1] = [("resident, MiB", |(taken, _): &(Taken, usize)| taken.memory_mib)];
        let mut charts = vec![
            numbers("probes dropped", dropped),
            by_node::times("time in the node", times(|seen| &seen.processing)),
            by_node::times("to the next node and back", times(|seen| &seen.forwarding)),
        ];
        charts.extend(over_minutes(nodes, |(taken, _)| taken.at_s, memory).charts);
        let title =
            format!("{} probes of {} hops round {} nodes", self.probes, self.ring.hops, self.ring.nodes);
        Picture {
            title,
            subtitle: "what each node dropped, how long it took, and its memory".to_owned(),
            charts,
        }
    }
}
