//! What came of the rounds of one scenario, and what is said of it. Pure.

use super::{
    floor::Floors,
    scenario::{Scenario, What},
    usage::Usage,
    wire::Moment,
};
use crate::goals::median;

const MIB: f64 = (1 << 20) as f64;
const GIB: f64 = (1 << 30) as f64;

/// What came of one scenario.
#[derive(Clone, Debug)]
pub struct Row {
    /// What was done.
    pub scenario: Scenario,
    /// What came of each time.
    pub rounds: Vec<Round>,
}

/// What came of one time. Where nothing was fetched or published, those are empty.
#[derive(Clone, Debug, Default)]
pub struct Round {
    /// When the readers began, by [`now_s`](super::usage::now_s).
    pub began_s: f64,
    /// Seconds that each reader took.
    pub took_s: Vec<f64>,
    /// Files that each reader fetched.
    pub files: usize,
    /// Bytes of these files, of all readers.
    pub wanted_bytes: u64,
    /// Files published in so many seconds.
    pub published: Option<(usize, f64)>,
    /// The floors of this round.
    pub floors: Option<Floors>,
    /// What each source sent to all readers together.
    pub sources: Vec<Source>,
    /// What the origin and other honest sources took, by label.
    pub senders: Vec<(String, Usage)>,
    /// What the readers took, by label.
    pub readers: Vec<(String, Usage)>,
    /// What had come to each reader from moment to moment, with labels for nodes.
    pub moments: Vec<Vec<Moment>>,
    /// It is only the second fetch, of what changed, that counts.
    pub is_change: bool,
    /// Files that are not what was published.
    pub wrong: usize,
    /// Why files were not fetched.
    pub errors: Vec<String>,
}

/// What one source sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// What it is called.
    pub label: String,
    /// It published the file.
    pub is_origin: bool,
    /// File bytes, useless ones included.
    pub bytes: u64,
    /// A reader proved it to lie.
    pub banned: bool,
}

/// A figure: its key in results, what it is, and how it is found in a round.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Its key.
    pub key: &'static str,
    /// What it is, with its unit.
    pub label: &'static str,
    /// What it is in a round, if it is anything there.
    pub of: fn(&Round) -> Option<f64>,
}

const fn metric(key: &'static str, label: &'static str, of: fn(&Round) -> Option<f64>) -> Metric {
    Metric { key, label, of }
}

/// All figures, in the order in which they are shown.
pub const METRICS: [Metric; 24] = [
    metric("wall_s", "until the last reader is done, s", Round::wall_s),
    metric("first_s", "until the first reader is done, s", |round| {
        round.took_s.iter().copied().reduce(f64::min)
    }),
    metric("mb_per_s", "MB/s, all readers together", |round| {
        round.wall_s().map(|wall_s| count(round.wanted_bytes) / 1e6 / wall_s).filter(|_| !round.is_change)
    }),
    metric("files_fetched_per_s", "files fetched a second", |round| {
        round
            .wall_s()
            .map(|wall_s| as_f64(round.files * round.took_s.len()) / wall_s)
            .filter(|_| round.files > 1)
    }),
    metric("publish_s", "publishing, s", |round| Some(round.published?.1)),
    metric("files_published_per_s", "files published a second", |round| {
        round.published.map(|(files, took_s)| as_f64(files) / took_s).filter(|_| round.files > 1)
    }),
    metric("floor_tcp_s", "floor: raw TCP to a file, s", |round| Some(round.floors?.tcp_s)),
    metric("floor_copy_s", "floor: copied by the system, s", |round| Some(round.floors?.copy_s)),
    metric("floor_read_write_s", "floor: read and written, s", |round| Some(round.floors?.read_write_s)),
    metric("ratio_tcp", "in floors of raw TCP", |round| Some(round.wall_s()? / round.floors?.tcp_s)),
    metric("ratio_copy", "in copies by the system", |round| Some(round.wall_s()? / round.floors?.copy_s)),
    metric("ratio_read_write", "in reads and writes", |round| {
        Some(round.wall_s()? / round.floors?.read_write_s)
    }),
    metric("cpu_s_per_gib_sender", "CPU s for each GiB, senders", |round| per_gib(round, &round.senders)),
    metric("cpu_s_per_gib_receiver", "CPU s for each GiB, readers", |round| per_gib(round, &round.readers)),
    metric("peak_mib_sender", "peak of memory, sender, MiB", |round| peak_mib(&round.senders)),
    metric("peak_mib_receiver", "peak of memory, reader, MiB", |round| peak_mib(&round.readers)),
    metric("origin_copies", "sent by the origin, copies", |round| {
        let sent: u64 =
            round.sources.iter().filter(|source| source.is_origin).map(|source| source.bytes).sum();
        Some(count(sent) / round.copy_bytes()?)
    }),
    metric("moved_copies", "moved in all, copies", |round| {
        Some(count(round.moved_bytes()) / round.copy_bytes()?)
    }),
    metric("moved_mib", "moved in all, MiB", |round| {
        round.copy_bytes().map(|_| count(round.moved_bytes()) / MIB)
    }),
    metric("extra_percent", "moved beyond what was wanted, %", |round| {
        round.moved_percent().map(|percent| percent - 100.0).filter(|_| !round.is_change)
    }),
    metric("moved_percent", "moved of what changed, % of the file", |round| {
        round.moved_percent().filter(|_| round.is_change)
    }),
    metric("banned", "sources banned", |round| {
        round.copy_bytes().map(|_| as_f64(round.sources.iter().filter(|source| source.banned).count()))
    }),
    metric("wrong", "wrong files", |round| Some(as_f64(round.wrong))),
    metric("errors", "files not fetched", |round| Some(as_f64(round.errors.len()))),
];

impl Round {
    /// Seconds until the last reader was done.
    #[must_use]
    pub fn wall_s(&self) -> Option<f64> {
        self.took_s.iter().copied().reduce(f64::max)
    }

    /// File bytes that all sources sent.
    #[must_use]
    pub fn moved_bytes(&self) -> u64 {
        self.sources.iter().map(|source| source.bytes).sum()
    }

    /// Bytes that one reader wants; `None` if nobody reads.
    fn copy_bytes(&self) -> Option<f64> {
        (!self.took_s.is_empty()).then(|| count(self.wanted_bytes) / as_f64(self.took_s.len()))
    }

    fn moved_percent(&self) -> Option<f64> {
        self.copy_bytes().map(|_| count(self.moved_bytes()) / count(self.wanted_bytes) * 100.0)
    }
}

impl Row {
    /// The median of a figure over the rounds; `None` where no round has it.
    #[must_use]
    pub fn median(&self, key: &str) -> Option<f64> {
        let metric = METRICS.iter().find(|metric| metric.key == key)?;
        let figures: Vec<f64> = self.rounds.iter().filter_map(metric.of).collect();
        (!figures.is_empty()).then(|| median(figures))
    }

    /// The largest of a figure over the rounds, where no round may be worse.
    #[must_use]
    pub fn largest(&self, key: &str) -> Option<f64> {
        let metric = METRICS.iter().find(|metric| metric.key == key)?;
        self.rounds.iter().filter_map(metric.of).reduce(f64::max)
    }

    /// Every file arrived and is right, in every round that was meant.
    #[must_use]
    pub fn is_all_well(&self) -> bool {
        self.rounds.len() == self.scenario.rounds && self.is_right() && self.errors().next().is_none()
    }

    /// No file that arrived is wrong.
    #[must_use]
    pub fn is_right(&self) -> bool {
        self.rounds.iter().all(|round| round.wrong == 0)
    }

    /// Why files were not fetched.
    pub fn errors(&self) -> impl Iterator<Item = &String> {
        self.rounds.iter().flat_map(|round| &round.errors)
    }

    /// Bytes of the file, if it is one.
    #[must_use]
    pub const fn size(&self) -> Option<u64> {
        match self.scenario.what {
            What::Whole(bulk) | What::Publish(bulk) | What::Change(bulk, _) => Some(bulk.size),
            What::Files { .. } => None,
        }
    }
}

/// Processor seconds of `nodes` for each GiB that came to a reader, or was published.
fn per_gib(round: &Round, nodes: &[(String, Usage)]) -> Option<f64> {
    let taken_s: f64 = nodes.iter().map(|(_, usage)| usage.cpu_s).sum();
    let gib = count(round.wanted_bytes) / GIB;
    (!nodes.is_empty() && gib > 0.0 && !round.is_change && round.files <= 1).then(|| taken_s / gib)
}

fn peak_mib(nodes: &[(String, Usage)]) -> Option<f64> {
    nodes.iter().filter_map(|(_, usage)| usage.peak_bytes).max().map(|bytes| count(bytes) / MIB)
}

#[expect(clippy::cast_precision_loss, reason = "shown with a few digits")]
const fn count(bytes: u64) -> f64 {
    bytes as f64
}

#[expect(clippy::cast_precision_loss, reason = "shown with a few digits")]
const fn as_f64(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Two readers of a file of 1 GiB, from the origin and a liar.
    pub(in super::super) fn round() -> Round {
        let source = |label: &str, is_origin, bytes, banned| Source {
            label: label.to_owned(),
            is_origin,
            bytes,
            banned,
        };
        let usage =
            |cpu_s, mib: u64| Usage { cpu_s, peak_bytes: Some(mib << 20), memory: vec![(100.0, mib << 20)] };
        let moments = vec![
            Moment { at_s: 100.0, bytes: vec![("origin".to_owned(), 0)] },
            Moment { at_s: 101.0, bytes: vec![("origin".to_owned(), 1 << 30)] },
        ];
        Round {
            began_s: 100.0,
            took_s: vec![1.0, 2.0],
            files: 1,
            wanted_bytes: 2 << 30,
            floors: Some(Floors { tcp_s: 0.5, copy_s: 0.25, read_write_s: 0.4 }),
            sources: vec![source("origin", true, 3 << 29, false), source("hostile", false, 1 << 30, true)],
            senders: vec![("origin".to_owned(), usage(1.0, 30))],
            readers: vec![("reader 1".to_owned(), usage(2.0, 40)), ("reader 2".to_owned(), usage(2.0, 50))],
            moments: vec![moments],
            ..Round::default()
        }
    }

    #[test]
    fn figures_of_a_known_round_are_known() {
        let scenario = Scenario { readers: 2, rounds: 1, ..Scenario::whole(1 << 30) };
        let row = Row { scenario, rounds: vec![round()] };
        for (key, should) in [
            ("wall_s", 2.0),
            ("first_s", 1.0),
            ("ratio_tcp", 4.0),
            ("ratio_copy", 8.0),
            ("cpu_s_per_gib_sender", 0.5),
            ("cpu_s_per_gib_receiver", 2.0),
            ("peak_mib_receiver", 50.0),
            ("origin_copies", 1.5),
            ("moved_copies", 2.5),
            ("extra_percent", 25.0),
            ("banned", 1.0),
        ] {
            assert_eq!(row.median(key), Some(should), "{key}");
        }
        assert_eq!((row.median("moved_percent"), row.median("publish_s")), (None, None));
        assert!(row.is_all_well());
    }

    #[test]
    fn a_wrong_or_missing_file_is_not_well() {
        let row = |change: fn(&mut Round), rounds| {
            let mut one = round();
            change(&mut one);
            Row { scenario: Scenario { rounds, ..Scenario::whole(1 << 30) }, rounds: vec![one] }
        };
        assert!(row(|_| {}, 1).is_all_well());
        assert!(!row(|_| {}, 2).is_all_well(), "a round is missing");
        assert!(!row(|round| round.wrong = 1, 1).is_all_well());
        let failed = row(|round| round.errors.push("no source".to_owned()), 1);
        assert!(!failed.is_all_well() && failed.is_right());
    }

    #[test]
    fn every_metric_has_a_key_of_its_own() {
        let mut keys: Vec<&str> = METRICS.iter().map(|metric| metric.key).collect();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), METRICS.len());
    }
}
