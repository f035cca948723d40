//! Advertises summaries to one neighbor: at once when something is new, and regularly to confirm.

use std::{collections::HashMap, time::Duration};

use nekoproto::{IndexerServiceClient, List, NodeTag, summary::SummaryUpdate, transport::call_within};
use tokio::time::{Instant as TokioInstant, sleep, timeout, timeout_at};
use tracing::debug;

use super::Neighborhood;
use crate::state::{
    State,
    summary::{About, Advertisement, Position, Relay, TRUSTED_FOR},
};

/// How often a summary is confirmed when nothing is new: several times in [`TRUSTED_FOR`].
const CONFIRMED_EVERY: Duration = Duration::from_millis(400);
/// Time for a neighbor to acknowledge an update.
const ACKNOWLEDGED_WITHIN: Duration = TRUSTED_FOR;
/// Pause before a retry when a neighbor did not acknowledge.
const RETRY_AFTER: Duration = Duration::from_millis(50);
const _: () = assert!(2 * CONFIRMED_EVERY.as_millis() < TRUSTED_FOR.as_millis());

impl Neighborhood {
    /// Advertises our names to the neighbor `to`, and those of others that do not advertise to it
    /// themselves. Never ends.
    ///
    /// # Cancel safety
    /// Safe; the next call begins with whole summaries.
    pub(crate) async fn advertise(&self, state: &State, to: NodeTag, neighbor: &IndexerServiceClient) {
        futures::join!(self.advertise_own(state, neighbor), self.advertise_others(state, to, neighbor));
    }

    async fn advertise_own(&self, state: &State, neighbor: &IndexerServiceClient) {
        let number = self.acknowledged.add_neighbor();
        let mut news = self.own_news.subscribe();
        let mut acknowledged = None;
        loop {
            news.mark_unchanged(); // all of it is advertised now
            let next = state.own_summary().advertise(acknowledged);
            let neighbors = List::first_of(self.links.current().tags.iter().copied());
            let about = About { of: self.me, hops: 0, age: Duration::ZERO, neighbors };
            acknowledged = send(neighbor, next.updates(acknowledged, &about)).await;
            self.acknowledged.note(*number, acknowledged);
            if acknowledged.is_none() {
                sleep(RETRY_AFTER).await;
            } else if state.own_summary().is_all(acknowledged) {
                // Either way an update follows: with what is new, or to confirm.
                let _ = timeout(CONFIRMED_EVERY, news.changed()).await;
            }
        }
    }

    async fn advertise_others(&self, state: &State, to: NodeTag, neighbor: &IndexerServiceClient) {
        let mut news = self.others_news.subscribe();
        let mut acknowledged: HashMap<Relay, Position> = HashMap::new();
        let mut confirm_at = TokioInstant::now();
        loop {
            news.mark_unchanged();
            let now = TokioInstant::now();
            let is_due = now >= confirm_at;
            if is_due {
                confirm_at = now + CONFIRMED_EVERY;
            }
            let relays = state.relays(to, self.me, now.into());
            acknowledged.retain(|relay, _| relays.contains(relay));
            for relay in relays {
                let before = acknowledged.remove(&relay);
                let next = {
                    let theirs = state.their_summaries.get(&relay.via);
                    theirs.and_then(|theirs| theirs.pass_on(relay, before, now.into()))
                };
                let after = match next {
                    // A whole filter only when it is due: a node that rebuilds its filter often cannot flood us.
                    Some((Advertisement::Whole(..), ..)) if !is_due => None,
                    Some((next, about, is_new)) if is_new || is_due => {
                        send(neighbor, next.updates(before, &about)).await
                    }
                    _ => before,
                };
                acknowledged.extend(after.map(|after| (relay, after)));
            }
            // Either way updates follow: with what is new, or to confirm.
            let _ = timeout_at(confirm_at, news.changed()).await;
        }
    }
}

/// Sends updates; returns the position that the neighbor has acknowledged, `None` if it is not known.
async fn send(
    neighbor: &IndexerServiceClient,
    (updates, until): (Vec<SummaryUpdate>, Position),
) -> Option<Position> {
    for update in updates {
        let context = call_within(ACKNOWLEDGED_WITHIN);
        match neighbor.summarize(context, update).await {
            Ok(Ok(true)) => {}
            Ok(Ok(false)) => return None,
            Ok(Err(refusal)) => {
                debug!(%refusal, "a neighbor refused a summary");
                return None;
            }
            Err(error) => {
                debug!(%error, "a neighbor did not acknowledge a summary");
                return None;
            }
        }
    }
    Some(until)
}
