//! An indexer that grows to so many names, and what it does then.

use std::sync::Arc;

use anyhow::Context;
use nekoproto::{SignedRecord, VerifiedRecord};

use super::{
    Options, Origin,
    inside::{Costs, Inside},
    look_up, sign,
    subject::{Sample, Subject, Timing},
};
use crate::run::{Watch, progress::Progress};

/// Records signed, and then registered, at a time: only the registering is timed.
const CHUNK: usize = 10_000;
/// Names that lookups and renewals are drawn from, spread over all that are registered.
const SAMPLE_MAX: usize = 10_000;
/// Registrations in flight.
const IN_FLIGHT: usize = 4;
/// Records in one registration.
const BATCH: usize = 100;
/// Lookups in flight.
const LOOKUPS_IN_FLIGHT: usize = 64;

/// An indexer with so many names.
#[derive(Clone, Debug)]
pub struct Grown {
    /// How many.
    pub names: usize,
    /// New names registered.
    pub registered: Timing,
    /// The first tenth of them.
    pub first_tenth: Timing,
    /// The last tenth of them.
    pub last_tenth: Timing,
    /// A sample of the names registered again.
    pub renewed: Timing,
    /// Lookups of names that are there.
    pub hits: Timing,
    /// Lookups of names that are not.
    pub misses: Timing,
    /// Resident memory that the names added, in bytes for each.
    pub bytes_per_name: f64,
    /// What the same costs without a network.
    pub inside: Costs,
}

/// Fills an indexer, and measures it when it is full; `None` if stopped before.
///
/// # Errors
/// A call failed, or an answer is wrong.
pub(super) async fn grow(
    subject: &Subject,
    names: usize,
    options: &Options,
    watch: &Arc<Watch>,
) -> anyhow::Result<Option<(Grown, Sample)>> {
    let memory = || subject.rss_bytes().context("the indexer's memory cannot be read");
    let mut inside = Inside::new(subject.holder());
    let empty = memory()?;
    let (registered, mut sample) = fill(subject, &mut inside, names, options, watch).await?;
    if watch.is_stopped() {
        return Ok(None);
    }
    #[expect(clippy::cast_precision_loss, reason = "shown with a few digits")]
    let bytes_per_name = memory()?.saturating_sub(empty) as f64 / names as f64;
    sample.fill_in(&inside);
    let renewed = subject.register(&sample.records, BATCH, IN_FLIGHT, watch).await?;
    let (hits, misses) = look_up(subject, &sample, LOOKUPS_IN_FLIGHT, options.lookups, watch).await?;
    let tenth = names / 10;
    let first_tenth = registered.iter().filter(|(end, _)| *end <= tenth);
    let last_tenth = registered.iter().filter(|(end, _)| *end > names - tenth);
    let grown = Grown {
        names,
        first_tenth: Timing::sum(first_tenth.map(|(_, timing)| timing)),
        last_tenth: Timing::sum(last_tenth.map(|(_, timing)| timing)),
        registered: Timing::sum(registered.iter().map(|(_, timing)| timing)),
        renewed,
        hits,
        misses,
        bytes_per_name,
        inside: inside.costs(&sample.records, &sample.missing),
    };
    Ok(Some((grown, sample)))
}

/// Registers `names` names, at the indexer and at the index without a network. Returns how long each
/// part took with the number of names after it, and a sample of the records; less if stopped.
async fn fill(
    subject: &Subject,
    inside: &mut Inside,
    names: usize,
    options: &Options,
    watch: &Arc<Watch>,
) -> anyhow::Result<(Vec<(usize, Timing)>, Sample)> {
    watch.begin();
    let _progress = Progress::start(&format!("{names} names"), names, Arc::clone(watch));
    let (mut registered, mut sample) = (Vec::new(), Sample::default());
    let keep_every = names.div_ceil(SAMPLE_MAX);
    let ends = [names / 10, names - names / 10, names];
    let mut from = 0;
    while from < names && !watch.is_stopped() {
        let end = ends.into_iter().filter(|end| *end > from).fold(from + CHUNK, usize::min);
        let records = sign(Origin::Own, options.seed, from..end);
        inside.register(&records);
        let signed: Vec<SignedRecord> = records.iter().map(VerifiedRecord::to_signed).collect();
        registered.push((end, subject.register(&signed, BATCH, IN_FLIGHT, watch).await?));
        let kept = signed.into_iter().zip(from..end).filter(|(_, n)| n % keep_every == 0);
        sample.records.extend(kept.map(|(record, _)| record));
        from = end;
    }
    Ok((registered, sample))
}
