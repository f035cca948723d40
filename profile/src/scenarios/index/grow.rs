//! An indexer that grows to a number of names, and what it does then.

use super::{
    Whose, beside, inside::Costs, inside::Inside, sign, subject::Known, subject::Subject, subject::Timing,
    tables::Tables,
};
use crate::scenarios::prelude::*;

/// Records signed, and then registered, at a time: only the registering is timed.
const CHUNK: usize = 10_000;
/// Names that lookups and renewals are drawn from, spread over all that are registered.
const SAMPLE_MAX: usize = 10_000;
const IN_FLIGHT: usize = 4;
const BATCH: usize = 100;
const LOOKUPS_IN_FLIGHT: usize = 64;

/// Fills an indexer, and measures it when it is full; returns a sample of the names and what they cost
/// without a network, or `None` if stopped before.
pub(crate) async fn grow(
    subject: &Subject,
    names: usize,
    tables: &mut Tables,
) -> anyhow::Result<Option<(Known, Costs)>> {
    let memory =
        || subject.net.nodes[0].of_process(machine::rss_bytes).context("the indexer's memory is unknown");
    let mut inside = Inside::new(subject.client.at());
    let empty = memory()?;
    let (filled, kept) = fill(subject, &mut inside, names, tables.options.seed).await?;
    if subject.watch().is_stopped() {
        return Ok(None);
    }
    let bytes_per_name = bytes(memory()?.saturating_sub(empty)) / count(names);
    let sample = Known::known_to(&inside, kept);
    let renewed = subject.register(&sample.records, BATCH, IN_FLIGHT).await?;
    let (hits, misses) = subject.hits_and_misses(&sample, LOOKUPS_IN_FLIGHT, tables.options.lookups).await?;
    let costs = inside.costs(&sample.records, &sample.missing);
    let tenth = names / 10;
    let part = |is_in: &dyn Fn(usize) -> bool| {
        Timing::sum(filled.iter().filter(|(end, _)| is_in(*end)).map(|(_, timing)| timing))
    };
    let registered = part(&|_| true);
    let lookups = [("hits, 64 in flight", &hits), ("misses, 64 in flight", &misses)];
    for (what, timing) in [("register", &registered), ("renew", &renewed)].into_iter().chain(lookups) {
        let mut row = tables.row(format!("{names} names, {what}"), timing).with("names", names);
        if what == "register" {
            row = row
                .with("bytes_per_name", bytes_per_name)
                .with("first_tenth_per_s", part(&|end| end <= tenth).per_s())
                .with("last_tenth_per_s", part(&|end| end > names - tenth).per_s())
                .with("inside_hit_us", costs.hit_us)
                .with("inside_miss_us", costs.miss_us)
                .with("inside_verify_us", costs.verify_us)
                .with("inside_register_us", costs.register_us);
        }
        tables.grown.push(row);
    }
    beside::find(subject, &sample, names, tables).await?;
    let operation = format!("registration, own and new, of {names} names");
    tables.share(operation, &registered, costs.register_us);
    Ok(Some((sample, costs)))
}

/// Registers `names` names, at the indexer and at the index without a network. Returns how long each
/// part took with the number of names after it, and a sample of the records; less if stopped.
async fn fill(
    subject: &Subject,
    inside: &mut Inside,
    names: usize,
    seed: u64,
) -> anyhow::Result<(Vec<(usize, Timing)>, Vec<SignedRecord>)> {
    let _progress = Progress::begin(&format!("{names} names"), names, subject.watch());
    let (mut registered, mut sample) = (Vec::new(), Vec::new());
    let keep_every = names.div_ceil(SAMPLE_MAX);
    let ends = [names / 10, names - names / 10, names];
    let mut from = 0;
    while from < names && !subject.watch().is_stopped() {
        let end = ends.into_iter().filter(|end| *end > from).fold(from + CHUNK, usize::min);
        let records = sign(Whose::Own, seed, from..end);
        inside.register(&records);
        let signed: Vec<SignedRecord> = records.iter().map(VerifiedRecord::to_signed).collect();
        registered.push((end, subject.register(&signed, BATCH, IN_FLIGHT).await?));
        let kept = signed.into_iter().zip(from..end).filter(|(_, n)| n % keep_every == 0);
        sample.extend(kept.map(|(record, _)| record));
        from = end;
    }
    Ok((registered, sample))
}
