//! Neighbors that are named on either side, away, coming back, stuck or broken.

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use crate::common::{
    Fake, PATIENCE, Peer, config, eventually,
    fake::{Habit, deaf_neighbor},
    hits, indexer, kept_port, line, nodes, over_both, query, record, within,
};
use futures::future::join_all;
use nekoindexer::{
    Config, Indexer, IndexerHandle,
    neighbors::load::{LINK_FORWARDS_MAX, STUCK_AFTER},
};
use nekoproto::{QueryReply, Refusal, transport::Security};
use tokio::task::JoinSet;

/// The origin of the file that everybody holds.
const ORIGIN: u16 = 1000;

/// A peer that holds `a`.
async fn holder(seed: u16, indexer: &IndexerHandle, security: Security) -> Peer {
    let peer = Peer::join(seed, indexer.local_addr(), security).await;
    peer.register([record(ORIGIN, "a", 1)]).await;
    peer
}

/// An indexer at this address, the same node each time.
async fn indexer_at(
    addr: SocketAddr,
    data_dir: &tempfile::TempDir,
    security: Security,
    neighbors: &[SocketAddr],
) -> IndexerHandle {
    let data_dir = Some(data_dir.path().to_owned());
    Indexer::spawn(Config { listen: addr, data_dir, ..config(security, neighbors) }).await.unwrap()
}

#[testkit::test]
async fn neighbor_named_on_one_side_is_asked_in_both_directions() {
    over_both(async |security| {
        let indexers = line(security, 2).await;
        let peers = [holder(0, &indexers[0], security).await, holder(1, &indexers[1], security).await];
        for peer in &peers {
            let reply = peer.query("a", 1).await;
            assert_eq!(hits(&reply), [(1, nodes(0..2))]);
            assert_eq!((reply.complete, reply.messages), (true, 1));
        }
    })
    .await;
}

#[testkit::test]
async fn neighbors_named_on_both_sides_are_asked_once() {
    over_both(async |security| {
        let (_keep, addr) = kept_port();
        let first = indexer(security, &[addr]).await;
        let config = Config { listen: addr, ..config(security, &[first.local_addr()]) };
        let second = Indexer::spawn(config).await.unwrap();
        for (seed, indexer) in [(0, &first), (1, &second)] {
            let peer = holder(seed, indexer, security).await;
            // Until both connections are there, one side may not know that the other is.
            let reply = eventually(async || {
                let reply = peer.query("what nobody has", 2).await; // so everybody is asked
                assert!(reply.messages <= 1, "asked twice");
                reply.complete.then_some(reply)
            })
            .await;
            assert_eq!((reply.messages, reply.hits.len()), (1, 0));
            drop(peer);
        }
        first.neighbors_reach(1).await;
        second.neighbors_reach(1).await;
    })
    .await;
}

#[testkit::test]
async fn neighbor_named_twice_is_asked_once() {
    let neighbor = indexer(Security::Tls, &[]).await;
    let indexer = indexer(Security::Tls, &[neighbor.local_addr(); 2]).await;
    let peer = holder(0, &indexer, Security::Tls).await;
    let reply = eventually(async || Some(peer.query("a", 1).await).filter(|reply| reply.complete)).await;
    assert_eq!(reply.messages, 1);
}

#[testkit::test]
async fn neighbor_down_from_the_start_is_missed_until_it_comes_up() {
    over_both(async |security| {
        let (_keep, addr) = kept_port();
        let waiting = indexer(security, &[addr]).await;
        let peer = holder(0, &waiting, security).await;
        let reply = peer.query("a", 3).await;
        assert_eq!((hits(&reply), reply.complete), (vec![(1, nodes([0]))], false));
        assert!(peer.query("a", 0).await.complete, "nothing further was asked for");

        let late = Indexer::spawn(Config { listen: addr, ..config(security, &[]) }).await.unwrap();
        let _other = holder(1, &late, security).await;
        waiting.neighbors_reach(1).await;
        let reply = peer.query("a", 3).await;
        assert_eq!((hits(&reply), reply.complete), (vec![(1, nodes(0..2))], true));
    })
    .await;
}

/// Once the indexer that stays names the other, once the other way round: then it is a guest, whose going leaves no gap.
#[testkit::test]
async fn neighbor_that_goes_away_is_missed_until_it_returns() {
    for stays_connecting in [true, false] {
        over_both(async |security| {
            let data_dir = tempfile::tempdir().unwrap();
            let (_keep, addr) = kept_port();
            let its_neighbors = if stays_connecting { vec![addr] } else { vec![] };
            let stays = indexer(security, &its_neighbors).await;
            let neighbors = if stays_connecting { vec![] } else { vec![stays.local_addr()] };
            let peer = holder(0, &stays, security).await;

            let goes = indexer_at(addr, &data_dir, security, &neighbors).await;
            stays.neighbors_reach(1).await;
            assert!(peer.query("a", 1).await.complete);

            goes.shutdown().await;
            stays.neighbors_reach(0).await;
            let reply = peer.query("a", 1).await;
            assert_eq!((hits(&reply), reply.complete), (vec![(1, nodes([0]))], !stays_connecting));

            let back = indexer_at(addr, &data_dir, security, &neighbors).await;
            let _other = holder(1, &back, security).await;
            stays.neighbors_reach(1).await;
            let reply = peer.query("a", 1).await;
            assert_eq!((hits(&reply), reply.complete), (vec![(1, nodes(0..2))], true));
        })
        .await;
    }
}

#[testkit::test]
async fn indexer_named_as_its_own_neighbor_is_left_out() {
    over_both(async |security| {
        let (_keep, addr) = kept_port();
        let listen = SocketAddr::from(([0, 0, 0, 0], addr.port()));
        let indexer = Indexer::spawn(Config { listen, ..config(security, &[addr]) }).await.unwrap();
        let peer = Peer::join(0, addr, security).await;
        let reply = eventually(async || Some(peer.query("a", 3).await).filter(|reply| reply.complete)).await;
        assert_eq!(reply.messages, 0);
        indexer.neighbors_reach(0).await;
    })
    .await;
}

#[testkit::test]
async fn stuck_neighbors_cost_the_deadline_and_no_hit() {
    over_both(async |security| {
        let indexers = line(security, 2).await;
        let stuck = Fake::begin(500, security, Habit::NeverAnswers);
        let asked = indexer(security, &[indexers[0].local_addr(), stuck.addr]).await;
        asked.neighbors_reach(2).await;
        let _deaf = deaf_neighbor(501, asked.local_addr(), security).await; // a guest: it is never asked
        let peer = holder(0, &asked, security).await;
        let _near = holder(1, &indexers[0], security).await;
        let _far = holder(2, &indexers[1], security).await;

        let began = Instant::now();
        let deadline = Duration::from_secs(2);
        let reply = peer.client.query(within(deadline), query("a", 3)).await;
        let reply = reply.expect("an answer within the deadline").unwrap();
        assert_eq!((hits(&reply), reply.complete), (vec![(1, nodes(0..3))], false));
        assert!(began.elapsed() < deadline, "{:?}", began.elapsed());
    })
    .await;
}

/// The indexer between the asker and a stuck one gives up in time for its own answer to arrive.
#[testkit::test]
async fn stuck_indexer_far_away_does_not_hide_what_is_before_it() {
    let security = Security::Insecure;
    let stuck = Fake::begin(500, security, Habit::NeverAnswers);
    let far = indexer(security, &[stuck.addr]).await;
    let near = indexer(security, &[far.local_addr()]).await;
    far.neighbors_reach(2).await;
    near.neighbors_reach(1).await;
    let peer = holder(0, &near, security).await;
    let _holder = holder(1, &far, security).await;
    let reply = peer.client.query(within(Duration::from_secs(2)), query("a", 3)).await.unwrap().unwrap();
    assert_eq!((hits(&reply), reply.complete), (vec![(1, nodes(0..2))], false));
}

/// A neighbor that lets many queries wait and answers none is asked no more: its answer is missing at once.
#[testkit::test]
async fn query_behind_many_that_are_stuck_is_answered_at_once() {
    const OTHERS: u16 = 9;
    let security = Security::Insecure;
    let mut stuck = Fake::begin(500, security, Habit::NeverAnswers);
    let indexer = indexer(security, &[stuck.addr]).await;
    indexer.neighbors_reach(1).await;
    // Enough of them that none has more queries in flight than one caller may.
    let others: Vec<_> = (1..=OTHERS).map(|n| holder(n, &indexer, security)).collect();
    let others: Vec<_> = join_all(others).await.into_iter().map(Arc::new).collect();
    let mut waiting = JoinSet::new();
    for n in 0..LINK_FORWARDS_MAX + 50 {
        let other = Arc::clone(&others[n % others.len()]);
        waiting.spawn(async move { other.query("b", 1).await });
    }
    for _ in 0..LINK_FORWARDS_MAX {
        stuck.asked.recv().await.unwrap();
    }
    let peer = holder(0, &indexer, security).await;
    // Not at first: it might only have much to do.
    let deadline = 4 * STUCK_AFTER;
    let reply = eventually(async || {
        let began = Instant::now();
        let reply = peer.client.query(within(deadline), query("a", 1)).await.unwrap().unwrap();
        (began.elapsed() < deadline / 2).then_some(reply)
    })
    .await;
    assert_eq!((hits(&reply), reply.complete), (vec![(1, nodes(0..=OTHERS))], false));
}

#[testkit::test]
async fn neighbor_that_refuses_or_panics_makes_the_answer_incomplete_at_once() {
    for habit in [Habit::Refuses(Refusal::Busy), Habit::Panics, Habit::Says(QueryReply::default())] {
        over_both(async |security| {
            let broken = Fake::begin(500, security, habit.clone());
            let indexer = indexer(security, &[broken.addr]).await;
            indexer.neighbors_reach(1).await;
            let peer = holder(0, &indexer, security).await;
            let began = Instant::now();
            let reply = peer.query("a", 1).await; // its deadline is far away
            assert_eq!((hits(&reply), reply.complete), (vec![(1, nodes([0]))], false), "{habit:?}");
            assert!(began.elapsed() < PATIENCE / 2, "{habit:?} was waited for");
        })
        .await;
    }
}
