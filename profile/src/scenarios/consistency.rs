//! How coherent copies are: nodes with their own decisions in virtual time, on links that delay, lose and are cut.
//!
//! The decisions are those of the nodes: `nekopeer::simulate` and `nekoindexer::state`. Simplified are
//! - calls: a lost message or answer is not sent again by the link, the call times out;
//! - connections: they are there as long as the peer is, and indexers do not notice that a link is cut;
//! - downloads: one exchange with the origin, without chunks and other holders;
//! - queries: the indexers in reach are looked at in the moment of the query.

pub mod cells;
pub mod log;
pub mod world;

use self::{cells::Cell, cells::DELAY, cells::theory, log::Coherence, log::judge, world::run};
use crate::scenarios::prelude::*;

/// Which tables, and how often.
#[derive(Clone, Debug, Args)]
pub(crate) struct Consistency {
    /// Tables [default: all]
    #[arg(long, value_name = "TABLE", value_delimiter = ',')]
    table: Vec<Which>,
    /// Simulations of each line [default: 20; of c4 and c5 1000]
    #[arg(long, value_parser = clap::value_parser!(u64).range(2..=1_000_000))]
    seeds: Option<u64>,
    /// Show goals beside what was measured
    #[arg(long)]
    goals: bool,
}

struct Table {
    which: Which,
    seeds: u64,
    lines: Vec<Line>,
}

impl Scenario for Consistency {
    type How = ();
    type Target = Drawn;
    const IS_TIMED: bool = false;

    /// Simulates the tables one after the other. A promise that is broken is a result.
    async fn run(&self, _on: &Deployment) -> Result<Report, Fault> {
        let tables = if self.table.is_empty() { Which::value_variants() } else { &self.table };
        let table = |which: &Which| {
            let seeds = self.seeds.unwrap_or(which.parts().0);
            note(&format!("table {}", option_name(which)));
            let lines = which.cells().into_iter().map(|cell| which.measure(cell, 1..=seeds));
            Ok(Table { which: *which, seeds, lines: lines.collect::<Result<_>>()? })
        };
        let tables = tables.iter().map(table).collect::<Result<Vec<_>, Fault>>()?;
        let asked = tables.iter().filter(|_| self.goals);
        let goals = asked.flat_map(|table| table.which.goals(&table.lines, table.seeds));
        let goals = goals::section(&goals.collect::<Vec<_>>());
        Ok(Report {
            kind: Some("consistency"),
            head: "Coherence of copies, simulated in virtual time with the nodes' own decisions. Means of the seeds ± half of \
                   the 95 % interval; of maxima the largest."
                .to_owned(),
            sections: [goals].into_iter().chain(tables.iter().map(Table::section)).collect(),
            pictures: tables.iter().filter_map(Table::picture).collect(),
            ..Report::default()
        })
    }
}

impl Table {
    fn section(&self) -> Section {
        let (name, columns) = (option_name(&self.which), self.which.parts().1);
        let rows = || self.lines.iter().map(|line| line.row.clone());
        let shown = rows().map(|row| columns.split(' ').fold(row, with_interval)).collect();
        let title = format!("{}, {} seeds:", name.to_uppercase(), self.seeds);
        let rows = rows().map(|row| row.with("table", name.clone())).collect();
        Section { rows, ..Section::new(title, columns, shown) }
    }

    /// What there is to see of it; `None` if the table says it all.
    fn picture(&self) -> Option<Picture> {
        let curves = |x, y, label: &dyn Fn(&Row) -> String| {
            of_rows(self.lines.iter().map(|line| &line.row), x, y, label)
        };
        let updates = |row: &Row| format!("an update each {} s", row.get("update_s"));
        let ages = |of: &str, at: &[(&str, Value)]| {
            let is_shown = |line: &&Line| at.iter().all(|(key, value)| line.row.0.get(*key) == Some(value));
            let ages: Vec<f64> =
                self.lines.iter().filter(is_shown).flat_map(|line| &line.stale_s).copied().collect();
            histogram(&format!("{of}: age of the version that was read, s"), "reads", &ages, Vec::new())
        };
        let (title, charts) = match self.which {
            Which::C2 => ("Pull: reads of a version that was replaced", {
                let mut reads = curves("ttr_s", "stale_percent", &updates);
                reads.extend(curves("ttr_s", "theory_percent", &|row| updates(row) + ", 1-(1-e^-x)/x"));
                vec![lines("TTR, s", "stale reads, %", reads), ages("all TTRs", &[])]
            }),
            Which::C3 => ("Stale reads served as fresh, 5 % loss, sessions of 30 min", {
                let at =
                    |mode| [("mode", json!(mode)), ("loss_percent", json!(5)), ("session_min", json!(30))];
                ["push", "pull", "hybrid"].map(|mode| ages(mode, &at(mode))).into()
            }),
            Which::C4 => ("Stale reads served as fresh, links cut for 300 s", {
                [5, 10, 30]
                    .map(|lease| ages(&format!("lease {lease} s"), &[("lease_s", json!(lease))]))
                    .into()
            }),
            Which::C6 => ("Messages for an update", {
                let indexers = |row: &Row| format!("{} indexers", row.get("indexers"));
                vec![lines("replicas", "messages", curves("readers", "messages_per_update", &indexers))]
            }),
            Which::C1 | Which::C5 => return None,
        };
        let name = format!("consistency-{}", option_name(&self.which));
        Some(Picture::new(name, title, "simulated in virtual time, all seeds", charts))
    }
}

/// The figure under `key` together with half of its interval, for people.
fn with_interval(row: Row, key: &str) -> Row {
    let (mean, half) = (row.get(key), row.get(&format!("{key}_ci")));
    if !half.is_finite() {
        return row;
    }
    let decimals = if mean.abs() >= 1000.0 { 0 } else { 3 - usize::from(mean.abs() >= 10.0) };
    row.with(key, format!("{mean:.decimals$} ± {half:.decimals$}"))
}

/// How long before the end of the TTR the shipped code asks at most.
const ASKED_EARLY_S: f64 = 1.0;

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

pub struct Line {
    pub row: Row,
    /// Ages of stale reads, of all seeds, in seconds.
    pub stale_s: Vec<f64>,
}

impl Which {
    fn parts(self) -> Parts {
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
            Self::C1 => (20, c1, cells::c1, c1_aims),
            Self::C2 => (20, c2, cells::c2, c2_aims),
            Self::C3 => (20, c3, cells::c3, c3_aims),
            Self::C4 => (1000, c4, cells::c4, c4_aims),
            Self::C5 => (1000, c5, cells::c5, c5_aims),
            Self::C6 => (20, c6, cells::c6, c6_aims),
        }
    }

    pub fn cells(self) -> Vec<Cell> {
        self.parts().2()
    }

    fn goals(self, lines: &[Line], seeds: u64) -> Vec<Goal> {
        let rows: Vec<Row> = lines.iter().map(|line| line.row.clone()).collect();
        let name = option_name(&self);
        let command = format!("profile consistency --table {name} --seeds {seeds}");
        let goal = |(what, bound, is)| Goal::new(format!("{name}: {what}"), bound, is, &command);
        self.parts().3(&rows).into_iter().map(goal).collect()
    }

    /// Simulates one line with each of `seeds`.
    pub fn measure(self, cell: Cell, seeds: RangeInclusive<u64>) -> Result<Line> {
        let judged = |seed| Ok(judge(&run(&cell.setting, seed)?, &cell.setting));
        let judged = seeds.map(judged).collect::<Result<Vec<Coherence>>>()?;
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

/// What is measured, what it should be, and what it is.
type Aim = (String, Bound, f64);

/// The largest figure under `key`, by its size alone.
fn most<'a>(rows: impl IntoIterator<Item = &'a Row>, key: &str) -> f64 {
    rows.into_iter().map(|row| row.get(key).abs()).fold(0.0, f64::max)
}

/// Rows in which each of `of` is so.
fn at<'a>(rows: &'a [Row], of: &[(&str, f64)]) -> Vec<&'a Row> {
    let is = |row: &&Row| of.iter().all(|(key, value)| (row.get(key) - value).abs() < 1e-9);
    rows.iter().filter(is).collect()
}

fn c1_aims(rows: &[Row]) -> Vec<Aim> {
    let (none, three_messages) = (Bound::Exactly(0.0), Bound::AtMost(3.0 * DELAY.1.as_secs_f64()));
    let worst = |what: &str, bound, key| (format!("{what}, worst row"), bound, most(rows, key));
    let messages = "messages for an update, 3 replicas on 3 indexers, worst row".to_owned();
    vec![
        worst("invalid query results, %", none, "invalid_percent"),
        worst("the same, replaced longer ago than one message takes, %", none, "invalid_late_percent"),
        worst("stale reads served as fresh, %", none, "stale_percent"),
        worst("longest of them, s (a registration, its answer, a push)", three_messages, "stale_max_s"),
        (messages, Bound::AtMost(6.0), most(at(rows, &[("readers", 3.0)]), "messages_per_update")),
    ]
}

fn c2_aims(rows: &[Row]) -> Vec<Aim> {
    let off =
        |what: &str, key| (format!("points from 1-(1-e^-x)/x, {what}"), Bound::AtMost(1.0), most(rows, key));
    vec![
        off("x = TTR / update interval, worst row", "off_points"),
        off("x = interval of the questions (TTR - 1 s) / update interval", "off_asked_points"),
    ]
}

fn c3_aims(rows: &[Row]) -> Vec<Aim> {
    let rows = at(rows, &[("session_min", 30.0), ("loss_percent", 5.0)]);
    let hybrid = rows.into_iter().find(|row| row.text("mode") == "hybrid");
    let of = |key: &str| hybrid.map_or(f64::NAN, |row| row.get(key));
    let fewer = |key: &str| 100.0 - 100.0 * of(key) / of("flood");
    let aim = |what: &str, least, measured| {
        (format!("hybrid, 5 % loss, sessions of 30 min: {what}, %"), Bound::AtLeast(least), measured)
    };
    vec![
        aim("fidelity", 99.9, of("fidelity_percent")),
        aim("fewer messages than flooding", 70.0, fewer("all_per_update")),
        aim("the same without questions", 70.0, fewer("messages_per_update")),
    ]
}

fn c4_aims(rows: &[Row]) -> Vec<Aim> {
    let late = rows.iter().map(|row| row.get("past_bound")).sum();
    vec![("reads served as fresh later than lease + delay".to_owned(), Bound::Exactly(0.0), late)]
}

fn c5_aims(rows: &[Row]) -> Vec<Aim> {
    let broken = [
        ("went_back", "older after newer"),
        ("never_shared", "believed and never shared"),
        ("two_contents", "a number for two contents"),
    ];
    let aims = |row: &Row| {
        let mishaps = row.text("mishaps");
        broken.map(|(key, what)| (format!("{mishaps}: {what}"), Bound::Exactly(0.0), row.get(key)))
    };
    rows.iter().flat_map(aims).collect()
}

fn c6_aims(rows: &[Row]) -> Vec<Aim> {
    let messages = |indexers, readers| {
        most(at(rows, &[("indexers", indexers), ("readers", readers)]), "messages_per_update")
    };
    let each = (messages(100.0, 30.0) - messages(100.0, 0.0)) / 30.0;
    let times = messages(100.0, 3.0) / messages(10.0, 3.0);
    let what = "messages for an update of 3 replicas, 100 indexers in times of 10".to_owned();
    vec![
        (what, Bound::AtMost(1.1), times),
        ("messages for each further replica, 100 indexers".to_owned(), Bound::AtMost(3.0), each),
    ]
}
