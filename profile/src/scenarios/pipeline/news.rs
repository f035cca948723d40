//! Real work down the line: an origin at the first indexer announces the second version of each of its files, and a
//! holder of copies at the last is told of each.

use std::time::Instant;

use futures::{StreamExt, TryStreamExt, stream};
use nekoproto::{Records, RegisterRequest, limits::BATCH_MAX, transport::call_until};
use tokio::time::sleep;

use super::stand::Stand;
use crate::node::locked;
use crate::plan::{workload::sign_next, workload::sign_record};
use crate::scenarios::prelude::*;

const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// What is acknowledged and not told by then is lost.
const TOLD_WITHIN: Duration = Duration::from_secs(20);
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(5);
/// Announcements of a batch of files each that are under way at once.
const IN_FLIGHT: usize = 4;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Announced {
    /// Versions that the first indexer acknowledged.
    pub(crate) acknowledged: u64,
    /// Versions that the holder was told of.
    pub(crate) told: u64,
    /// Until the last was told.
    pub(crate) wall: Duration,
}

/// Announces this number of versions, rounded up to whole batches.
pub(crate) async fn announce(stand: &Stand, versions: usize) -> anyhow::Result<Announced> {
    let (origin, holder) = (stand.client(false).await?, stand.client(true).await?);
    let identity = Identity::generate();
    let batches = versions.div_ceil(BATCH_MAX);
    for batch in 0..batches {
        let first: Vec<_> = first(&identity, batch).iter().map(VerifiedRecord::to_signed).collect();
        origin.register(first.clone()).await?;
        holder.register(first).await?;
    }
    let newer = |record: &VerifiedRecord| sign_next(&identity, record).to_signed();
    let newer: Vec<Vec<SignedRecord>> =
        (0..batches).map(|batch| first(&identity, batch).iter().map(newer).collect()).collect();
    let began = Instant::now();
    let calls = stream::iter(newer).map(|batch| publish(&origin, batch));
    let acknowledged: Vec<u64> = calls.buffer_unordered(IN_FLIGHT).try_collect().await?;
    let acknowledged = acknowledged.into_iter().sum();
    // Each file has one newer version: told twice of one, the holder still lacks another.
    let told = || locked(&holder.told).len() as u64;
    let until = Instant::now() + TOLD_WITHIN;
    while told() < acknowledged && Instant::now() < until {
        sleep(LOOK_AGAIN_AFTER).await;
    }
    Ok(Announced { acknowledged, told: told(), wall: began.elapsed() })
}

/// Registers newer versions and has the network told of them; how many that were.
async fn publish(origin: &Client, records: Vec<SignedRecord>) -> anyhow::Result<u64> {
    let versions = records.len() as u64;
    let request = RegisterRequest { records: Records::try_from(records)?, announce: true, partial: false };
    let reply = origin.calls.register(call_until(Instant::now() + ANSWER_WITHIN), request).await??;
    ensure!(reply.unlisted.is_empty() && reply.newer.is_empty(), "not all versions were listed: {reply:?}");
    Ok(versions)
}

/// The first versions of one batch of files.
fn first(origin: &Identity, batch: usize) -> Vec<VerifiedRecord> {
    (0..BATCH_MAX).map(|n| sign_record(origin, &format!("build-{batch}/part-{n}.bin"))).collect()
}
