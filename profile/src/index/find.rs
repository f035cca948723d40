//! Searches by glob through all names: how long they take, and whether lookups beside them notice.

use std::time::Instant;

use anyhow::{Context, ensure};
use futures::{StreamExt, stream};
use nekoproto::{Covered, FindRequest, MsgId, Search, Term, Terms, limits::FOUND_MAX, transport::call_until};

use super::subject::{Sample, Subject, Timing};
use super::{leave::LEFT_WITHIN, name_of, tables::Tables};
use crate::report::{amount, count, machine};

type Glob = (&'static str, fn(usize) -> bool);
/// Globs, and the names that they match by number: one with letters that few names have, and one that is compared with each name.
const GLOBS: [Glob; 2] = [
    ("*7777.bin", |n| n % 10_000 == 7777),
    ("data-set/p*7?77?7.bin", |n| n % 10 == 7 && n / 100 % 100 == 77 && n / 100_000 % 10 == 7),
];
const SEARCHES: usize = amount(50);
const IN_FLIGHT: usize = 16;

/// Searches all `names`, alone and beside lookups of the `sample`. Every answer is checked.
pub(crate) async fn find(
    subject: &Subject,
    sample: &Sample,
    names: usize,
    tables: &mut Tables,
) -> anyhow::Result<()> {
    let cpu = || subject.node.of_process(machine::cpu_s).context("the indexer's processor time is unknown");
    for (glob, matches) in GLOBS {
        let search = Search { terms: Terms::first_of([Term::new(glob)?]), ..Search::default() };
        let expected: Vec<String> = (0..names).filter(|n| matches(*n)).map(name_of).collect();
        let searching = |_| {
            let (limit, covered) = (u16::MAX, Covered::new());
            let (msg_id, search, expected) = (MsgId::random(), search.clone(), &expected);
            let request = FindRequest { msg_id, search, after: None, limit, ttl_hops: 0, covered };
            async move {
                let sent = Instant::now();
                let reply = subject.client.calls.find(call_until(sent + LEFT_WITHIN), request).await??;
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
            row("search", &alone).figure("cpu_ms", cpu_ms),
            row("lookups before", &before),
            row("lookups beside", &busy).figure("p99_ratio", ratio),
            row("search beside lookups", &beside),
        ];
        tables.found.extend(rows.map(|row| row.with("names", names)));
    }
    Ok(())
}
