//! Holders come and go: leases, renewals, lost and new connections, withdrawals.

use crate::common::*;

/// Long against a call, short against a test.
const LEASE: Duration = Duration::from_millis(1500);
const RENEW_EVERY: Duration = Duration::from_millis(250);

async fn indexer(security: Security, lease: Duration) -> IndexerHandle {
    Indexer::spawn(Config { lease, ..config(security, &[]) }).await.unwrap()
}

async fn join(seed: u16, indexer: &IndexerHandle, security: Security) -> Peer {
    Peer::join(seed, indexer.local_addr(), security).await
}

/// Names that a peer has registered, by its own lease.
async fn renewed(peer: &Peer) -> u32 {
    peer.client.renew(patient()).await.unwrap().unwrap().names
}

/// Goal: a holder is listed until its lease ends and no longer, whether its connection stays or is lost; one that renews
/// stays, also when an earlier connection of it ends, and is listed once, at its latest address.
#[testkit::test]
async fn holders_leave_with_their_leases_and_stay_while_they_renew() {
    let security = Security::Tls;
    let indexer = indexer(security, LEASE).await;
    let [silent, lost, stays, before] = [1, 2, 3, 4].map(|seed| join(seed, &indexer, security));
    let (silent, lost, stays, before) = futures::join!(silent, lost, stays, before);
    let began = Instant::now();
    for (peer, text) in [(&silent, "silent"), (&lost, "lost"), (&stays, "stays"), (&before, "returns")] {
        let reply = peer.register([record(ORIGIN, text, 1)]).await;
        assert_eq!(u128::from(reply.lease.lease_ms), LEASE.as_millis());
    }
    let left = before.holder;
    drop((lost, before));
    let mut returns = join(4, &indexer, security).await;
    if returns.holder == left {
        returns = join(4, &indexer, security).await; // the port was given out again; now it is taken
    }
    returns.register([record(ORIGIN, "returns", 1)]).await;
    assert_ne!(left, returns.holder);
    let (mut gone, mut renewals) = ([None; 2], tokio::time::interval(RENEW_EVERY));
    while began.elapsed() < LEASE * 2 || indexer.names() > 2 {
        renewals.tick().await;
        for (peer, text) in [(&stays, "stays"), (&returns, "returns")] {
            assert_eq!(renewed(peer).await, 1, "{text}");
            let reply = peer.query(text, 0).await;
            assert_eq!(reply.hits[0].at(), [peer.holder.unwrap()], "{text} after {:?}", began.elapsed());
        }
        for (gone, text) in gone.iter_mut().zip(["silent", "lost"]) {
            let looked_at = began.elapsed();
            let reply = stays.query(text, 0).await;
            assert!(reply.complete);
            if reply.hits.is_empty() {
                gone.get_or_insert(looked_at);
            } else {
                assert!(gone.is_none(), "{text} is back");
            }
        }
    }
    for gone in gone {
        let gone = gone.expect("it leaves");
        assert!(gone + Duration::from_millis(100) >= LEASE, "gone after {gone:?}");
    }
}

/// The connection lives on while the lease ends, as when a computer sleeps.
#[testkit::test]
async fn holder_that_missed_its_lease_learns_it_and_registers_anew_on_the_same_connection() {
    let indexer = indexer(Security::Tls, Duration::from_millis(100)).await;
    let peer = join(1, &indexer, Security::Tls).await;
    peer.register([record(ORIGIN, "a", 1), record(ORIGIN, "b", 1)]).await;
    eventually(async || (indexer.names() == 0).then_some(())).await;
    assert_eq!(renewed(&peer).await, 0);
    let reply = peer.register([record(ORIGIN, "a", 1)]).await;
    assert_eq!((reply.unlisted.len(), reply.lease.names), (0, 1));
    eventually(async || (indexer.names() == 0).then_some(())).await; // and again it ends
}

#[testkit::test]
async fn registering_again_changes_nothing() {
    let indexer = indexer(Security::Tls, LEASE * 10).await;
    let peer = join(1, &indexer, Security::Tls).await;
    for _ in 0..3 {
        let reply = peer.register([record(ORIGIN, "a", 1), record(ORIGIN, "a", 1)]).await;
        assert_eq!((reply.unlisted.len(), reply.newer.len(), reply.lease.names), (0, 0, 1));
    }
    assert_eq!(hits(&peer.query("a", 0).await), [(1, nodes([1]))]);
    assert_eq!(indexer.names(), 1);
}

#[testkit::test]
async fn withdrawal_acts_on_the_caller_alone(security: Security) {
    let indexer = indexer(security, LEASE * 10).await;
    let peers = [join(1, &indexer, security).await, join(2, &indexer, security).await];
    for peer in &peers {
        peer.register(["a", "b"].map(|name| record(ORIGIN, name, 1))).await;
    }
    let names = Names::first_of(["a", "never registered"].map(name));
    for (n, left) in [(0, vec![(1, nodes([2]))]), (1, vec![])] {
        peers[n].client.deregister(patient(), names.clone()).await.unwrap().unwrap();
        assert_eq!(hits(&peers[0].query("a", 0).await), left);
        assert_eq!(hits(&peers[0].query("b", 0).await), [(1, nodes([1, 2]))]);
        assert_eq!(renewed(&peers[n]).await, 1);
    }
    assert_eq!(indexer.names(), 1);
}

#[testkit::test]
async fn who_does_not_listen_or_is_no_peer_is_no_holder(security: Security) {
    let indexer = indexer(security, LEASE * 10).await;
    let cases = [(Role::Peer, Refusal::NotListening), (Role::Indexer, Refusal::WrongRole)];
    for (seed, (role, refusal)) in (1..).zip(cases) {
        let node = Peer::join_unheard(seed, indexer.local_addr(), role, security).await;
        let registering = node.client.register(patient(), registration([record(ORIGIN, "a", 1)]));
        assert_eq!(registering.await.unwrap(), Err(refusal));
        assert_eq!(node.client.renew(patient()).await.unwrap(), Err(refusal));
        let withdrawing = node.client.deregister(patient(), Names::first_of([name("a")]));
        assert_eq!(withdrawing.await.unwrap(), Err(refusal));
        assert!(node.query("a", 0).await.hits.is_empty(), "it may still ask");
    }
    assert_eq!(indexer.names(), 0);
}

#[testkit::test]
async fn a_peer_that_leaves_takes_all_its_registrations_and_nobody_elses() {
    let indexer = indexer(Security::Tls, LEASE * 10).await;
    let (leaver, stayer) = (join(1, &indexer, Security::Tls).await, join(2, &indexer, Security::Tls).await);
    for many in [3, 1000] {
        let texts: Vec<String> = (0..many).map(|n| format!("f{n}")).collect();
        for batch in texts.chunks(BATCH_MAX) {
            leaver.register(batch.iter().map(|text| record(1, text, 1))).await;
        }
        stayer.register([record(1, "f0", 1)]).await;
        assert_eq!(indexer.names(), many);
        leaver.client.deregister_all(patient()).await.unwrap().unwrap();
        assert_eq!(indexer.names(), 1);
        assert_eq!(hits(&stayer.query("f0", 0).await), [(1, nodes([2]))]);
        assert_eq!(renewed(&leaver).await, 0, "it may register anew, and does so next");
    }
}
