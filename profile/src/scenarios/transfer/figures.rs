//! What came of the rounds of one case, and what is said of it. Pure.

use std::collections::BTreeSet;

use super::{case::Case, floor::Floors};
use crate::node::{Moment, Sent, usage::SAMPLED_EVERY, usage::Usage};
use crate::plot::{Lines, Points};
use crate::scenarios::prelude::*;

/// What the origin is called.
pub const ORIGIN: &str = "origin";

/// What came of one case.
#[derive(Clone, Debug)]
pub struct Rounds {
    /// What was measured.
    pub case: Case,
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

/// The keys of all figures, in the order in which they are shown.
pub const KEYS: &str = "wall_s first_s mb_per_s files_fetched_per_s share_s files_shared_per_s floor_tcp_s floor_copy_s \
    floor_read_write_s floor_copies_s ratio_copies ratio_tcp ratio_copy ratio_read_write cpu_s_per_gib_sender \
    cpu_s_per_gib_receiver peak_mib_sender peak_mib_receiver origin_copies moved_copies moved_mib extra_percent \
    moved_percent banned wrong errors";

impl Round {
    /// The figures by key; null where there is none.
    pub fn figures(&self) -> Row {
        let (wall_s, copy_bytes) = (self.wall_s(), self.copy_bytes());
        let floor = |of: fn(Floors) -> f64| self.floors.map(of);
        let [tcp_s, copy_s, read_write_s] =
            [floor(|all| all.tcp_s), floor(|all| all.copy_s), floor(|all| all.read_write_s)];
        let ratio = |floor_s: Option<f64>| Some(wall_s? / floor_s?);
        let sent = |is_meant: fn(&Sent) -> bool| {
            self.sources.iter().filter(|sent| is_meant(sent)).map(|sent| sent.bytes).sum::<u64>()
        };
        let (of_origin, moved) = (sent(|sent| sent.source == ORIGIN), sent(|_| true));
        let moved_percent = copy_bytes.map(|_| bytes(moved) / bytes(self.wanted_bytes) * 100.0);
        let (is_small, is_whole) = (self.files > 1, !self.is_change);
        let fetched = count(self.files * self.took_s.len());
        let banned = || self.sources.iter().filter(|sent| sent.banned).count();
        Row::of(json!({
            "wall_s": wall_s,
            "first_s": self.took_s.iter().copied().reduce(f64::min),
            "mb_per_s": wall_s.filter(|_| is_whole).map(|wall_s| bytes(self.wanted_bytes) / 1e6 / wall_s),
            "files_fetched_per_s": wall_s.filter(|_| is_small).map(|wall_s| fetched / wall_s),
            "share_s": self.published.map(|(_, took_s)| took_s),
            "files_shared_per_s": self.published.filter(|_| is_small).map(|(files, took_s)| count(files) / took_s),
            "floor_tcp_s": tcp_s, "floor_copy_s": copy_s, "floor_read_write_s": read_write_s,
            "floor_copies_s": self.copies_s, "ratio_copies": ratio(self.copies_s),
            "ratio_tcp": ratio(tcp_s), "ratio_copy": ratio(copy_s), "ratio_read_write": ratio(read_write_s),
            "cpu_s_per_gib_sender": self.cpu_s_per_gib(&self.senders),
            "cpu_s_per_gib_receiver": self.cpu_s_per_gib(&self.readers),
            "peak_mib_sender": peak_mib(&self.senders), "peak_mib_receiver": peak_mib(&self.readers),
            "origin_copies": copy_bytes.map(|copy| bytes(of_origin) / copy),
            "moved_copies": copy_bytes.map(|copy| bytes(moved) / copy),
            "moved_mib": copy_bytes.map(|_| mib(moved)),
            "extra_percent": moved_percent.filter(|_| is_whole).map(|percent| percent - 100.0),
            "moved_percent": moved_percent.filter(|_| self.is_change),
            "banned": copy_bytes.map(|_| banned()),
            "wrong": self.wrong, "errors": self.errors.len(),
        }))
    }

    /// Seconds until the last reader was done.
    pub(crate) fn wall_s(&self) -> Option<f64> {
        self.took_s.iter().copied().reduce(f64::max)
    }

    /// Bytes that one reader wants; `None` if nobody reads.
    fn copy_bytes(&self) -> Option<f64> {
        (!self.took_s.is_empty()).then(|| bytes(self.wanted_bytes) / count(self.took_s.len()))
    }

    /// Processor seconds of `nodes` for each GiB that came to a reader, or was published.
    fn cpu_s_per_gib(&self, nodes: &[(String, Usage)]) -> Option<f64> {
        let taken_s: f64 = nodes.iter().map(|(_, usage)| usage.cpu_s).sum();
        let gib = mib(self.wanted_bytes) / 1024.0;
        (!nodes.is_empty() && gib > 0.0 && !self.is_change && self.files <= 1).then(|| taken_s / gib)
    }

    /// MB/s that came from each source over time, and from all of them, to all readers together; seconds since these began.
    pub fn throughput(&self) -> Lines {
        let moments = || self.moments.iter().flatten();
        let sources: BTreeSet<&String> =
            moments().flat_map(|moment| moment.bytes.iter().map(|(from, _)| from)).collect();
        let step_s = SAMPLED_EVERY.as_secs_f64();
        let end_s = moments().map(|moment| moment.at_s - self.began_s).fold(0.0, f64::max);
        let rates = |source: Option<&String>| -> Points {
            let steps = (0u32..).map(|n| f64::from(n) * step_s).take_while(|from_s| *from_s < end_s);
            let came = |from_s| self.came_by(from_s + step_s, source) - self.came_by(from_s, source);
            steps.map(|from_s| (from_s + step_s / 2.0, came(from_s) / 1e6 / step_s)).collect()
        };
        let each = sources.into_iter().map(|source| (source.clone(), rates(Some(source))));
        [("total".to_owned(), rates(None))].into_iter().chain(each).collect()
    }

    /// Bytes that had come from a source, or from all, to all readers together so many seconds after these began: evenly
    /// between two moments.
    fn came_by(&self, at_s: f64, source: Option<&String>) -> f64 {
        let of = |moment: &Moment| {
            let meant = moment.bytes.iter().filter(|(from, _)| source.is_none_or(|source| source == from));
            bytes(meant.map(|(_, came)| *came).sum())
        };
        let reader = |moments: &Vec<Moment>| {
            let next = moments.partition_point(|moment| moment.at_s - self.began_s < at_s);
            let before = &moments[next.checked_sub(1)?];
            let after = moments.get(next).unwrap_or(before);
            let share =
                (at_s + self.began_s - before.at_s) / (after.at_s - before.at_s).max(f64::MIN_POSITIVE);
            Some(of(before) + (of(after) - of(before)) * share.min(1.0))
        };
        self.moments.iter().filter_map(reader).sum()
    }

    /// Resident MiB of each node but the indexer, over the time of the readers, or of all.
    pub fn memory(&self) -> Lines {
        let end_s = self.wall_s().map_or(f64::MAX, |wall_s| wall_s + SAMPLED_EVERY.as_secs_f64());
        let line = |(label, usage): &(String, Usage)| {
            let first_s = usage.memory.first().map_or(0.0, |(at_s, _)| *at_s);
            let begin_s = if self.wall_s().is_some() { self.began_s } else { first_s };
            let points = usage.memory.iter().map(|(at_s, bytes)| (at_s - begin_s, mib(*bytes)));
            (label.clone(), points.filter(|(at_s, _)| (0.0..end_s).contains(at_s)).collect())
        };
        self.senders.iter().chain(&self.readers).map(line).collect()
    }
}

fn peak_mib(nodes: &[(String, Usage)]) -> Option<f64> {
    nodes.iter().filter_map(|(_, usage)| usage.peak_bytes).max().map(mib)
}

impl Rounds {
    /// The median of a figure over the rounds; `None` where no round has it.
    pub fn median(&self, key: &str) -> Option<f64> {
        Some(median(self.of_rounds(key))).filter(|median| !median.is_nan())
    }

    /// The largest of a figure over the rounds, where no round may be worse.
    pub fn largest(&self, key: &str) -> Option<f64> {
        self.of_rounds(key).reduce(f64::max)
    }

    fn of_rounds(&self, key: &str) -> impl Iterator<Item = f64> {
        self.rounds.iter().map(move |round| round.figures().get(key)).filter(|figure| figure.is_finite())
    }

    /// Every file arrived and is right, in every round that was meant.
    pub fn is_all_well(&self) -> bool {
        self.rounds.len() == self.case.rounds && self.is_right() && self.errors().next().is_none()
    }

    /// No file was wrong.
    pub fn is_right(&self) -> bool {
        self.rounds.iter().all(|round| round.wrong == 0)
    }

    pub(crate) fn errors(&self) -> impl Iterator<Item = &String> {
        self.rounds.iter().flat_map(|round| &round.errors)
    }
}
