//! A peer with many registrations leaves while others look up: how long that takes, and whether the
//! others notice.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::ensure;
use nekoproto::{Names, VerifiedRecord, limits::BATCH_MAX, transport::call_until};

use super::{
    Options, Origin,
    inside::Inside,
    sign,
    subject::{Sample, Subject, Timing},
};
use crate::{
    cluster::node::Place,
    run::{Watch, progress::Progress},
};

/// Names of the peer that stays, which are looked up.
const STAYING_NAMES: usize = 10_000;
/// Lookups in flight.
const IN_FLIGHT: usize = 16;
/// How often the peer leaves.
const ROUNDS: usize = 5;
/// How long it may take.
const LEFT_WITHIN: Duration = Duration::from_secs(60);

/// A peer that left.
#[derive(Clone, Debug)]
pub struct Left {
    /// How many registrations it had.
    pub names: usize,
    /// How long leaving took, each time.
    pub took: Vec<Duration>,
    /// Lookups of others before.
    pub before: Timing,
    /// Lookups of others while it left.
    pub meanwhile: Timing,
}

impl Left {
    /// How long the slowest leaving took, in milliseconds.
    #[must_use]
    pub fn longest_ms(&self) -> f64 {
        self.took.iter().max().map_or(f64::NAN, |longest| longest.as_secs_f64() * 1e3)
    }
}

/// Has a peer with `names` registrations leave, several times; less often if stopped.
///
/// # Errors
/// A call failed, or an answer is wrong.
pub(super) async fn leave(
    place: &Place,
    names: usize,
    options: &Options,
    watch: &Arc<Watch>,
) -> anyhow::Result<Left> {
    let subject = Subject::start(place, Origin::Own.identity(options.seed)).await?;
    let leaver = subject.another(place, Origin::Other.identity(options.seed)).await?;
    let staying = sign(Origin::Own, options.seed, 0..STAYING_NAMES);
    let mut inside = Inside::new(subject.holder());
    inside.register(&staying);
    let records = staying.iter().map(VerifiedRecord::to_signed).collect();
    let mut sample = Sample { records, ..Sample::default() };
    sample.fill_in(&inside);
    for batch in sample.records.chunks(BATCH_MAX) {
        subject.client().register(batch.to_vec()).await?;
    }
    let leaving = sign(Origin::Other, options.seed, STAYING_NAMES..STAYING_NAMES + names);
    watch.begin();
    let all = ROUNDS * (names + options.lookups);
    let _progress = Progress::start(&format!("{names} leave"), all, Arc::clone(watch));
    let mut left = Left { names, took: Vec::new(), before: Timing::default(), meanwhile: Timing::default() };
    for _ in 0..ROUNDS {
        if watch.is_stopped() {
            break;
        }
        for batch in leaving.chunks(BATCH_MAX) {
            leaver.register(batch.iter().map(VerifiedRecord::to_signed).collect()).await?;
            watch.add_done(batch.len() as u64);
        }
        let before = subject.look_up(&sample, true, options.lookups, IN_FLIGHT, watch).await?;
        let is_leaving = AtomicBool::new(true);
        let leave = async {
            let sent = Instant::now();
            let done = leaver.calls.deregister_all(call_until(sent + LEFT_WITHIN)).await;
            is_leaving.store(false, Ordering::Relaxed);
            anyhow::Ok((done??, sent.elapsed()).1)
        };
        let goes_on = |_| is_leaving.load(Ordering::Relaxed);
        let look_up = subject.look_up_while(&sample, true, goes_on, IN_FLIGHT, watch);
        let (took, meanwhile) = futures::future::try_join(leave, look_up).await?;
        let gone = Names::first_of(leaving.iter().map(|record| record.name.clone()));
        let answers = leaver.calls.search_all(call_until(Instant::now() + LEFT_WITHIN), gone).await??;
        let is_gone = answers.iter().flatten().all(|answer| answer.hits.is_empty());
        ensure!(is_gone, "a peer that left is still found");
        left.took.push(took);
        left.before = Timing::sum([&left.before, &before].into_iter());
        left.meanwhile = Timing::sum([&left.meanwhile, &meanwhile].into_iter());
    }
    subject.stop().await;
    Ok(left)
}
