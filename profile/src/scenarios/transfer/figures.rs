//! What came of the rounds of one case, and what is said of it: for people, for machines, and as pictures. Pure.

use super::{case::Case, case::What, floor::Floors};
use crate::node::{Moment, Sent, usage::SAMPLED_EVERY};
use crate::report::{aligned, cells, turned};
use crate::scenarios::prelude::*;

pub const ORIGIN: &str = "origin";
/// The label of sources that a reader does not tell.
pub const UNKNOWN: &str = "unknown";

/// What came of one case.
#[derive(Clone, Debug)]
pub struct Rounds {
    pub case: Case,
    /// One after the other; fewer if stopped.
    pub rounds: Vec<Round>,
}

/// What came of one time. Where nothing was fetched or published, those are empty.
#[derive(Clone, Debug, Default)]
pub struct Round {
    /// When the readers began, by [`now_s`].
    pub began_s: f64,
    /// Seconds of each reader.
    pub took_s: Vec<f64>,
    /// Number of files that each reader fetches.
    pub files: usize,
    /// Bytes of these files, of all readers.
    pub wanted_bytes: u64,
    /// The number of files published, and seconds.
    pub published: Option<(usize, f64)>,
    pub floors: Option<Floors>,
    /// Seconds to copy the file once for each reader, where that is measured.
    pub copies_s: Option<f64>,
    /// What each source sent to all readers together, by label.
    pub sources: Vec<Sent>,
    /// What the origin and other honest sources took, by label.
    pub senders: Vec<(String, Usage)>,
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
        let is_told = self.sources.iter().all(|sent| sent.source != UNKNOWN);
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
            "origin_copies": copy_bytes.filter(|_| is_told).map(|copy| bytes(of_origin) / copy),
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

    pub fn is_right(&self) -> bool {
        self.rounds.iter().all(|round| round.wrong == 0)
    }

    pub(crate) fn errors(&self) -> impl Iterator<Item = &String> {
        self.rounds.iter().flat_map(|round| &round.errors)
    }
}

/// Failures that are shown; the rest are counted only.
const ERRORS_SHOWN: usize = 5;

/// A line for each figure, a column for each case; medians of the rounds. `place`: where the files are, in words.
pub fn report(all: Vec<Rounds>, place: &str, interrupted: bool) -> Report {
    let first = all.first().map(|row| &row.case);
    let security = first.map_or("", |case| security_name(case.security));
    let (rounds, machine) = (first.map_or(0, |case| case.rounds), machine::in_words());
    let head = format!("Every node a process of its own, {security}, {place}, {machine}");
    let errors: Vec<&String> = all.iter().flat_map(Rounds::errors).collect();
    let mut foot: Vec<String> = all.iter().filter_map(sources).collect();
    foot.extend(errors.iter().take(ERRORS_SHOWN).map(|error| format!("failed: {error}")));
    if errors.len() > ERRORS_SHOWN {
        foot.push(format!("failed: {} more", errors.len() - ERRORS_SHOWN));
    }
    let shown: Vec<Row> = all.iter().map(medians).collect();
    let keys = ["scenario"].into_iter().chain(KEYS.split_whitespace());
    let table = aligned(&turned(&cells(&shown, keys)));
    let rows = all.iter().map(all_rounds).collect();
    let is_broken = !all.iter().all(Rounds::is_all_well);
    let pictures = all.iter().flat_map(pictures).collect();
    let rounds_alone = all.into_iter().flat_map(|row| {
        let (name, security) = (row.case.name(), security_name(row.case.security));
        let of = move |n| Row::of(json!({ "scenario": name, "security": security, "round": n }));
        (1..).zip(row.rounds).map(move |(n, round)| round.figures().and(of(n)))
    });
    Report {
        kind: Some("transfer"),
        head: format!("{head}; medians of {rounds} round(s)."),
        sections: vec![Section { table, rows, ..Section::default() }],
        foot,
        facts: Row::default().with("files", place),
        is_broken,
        pictures,
        csv: Some((format!("scenario security round {KEYS}"), Box::new(rounds_alone))),
        ..Report::default()
    }
    .ended(interrupted, "interrupted: rounds are missing", None)
}

/// Of the last round, what came from whom and how memory went, where anything is known of it.
fn pictures(row: &Rounds) -> Vec<Picture> {
    let Some(round) = row.rounds.last() else { return Vec::new() };
    let case = &row.case;
    let subtitle = format!("{}\n{}; {}", case.name(), security_name(case.security), machine::in_words());
    let of = |what: &str, title: &str, y, points| {
        let chart = lines("seconds since the readers began", y, points);
        Picture::new(format!("transfer-{}-{what}", case.slug()), title, subtitle.as_str(), vec![chart])
    };
    let both = [
        of("throughput", "What came from whom over time", "MB/s", round.throughput()),
        of("memory", "Memory over time", "resident, MiB", round.memory()),
    ];
    both.into_iter().filter(|picture| !picture.charts[0].series.is_empty()).collect()
}

/// Who sent how much in the last round, if there were several.
fn sources(row: &Rounds) -> Option<String> {
    let round = row.rounds.last().filter(|round| round.sources.len() > 1)?;
    let sent = round.sources.iter().map(|sent| {
        let banned = if sent.banned { ", banned" } else { "" };
        format!("{} {:.1} MiB{banned}", sent.source, mib(sent.bytes))
    });
    Some(format!("{}: {}", row.case.name(), sent.collect::<Vec<_>>().join("; ")))
}

fn medians(row: &Rounds) -> Row {
    let named = Row::named(row.case.name());
    KEYS.split_whitespace().fold(named, |shown, key| shown.with(key, row.median(key)))
}

fn all_rounds(row: &Rounds) -> Row {
    let sum = |of: fn(&Round) -> usize| row.rounds.iter().map(of).sum::<usize>();
    medians(row).and(case_row(&row.case)).and(Row::of(json!({
        // Of these not the median counts, but all.
        "wrong": sum(|round| round.wrong), "errors": sum(|round| round.errors.len()),
        "failures": row.errors().take(ERRORS_SHOWN).collect::<Vec<_>>(),
        "rounds": row.rounds.iter().map(round_json).collect::<Vec<_>>(),
    })))
}

fn case_row(case: &Case) -> Row {
    let (bulk, change, small) = match case.what {
        What::Whole(bulk) | What::Publish(bulk) => (Some(bulk), None, None),
        What::Change(bulk, change) => (Some(bulk), Some(change), None),
        What::Files { count, bytes } => (None, None, Some((count, bytes))),
    };
    Row::of(json!({
        "scenario": case.name(), "command": case.command(), "security": security_name(case.security),
        "size_bytes": bulk.map(|bulk| bulk.size), "sparse": bulk.is_some_and(|bulk| bulk.sparse),
        "sources": case.sources, "readers": case.readers, "cap_up_bytes_per_s": case.cap_up,
        "cap_down_bytes_per_s": case.cap_down, "corrupt_percent": case.corrupt,
        "change_percent": change.map(|change| change.percent), "change_places": change.map(|change| change.places),
        "change_how": change.map(|change| option_name(&change.how)),
        "files": small.map(|(count, _)| count), "file_bytes": small.map(|(_, (least, most))| [least, most]),
        "seed": case.seed,
    }))
}

fn round_json(round: &Round) -> Value {
    let sources = round.sources.iter().map(|sent| {
        let is_origin = sent.source == ORIGIN;
        json!({ "source": sent.source, "origin": is_origin, "bytes": sent.bytes, "banned": sent.banned })
    });
    let nodes =
        round.senders.iter().chain(&round.readers).map(
            |(label, usage)| json!({ "node": label, "cpu_s": usage.cpu_s, "peak_bytes": usage.peak_bytes }),
        );
    let [sources, nodes] = [sources.collect::<Vec<_>>(), nodes.collect()];
    let more = json!({ "by_source": sources, "nodes": nodes, "took_s": round.took_s });
    json!(round.figures().and(Row::of(more)))
}
