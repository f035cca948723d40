//! One indexer in a process of its own: how many registrations and lookups a second it takes, what a
//! name costs in memory, and how much of the time is the index and how much the way to it.

mod inside;
mod report;
mod subject;

use std::{
    sync::{Arc, atomic::Ordering},
    thread,
};

use anyhow::Context;
use nekoproto::{Identity, SignedRecord, VerifiedRecord};

pub use inside::Costs;
pub use report::Report;

use self::{
    inside::Inside,
    subject::{Sample, Subject, Timing},
};
use crate::{
    cluster::node::Place,
    commands::{
        interrupt::until_stopped,
        outcome::{Begin, Fault},
        progress::Progress,
    },
    floor::{self, Floor},
    plan::workload::sign_record,
    run::Watch,
};

/// Records signed, and then registered, at a time: only the registering is timed.
const CHUNK: usize = 10_000;
/// Names that lookups and renewals are drawn from, spread over all that are registered.
const SAMPLE_MAX: usize = 10_000;
/// Registrations in flight while an index grows.
const GROWING_IN_FLIGHT: usize = 4;
/// Records in one registration while an index grows.
const GROWING_BATCH: usize = 100;
/// Lookups in flight in the rows by number of names.
const LOOKUPS_IN_FLIGHT: usize = 64;
/// Names of each row by batch size.
const BATCHED_NAMES: usize = 10_000;

/// What to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// Names registered, a row for each.
    pub names: Vec<usize>,
    /// Lookups in flight, a row for each.
    pub depths: Vec<usize>,
    /// Records in one registration, a row for each.
    pub batches: Vec<usize>,
    /// Lookups of each row.
    pub lookups: usize,
    /// Seed of the keys.
    pub seed: u64,
}

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
    /// Names registered again.
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

/// Lookups with so many in flight.
#[derive(Clone, Debug)]
pub struct Pipelined {
    /// How many.
    pub depth: usize,
    /// Lookups of names that are there.
    pub hits: Timing,
    /// Lookups of names that are not.
    pub misses: Timing,
}

/// Registrations of so many records each, one call at a time.
#[derive(Clone, Debug)]
pub struct Batched {
    /// How many.
    pub batch: usize,
    /// New names.
    pub new: Timing,
    /// Names that are registered already.
    pub known: Timing,
}

/// Measures all that `options` name on indexers of their own, started by `place`; ends early when
/// stopped, with what was measured by then.
///
/// # Errors
/// An indexer cannot be started, or broke.
pub async fn run(options: &Options, place: &Place, watch: &Arc<Watch>) -> Result<Report, Fault> {
    let before = until_stopped(watch, Floor::measure(place)).await.or_cannot_begin()?;
    let mut report = Report::new(place.security, floor::figures(&before.raw)?, floor::figures(&before.call)?);
    let is_stopped = || watch.stop.load(Ordering::Relaxed);
    for (row, names) in options.names.iter().enumerate() {
        if is_stopped() {
            break;
        }
        let subject = until_stopped(watch, Subject::start(place)).await.or_cannot_begin()?;
        let (grown, sample) = grow(&subject, *names, options, watch).await?;
        report.grown.extend(grown);
        if row == 0 {
            for depth in &options.depths {
                if is_stopped() {
                    break;
                }
                let (hits, misses) = look_up(&subject, &sample, *depth, options.lookups, watch).await?;
                report.pipelined.push(Pipelined { depth: *depth, hits, misses });
            }
        }
        subject.stop().await;
    }
    for batch in &options.batches {
        if is_stopped() {
            break;
        }
        let subject = until_stopped(watch, Subject::start(place)).await.or_cannot_begin()?;
        let records = sign(options.seed, 0..BATCHED_NAMES);
        let records: Vec<SignedRecord> = records.iter().map(VerifiedRecord::to_signed).collect();
        let _progress = Progress::start(&format!("batch {batch}"), 2 * BATCHED_NAMES, begin(watch));
        let new = subject.register(&records, *batch, 1, watch).await?;
        let known = subject.register(&records, *batch, 1, watch).await?;
        report.batched.push(Batched { batch: *batch, new, known });
        subject.stop().await;
    }
    report.interrupted = is_stopped();
    Ok(report)
}

/// Fills an indexer, and measures it when it is full; `None` if stopped before.
async fn grow(
    subject: &Subject,
    names: usize,
    options: &Options,
    watch: &Arc<Watch>,
) -> anyhow::Result<(Option<Grown>, Sample)> {
    let progress = Progress::start(&format!("{names} names"), names, begin(watch));
    let mut inside = Inside::new(subject.holder());
    let mut sample = Sample::default();
    let mut registered = Vec::new();
    let empty = subject.rss_bytes().context("the indexer's memory cannot be read")?;
    let keep_every = names.div_ceil(SAMPLE_MAX);
    let tenth = names.div_ceil(10).min(CHUNK);
    let ends = [tenth, names - tenth, names];
    let mut from = 0;
    while from < names && !watch.stop.load(Ordering::Relaxed) {
        let end = ends.into_iter().filter(|end| *end > from).fold(from + CHUNK, usize::min).min(names);
        let records = sign(options.seed, from..end);
        inside.register(&records);
        let signed: Vec<SignedRecord> = records.iter().map(VerifiedRecord::to_signed).collect();
        registered.push(subject.register(&signed, GROWING_BATCH, GROWING_IN_FLIGHT, watch).await?);
        sample.records.extend(
            signed.into_iter().zip(from..end).filter(|(_, n)| n % keep_every == 0).map(|(record, _)| record),
        );
        from = end;
    }
    drop(progress);
    let full = subject.rss_bytes().context("the indexer's memory cannot be read")?;
    sample.fill_in(&inside);
    if from < names {
        return Ok((None, sample));
    }
    let renewed = subject.register(&sample.records, GROWING_BATCH, GROWING_IN_FLIGHT, watch).await?;
    let (hits, misses) = look_up(subject, &sample, LOOKUPS_IN_FLIGHT, options.lookups, watch).await?;
    #[expect(clippy::cast_precision_loss, reason = "shown with a few digits")]
    let bytes_per_name = full.saturating_sub(empty) as f64 / names as f64;
    let (first_tenth, last_tenth) = (registered[0].clone(), registered[registered.len() - 1].clone());
    let registered = Timing::sum(&registered);
    let inside = inside.costs(&sample);
    Ok((
        Some(Grown {
            names,
            registered,
            first_tenth,
            last_tenth,
            renewed,
            hits,
            misses,
            bytes_per_name,
            inside,
        }),
        sample,
    ))
}

async fn look_up(
    subject: &Subject,
    sample: &Sample,
    depth: usize,
    lookups: usize,
    watch: &Arc<Watch>,
) -> anyhow::Result<(Timing, Timing)> {
    let _progress = Progress::start(&format!("{depth} in flight"), 2 * lookups, begin(watch));
    let hits = subject.look_up(sample, true, lookups, depth, watch).await?;
    let misses = subject.look_up(sample, false, lookups, depth, watch).await?;
    Ok((hits, misses))
}

fn begin(watch: &Arc<Watch>) -> Arc<Watch> {
    watch.done.store(0, Ordering::Relaxed);
    Arc::clone(watch)
}

/// The name of the n-th file: 30 bytes.
fn name_of(n: usize) -> String {
    format!("data-set/part-{n:012}.bin")
}

/// Signs the records of these files, on all cores.
fn sign(seed: u64, files: std::ops::Range<usize>) -> Vec<VerifiedRecord> {
    let mut key = [7; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    let origin = Identity::from_seed(&key);
    let cores = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let share = files.len().div_ceil(cores).max(1);
    thread::scope(|scope| {
        let (origin, end) = (&origin, files.end);
        let signing: Vec<_> = files
            .step_by(share)
            .map(|from| {
                let of_share = from..(from + share).min(end);
                scope.spawn(move || of_share.map(|n| sign_record(origin, &name_of(n))).collect::<Vec<_>>())
            })
            .collect();
        // A panic there is one here; there is none.
        signing.into_iter().flat_map(|share| share.join().unwrap_or_default()).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_thirty_bytes_and_are_signed_in_order() {
        assert_eq!(name_of(7).len(), 30);
        let names: Vec<String> = sign(1, 5..12).iter().map(|record| record.name.to_string()).collect();
        assert_eq!(names, (5..12).map(name_of).collect::<Vec<_>>());
    }
}
