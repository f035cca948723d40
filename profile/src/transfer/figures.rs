//! What came of the rounds of one scenario, and what is said of it. Pure.

use super::{floor::Floors, scenario::Scenario};
use crate::node::usage::Usage;
use crate::node::{Moment, Sent};
use crate::report::{bytes, count, median, mib};

/// What the origin is called.
pub const ORIGIN: &str = "origin";

/// What came of one scenario.
#[derive(Clone, Debug)]
pub struct Measured {
    /// What was measured.
    pub scenario: Scenario,
    /// One after the other; fewer if stopped.
    pub rounds: Vec<Round>,
}

/// What came of one time. Where nothing was fetched or published, those are empty.
#[derive(Clone, Debug, Default)]
pub struct Round {
    /// When the readers began, by [`now_s`](crate::node::usage::now_s).
    pub began_s: f64,
    /// Seconds of each reader.
    pub took_s: Vec<f64>,
    /// Number of files that each reader fetches.
    pub files: usize,
    /// Bytes of these files, of all readers.
    pub wanted_bytes: u64,
    /// The number of files published, and seconds.
    pub published: Option<(usize, f64)>,
    /// The floors of the same file, where they are measured.
    pub floors: Option<Floors>,
    /// Seconds to copy the file once for each reader, where that is measured.
    pub copies_s: Option<f64>,
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
    /// Number of files that arrived with wrong bytes.
    pub wrong: usize,
    /// Why single files did not arrive.
    pub errors: Vec<String>,
}

/// A figure: its key in results, and what it is in a round, if it is anything there.
type Metric = (&'static str, fn(&Round) -> Option<f64>);

/// All figures, in the order in which they are shown.
pub const METRICS: [Metric; 26] = [
    ("wall_s", Round::wall_s),
    ("first_s", |round| round.took_s.iter().copied().reduce(f64::min)),
    ("mb_per_s", |round| {
        Some(bytes(round.wanted_bytes) / 1e6 / round.wall_s()?).filter(|_| !round.is_change)
    }),
    ("files_fetched_per_s", |round| {
        Some(count(round.files * round.took_s.len()) / round.wall_s()?).filter(|_| round.files > 1)
    }),
    ("share_s", |round| Some(round.published?.1)),
    ("files_shared_per_s", |round| {
        round.published.map(|(files, took_s)| count(files) / took_s).filter(|_| round.files > 1)
    }),
    ("floor_tcp_s", |round| Some(round.floors?.tcp_s)),
    ("floor_copy_s", |round| Some(round.floors?.copy_s)),
    ("floor_read_write_s", |round| Some(round.floors?.read_write_s)),
    ("floor_copies_s", |round| round.copies_s),
    ("ratio_copies", |round| Some(round.wall_s()? / round.copies_s?)),
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
    pub(crate) fn wall_s(&self) -> Option<f64> {
        self.took_s.iter().copied().reduce(f64::max)
    }

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
    pub fn median(&self, key: &str) -> Option<f64> {
        Some(median(self.of_rounds(key))).filter(|median| !median.is_nan())
    }

    /// The largest of a figure over the rounds, where no round may be worse.
    pub fn largest(&self, key: &str) -> Option<f64> {
        self.of_rounds(key).reduce(f64::max)
    }

    fn of_rounds(&self, key: &str) -> impl Iterator<Item = f64> {
        let metric = METRICS.into_iter().find(|(known, _)| *known == key);
        self.rounds.iter().filter_map(move |round| (metric?.1)(round))
    }

    /// Every file arrived and is right, in every round that was meant.
    pub fn is_all_well(&self) -> bool {
        self.rounds.len() == self.scenario.rounds && self.is_right() && self.errors().next().is_none()
    }

    /// No file was wrong.
    pub fn is_right(&self) -> bool {
        self.rounds.iter().all(|round| round.wrong == 0)
    }

    pub(crate) fn errors(&self) -> impl Iterator<Item = &String> {
        self.rounds.iter().flat_map(|round| &round.errors)
    }
}
