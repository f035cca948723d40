//! What one scenario amounts to: its figures, and its report.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::Measured;
use crate::report::figures::{Figures, rounded};
use crate::report::{
    Report, Row, Section, Table, count, key, machine, mib, option_name, reference, security_name,
};

/// By how much the floor may move during a run before that is said.
const FLOORS_APART: f64 = 1.3;

/// What is shown of each scenario in a table of several.
pub(crate) const COLUMNS: &str = "scenario mean_us p50_us p90_us p99_us max_us queries_per_s messages_per_query floor_us \
    ratio_to_floor forerunner_published_us forerunner_rebuilt_us hits_wrong errors";

impl Measured {
    /// Answers that were not what they must be.
    pub(crate) fn hits_wrong(&self) -> usize {
        self.samples.wrong().values().sum()
    }

    pub(crate) fn errors(&self) -> usize {
        self.samples.failures().values().sum()
    }

    /// Every answer was right, none failed, and the run was not ended early.
    pub(crate) fn is_all_well(&self) -> bool {
        self.hits_wrong() == 0 && self.errors() == 0 && !self.samples.interrupted
    }

    pub(crate) fn queries_per_s(&self) -> f64 {
        count(self.samples.answered()) / self.samples.wall.as_secs_f64()
    }

    /// The median answer beside the raw TCP round trip of the same run.
    pub(crate) fn ratio_to_floor(&self) -> f64 {
        self.figures.p50 / self.floor().p50
    }

    fn messages_per_query(&self) -> f64 {
        crate::report::bytes(self.samples.messages()) / count(self.samples.answered())
    }

    /// Where and how it was run, in a few words.
    pub(crate) fn setting(&self) -> String {
        let (topology, layout) = (option_name(&self.scenario.load.topology), self.layout.name());
        let (security, routing) = (security_name(self.security), option_name(&self.routing));
        let pace = match self.scenario.load.rate {
            None => "closed loop".to_owned(),
            Some(rate) => format!("open loop at {rate} queries/s"),
        };
        let seed = self.scenario.load.seed;
        format!("{topology}, {security}, by {routing}, layout {layout}, {pace}, seed {seed}")
    }

    pub(crate) fn report(&self) -> Report {
        let mut rows = vec![
            Row::named("response time").times(&self.figures),
            Row::named("warm-up apart").times(&self.warm_up),
            Row::named("floor: raw TCP").times(self.floor()),
            Row::named("floor: echo call").times(self.floor_call()),
        ];
        if self.scenario.load.rate.is_some() {
            rows.insert(1, Row::named("of it sent late").times(&self.samples.lateness()));
        }
        let columns = "scenario times mean_us p50_us p90_us p99_us p999_us max_us".split(' ');
        let idle = |row| Section::new("Idle before:", "idle_links idle_percent idle_us", vec![row]);
        let alone = Section::of(Table::of(&rows, columns), vec![self.row()]);
        let (name, interrupted) = (self.scenario.name(), self.samples.interrupted);
        Report {
            head: format!("{name} (indexers/clients/ttl), {}, {}", self.setting(), machine::in_words()),
            sections: [alone].into_iter().chain(self.idle.clone().map(idle)).collect(),
            foot: self.summary(),
            interrupted,
            ..Report::default()
        }
    }

    fn summary(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let [before, after] = self.floors.each_ref().map(|floor| floor.raw.p50);
        if !(1.0 / FLOORS_APART..FLOORS_APART).contains(&(after / before)) {
            let moved = format!("the floor moved from {before:.1} to {after:.1} us meanwhile");
            lines.push(moved + ": do not trust the ratios");
        }
        let ratio = self.figures.p50 / self.floor_call().p50;
        lines.push(format!("p50 is {:.2} x the raw floor, {ratio:.2} x an echo call", self.ratio_to_floor()));
        let (per_s, messages) = (self.queries_per_s(), self.messages_per_query());
        let resident = mib(self.rss_bytes);
        lines.push(format!(
            "{per_s:.0} queries/s, {messages:.2} messages per query, {resident:.1} MiB resident"
        ));
        let (answered, hits) = (self.samples.answered(), self.samples.hits());
        let (wrong, errors) = (self.hits_wrong(), self.errors());
        let found = format!("{answered} answers, {hits} of names to be found");
        lines.push(format!("{found}, {wrong} wrong, {errors} without an answer"));
        let kinds = by_kind(&self.samples.wrong()).into_iter().chain(by_kind(&self.samples.failures()));
        lines.extend(kinds.map(|(kind, count)| format!("  {count} {}", kind.replace('_', " "))));
        if self.samples.interrupted {
            lines.push(format!("interrupted: {} requests were meant", self.scenario.requests_of_all()));
        }
        lines
    }

    pub(crate) fn row(&self) -> Row {
        let (scenario, samples) = (&self.scenario, &self.samples);
        let percentiles = self.figures.percentiles.iter().map(|(p, us)| json!([p, rounded(*us)]));
        let reference = reference::of(&scenario.name());
        let mut row = Row::of(json!({
            "scenario": scenario.name(),
            "indexers": scenario.indexers,
            "clients": scenario.clients,
            "ttl": scenario.ttl_hops,
            "topology": option_name(&scenario.load.topology),
            "security": security_name(self.security),
            "layout": self.layout.name(),
            "routing": option_name(&self.routing),
            "rate": scenario.load.rate,
            "miss": scenario.load.miss,
            "files": scenario.load.files,
            "holders": scenario.holders,
            "degree": scenario.load.degree,
            "warm_up": samples.warm_up.len(),
            "seed": scenario.load.seed,
            "requests": samples.measured.len(),
            "answers": samples.answered(),
            "hits": samples.hits(),
            "interrupted": samples.interrupted,
            "hits_wrong": self.hits_wrong(),
            "wrong_by_kind": by_kind(&samples.wrong()),
            "errors": self.errors(),
            "errors_by_kind": by_kind(&samples.failures()),
            "floors_us": self.floors.each_ref().map(|floor| rounded(floor.raw.p50)),
            "percentiles_us": percentiles.collect::<Vec<_>>(),
            "forerunner_published_us": reference.and_then(|of| of.published_us),
            "forerunner_rebuilt_us": reference.map(|of| match of.rebuilt_us {
                us if us.is_finite() => json!(us),
                _ => json!("does not finish"),
            }),
        }));
        if scenario.load.rate.is_some() {
            let Figures { p50, p99, .. } = samples.lateness();
            row = row.figure("late_p50_us", p50).figure("late_p99_us", p99);
        }
        row.figure("queries_per_s", self.queries_per_s())
            .figure("messages_per_query", self.messages_per_query())
            .figure("floor_us", self.floor().p50)
            .figure("floor_call_us", self.floor_call().p50)
            .figure("ratio_to_floor", self.ratio_to_floor())
            .figure("rss_mib", mib(self.rss_bytes))
            .figure("warm_up_mean_us", self.warm_up.mean)
            .figure("warm_up_max_us", self.warm_up.max)
            .times(&self.figures)
    }
}

fn by_kind<K: Serialize>(counts: &BTreeMap<K, usize>) -> Map<String, Value> {
    counts.iter().map(|(kind, count)| (key(kind), json!(count))).collect()
}
