//! What goes on beside lookups, and whether these notice: a peer with many registrations leaves, and searches by glob go
//! through all names.

use std::time::Instant;

use futures::{StreamExt, stream};
use nekoproto::{FindRequest, Names, Search, Term, Terms, limits::FOUND_MAX, transport::call_until};

use super::{Index, Whose, name_of, sign, subject::Known, subject::Subject, subject::Timing, tables::Tables};
use crate::scenarios::prelude::*;

const IN_FLIGHT: usize = 16;
const ANSWER_WITHIN: Duration = Duration::from_secs(60);
/// Names of the peer that stays, which are looked up.
const STAYING_NAMES: usize = amount(10_000);
/// How often the peer leaves.
const ROUNDS: usize = amount(5);

/// Has a peer with `names` registrations leave, several times; less often if stopped.
pub(crate) async fn leave(subject: &Subject, names: usize, tables: &mut Tables) -> anyhow::Result<()> {
    let (watch, &Index { seed, lookups, .. }) = (subject.watch(), &tables.options);
    let identity = Whose::Copies.identity(seed);
    let leaver = subject.net.client(0, identity).await?;
    let sample = Known::of(&sign(Whose::Own, seed, 0..STAYING_NAMES), subject.client.at());
    subject.client.register_all(&sample.records).await?;
    let leaving = sign(Whose::Copies, seed, STAYING_NAMES..STAYING_NAMES + names);
    let leaving: Vec<_> = leaving.iter().map(VerifiedRecord::to_signed).collect();
    let _progress = Progress::begin(&format!("{names} leave"), ROUNDS * (names + lookups), watch);
    let (mut longest, mut quiet, mut busy) = (Duration::ZERO, Timing::default(), Timing::default());
    for _ in (0..ROUNDS).take_while(|_| !watch.is_stopped()) {
        leaver.register_all(&leaving).await?;
        watch.add_done(names as u64);
        let goes_on = |n| n < lookups && !watch.is_stopped();
        let before = subject.look_up_while(&sample, true, goes_on, IN_FLIGHT).await?;
        let leave = async {
            let sent = Instant::now();
            let done = leaver.calls.deregister_all(call_until(sent + ANSWER_WITHIN)).await;
            anyhow::Ok((done??, sent.elapsed()).1)
        };
        let (took, meanwhile) = subject.look_up_beside(&sample, IN_FLIGHT, leave).await?;
        let gone = Names::first_of(leaving.iter().map(|record| record.unverified().name.clone()));
        let answers = leaver.calls.search_all(call_until(Instant::now() + ANSWER_WITHIN), gone).await??;
        let is_gone = answers.iter().flatten().all(|answer| answer.hits.is_empty());
        ensure!(is_gone, "a peer that left is still found");
        longest = longest.max(took);
        quiet = Timing::sum([&quiet, &before]);
        busy = Timing::sum([&busy, &meanwhile]);
    }
    let before = tables.row(format!("lookups before {names} leave"), &quiet);
    let meanwhile = tables
        .row(format!("lookups while {names} leave"), &busy)
        .with("left_after_ms", longest.as_secs_f64() * 1e3)
        .with("p99_ratio", busy.figures().p99 / quiet.figures().p99);
    tables.left.extend([before, meanwhile].map(|row| row.with("names", names)));
    Ok(())
}

type Glob = (&'static str, fn(usize) -> bool);
/// Globs, and the names that they match by number: one with letters that few names have, and one that is compared with each name.
const GLOBS: [Glob; 2] = [
    ("*7777.bin", |n| n % 10_000 == 7777),
    ("data-set/p*7?77?7.bin", |n| n % 10 == 7 && n / 100 % 100 == 77 && n / 100_000 % 10 == 7),
];
const SEARCHES: usize = amount(50);

/// Searches all `names`, alone and beside lookups of the `sample`. Every answer is checked.
pub(crate) async fn find(
    subject: &Subject,
    sample: &Known,
    names: usize,
    tables: &mut Tables,
) -> anyhow::Result<()> {
    let cpu =
        || subject.net.nodes[0].of_process(machine::cpu_s).context("the indexer's processor time is unknown");
    for (glob, matches) in GLOBS {
        let search = Search { terms: Terms::first_of([Term::new(glob)?]), ..Search::default() };
        let expected: Vec<String> = (0..names).filter(|n| matches(*n)).map(name_of).collect();
        let searching = |_| {
            let (request, expected) = (FindRequest::new(search.clone(), 0), &expected);
            async move {
                let sent = Instant::now();
                let reply = subject.client.calls.find(call_until(sent + ANSWER_WITHIN), request).await??;
                let found = reply.hits.iter().map(|hit| hit.record.unverified().name.as_str());
                let is_right = reply.complete && found.eq(expected.iter().take(FOUND_MAX));
                ensure!(is_right, "wrong names match {glob}");
                Ok((1, sent.elapsed()))
            }
        };
        let searches = || Timing::of(stream::iter(0..SEARCHES).map(&searching), 1);
        let began = cpu()?;
        let alone = searches().await?;
        let cpu_ms = (cpu()? - began) * 1e3 / count(SEARCHES);
        let lookups = tables.options.lookups;
        let before = subject.look_up_while(sample, true, |n| n < lookups, IN_FLIGHT).await?;
        let (beside, busy) = subject.look_up_beside(sample, IN_FLIGHT, searches()).await?;
        let ratio = busy.figures().p99 / before.figures().p99;
        let row = |what: &str, timing| tables.row(format!("{names} names, {what} {glob}"), timing);
        let rows = [
            row("search", &alone).with("cpu_ms", cpu_ms),
            row("lookups before", &before),
            row("lookups beside", &busy).with("p99_ratio", ratio),
            row("search beside lookups", &beside),
        ];
        tables.found.extend(rows.map(|row| row.with("names", names)));
    }
    Ok(())
}
