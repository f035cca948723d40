//! New versions on their way: to the holders of older ones over their own connections, to the
//! neighbors, and past those who are slow.

use crate::{
    common::{peer::Manners, *},
    http_indexer::{answering, metrics},
};

fn told(text: &str, version: u64) -> Vec<(String, u64)> {
    vec![(text.to_owned(), version)]
}

#[testkit::test]
async fn newer_version_reaches_holders_two_hops_away_over_their_own_connection(security: Security) {
    let indexers = line(security, 3).await;
    let origin = holder(ORIGIN, &indexers[0], security).await;
    let mut near = holder(2, &indexers[0], security).await;
    let mut far = holder(3, &indexers[2], security).await;
    assert_eq!(hits(&near.query("a", 2).await), [(1, nodes([ORIGIN, 2, 3]))]);

    origin.register([record(ORIGIN, "a", 2)]).await;
    // Nobody lists the old version any more, wherever it is asked for.
    for peer in [&mut near, &mut far] {
        assert_eq!(peer.is_told().await, told("a", 2));
        assert_eq!(hits(&peer.query("a", 2).await), [(2, nodes([ORIGIN]))]);
    }
    assert_eq!(hits(&far.query("a", 0).await), []);

    far.register([record(ORIGIN, "a", 2)]).await;
    assert_eq!(hits(&near.query("a", 2).await), [(2, nodes([ORIGIN, 3]))]);
}

/// Once the summaries are known, which takes a moment: news goes where a copy may be, and nowhere if there is none.
#[testkit::test]
async fn news_goes_to_the_indexers_that_it_concerns_alone() {
    let (mut indexers, mut pages) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        let (indexer, page) = answering(&[]).await;
        indexers.push(indexer);
        pages.push(page);
    }
    for indexer in &indexers {
        let others = indexers.iter().filter(|other| other.node() != indexer.node());
        indexer.reload(&others.map(IndexerHandle::local_addr).collect::<Vec<_>>(), None).unwrap();
    }
    for indexer in &indexers {
        indexer.neighbors_reach(4).await;
    }
    let sent = async || {
        let mut calls = 0.0;
        for page in &pages {
            calls += metrics(*page).await["nekop2p_indexer_invalidations_sent_total{to=\"neighbor\"}"];
        }
        calls
    };
    let origin = holder(ORIGIN, &indexers[0], CLEAR).await;
    origin.register([record(ORIGIN, "alone", 1)]).await;
    let mut copy = holder(2, &indexers[3], CLEAR).await;
    let _marker = holder(3, &indexers[0], CLEAR).await;
    for version in 2.. {
        let before = sent().await;
        origin.register([record(ORIGIN, "alone", version), record(ORIGIN, "a", version)]).await;
        assert_eq!(copy.is_told().await, told("a", version), "whatever is known");
        let is_directed = sent().await - before <= 1.0;
        copy.register([record(ORIGIN, "a", version)]).await;
        if is_directed {
            break;
        }
    }
    let before = sent().await;
    origin.register([record(ORIGIN, "alone", 1000)]).await;
    origin.register([record(ORIGIN, "a", 3000)]).await;
    assert_eq!(copy.is_told().await, told("a", 3000));
    assert!(sent().await - before <= 1.0, "nobody has a copy of the other");
}

#[testkit::test]
async fn each_holder_is_told_once_of_what_it_holds_and_the_origin_of_nothing(security: Security) {
    let indexer = indexer(security, &[]).await;
    let mut origin = Peer::join(ORIGIN, indexer.local_addr(), security).await;
    let mut holds_a = Peer::join(2, indexer.local_addr(), security).await;
    let mut holds_b = Peer::join(3, indexer.local_addr(), security).await;
    origin.register([record(ORIGIN, "a", 1), record(ORIGIN, "b", 1)]).await;
    holds_a.register([record(ORIGIN, "a", 1)]).await;
    holds_b.register([record(ORIGIN, "b", 1)]).await;
    for version in 2..4 {
        let both = [record(ORIGIN, "a", version), record(ORIGIN, "b", version)];
        origin.register(both.clone()).await;
        assert_eq!(holds_a.is_told().await, told("a", version));
        assert_eq!(holds_b.is_told().await, told("b", version));
        origin.register(both).await; // no news now
    }
    // The last of all: whatever was sent before it would have come before it.
    for peer in [&mut origin, &mut holds_a, &mut holds_b] {
        peer.register([record(9, "last", 1)]).await;
    }
    Peer::join(9, indexer.local_addr(), security).await.register([record(9, "last", 2)]).await;
    for peer in [&mut origin, &mut holds_a, &mut holds_b] {
        assert_eq!(peer.is_told().await, told("last", 2));
    }
}

#[testkit::test]
async fn neighbors_hear_of_updates_and_of_nothing_else(security: Security) {
    let mut neighbor = Fake::begin(500, security, Habit::nothing());
    let indexer = connected(security, &[neighbor.addr]).await;
    let origin = holder(ORIGIN, &indexer, security).await; // there are no older copies
    let quietly = RegisterRequest { announce: false, ..registration([record(ORIGIN, "a", 2)]) };
    origin.client.register(patient(), quietly).await.unwrap().unwrap();
    let copy = Peer::join(2, indexer.local_addr(), security).await;
    copy.register([record(ORIGIN, "a", 2)]).await; // no news
    // The origin has the network told of what it registered quietly, and no holder has.
    let both = [record(ORIGIN, "a", 2), record(2, "b", 2)];
    for (peer, records) in [(&copy, &both[..]), (&origin, &both[..]), (&origin, &both[..1])] {
        let news = invalidation(records.iter().cloned(), 5);
        peer.client.invalidate(patient(), news).await.unwrap().unwrap();
    }
    let request = neighbor.told.recv().await.unwrap();
    assert_eq!((request.records.to_vec(), request.ttl_hops), (both[..1].to_vec(), 4));
    origin.register([record(ORIGIN, "a", 3), record(ORIGIN, "b", 1)]).await;
    let request = neighbor.told.recv().await.unwrap();
    assert_eq!(request.records.to_vec(), [record(ORIGIN, "a", 3)]);
    assert!(request.covered.contains(&indexer.node().tag()), "it would come back");
}

#[testkit::test]
async fn invalidation_is_acknowledged_passed_on_and_not_passed_on_twice(security: Security) {
    let mut beyond = Fake::begin(500, security, Habit::nothing());
    let indexer = connected(security, &[beyond.addr]).await;
    let mut copy = holder(2, &indexer, security).await;
    let messenger = Peer::join_unheard(3, indexer.local_addr(), Role::Indexer, security).await;
    let send = async |request: &InvalidateRequest| {
        let covered = Covered::first_of([identity(3).id().tag()]);
        let request = InvalidateRequest { covered, ..request.clone() };
        messenger.client.invalidate(patient(), request).await.unwrap().unwrap();
    };
    let peer = Peer::join(4, indexer.local_addr(), security).await;
    let from_peer = invalidation([record(ORIGIN, "b", 2)], 1); // a peer tells its own indexer alone
    peer.client.invalidate(patient(), from_peer).await.unwrap().unwrap();

    let first = invalidation([record(ORIGIN, "a", 2)], 1);
    send(&first).await;
    send(&first).await;
    let passed_on = beyond.told.recv().await.unwrap();
    assert_eq!((passed_on.records.to_vec(), passed_on.ttl_hops), (first.records.to_vec(), 0));
    assert_eq!(copy.is_told().await, told("a", 2));

    send(&invalidation([record(ORIGIN, "a", 1)], 1)).await; // an older one
    send(&invalidation([record(ORIGIN, "a", 3)], 0)).await; // it may go no further
    assert_eq!(copy.is_told().await, told("a", 3));

    send(&invalidation([record(ORIGIN, "a", 4)], 1)).await;
    assert_eq!(copy.is_told().await, told("a", 4));
    assert_eq!(beyond.told.recv().await.unwrap().records.to_vec(), [record(ORIGIN, "a", 4)]);
}

#[testkit::test]
async fn who_brings_news_is_not_told_of_it_and_others_are(security: Security) {
    let indexer = indexer(security, &[]).await;
    let mut brings = holder(2, &indexer, security).await;
    let mut other = holder(3, &indexer, security).await;
    let news = invalidation([record(ORIGIN, "a", 2)], 0);
    brings.client.invalidate(patient(), news).await.unwrap().unwrap();
    assert_eq!(other.is_told().await, told("a", 2));
    // What comes next is all that it is told: the calls over one connection keep their order.
    brings.register([record(ORIGIN, "b", 1)]).await;
    let origin = Peer::join(ORIGIN, indexer.local_addr(), security).await;
    origin.register([record(ORIGIN, "b", 2)]).await;
    assert_eq!(brings.is_told().await, told("b", 2));
}

#[testkit::test]
async fn who_never_acknowledges_holds_up_nobody(security: Security) {
    let stuck = Fake::begin(500, security, Habit::NeverAnswers);
    let beyond = indexer(security, &[]).await;
    let indexer = connected(security, &[stuck.addr, beyond.local_addr()]).await;
    let mut silent = Peer::join_with(2, indexer.local_addr(), security, Manners::NeverAnswers).await;
    silent.register([record(ORIGIN, "a", 1)]).await;
    let mut polite = holder(3, &indexer, security).await;
    let mut far = holder(4, &beyond, security).await;
    let origin = Peer::join(ORIGIN, indexer.local_addr(), security).await;
    let began = Instant::now();
    for version in 2..10 {
        origin.register([record(ORIGIN, "a", version)]).await;
        for peer in [&mut silent, &mut polite, &mut far] {
            assert_eq!(peer.is_told().await, told("a", version));
        }
    }
    assert!(began.elapsed() < PATIENCE / 4, "somebody was waited for: {:?}", began.elapsed());
}

#[testkit::test]
async fn full_batch_of_the_longest_names_is_registered_found_and_announced(security: Security) {
    let indexers = line(security, 2).await;
    let batch = |version| (0..BATCH_MAX).map(move |n| verified(ORIGIN, long_name(n), version).to_signed());
    let mut holder = Peer::join(2, indexers[1].local_addr(), security).await;
    let reply = holder.register(batch(1)).await;
    assert_eq!((reply.unlisted.len(), reply.lease.names as usize), (0, BATCH_MAX));
    assert_eq!(indexers[1].names(), BATCH_MAX);
    assert_eq!(hits(&holder.query_for(long_name(BATCH_MAX - 1), 0).await), [(1, nodes([2]))]);

    let origin = Peer::join(ORIGIN, indexers[0].local_addr(), security).await;
    origin.register(batch(2)).await;
    let expected: Vec<_> = (0..BATCH_MAX).map(|n| (long_name(n).to_string(), 2)).collect();
    assert_eq!(holder.is_told().await, expected);
    let reply = holder.register(batch(1)).await;
    assert_eq!(reply.newer.to_vec(), batch(2).collect::<Vec<_>>(), "each is told what is newer");
}
