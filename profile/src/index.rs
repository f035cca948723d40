//! One indexer in a process of its own: how many registrations and lookups a second it takes, what a
//! name costs in memory, and how much of the time is the index and how much the way to it.

mod grow;
mod inside;
mod leave;
mod report;
mod subject;

use std::{ops::Range, sync::Arc, thread};

use nekoproto::{Identity, SignedRecord, VerifiedRecord};

pub use grow::Grown;
pub use inside::Costs;
pub use leave::Left;
pub use report::Report;
pub use subject::Timing;

use self::{
    grow::grow,
    inside::Inside,
    subject::{Sample, Subject},
};
use crate::{
    cluster::{affinity, node::Place},
    floor::Floor,
    outcome::{Begin, Fault},
    plan::workload::sign_record,
    run::{Watch, progress::Progress},
};

/// Names of each row by batch size.
const BATCHED_NAMES: usize = 10_000;

/// Lookups of many names each that are in flight.
const LOOKUPS_IN_FLIGHT: usize = 16;
/// Lookups in batches are that many times faster, at most, and as many times as many.
const LOOKUPS_BATCHED: usize = 10;

/// What to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// Names registered, a row for each.
    pub names: Vec<usize>,
    /// Lookups in flight, a row for each.
    pub depths: Vec<usize>,
    /// Records in one registration, a row for each.
    pub batches: Vec<usize>,
    /// Registrations of a peer that leaves, a row for each.
    pub leaves: Vec<usize>,
    /// Lookups of each row.
    pub lookups: usize,
    /// Seed of the keys.
    pub seed: u64,
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
    /// New names of the peer's own.
    pub new: Timing,
    /// The same again.
    pub known: Timing,
    /// New names of which the peer holds copies: each has a signature to be checked.
    pub copies: Timing,
    /// Lookups of as many names in a call, sixteen calls in flight.
    pub hits: Timing,
}

/// Measures all that `options` name on indexers of their own, started by `place`; ends early when
/// stopped, with what was measured by then.
///
/// # Errors
/// An indexer cannot be started, or broke.
pub async fn run(options: &Options, place: &Place, watch: &Arc<Watch>) -> Result<Report, Fault> {
    let floor = watch.unless_stopped(Floor::measure(place)).await.or_cannot_begin()?;
    let mut report = Report::new(options.clone(), place.security, floor);
    for (row, names) in options.names.iter().enumerate() {
        if watch.is_stopped() {
            break;
        }
        let subject = Subject::start(place, Origin::Own.identity(options.seed)).await.or_cannot_begin()?;
        if let Some((grown, sample)) = grow(&subject, *names, options, watch).await? {
            report.grown.push(grown);
            if row == 0 {
                report.pipelined = pipelined(&subject, &sample, options, watch).await?;
            }
        }
        subject.stop().await;
    }
    for batch in &options.batches {
        if watch.is_stopped() {
            break;
        }
        let subject = Subject::start(place, Origin::Own.identity(options.seed)).await.or_cannot_begin()?;
        report.batched.push(batched(&subject, *batch, options, watch).await?);
        subject.stop().await;
    }
    for names in &options.leaves {
        if watch.is_stopped() {
            break;
        }
        report.left.push(leave::leave(place, *names, options, watch).await?);
    }
    report.interrupted = watch.is_stopped();
    Ok(report)
}

async fn pipelined(
    subject: &Subject,
    sample: &Sample,
    options: &Options,
    watch: &Arc<Watch>,
) -> anyhow::Result<Vec<Pipelined>> {
    let mut rows = Vec::new();
    for depth in options.depths.iter().copied() {
        if watch.is_stopped() {
            break;
        }
        let (hits, misses) = look_up(subject, sample, depth, options.lookups, watch).await?;
        rows.push(Pipelined { depth, hits, misses });
    }
    Ok(rows)
}

async fn batched(
    subject: &Subject,
    batch: usize,
    options: &Options,
    watch: &Arc<Watch>,
) -> anyhow::Result<Batched> {
    let own = sign(Origin::Own, options.seed, 0..BATCHED_NAMES);
    let signed = |records: &[VerifiedRecord]| records.iter().map(VerifiedRecord::to_signed).collect();
    let records: Vec<SignedRecord> = signed(&own);
    let copies: Vec<SignedRecord> =
        signed(&sign(Origin::Other, options.seed, BATCHED_NAMES..2 * BATCHED_NAMES));
    let mut inside = Inside::new(subject.holder());
    inside.register(&own);
    let mut sample = Sample { records: records.clone(), ..Sample::default() };
    sample.fill_in(&inside);
    let lookups = options.lookups * batch.min(LOOKUPS_BATCHED);
    watch.begin();
    let all = 3 * BATCHED_NAMES + lookups;
    let _progress = Progress::start(&format!("batch {batch}"), all, Arc::clone(watch));
    let new = subject.register(&records, batch, 1, watch).await?;
    let known = subject.register(&records, batch, 1, watch).await?;
    let copies = subject.register(&copies, batch, 1, watch).await?;
    let hits = subject.look_up_all(&sample, lookups, batch, LOOKUPS_IN_FLIGHT, watch).await?;
    Ok(Batched { batch, new, known, copies, hits })
}

async fn look_up(
    subject: &Subject,
    sample: &Sample,
    depth: usize,
    lookups: usize,
    watch: &Arc<Watch>,
) -> anyhow::Result<(Timing, Timing)> {
    watch.begin();
    let _progress = Progress::start(&format!("{depth} in flight"), 2 * lookups, Arc::clone(watch));
    let hits = subject.look_up(sample, true, lookups, depth, watch).await?;
    let misses = subject.look_up(sample, false, lookups, depth, watch).await?;
    Ok((hits, misses))
}

/// Who publishes the files: the peer itself, or somebody whose copies it holds.
#[derive(Clone, Copy, Debug)]
enum Origin {
    Own,
    Other,
}

impl Origin {
    fn identity(self, seed: u64) -> Identity {
        let mut key = [self as u8; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        Identity::from_seed(&key)
    }
}

/// The name of the n-th file: 30 bytes.
fn name_of(n: usize) -> String {
    format!("data-set/part-{n:012}.bin")
}

/// Signs the records of these files, on all cores.
fn sign(origin: Origin, seed: u64, files: Range<usize>) -> Vec<VerifiedRecord> {
    let origin = origin.identity(seed);
    let share = files.len().div_ceil(affinity::cores()).max(1);
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
        let names: Vec<String> =
            sign(Origin::Own, 1, 5..12).iter().map(|record| record.name.to_string()).collect();
        assert_eq!(names, (5..12).map(name_of).collect::<Vec<_>>());
    }
}
