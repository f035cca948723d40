//! A peer with many registrations leaves while others look up: how long that takes, and whether the
//! others notice.

use std::time::{Duration, Instant};

use anyhow::ensure;
use nekoproto::{Names, VerifiedRecord, transport::call_until};

use super::subject::{Sample, Subject, Timing};
use super::{Options, Origin, sign, tables::Tables};
use crate::{cluster::client::Client, report::amount, run::progress::Progress};

/// Names of the peer that stays, which are looked up.
const STAYING_NAMES: usize = amount(10_000);
const IN_FLIGHT: usize = 16;
/// How often the peer leaves.
const ROUNDS: usize = amount(5);
pub(super) const LEFT_WITHIN: Duration = Duration::from_secs(60);

/// Has a peer with `names` registrations leave, several times; less often if stopped.
pub(crate) async fn leave(subject: &Subject, names: usize, tables: &mut Tables) -> anyhow::Result<()> {
    let (watch, &Options { seed, lookups, .. }) = (subject.watch(), &tables.options);
    let identity = Origin::Other.identity(seed);
    let leaver = Client::connect(subject.node.addr(), identity, subject.deployment.security).await?;
    let sample = Sample::of(&sign(Origin::Own, seed, 0..STAYING_NAMES), subject.client.reach.clone());
    subject.client.register_all(&sample.records).await?;
    let leaving = sign(Origin::Other, seed, STAYING_NAMES..STAYING_NAMES + names);
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
            let done = leaver.calls.deregister_all(call_until(sent + LEFT_WITHIN)).await;
            anyhow::Ok((done??, sent.elapsed()).1)
        };
        let (took, meanwhile) = subject.look_up_beside(&sample, IN_FLIGHT, leave).await?;
        let gone = Names::first_of(leaving.iter().map(|record| record.unverified().name.clone()));
        let answers = leaver.calls.search_all(call_until(Instant::now() + LEFT_WITHIN), gone).await??;
        let is_gone = answers.iter().flatten().all(|answer| answer.hits.is_empty());
        ensure!(is_gone, "a peer that left is still found");
        longest = longest.max(took);
        quiet = Timing::sum([&quiet, &before]);
        busy = Timing::sum([&busy, &meanwhile]);
    }
    let before = tables.row(format!("lookups before {names} leave"), &quiet);
    let meanwhile = tables
        .row(format!("lookups while {names} leave"), &busy)
        .figure("left_after_ms", longest.as_secs_f64() * 1e3)
        .figure("p99_ratio", busy.figures().p99 / quiet.figures().p99);
    tables.left.extend([before, meanwhile].map(|row| row.with("names", names)));
    Ok(())
}
