//! Lets neighbors prove themselves: probes those that are not asked, judges those that are not heard any more, and
//! publishes what became of guests, at most some times a second.

use std::{sync::Arc, time::Duration};

use nekoproto::{Covered, FileName, MsgId, QueryRequest, clock, transport::call_within};
use tarpc::client::RpcError;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};
use tracing::{debug, info};

use super::links::Candidate;
use crate::{shared::Shared, state::standing::was_busy};

/// How often a neighbor is probed that is not asked.
const PROBED_EVERY: Duration = Duration::from_secs(1);
/// Time for the answer.
const PROBED_WITHIN: Duration = Duration::from_secs(1);
/// The shortest time between two snapshots that guests bring about.
const PUBLISHED_EVERY: Duration = Duration::from_millis(100);

/// Runs until dropped.
pub(crate) async fn run(shared: &Arc<Shared>) {
    let links = &shared.neighbors.links;
    let mut ticks = interval(PROBED_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let due = tokio::select! {
            due = ticks.tick() => Some(due),
            () = links.to_judge.notified() => None,
        };
        let is_tick = due.is_some();
        if due.is_some_and(|due| !was_busy(due.into_std(), Instant::now().into_std())) {
            links.judge_silent(clock::now(), Instant::now().into_std());
        }
        // A guest is probed as soon as it has told its names, and after that as often as all others.
        let candidates = links.candidates().into_iter().filter(|one| is_tick || one.load.record.is_new());
        for candidate in candidates.filter(|one| one.load.record.begin_probe()) {
            shared.spawn_until_stop(|shared| async move { probe(&shared, candidate).await });
        }
        links.publish_changed();
        shared.neighbors.changed();
        sleep(PUBLISHED_EVERY).await;
    }
}

/// Asks for a name that nobody has, of the neighbor alone. Nobody waits for the answer.
async fn probe(shared: &Shared, Candidate { connected, load }: Candidate) {
    let msg_id = MsgId::random();
    let Ok(name) = FileName::new(&format!("{:032x}", rand::random::<u128>())) else { return };
    let request =
        QueryRequest { covered: Covered::first_of([shared.tag]), ..QueryRequest::new(msg_id, name, 0) };
    let began = Instant::now();
    let answer = connected.client.query(call_within(PROBED_WITHIN), request).await;
    let took = matches!(answer, Ok(Ok(_))).then(|| began.elapsed());
    let is_late = matches!(answer, Err(RpcError::DeadlineExceeded));
    if is_late && was_busy((began + PROBED_WITHIN).into_std(), Instant::now().into_std()) {
        return load.record.probed_in_vain();
    }
    debug!(addr = %connected.addr, ?took, "probed a neighbor");
    if load.record.probed(took, Instant::now().into_std()) {
        info!(addr = %connected.addr, "a neighbor answers: it is asked from now on");
        shared.neighbors.links.judged();
    }
}
