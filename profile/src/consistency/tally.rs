//! What one simulation counts, and the judge of the promises.

use std::{collections::HashMap, time::Duration};

use nekoproto::{ContentHash, Record};

use crate::report::{Row, count};

/// Messages, and the bytes of their encoded arguments and answers; frames and TLS are not counted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Traffic {
    /// Calls, without their answers.
    pub messages: usize,
    /// Bytes both ways.
    pub bytes: usize,
}

/// What one simulation counts.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Versions published.
    pub updates: usize,
    /// Reads of copies.
    pub reads: usize,
    /// Those served as fresh.
    pub fresh: usize,
    /// For each read that was served as fresh and was not current: seconds since the version was replaced.
    pub stale_s: Vec<f64>,
    /// Queries that found the file.
    pub queries: usize,
    /// Those whose newest hit was replaced when they were asked.
    pub invalid: usize,
    /// Those of them where it was replaced longer ago than a message takes.
    pub invalid_late: usize,
    /// Registrations of new versions, invalidations between indexers, to holders, to subscribers and by holders.
    pub invalidating: Traffic,
    /// Questions of readers to the origin.
    pub asking: Traffic,
    /// Calls that the origin makes and answers for these two.
    pub origin: usize,
    /// Reads served as fresh past the bound.
    pub past_bound: usize,
    /// Copies that were replaced by an older version, or by other bytes under the same number.
    pub went_back: usize,
    /// Numbers under which readers hold two contents.
    pub two_contents: usize,
    /// Reads by readers that believe in a version which was never shared.
    pub never_shared: usize,
    /// Forged versions sent.
    pub forged: usize,
    contents: HashMap<u64, ContentHash>,
}

impl Tally {
    /// A copy of a version that was replaced `ago` is read as fresh; a current one has `None`.
    pub(crate) fn read_as_fresh(&mut self, ago: Option<Duration>, bound: Duration) {
        self.fresh += 1;
        if let Some(ago) = ago {
            self.stale_s.push(ago.as_secs_f64());
            self.past_bound += usize::from(ago > bound);
        }
    }

    /// A reader holds `now` where it held `before`.
    pub fn holds(&mut self, before: &Record, now: &Record) {
        let is_older = now.version < before.version;
        let is_other = now.version == before.version && now.content != before.content;
        self.went_back += usize::from(is_older || is_other);
        let first = *self.contents.entry(now.version.get()).or_insert(now.content);
        self.two_contents += usize::from(first != now.content);
    }

    /// Broken promises.
    pub const fn violations(&self) -> usize {
        self.past_bound + self.went_back + self.two_contents + self.never_shared
    }

    pub(crate) fn figures(&self) -> Vec<(&'static str, f64)> {
        let share = |part: usize, of: usize| 100.0 * count(part) / count(of.max(1));
        let each = |all: usize| count(all) / count(self.updates.max(1));
        let stale = self.stale_s.len();
        let mean = self.stale_s.iter().fold(0.0, |sum, age| sum + age) / count(stale.max(1));
        vec![
            ("invalid_percent", share(self.invalid, self.queries)),
            ("invalid_late_percent", share(self.invalid_late, self.queries)),
            ("fresh_percent", share(self.fresh, self.reads)),
            ("stale_percent", share(stale, self.fresh)),
            ("fidelity_percent", 100.0 - share(stale, self.fresh)),
            ("stale_mean_s", mean),
            ("stale_max_s", self.stale_s.iter().copied().fold(0.0, f64::max)),
            ("messages_per_update", each(self.invalidating.messages)),
            ("questions_per_update", each(self.asking.messages)),
            ("all_per_update", each(self.invalidating.messages + self.asking.messages)),
            ("bytes_per_update", each(self.invalidating.bytes + self.asking.bytes)),
            ("origin_per_update", each(self.origin)),
            ("updates", count(self.updates)),
        ]
    }
}

/// Figures of several seeds: the mean of each, and half of its 95 % interval under the same key and `_ci`.
pub(crate) fn summarize(row: Row, seeds: &[Tally]) -> Row {
    let all: Vec<_> = seeds.iter().map(Tally::figures).collect();
    let keys = all.first().into_iter().flatten().map(|(key, _)| *key).enumerate();
    let row = keys.fold(row, |row, (place, key)| {
        let values: Vec<f64> = all.iter().map(|figures| figures[place].1).collect();
        let (mean, half) = interval(&values);
        let mean = if key == "stale_max_s" { values.iter().copied().fold(0.0, f64::max) } else { mean };
        row.figure(key, mean).figure(&format!("{key}_ci"), (key != "stale_max_s").then_some(half))
    });
    let sum = |of: fn(&Tally) -> usize| seeds.iter().map(of).sum::<usize>();
    row.with("seeds", seeds.len())
        .with("past_bound", sum(|tally| tally.past_bound))
        .with("went_back", sum(|tally| tally.went_back))
        .with("two_contents", sum(|tally| tally.two_contents))
        .with("never_shared", sum(|tally| tally.never_shared))
        .with("forged", sum(|tally| tally.forged))
        .with("violations", sum(Tally::violations))
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
