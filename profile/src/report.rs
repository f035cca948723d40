//! What one scenario amounts to: for people, for machines, and as a row of a table.

pub mod figures;
pub mod machine;
pub mod outputs;
pub mod reference;

use std::fmt::Write;

use nekoproto::transport::Security;
use serde_json::{Map, Value, json};

use self::{
    figures::{Figures, rounded},
    reference::Rebuilt,
};
use crate::{cluster::node::routing_name, measure::Measured, run::samples::key};

impl Measured {
    /// Answers that were not what they must be.
    #[must_use]
    pub fn hits_wrong(&self) -> usize {
        self.samples.wrong().values().sum()
    }

    /// Requests without an answer.
    #[must_use]
    pub fn errors(&self) -> usize {
        self.samples.failures().values().sum()
    }

    /// Every answer was right, none failed, and the run was not ended early.
    #[must_use]
    pub fn is_all_well(&self) -> bool {
        self.hits_wrong() == 0 && self.errors() == 0 && !self.samples.interrupted
    }

    /// Answers a second.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a rate is shown with a few digits")]
    pub fn queries_per_s(&self) -> f64 {
        self.samples.answered() as f64 / self.samples.wall.as_secs_f64()
    }

    /// Query messages between indexers for each answer.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a mean is shown with a few digits")]
    pub fn messages_per_query(&self) -> f64 {
        self.samples.messages() as f64 / self.samples.answered() as f64
    }

    /// The median answer beside the raw TCP round trip of the same run.
    #[must_use]
    pub fn ratio_to_floor(&self) -> f64 {
        self.figures.p50 / self.floor().p50
    }

    /// Where and how it was run, in a few words.
    #[must_use]
    pub fn setting(&self) -> String {
        let scenario = &self.scenario;
        let security = security_name(self.security);
        let loop_ = match scenario.rate {
            None => "closed loop".to_owned(),
            Some(rate) => format!("open loop at {rate} queries/s"),
        };
        let topology = scenario.topology.name();
        let (layout, routing) = (self.layout.name(), routing_name(self.routing));
        format!("{topology}, {security}, by {routing}, layout {layout}, {loop_}, seed {}", scenario.seed)
    }

    /// For people, several lines.
    #[must_use]
    pub fn table(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = self.write_table(&mut text);
        text
    }

    fn write_table(&self, out: &mut String) -> std::fmt::Result {
        let name = self.scenario.name();
        writeln!(out, "{name} (indexers/clients/ttl), {}, {}", self.setting(), machine::in_words())?;
        let heads = ["mean", "p50", "p90", "p99", "p99.9", "max"].map(|head| format!("{head:>10}"));
        writeln!(out, "{:<26}{}", "", heads.concat())?;
        let mut row = |label: &str, figures: &Figures| {
            let Figures { mean, p50, p90, p99, p999, max, .. } = *figures;
            let cells = [mean, p50, p90, p99, p999, max].map(|time| format!("{time:>10.1}"));
            writeln!(out, "{label:<26}{}", cells.concat())
        };
        row("response time, us", &self.figures)?;
        if self.scenario.rate.is_some() {
            row("  of it, sent late, us", &self.samples.lateness())?;
        }
        row("warm-up apart, us", &self.warm_up)?;
        row("floor: raw TCP, us", self.floor())?;
        row("floor: echo call, us", self.floor_call())?;
        let [before, after] = &self.floors;
        if !(1.0 / FLOORS_APART..FLOORS_APART).contains(&(after.raw.p50 / before.raw.p50)) {
            let (before, after) = (before.raw.p50, after.raw.p50);
            writeln!(
                out,
                "the floor moved from {before:.1} to {after:.1} us meanwhile: do not trust the ratios"
            )?;
        }
        let ratio = self.figures.p50 / self.floor_call().p50;
        writeln!(out, "p50 is {:.2} x the raw floor, {ratio:.2} x an echo call", self.ratio_to_floor())?;
        let (per_s, messages) = (self.queries_per_s(), self.messages_per_query());
        writeln!(
            out,
            "{per_s:.0} queries/s, {messages:.2} messages per query, {:.1} MiB resident",
            mib(self.rss_bytes)
        )?;
        let (answered, hits) = (self.samples.answered(), self.samples.hits());
        let (wrong, errors) = (self.hits_wrong(), self.errors());
        write!(
            out,
            "{answered} answers, {hits} of names to be found, {wrong} wrong, {errors} without an answer"
        )?;
        for (kind, count) in self.kinds() {
            write!(out, "\n  {count} {}", kind.replace('_', " "))?;
        }
        if self.samples.interrupted {
            write!(out, "\ninterrupted: {} requests were meant", self.scenario.requests_of_all())?;
        }
        Ok(())
    }

    /// All that went wrong, by kind.
    fn kinds(&self) -> Vec<(String, usize)> {
        let wrong = self.samples.wrong();
        let wrong = wrong.iter().map(|(verdict, count)| (key(verdict), *count));
        let failures = self.samples.failures();
        wrong.chain(failures.iter().map(|(failure, count)| (key(failure), *count))).collect()
    }

    /// For machines: one flat object, and where it was measured.
    #[must_use]
    pub fn json(&self) -> Value {
        let mut object = self.row_json();
        object.insert("machine".to_owned(), machine::describe());
        object.insert("commit".to_owned(), json!(machine::COMMIT));
        Value::Object(object)
    }

    /// The same without the machine: a row of a matrix.
    #[must_use]
    pub fn row_json(&self) -> Map<String, Value> {
        let (scenario, samples) = (&self.scenario, &self.samples);
        let Value::Object(mut object) = json!({
            "scenario": scenario.name(),
            "indexers": scenario.indexers,
            "clients": scenario.clients,
            "ttl": scenario.ttl_hops,
            "topology": scenario.topology.name(),
            "security": security_name(self.security),
            "layout": self.layout.name(),
            "routing": routing_name(self.routing),
            "rate": scenario.rate,
            "miss": scenario.miss,
            "files": scenario.files,
            "holders": scenario.holders,
            "degree": scenario.degree,
            "warm_up": samples.warm_up.len(),
            "seed": scenario.seed,
            "requests": samples.measured.len(),
            "answers": samples.answered(),
            "hits": samples.hits(),
            "interrupted": samples.interrupted,
            "hits_wrong": self.hits_wrong(),
            "wrong_by_kind": by_kind(samples.wrong().iter()),
            "errors": self.errors(),
            "errors_by_kind": by_kind(samples.failures().iter()),
            "queries_per_s": rounded(self.queries_per_s()),
            "messages_per_query": rounded(self.messages_per_query()),
            "floor_us": rounded(self.floor().p50),
            "floors_us": self.floors.each_ref().map(|floor| rounded(floor.raw.p50)),
            "floor_call_us": rounded(self.floor_call().p50),
            "ratio_to_floor": rounded(self.ratio_to_floor()),
            "rss_mib": rounded(mib(self.rss_bytes)),
            "percentiles_us": self.figures.percentiles.iter().map(|(p, us)| json!([p, rounded(*us)])).collect::<Vec<_>>(),
        }) else {
            return Map::new(); // the literal above is an object
        };
        self.figures.write_into(&mut object);
        object.insert("warm_up_mean_us".to_owned(), json!(rounded(self.warm_up.mean)));
        object.insert("warm_up_max_us".to_owned(), json!(rounded(self.warm_up.max)));
        if scenario.rate.is_some() {
            let late = samples.lateness();
            object.insert("late_p50_us".to_owned(), json!(rounded(late.p50)));
            object.insert("late_p99_us".to_owned(), json!(rounded(late.p99)));
        }
        object
    }

    /// A row of the matrix in Markdown; see [`MARKDOWN_HEAD`].
    #[must_use]
    pub fn markdown_row(&self) -> String {
        let Figures { mean, p50, p90, p99, max, .. } = self.figures;
        let reference = reference::of(&self.scenario.name());
        let published =
            reference.and_then(|of| of.published_us).map_or("-".to_owned(), |us| format!("{us:.0}"));
        let rebuilt = match reference.and_then(|of| of.rebuilt) {
            None => "-".to_owned(),
            Some(Rebuilt::Mean(us)) => format!("{us:.0}"),
            Some(Rebuilt::DoesNotFinish) => "does not finish".to_owned(),
        };
        format!(
            "| {} | {mean:.0} | {p50:.0} | {p90:.0} | {p99:.0} | {max:.0} | {:.0} | {:.2} | {:.1} | {:.1} | {published} | {rebuilt} | {} | {} |",
            self.scenario.name(),
            self.queries_per_s(),
            self.messages_per_query(),
            self.floor().p50,
            self.ratio_to_floor(),
            self.hits_wrong(),
            self.errors(),
        )
    }
}

/// By how much the floor may move during a run before that is said.
const FLOORS_APART: f64 = 1.3;

/// The head of the matrix in Markdown.
pub const MARKDOWN_HEAD: &str = "\
| indexers/clients/ttl | mean us | p50 | p90 | p99 | max | queries/s | messages/query | floor us | p50 / floor | forerunner, published mean us | forerunner, rebuilt mean us | wrong | errors |
|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|";

fn by_kind<'a, K: serde::Serialize + 'a>(counts: impl Iterator<Item = (&'a K, &'a usize)>) -> Value {
    Value::Object(counts.map(|(kind, count)| (key(kind), json!(count))).collect())
}

/// The name of a security in results.
#[must_use]
pub const fn security_name(security: Security) -> &'static str {
    match security {
        Security::Tls => "tls",
        Security::Insecure => "insecure",
    }
}

#[expect(clippy::cast_precision_loss, reason = "shown with a few digits")]
fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
