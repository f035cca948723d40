//! What came of the messages, as tables: a row for each rate and log, and for each node.

use nekoindexer::ProbeCounts;

use super::{INFO, OFF, Piped, Pipeline, Ran, news::Announced, shown, stand::HOPS};
use crate::report::{figures::Times, goals};
use crate::scenarios::prelude::*;

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
    pub(super) fn unaccounted(&self, options: &Pipeline) -> u64 {
        let offered = &self.offered;
        let messages = offered.sent.abs_diff(offered.arrived + offered.lost());
        let calls = offered.arrived / options.in_a_call as u64;
        let ended = self.counted.last().map_or(0, |last| last.out_of_hops);
        // A call that was lost on its way back had come to the end.
        let counts =
            calls.saturating_sub(ended) + if offered.lost() == 0 { ended.saturating_sub(calls) } else { 0 };
        messages + counts * options.in_a_call as u64
    }

    fn row(&self, options: &Pipeline) -> Row {
        let (offered, per_s) = (&self.offered, self.per_s());
        let (took, held, cpu_s) =
            (offered.took.figures(), offered.held_back.figures(), self.cpu_s.iter().sum::<f64>());
        Row::of(json!({
            "scenario": self.label(), "rate": self.rate, "log": self.log, "per_s": per_s,
            "mbytes_per_s": per_s * count(options.bytes) / 1e6, "sent": offered.sent, "arrived": offered.arrived,
            "again": offered.again, "lost": offered.lost(), "lost_by_reason": offered.lost,
            "unaccounted": self.unaccounted(options), "held_back_ms": held.p50 / 1e3, "took_p50_ms": took.p50 / 1e3,
            "took_p99_ms": took.p99 / 1e3, "cpu_percent": cpu_s / offered.wall.as_secs_f64() * 100.0,
        }))
    }

    fn hops(&self, options: &Pipeline) -> Vec<Row> {
        let wall_s = self.offered.wall.as_secs_f64();
        let rate = |calls: u64| bytes(calls) * count(options.in_a_call) / wall_s;
        let hop = |((n, counted), (times, cpu_s)): ((usize, &ProbeCounts), (&[Times; 2], &f64))| {
            let [own, link] = times.each_ref().map(Times::figures);
            let out = rate(if n + 1 < HOPS { counted.forwarded } else { counted.out_of_hops });
            let messages = |calls: u64| calls * options.in_a_call as u64;
            Row::of(json!({
                "scenario": format!("node {}, {}", n + 1, self.label()), "in_per_s": rate(counted.received),
                "out_per_s": out, "mbytes_per_s": out * count(options.bytes) / 1e6,
                "refused": messages(counted.refused), "lost": messages(counted.lost + counted.nowhere),
                "own_p50_us": own.p50, "own_p99_us": own.p99, "link_p50_us": link.p50, "link_p99_us": link.p99,
                "cpu_percent": cpu_s / wall_s * 100.0,
            }))
        };
        let taken = self.offered.nodes.iter().zip(&self.cpu_s);
        self.counted.iter().enumerate().zip(taken).map(hop).collect()
    }
}

impl Announced {
    fn row(self) -> Row {
        Row::of(json!({
            "scenario": "versions announced at the first, told at the last", "sent": self.acknowledged,
            "arrived": self.told, "lost": self.acknowledged.saturating_sub(self.told),
            "per_s": bytes(self.told) / self.wall.as_secs_f64(),
        }))
    }
}

impl Piped {
    /// By how many percent fewer messages went down the line with this log than without, as medians.
    fn slower(&self, log: &str, options: &Pipeline) -> f64 {
        let in_turn = &self.ran[options.rates.len().min(self.ran.len())..];
        let usual = |log: &str| median(in_turn.iter().filter(|ran| ran.log == log).map(Ran::per_s));
        100.0 - usual(log) / usual(OFF) * 100.0
    }

    fn goals(&self, options: &Pipeline) -> Vec<Goal> {
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

    fn foot(&self, options: &Pipeline) -> Vec<String> {
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

    pub(super) fn report(&self, options: &Pipeline, deployment: &Deployment) -> Report {
        let columns = "scenario per_s mbytes_per_s sent arrived again lost unaccounted held_back_ms took_p50_ms \
                       took_p99_ms cpu_percent";
        let hops = "scenario in_per_s out_per_s mbytes_per_s refused lost own_p50_us own_p99_us link_p50_us link_p99_us \
                    cpu_percent";
        let rows: Vec<Row> = self.ran.iter().map(|ran| ran.row(options)).collect();
        let picture = picture(&rows);
        let rows = rows.into_iter().chain(self.announced.map(Announced::row)).collect();
        // In turn they say the same again.
        let once = self.ran.iter().take(options.rates.len() + 1 + options.logs.len());
        let of_hops = once.flat_map(|ran| ran.hops(options)).collect();
        let place = match &self.network {
            Ok(_) => "networks of their own, joined by pairs of virtual Ethernet devices".to_owned(),
            Err(why) => format!("loopback ({why})"),
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
            facts: Row::of(json!({ "loopback": self.network.as_ref().err(), "fault": self.fault })),
            is_broken: !self.is_all_well(options),
            pictures: vec![("pipeline".to_owned(), picture)],
            ..Report::default()
        }
        .ended(deployment.watch.is_stopped(), "Interrupted: rows are missing.", self.fault.as_ref())
    }
}

/// Messages a second through all hops by how many are offered, where that is said; medians.
fn picture(rows: &[Row]) -> Picture {
    let limited = || rows.iter().filter(|row| row.get("rate") > 0.0);
    let mut rates =
        of_rows(limited(), "rate", "per_s", |row| format!("through all hops, log {}", row.text("log")));
    rates.extend(of_rows(limited(), "rate", "rate", |_| "offered".to_owned()));
    Picture {
        title: "Messages down a line of three indexers".to_owned(),
        subtitle: machine::in_words(),
        charts: vec![lines(Axis::log("offered a second"), Axis::log("messages a second"), rates)],
    }
}
