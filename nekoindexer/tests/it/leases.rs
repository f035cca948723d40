//! Holders come and go: leases, renewals, lost and new connections, withdrawals.

use std::time::{Duration, Instant};

use crate::common::{Peer, config, eventually, hits, name, nodes, over_both, patient, record, registration};
use nekoindexer::{Config, Indexer, IndexerHandle};
use nekoproto::{Names, Refusal, Role, limits::BATCH_MAX, transport::Security};

/// The origin of all files.
const ORIGIN: u16 = 1000;
/// Long against a call, short against a test.
const LEASE: Duration = Duration::from_millis(1500);
/// How often a peer renews that wants to stay.
const RENEW_EVERY: Duration = Duration::from_millis(250);

async fn indexer(security: Security, lease: Duration) -> IndexerHandle {
    Indexer::spawn(Config { lease, ..config(security, &[]) }).await.unwrap()
}

/// Waits until `a` has no holder, as `watcher` sees it, and says how long that took since `began`.
async fn time_until_gone(watcher: &Peer, began: Instant) -> Duration {
    eventually(async || {
        let looked_at = began.elapsed();
        let reply = watcher.search("a").await;
        assert!(reply.complete);
        reply.hits.is_empty().then_some(looked_at)
    })
    .await
}

#[testkit::test]
async fn holder_that_does_not_renew_leaves_with_its_lease_and_not_before() {
    over_both(async |security| {
        let indexer = indexer(security, LEASE).await;
        let watcher = Peer::join(2, indexer.local_addr(), security).await;
        let peer = Peer::join(1, indexer.local_addr(), security).await;
        let began = Instant::now();
        let reply = peer.register([record(ORIGIN, "a", 1)]).await;
        assert_eq!(u128::from(reply.lease.lease_ms), LEASE.as_millis());
        assert_eq!(hits(&watcher.search("a").await), [(1, nodes([1]))]);
        let gone_after = time_until_gone(&watcher, began).await;
        assert!(gone_after + Duration::from_millis(100) >= LEASE, "gone after {gone_after:?}");
        eventually(async || (indexer.names() == 0).then_some(())).await; // its memory is freed, too
    })
    .await;
}

#[testkit::test]
async fn disconnected_holder_stays_until_its_lease_ends() {
    over_both(async |security| {
        let indexer = indexer(security, LEASE).await;
        let watcher = Peer::join(2, indexer.local_addr(), security).await;
        let peer = Peer::join(1, indexer.local_addr(), security).await;
        let began = Instant::now();
        peer.register([record(ORIGIN, "a", 1)]).await;
        drop(peer);
        let gone_after = time_until_gone(&watcher, began).await;
        assert!(gone_after + Duration::from_millis(100) >= LEASE, "gone after {gone_after:?}");
    })
    .await;
}

#[testkit::test]
async fn holder_that_renews_stays() {
    over_both(async |security| {
        let indexer = indexer(security, LEASE).await;
        let peer = Peer::join(1, indexer.local_addr(), security).await;
        let began = Instant::now();
        peer.register([record(ORIGIN, "a", 1)]).await;
        let mut renewals = tokio::time::interval(RENEW_EVERY);
        while began.elapsed() < LEASE * 2 {
            renewals.tick().await;
            let lease = peer.client.renew(patient()).await.unwrap().unwrap();
            assert_eq!((u128::from(lease.lease_ms), lease.names), (LEASE.as_millis(), 1));
            assert_eq!(hits(&peer.search("a").await), [(1, nodes([1]))], "after {:?}", began.elapsed());
        }
    })
    .await;
}

/// The connection lives on while the lease ends, as when a computer sleeps.
#[testkit::test]
async fn holder_that_missed_its_lease_learns_it_and_registers_anew_on_the_same_connection() {
    over_both(async |security| {
        let indexer = indexer(security, Duration::from_millis(100)).await;
        let peer = Peer::join(1, indexer.local_addr(), security).await;
        peer.register([record(ORIGIN, "a", 1), record(ORIGIN, "b", 1)]).await;
        eventually(async || (indexer.names() == 0).then_some(())).await;
        let lease = peer.client.renew(patient()).await.unwrap().unwrap();
        assert_eq!(lease.names, 0);
        let reply = peer.register([record(ORIGIN, "a", 1)]).await;
        assert_eq!((reply.unlisted.len(), reply.lease.names), (0, 1));
        eventually(async || (indexer.names() == 0).then_some(())).await; // and again it ends
    })
    .await;
}

#[testkit::test]
async fn holder_that_reconnects_is_listed_once_with_its_new_address() {
    over_both(async |security| {
        let indexer = indexer(security, LEASE).await;
        let before = Peer::join(1, indexer.local_addr(), security).await;
        before.register([record(ORIGIN, "a", 1)]).await;
        let after = Peer::join(1, indexer.local_addr(), security).await;
        after.register([record(ORIGIN, "a", 1)]).await;
        assert_ne!(before.holder, after.holder);
        let reply = after.search("a").await;
        assert_eq!(reply.hits[0].at(), [after.holder.unwrap()]);

        // The end of the first connection and of its lease take nothing from the second.
        drop(before);
        let began = Instant::now();
        let mut renewals = tokio::time::interval(RENEW_EVERY);
        while began.elapsed() < LEASE * 2 {
            renewals.tick().await;
            after.client.renew(patient()).await.unwrap().unwrap();
            assert_eq!(hits(&after.search("a").await), [(1, nodes([1]))], "after {:?}", began.elapsed());
        }
    })
    .await;
}

#[testkit::test]
async fn registering_again_changes_nothing() {
    let indexer = indexer(Security::Tls, LEASE * 10).await;
    let peer = Peer::join(1, indexer.local_addr(), Security::Tls).await;
    for _ in 0..3 {
        let reply = peer.register([record(ORIGIN, "a", 1), record(ORIGIN, "a", 1)]).await;
        assert_eq!((reply.unlisted.len(), reply.newer.len(), reply.lease.names), (0, 0, 1));
    }
    assert_eq!(hits(&peer.search("a").await), [(1, nodes([1]))]);
    assert_eq!(indexer.names(), 1);
}

#[testkit::test]
async fn withdrawal_acts_on_the_caller_alone() {
    over_both(async |security| {
        let indexer = indexer(security, LEASE * 10).await;
        let mut peers = Vec::new();
        for seed in 1..=2 {
            let peer = Peer::join(seed, indexer.local_addr(), security).await;
            peer.register(["a", "b"].map(|name| record(ORIGIN, name, 1))).await;
            peers.push(peer);
        }
        let names = Names::first_of(["a", "never registered"].map(name));
        peers[0].client.deregister(patient(), names.clone()).await.unwrap().unwrap();
        assert_eq!(hits(&peers[0].search("a").await), [(1, nodes([2]))]);
        assert_eq!(hits(&peers[0].search("b").await), [(1, nodes([1, 2]))]);
        let lease = peers[0].client.renew(patient()).await.unwrap().unwrap();
        assert_eq!(lease.names, 1);
        peers[1].client.deregister(patient(), names).await.unwrap().unwrap();
        assert_eq!(hits(&peers[0].search("a").await), []);
        assert_eq!(indexer.names(), 1);
    })
    .await;
}

#[testkit::test]
async fn who_does_not_listen_or_is_no_peer_is_no_holder() {
    over_both(async |security| {
        let indexer = indexer(security, LEASE * 10).await;
        let cases = [(Role::Peer, Refusal::NotListening), (Role::Indexer, Refusal::WrongRole)];
        for (seed, (role, refusal)) in (1..).zip(cases) {
            let node = Peer::join_unheard(seed, indexer.local_addr(), role, security).await;
            let registering = node.client.register(patient(), registration([record(ORIGIN, "a", 1)]));
            assert_eq!(registering.await.unwrap(), Err(refusal));
            assert_eq!(node.client.renew(patient()).await.unwrap(), Err(refusal));
            let withdrawing = node.client.deregister(patient(), Names::first_of([name("a")]));
            assert_eq!(withdrawing.await.unwrap(), Err(refusal));
            assert!(node.search("a").await.hits.is_empty(), "it may still ask");
        }
        assert_eq!(indexer.names(), 0);
    })
    .await;
}

#[testkit::test]
async fn a_peer_that_leaves_takes_all_its_registrations_and_nobody_elses() {
    over_both(async |security| {
        let indexer = indexer(security, LEASE * 10).await;
        let (leaver, stayer) = (
            Peer::join(1, indexer.local_addr(), security).await,
            Peer::join(2, indexer.local_addr(), security).await,
        );
        for many in [3, 1000] {
            let texts: Vec<String> = (0..many).map(|n| format!("f{n}")).collect();
            for batch in texts.chunks(BATCH_MAX) {
                leaver.register(batch.iter().map(|text| record(1, text, 1))).await;
            }
            stayer.register([record(1, "f0", 1)]).await;
            assert_eq!(indexer.names(), many);
            leaver.client.deregister_all(patient()).await.unwrap().unwrap();
            assert_eq!(indexer.names(), 1);
            assert_eq!(hits(&stayer.search("f0").await), [(1, nodes([2]))]);
            let lease = leaver.client.renew(patient()).await.unwrap().unwrap();
            assert_eq!(lease.names, 0, "it may register anew, and does so next");
        }
    })
    .await;
}
