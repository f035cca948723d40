//! What came of transfers: for people, for machines, and as pictures.

use serde_json::Value;

use super::{case::Case, case::What, figures::KEYS, figures::ORIGIN, figures::Round, figures::Rounds};
use crate::report::{aligned, cells, turned};
use crate::scenarios::prelude::*;

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
fn pictures(row: &Rounds) -> Vec<(String, Picture)> {
    let Some(round) = row.rounds.last() else { return Vec::new() };
    let case = &row.case;
    let subtitle = format!("{}\n{}; {}", case.name(), security_name(case.security), machine::in_words());
    let of = |what: &str, title: &str, y, points| {
        let chart = lines("seconds since the readers began", y, points);
        let picture = Picture { title: title.to_owned(), subtitle: subtitle.clone(), charts: vec![chart] };
        (format!("transfer-{}-{what}", case.slug()), picture)
    };
    let both = [
        of("throughput", "What came from whom over time", "MB/s", round.throughput()),
        of("memory", "Memory over time", "resident, MiB", round.memory()),
    ];
    both.into_iter().filter(|(_, picture)| !picture.charts[0].series.is_empty()).collect()
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
    Value::Object(round.figures().and(Row::of(more)).0)
}
