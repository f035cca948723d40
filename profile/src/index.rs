//! One indexer in a process of its own: registrations and lookups a second, what a name costs in memory,
//! and how much of the time is the index and how much the way to it.

pub mod grow;
pub mod inside;
pub mod leave;
pub mod show;
pub mod subject;

use std::{ops::Range, thread};

use clap::Args;
use nekoindexer::state::index::SESSION_NAMES_MAX;
use nekoproto::{
    Identity, VerifiedRecord,
    limits::{BATCH_MAX, CALLS_IN_FLIGHT_MAX},
    transport::Security,
};

use self::{
    grow::Grown,
    leave::Left,
    subject::{Sample, Subject, Timing},
};
use crate::{
    cluster::{affinity, deployment::Deployment},
    floor::Floor,
    outcome::{Begin, Fault},
    plan::workload::sign_record,
    run::{progress::Progress, setup::within},
};

/// Names of each row by batch size.
const BATCHED_NAMES: usize = 10_000;
/// Lookups of many names each that are in flight.
const LOOKUPS_IN_FLIGHT: usize = 16;
/// Lookups in batches are up to this many times faster, so that this many times more are measured.
const LOOKUPS_BATCHED: usize = 10;

/// What to measure.
#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Names registered, one row of memory and throughput for each
    #[arg(long, value_delimiter = ',', default_value = "10000,100000,1000000", value_parser = within(100, SESSION_NAMES_MAX))]
    pub names: Vec<usize>,
    /// Calls in flight at once, one row of lookups for each
    #[arg(long, value_delimiter = ',', default_value = "1,4,16,64,256", value_parser = within(1, CALLS_IN_FLIGHT_MAX))]
    pub depths: Vec<usize>,
    /// Records in one registration, one row for each
    #[arg(long, value_delimiter = ',', default_value = "1,10,100", value_parser = within(1, BATCH_MAX))]
    pub batches: Vec<usize>,
    /// Registrations of a peer that leaves, one row for each
    #[arg(long, value_delimiter = ',', default_value = "100000", value_parser = within(100, SESSION_NAMES_MAX))]
    pub leave: Vec<usize>,
    /// Lookups of each row
    #[arg(long, default_value = "20000", value_parser = within(100, 10_000_000))]
    pub lookups: usize,
    /// Seed of the key that signs the names
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// All that was measured of an indexer.
#[derive(Clone, Debug)]
pub struct Measured {
    options: Options,
    security: Security,
    floor: Floor,
    /// By number of names.
    pub grown: Vec<Grown>,
    /// By lookups in flight.
    pub pipelined: Vec<Pipelined>,
    /// By records in a registration.
    pub batched: Vec<Batched>,
    /// By registrations of a peer that left.
    pub left: Vec<Left>,
    /// It was ended early.
    pub interrupted: bool,
}

/// Lookups with `depth` calls in flight.
#[derive(Clone, Debug)]
pub struct Pipelined {
    pub depth: usize,
    /// Lookups of names that are there.
    pub hits: Timing,
    /// Lookups of names that are not.
    pub misses: Timing,
}

/// Registrations of `batch` records each, one call at a time.
#[derive(Clone, Debug)]
pub struct Batched {
    pub batch: usize,
    /// New names of the peer's own.
    pub new: Timing,
    /// The same again.
    pub known: Timing,
    /// New names of which the peer holds copies: each has a signature to be checked.
    pub copies: Timing,
    /// Lookups of `batch` names in a call, sixteen calls in flight.
    pub hits: Timing,
}

/// Measures all that `options` name on indexers of their own; ends early when stopped, with what was
/// measured by then.
pub async fn run(options: &Options, deployment: &Deployment) -> Result<Measured, Fault> {
    let watch = &deployment.watch;
    let floor = watch.unless_stopped(Floor::measure(deployment)).await.or_cannot_begin()?;
    let (grown, pipelined, batches, left) = <_>::default();
    let (options, security) = (options.clone(), deployment.security);
    let mut measured =
        Measured { options, security, floor, grown, pipelined, batched: batches, left, interrupted: false };
    let options = measured.options.clone();
    let start =
        async || Subject::start(deployment, Origin::Own.identity(options.seed)).await.or_cannot_begin();
    for (row, names) in options.names.iter().enumerate().take_while(|_| !watch.is_stopped()) {
        let subject = start().await?;
        if let Some((grown, sample)) = grow::grow(&subject, *names, &options).await? {
            measured.grown.push(grown);
            if row == 0 {
                measured.pipelined = pipelined_lookups(&subject, &sample, &options).await?;
            }
        }
        subject.stop().await;
    }
    for batch in options.batches.iter().take_while(|_| !watch.is_stopped()) {
        let subject = start().await?;
        measured.batched.push(batched(&subject, *batch, &options).await?);
        subject.stop().await;
    }
    for names in options.leave.iter().take_while(|_| !watch.is_stopped()) {
        let subject = start().await?;
        measured.left.push(leave::leave(&subject, *names, &options).await?);
        subject.stop().await;
    }
    measured.interrupted = watch.is_stopped();
    Ok(measured)
}

async fn pipelined_lookups(
    subject: &Subject,
    sample: &Sample,
    options: &Options,
) -> anyhow::Result<Vec<Pipelined>> {
    let mut rows = Vec::new();
    for depth in options.depths.iter().copied().take_while(|_| !subject.watch().is_stopped()) {
        let (hits, misses) = subject.hits_and_misses(sample, depth, options.lookups).await?;
        rows.push(Pipelined { depth, hits, misses });
    }
    Ok(rows)
}

async fn batched(subject: &Subject, batch: usize, options: &Options) -> anyhow::Result<Batched> {
    let sample = Sample::of(&sign(Origin::Own, options.seed, 0..BATCHED_NAMES), subject.holder());
    let copies = sign(Origin::Other, options.seed, BATCHED_NAMES..2 * BATCHED_NAMES);
    let copies: Vec<_> = copies.iter().map(VerifiedRecord::to_signed).collect();
    let lookups = options.lookups * batch.min(LOOKUPS_BATCHED);
    let _progress = Progress::begin(&format!("batch {batch}"), 3 * BATCHED_NAMES + lookups, subject.watch());
    Ok(Batched {
        batch,
        new: subject.register(&sample.records, batch, 1).await?,
        known: subject.register(&sample.records, batch, 1).await?,
        copies: subject.register(&copies, batch, 1).await?,
        hits: subject.look_up_all(&sample, lookups, batch, LOOKUPS_IN_FLIGHT).await?,
    })
}

/// Who publishes the files: the peer itself, or somebody whose copies it holds.
#[derive(Clone, Copy, Debug)]
pub enum Origin {
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
pub fn name_of(n: usize) -> String {
    format!("data-set/part-{n:012}.bin")
}

/// Signs the records of these files, on all cores.
pub fn sign(origin: Origin, seed: u64, files: Range<usize>) -> Vec<VerifiedRecord> {
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
