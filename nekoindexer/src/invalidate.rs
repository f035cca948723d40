//! Carries out an announcement: tells the holders of older versions, and the neighbors.
//!
//! Nobody waits for it and nothing depends on it: where a message is lost, the lease or the TTR of the
//! holder bounds how long it keeps the older version.

use std::{sync::Arc, time::Duration};

use futures::{StreamExt, future::join_all, stream};
use nekoproto::{
    Covered, InvalidateRequest, ListedRecord, MsgId, NodeTag, PeerServiceClient, Records, clock,
    limits::BATCH_MAX, summary::NameKey, transport::call_within,
};
use tokio::sync::OwnedSemaphorePermit;
use tracing::debug;

use crate::{
    config::Routing,
    counters::{Counters, Drop},
    neighbors::neighbor::{Neighbor, Wanted},
    shared::Shared,
    state::{Announcement, route::route},
    walk::GUEST_WAIT,
};

/// Holders told at the same time.
const AT_ONCE: usize = 256;
/// Time for a holder or a neighbor to acknowledge.
const ACKNOWLEDGE_WITHIN: Duration = Duration::from_secs(2);

/// How an announcement travels on: as a new message, or as a copy of the one that came.
#[derive(Clone, Debug)]
pub(crate) struct Envelope {
    pub(crate) msg_id: MsgId,
    /// Hops that neighbors are given; `None` when it ends here.
    pub(crate) ttl_hops: Option<u8>,
    pub(crate) covered: Covered,
    pub(crate) from_guest: bool,
}

/// Tells the holders and neighbors of the announcement, in the background, on the share of whoever brings it: its `place`.
pub(crate) fn spread(
    shared: &Arc<Shared>,
    announcement: Announcement,
    envelope: Envelope,
    place: OwnedSemaphorePermit,
) {
    if announcement.is_empty() {
        return;
    }
    shared.spawn_until_stop(|shared| async move {
        tell_all(&shared, announcement, envelope).await;
        drop(place);
    });
}

async fn tell_all(shared: &Arc<Shared>, announcement: Announcement, envelope: Envelope) {
    let holders = announcement.holders.into_iter().filter_map(|(session, records)| {
        let client = shared.peers.get(&session)?.value().clone();
        let shared = Arc::clone(shared);
        Some(async move { tell_holder(&shared.counters, &client, records).await })
    });
    // Collected first, so that no guard of the map is held while waiting.
    let holders: Vec<_> = holders.collect();
    let holders = stream::iter(holders).for_each_concurrent(AT_ONCE, |telling| telling);
    futures::join!(holders, tell_neighbors(shared, announcement.neighbors, envelope));
}

async fn tell_holder(counters: &Counters, client: &PeerServiceClient, records: Vec<ListedRecord>) {
    for batch in records.chunks(BATCH_MAX) {
        let records = Records::first_of(batch.iter().map(ListedRecord::to_signed));
        counters.holders_told.inc();
        if let Err(error) = client.invalidate(call_within(ACKNOWLEDGE_WITHIN), records).await {
            counters.drop(Drop::NotAcknowledged);
            debug!(%error, "a holder did not acknowledge an invalidation");
            return;
        }
    }
}

async fn tell_neighbors(shared: &Shared, records: Vec<ListedRecord>, envelope: Envelope) {
    let Some(ttl_hops) = envelope.ttl_hops.filter(|_| !records.is_empty()) else { return };
    let neighbors = shared.neighbors.links.current();
    let all = route(shared.tag, &neighbors.tags, &neighbors.away, &envelope.covered);
    let may_list = concerned(shared, &records, ttl_hops, &all.covered);
    let is_concerned = |neighbor: &Neighbor| shared.routing == Routing::Flood || may_list(neighbor);
    let is_told = |place: usize| is_concerned(&neighbors.trusted[place]);
    let route = all.narrowed(shared.tag, &neighbors.tags, &envelope.covered, is_told);
    let request = InvalidateRequest {
        msg_id: envelope.msg_id,
        records: Records::first_of(records.iter().map(ListedRecord::to_signed)),
        ttl_hops,
        covered: route.covered,
        from_guest: envelope.from_guest,
    };
    let is_told = |guest: &&Neighbor| !envelope.covered.contains(&guest.node.tag()) && is_concerned(guest);
    let guests = neighbors.guests.iter().filter(is_told).map(|guest| (guest, GUEST_WAIT));
    let trusted = route.ask.iter().map(|index| (&neighbors.trusted[*index], ACKNOWLEDGE_WITHIN));
    let telling = trusted.chain(guests).map(|(neighbor, within)| {
        let call = neighbor.connected.client.invalidate(call_within(within), request.clone());
        async move {
            shared.counters.neighbors_told.inc();
            if let Err(error) = call.await {
                shared.counters.drop(Drop::NotAcknowledged);
                debug!(%error, "a neighbor did not take an invalidation");
            }
        }
    });
    join_all(telling).await;
}

/// Whether a neighbor, or a node that it could tell with `ttl_hops` left, may list one of the names: otherwise the news
/// concerns nobody there. All of the records go to whom one concerns, as all copies of a message are the same.
fn concerned<'a>(
    shared: &'a Shared,
    records: &[ListedRecord],
    ttl_hops: u8,
    covered: &Covered,
) -> impl Fn(&Neighbor) -> bool + use<'a> {
    let keys: Vec<NameKey> = records.iter().map(|record| NameKey::of(&record.name)).collect();
    let mut covered = covered.to_vec();
    covered.sort_unstable();
    let clock_ms = shared.neighbors.clock_ms(clock::now());
    move |neighbor| {
        let covers = |tag: &NodeTag| *tag == shared.tag || covered.binary_search(tag).is_ok();
        let lacks =
            |key: &NameKey| neighbor.rules_out(&Wanted { key: *key, ttl_hops, covers: &covers, clock_ms });
        !keys.iter().all(lacks)
    }
}
