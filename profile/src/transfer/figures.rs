//! What came of the rounds of one scenario, and what is said of it. Pure.

use super::{floor::Floors, scenario::Scenario};
use crate::{
    node::{Moment, Sent, usage::Usage},
    report::{bytes, count, median, mib},
};

/// What the origin is called.
pub(crate) const ORIGIN: &str = "origin";

/// What came of one scenario.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    pub scenario: Scenario,
    /// What came of each time.
    pub rounds: Vec<Round>,
}

/// What came of one time. Where nothing was fetched or published, those are empty.
#[derive(Clone, Debug, Default)]
pub(crate) struct Round {
    /// When the readers began, by [`now_s`](crate::node::usage::now_s).
    pub began_s: f64,
    /// Seconds that each reader took.
    pub took_s: Vec<f64>,
    /// Files that each reader fetched.
    pub files: usize,
    /// Bytes of these files, of all readers.
    pub wanted_bytes: u64,
    /// The number of files published, and seconds.
    pub published: Option<(usize, f64)>,
    pub floors: Option<Floors>,
    /// What each source sent to all readers together, by label.
    pub sources: Vec<Sent>,
    /// What the origin and other honest sources took, by label.
    pub senders: Vec<(String, Usage)>,
    /// What the readers took, by label.
    pub readers: Vec<(String, Usage)>,
    /// What had come to each reader, sampled, with labels for nodes.
    pub moments: Vec<Vec<Moment>>,
    /// It is only the second fetch, of what changed, that counts.
    pub is_change: bool,
    /// Files that are not what was published.
    pub wrong: usize,
    /// Why files were not fetched.
    pub errors: Vec<String>,
}

/// A figure: its key in results, and what it is in a round, if it is anything there.
type Metric = (&'static str, fn(&Round) -> Option<f64>);

/// All figures, in the order in which they are shown.
pub(crate) const METRICS: [Metric; 24] = [
    ("wall_s", Round::wall_s),
    ("first_s", |round| round.took_s.iter().copied().reduce(f64::min)),
    ("mb_per_s", |round| {
        Some(bytes(round.wanted_bytes) / 1e6 / round.wall_s()?).filter(|_| !round.is_change)
    }),
    ("files_fetched_per_s", |round| {
        Some(count(round.files * round.took_s.len()) / round.wall_s()?).filter(|_| round.files > 1)
    }),
    ("publish_s", |round| Some(round.published?.1)),
    ("files_published_per_s", |round| {
        round.published.map(|(files, took_s)| count(files) / took_s).filter(|_| round.files > 1)
    }),
    ("floor_tcp_s", |round| Some(round.floors?.tcp_s)),
    ("floor_copy_s", |round| Some(round.floors?.copy_s)),
    ("floor_read_write_s", |round| Some(round.floors?.read_write_s)),
    ("ratio_tcp", |round| Some(round.wall_s()? / round.floors?.tcp_s)),
    ("ratio_copy", |round| Some(round.wall_s()? / round.floors?.copy_s)),
    ("ratio_read_write", |round| Some(round.wall_s()? / round.floors?.read_write_s)),
    ("cpu_s_per_gib_sender", |round| round.cpu_s_per_gib(&round.senders)),
    ("cpu_s_per_gib_receiver", |round| round.cpu_s_per_gib(&round.readers)),
    ("peak_mib_sender", |round| peak_mib(&round.senders)),
    ("peak_mib_receiver", |round| peak_mib(&round.readers)),
    ("origin_copies", |round| {
        let sent = round.sources.iter().filter(|sent| sent.source == ORIGIN).map(|sent| sent.bytes);
        Some(bytes(sent.sum()) / round.copy_bytes()?)
    }),
    ("moved_copies", |round| Some(bytes(round.moved_bytes()) / round.copy_bytes()?)),
    ("moved_mib", |round| round.copy_bytes().map(|_| mib(round.moved_bytes()))),
    ("extra_percent", |round| {
        round.moved_percent().map(|percent| percent - 100.0).filter(|_| !round.is_change)
    }),
    ("moved_percent", |round| round.moved_percent().filter(|_| round.is_change)),
    ("banned", |round| {
        round.copy_bytes().map(|_| count(round.sources.iter().filter(|sent| sent.banned).count()))
    }),
    ("wrong", |round| Some(count(round.wrong))),
    ("errors", |round| Some(count(round.errors.len()))),
];

impl Round {
    /// Seconds until the last reader was done.
    pub(crate) fn wall_s(&self) -> Option<f64> {
        self.took_s.iter().copied().reduce(f64::max)
    }

    /// File bytes that all sources sent.
    fn moved_bytes(&self) -> u64 {
        self.sources.iter().map(|sent| sent.bytes).sum()
    }

    /// Bytes that one reader wants; `None` if nobody reads.
    fn copy_bytes(&self) -> Option<f64> {
        (!self.took_s.is_empty()).then(|| bytes(self.wanted_bytes) / count(self.took_s.len()))
    }

    fn moved_percent(&self) -> Option<f64> {
        self.copy_bytes().map(|_| bytes(self.moved_bytes()) / bytes(self.wanted_bytes) * 100.0)
    }

    /// Processor seconds of `nodes` for each GiB that came to a reader, or was published.
    fn cpu_s_per_gib(&self, nodes: &[(String, Usage)]) -> Option<f64> {
        let taken_s: f64 = nodes.iter().map(|(_, usage)| usage.cpu_s).sum();
        let gib = mib(self.wanted_bytes) / 1024.0;
        (!nodes.is_empty() && gib > 0.0 && !self.is_change && self.files <= 1).then(|| taken_s / gib)
    }
}

fn peak_mib(nodes: &[(String, Usage)]) -> Option<f64> {
    nodes.iter().filter_map(|(_, usage)| usage.peak_bytes).max().map(mib)
}

impl Measured {
    /// The median of a figure over the rounds; `None` where no round has it.
    pub(crate) fn median(&self, key: &str) -> Option<f64> {
        Some(median(self.of_rounds(key))).filter(|median| !median.is_nan())
    }

    /// The largest of a figure over the rounds, where no round may be worse.
    pub(crate) fn largest(&self, key: &str) -> Option<f64> {
        self.of_rounds(key).reduce(f64::max)
    }

    fn of_rounds(&self, key: &str) -> impl Iterator<Item = f64> {
        let metric = METRICS.into_iter().find(|(known, _)| *known == key);
        self.rounds.iter().filter_map(move |round| (metric?.1)(round))
    }

    /// Every file arrived and is right, in every round that was meant.
    pub(crate) fn is_all_well(&self) -> bool {
        self.rounds.len() == self.scenario.rounds && self.is_right() && self.errors().next().is_none()
    }

    /// No file that arrived is wrong.
    pub(crate) fn is_right(&self) -> bool {
        self.rounds.iter().all(|round| round.wrong == 0)
    }

    /// Why files were not fetched.
    pub(crate) fn errors(&self) -> impl Iterator<Item = &String> {
        self.rounds.iter().flat_map(|round| &round.errors)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Two readers of a file of 1 GiB, from the origin and a liar.
    pub(in super::super) fn round() -> Round {
        let source = |source: &str, bytes, banned| Sent { source: source.to_owned(), bytes, banned };
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
            sources: vec![source(ORIGIN, 3 << 29, false), source("hostile", 1 << 30, true)],
            senders: vec![("origin".to_owned(), usage(1.0, 30))],
            readers: vec![("reader 1".to_owned(), usage(2.0, 40)), ("reader 2".to_owned(), usage(2.0, 50))],
            moments: vec![moments],
            ..Round::default()
        }
    }

    #[test]
    fn figures_of_a_known_round_are_known() {
        let scenario = Scenario { readers: 2, rounds: 1, ..Scenario::whole(1 << 30) };
        let row = Measured { scenario, rounds: vec![round()] };
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
            Measured { scenario: Scenario { rounds, ..Scenario::whole(1 << 30) }, rounds: vec![one] }
        };
        assert!(row(|_| {}, 1).is_all_well());
        assert!(!row(|_| {}, 2).is_all_well(), "a round is missing");
        assert!(!row(|round| round.wrong = 1, 1).is_all_well());
        let failed = row(|round| round.errors.push("no source".to_owned()), 1);
        assert!(!failed.is_all_well() && failed.is_right());
    }

    #[test]
    fn every_metric_has_a_key_of_its_own() {
        let mut keys: Vec<&str> = METRICS.iter().map(|(key, _)| *key).collect();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), METRICS.len());
    }
}
