//! What came of the messages, as tables: a row for each rate and log, and for each node.

use std::collections::BTreeSet;

use nekoindexer::ProbeCounts;
use serde_json::json;

use super::news::Announced;
use super::stand::HOPS;
use super::{INFO, OFF, Options, Piped, Ran, shown};
use crate::cluster::deployment::Deployment;
use crate::goals::{self, Bound, Goal};
use crate::plot::{Picture, Points, curves::rates};
use crate::report::figures::Times;
use crate::report::{Report, Row, Section, bytes, count, machine, median};

/// Goals: messages a second through all hops, and what logging at info may cost, in percent.
const PER_S_MIN: f64 = 307_000.0;
const INFO_PERCENT_MAX: f64 = 3.0;

impl Ran {
    fn label(&self) -> String {
        format!("{}, log {}", shown(self.rate), self.log)
    }

    fn per_s(&self) -> f64 {
        bytes(self.offered.arrived) / self.offered.wall.as_secs_f64()
    }

    /// Messages that are neither known to have arrived nor counted as lost, and calls that nodes count otherwise than
    /// the sender.
    pub(super) fn unaccounted(&self, options: &Options) -> u64 {
        let offered = &self.offered;
        let messages = offered.sent.abs_diff(offered.arrived + offered.lost());
        let calls = offered.arrived / options.in_a_call as u64;
        let ended = self.counted.last().map_or(0, |last| last.out_of_hops);
        // A call that was lost on its way back had come to the end.
        let counts =
            calls.saturating_sub(ended) + if offered.lost() == 0 { ended.saturating_sub(calls) } else { 0 };
        messages + counts * options.in_a_call as u64
    }

    fn row(&self, options: &Options) -> Row {
        let offered = &self.offered;
        let cpu: f64 = self.cpu_s.iter().sum();
        let (took, held) = (offered.took.figures(), offered.held_back.figures());
        Row::named(self.label())
            .with("rate", self.rate)
            .with("log", self.log.clone())
            .figure("per_s", self.per_s())
            .figure("mbytes_per_s", self.per_s() * count(options.bytes) / 1e6)
            .with("sent", offered.sent)
            .with("arrived", offered.arrived)
            .with("again", offered.again)
            .with("lost", offered.lost())
            .with("lost_by_reason", json!(offered.lost))
            .with("unaccounted", self.unaccounted(options))
            .figure("held_back_ms", held.p50 / 1e3)
            .figure("took_p50_ms", took.p50 / 1e3)
            .figure("took_p99_ms", took.p99 / 1e3)
            .figure("cpu_percent", cpu / offered.wall.as_secs_f64() * 100.0)
    }

    fn hops(&self, options: &Options) -> Vec<Row> {
        let wall = self.offered.wall.as_secs_f64();
        let rate = |calls: u64| bytes(calls) * count(options.in_a_call) / wall;
        let hop = |((n, counted), (times, cpu_s)): ((usize, &ProbeCounts), (&[_; 2], &f64))| {
            let [own, link]: &[Times; 2] = times;
            let (own, link) = (own.figures(), link.figures());
            let out = if n + 1 < HOPS { counted.forwarded } else { counted.out_of_hops };
            Row::named(format!("node {}, {}", n + 1, self.label()))
                .figure("in_per_s", rate(counted.received))
                .figure("out_per_s", rate(out))
                .figure("mbytes_per_s", rate(out) * count(options.bytes) / 1e6)
                .with("refused", counted.refused * options.in_a_call as u64)
                .with("lost", (counted.lost + counted.nowhere) * options.in_a_call as u64)
                .figure("own_p50_us", own.p50)
                .figure("own_p99_us", own.p99)
                .figure("link_p50_us", link.p50)
                .figure("link_p99_us", link.p99)
                .figure("cpu_percent", cpu_s / wall * 100.0)
        };
        let taken = self.offered.nodes.iter().zip(&self.cpu_s);
        self.counted.iter().enumerate().zip(taken).map(hop).collect()
    }
}

impl Announced {
    fn row(self) -> Row {
        let row = Row::named("versions announced at the first, told at the last");
        row.with("sent", self.acknowledged)
            .with("arrived", self.told)
            .with("lost", self.acknowledged.saturating_sub(self.told))
            .figure("per_s", bytes(self.told) / self.wall.as_secs_f64())
    }
}

impl Piped {
    /// By how many percent fewer messages went down the line with this log than without, as medians.
    fn slower(&self, log: &str, options: &Options) -> f64 {
        let in_turn = &self.ran[options.rates.len().min(self.ran.len())..];
        let usual = |log: &str| median(in_turn.iter().filter(|ran| ran.log == log).map(Ran::per_s));
        100.0 - usual(log) / usual(OFF) * 100.0
    }

    fn goals(&self, options: &Options) -> Vec<Goal> {
        let goal = |what, bound, measured| Goal::new(what, bound, measured, "profile pipeline");
        let best = self.ran.iter().filter(|ran| ran.log == OFF).map(Ran::per_s).fold(f64::NAN, f64::max);
        let lost = self.ran.iter().map(|ran| ran.offered.lost() + ran.unaccounted(options)).sum();
        let info = self.slower(INFO, options);
        vec![
            goal("messages lost or unaccounted for", Bound::Exactly(0.0), bytes(lost)),
            goal("messages a second over all three hops, log off", Bound::AtLeast(PER_S_MIN), best),
            goal("slower with log info, %, medians", Bound::AtMost(INFO_PERCENT_MAX), info),
        ]
    }

    fn foot(&self, options: &Options) -> Vec<String> {
        let mut foot = vec![
            "Held back: from when messages were due until they were sent. Refused for want of room and sent again is not lost.".to_owned(),
            "A relay that was measured elsewhere, multicast over veth, a core for each node: 490 000 messages a second in, \
             307 000 out; 123 000 and 83 000 with a line of log for each; 32 to 37 % lost.".to_owned(),
        ];
        let others = options.logs.iter().filter(|log| *log != INFO);
        let slower =
            others.map(|log| (log, self.slower(log, options))).filter(|(_, slower)| slower.is_finite());
        foot.extend(slower.map(|(log, slower)| format!("Slower with log {log}: {slower:.1} %, medians.")));
        for ran in &self.ran {
            let lost = ran.offered.lost.iter();
            foot.extend(lost.map(|(why, lost)| format!("{}: {lost} lost: {why}.", ran.label())));
        }
        foot
    }

    pub(super) fn report(&self, options: &Options, deployment: &Deployment) -> Report {
        let columns = "scenario per_s mbytes_per_s sent arrived again lost unaccounted held_back_ms took_p50_ms \
                       took_p99_ms cpu_percent";
        let hops = "scenario in_per_s out_per_s mbytes_per_s refused lost own_p50_us own_p99_us link_p50_us link_p99_us \
                    cpu_percent";
        let rows = self.ran.iter().map(|ran| ran.row(options));
        let rows = rows.chain(self.announced.map(Announced::row)).collect();
        // In turn they say the same again.
        let once = self.ran.iter().take(options.rates.len() + 1 + options.logs.len());
        let of_hops = once.flat_map(|ran| ran.hops(options)).collect();
        let place = match &self.loopback {
            None => "networks of their own, joined by pairs of virtual Ethernet devices".to_owned(),
            Some(why) => format!("loopback ({why})"),
        };
        Report {
            kind: Some("pipeline"),
            head: format!(
                "{} messages of {} bytes, {} in a call, {} calls under way, through {HOPS} indexers in a line, each a process of its own, \
                 on {place}; {}.",
                options.messages,
                options.bytes,
                options.in_a_call,
                options.in_flight,
                deployment.in_words()
            ),
            sections: vec![
                Section::new("By what was offered:", columns, rows),
                Section::new("At each node:", hops, of_hops),
                goals::section(&self.goals(options)),
            ],
            foot: self.foot(options),
            facts: Row::default().with("loopback", self.loopback.clone()).with("fault", self.fault.clone()),
            ..Report::default()
        }
        .ended(deployment.watch.is_stopped(), "Interrupted: rows are missing.", self.fault.as_ref())
    }

    /// Messages a second through all hops by how many are offered, where that is said.
    pub(super) fn picture(&self) -> Picture {
        let at = |log: &str| -> Points {
            let of_log = || self.ran.iter().filter(|ran| ran.log == log && ran.rate > 0);
            let rates: BTreeSet<u64> = of_log().map(|ran| ran.rate).collect();
            let usual = |rate| median(of_log().filter(|ran| ran.rate == rate).map(Ran::per_s));
            rates.into_iter().map(|rate| (bytes(rate), usual(rate))).collect()
        };
        let logs: BTreeSet<&str> = self.ran.iter().map(|ran| ran.log.as_str()).collect();
        let offered = at(OFF).into_iter().map(|(rate, _)| (rate, rate)).collect();
        let through = logs.into_iter().map(|log| (format!("through all hops, log {log}"), at(log)));
        let lines = through.chain([("offered".to_owned(), offered)]).collect();
        let (title, along) = ("Messages down a line of three indexers", "offered a second (logarithmic)");
        rates(title, machine::in_words(), along, "messages a second (logarithmic)", lines)
    }
}
