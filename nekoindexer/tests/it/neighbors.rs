//! Neighbors that are named on either side, away, coming back, stuck or broken.

use nekoindexer::neighbors::load::{LINK_FORWARDS_MAX, STUCK_AFTER};
use nekoproto::transport::HostAddr;

use crate::common::*;

async fn indexer_at(
    listen: SocketAddr,
    data_dir: Option<&tempfile::TempDir>,
    security: Security,
    neighbors: &[SocketAddr],
) -> IndexerHandle {
    let data_dir = data_dir.map(|folder| folder.path().to_owned());
    Indexer::spawn(Config { listen, data_dir, ..config(security, neighbors) }).await.unwrap()
}

async fn complete(peer: &Peer, text: &str, ttl_hops: u8) -> QueryReply {
    eventually(async || {
        let reply = peer.query(text, ttl_hops).await;
        assert!(reply.messages <= 1, "asked twice");
        reply.complete.then_some(reply)
    })
    .await
}

#[testkit::test]
async fn neighbors_named_on_both_sides_are_asked_once_each_way(security: Security) {
    let (_keep, addr) = kept_port();
    let first = indexer(security, &[addr]).await;
    let second = indexer_at(addr, None, security, &[first.local_addr()]).await;
    for (seed, indexer) in [(0, &first), (1, &second)] {
        let peer = holder(seed, indexer, security).await;
        // Until both connections are there, one side may not know that the other is.
        let reply = complete(&peer, "what nobody has", 2).await; // so everybody is asked
        assert_eq!((reply.messages, reply.hits.len()), (1, 0));
    }
    first.neighbors_reach(1).await;
    second.neighbors_reach(1).await;
}

#[testkit::test]
async fn neighbor_named_twice_is_asked_once_and_one_that_is_itself_not_at_all(security: Security) {
    let (_keep, addr) = kept_port();
    let listen = SocketAddr::from(([0, 0, 0, 0], addr.port()));
    let neighbor = indexer_at(listen, None, security, &[addr]).await;
    let twice = indexer(security, &[addr; 2]).await;
    let peer = holder(0, &twice, security).await;
    assert_eq!(complete(&peer, "a", 1).await.messages, 1);
    drop((twice, peer));
    neighbor.neighbors_reach(0).await;
    let peer = Peer::join(0, addr, security).await;
    assert_eq!(complete(&peer, "a", 3).await.messages, 0);
}

/// Goal: the link to a host stays while the configuration is read again, whether that can be looked up then or not.
#[testkit::test]
async fn host_that_is_named_again_keeps_its_link(security: Security) {
    let neighbor = indexer(security, &[]).await;
    let host = "nowhere.invalid:7707";
    let mut config = config(security, &[]);
    config.neighbors = vec![HostAddr::found(host, neighbor.local_addr())];
    let near = Indexer::spawn(config).await.unwrap();
    near.neighbors_reach(1).await;
    let unknown: HostAddr = host.parse().unwrap();
    assert_eq!(near.reload(&[unknown], None).unwrap(), [""; 0]);
    near.neighbors_reach(1).await;
}

/// Down from the start, or gone and back.
#[testkit::test]
async fn neighbor_that_is_down_is_missed_until_it_comes_up(security: Security) {
    let data_dir = tempfile::tempdir().unwrap();
    let (_keep, addr) = kept_port();
    let stays = indexer(security, &[addr]).await;
    let peer = holder(0, &stays, security).await;
    for round in 0..2 {
        assert_eq!(asked(&peer, 3).await, (vec![(1, nodes([0]))], false), "{round}");
        assert!(peer.query("a", 0).await.complete, "nothing further was asked for");
        let up = indexer_at(addr, Some(&data_dir), security, &[]).await;
        let _other = holder(1, &up, security).await;
        stays.neighbors_reach(1).await;
        assert_eq!(asked(&peer, 3).await, (vec![(1, nodes(0..2))], true), "{round}");
        up.abort().await;
        stays.neighbors_reach(0).await;
    }
}

/// Goal: a neighbor that is told to end is missed by nobody, and nothing waits for it; when it has come again and crashes, it
/// is missed. Method: one names the other, or both do.
#[testkit::test]
async fn neighbor_that_says_goodbye_is_not_missed_until_it_comes_again(security: Security) {
    for is_mutual in [false, true] {
        let (_keep, addr) = kept_port();
        let stays = indexer(security, &[addr]).await;
        let named = [stays.local_addr()];
        let named = &named[..usize::from(is_mutual)];
        let peer = holder(0, &stays, security).await;
        let run = async || {
            let other = indexer_at(addr, None, security, named).await;
            stays.neighbors_reach(1).await;
            other.neighbors_reach(named.len()).await;
            assert!(asked(&peer, 3).await.1);
            other
        };
        run().await.shutdown().await;
        let began = Instant::now();
        peer.register([record(ORIGIN, "b", 1)]).await;
        assert_eq!(asked(&peer, 3).await, (vec![(1, nodes([0]))], true), "mutual: {is_mutual}");
        assert!(began.elapsed() < CURRENT_FOR / 2, "waited for, mutual: {is_mutual}");
        run().await.abort().await;
        eventually(async || (!asked(&peer, 3).await.1).then_some(())).await;
    }
}

#[testkit::test]
async fn stuck_neighbors_cost_the_deadline_and_no_hit(security: Security) {
    let indexers = line(security, 2).await;
    let stuck = Fake::begin(500, security, Habit::NeverAnswers);
    let asked = connected(security, &[indexers[0].local_addr(), stuck.addr]).await;
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
}

/// The indexer between the asker and a stuck one gives up in time for its own answer to arrive.
#[testkit::test]
async fn stuck_indexer_far_away_does_not_hide_what_is_before_it() {
    let stuck = Fake::begin(500, CLEAR, Habit::NeverAnswers);
    let far = connected(CLEAR, &[stuck.addr]).await;
    let near = connected(CLEAR, &[far.local_addr()]).await;
    far.neighbors_reach(1).await;
    let peer = holder(0, &near, CLEAR).await;
    let _holder = holder(1, &far, CLEAR).await;
    let reply = peer.client.query(within(Duration::from_secs(2)), query("a", 3)).await.unwrap().unwrap();
    assert_eq!((hits(&reply), reply.complete), (vec![(1, nodes(0..2))], false));
}

#[testkit::test]
async fn query_behind_many_that_are_stuck_is_answered_at_once() {
    const OTHERS: u16 = 9;
    let mut stuck = Fake::begin(500, CLEAR, Habit::NeverAnswers);
    let indexer = connected(CLEAR, &[stuck.addr]).await;
    // Enough of them that none has more queries in flight than one caller may.
    let others = join_all((1..=OTHERS).map(|n| holder(n, &indexer, CLEAR))).await;
    let others: Vec<_> = others.into_iter().map(Arc::new).collect();
    let mut waiting = JoinSet::new();
    for n in 0..LINK_FORWARDS_MAX + 50 {
        let other = Arc::clone(&others[n % others.len()]);
        waiting.spawn(async move { other.query("b", 1).await });
    }
    for _ in 0..LINK_FORWARDS_MAX {
        stuck.asked.recv().await.unwrap();
    }
    let peer = holder(0, &indexer, CLEAR).await;
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
async fn neighbor_that_refuses_or_panics_makes_the_answer_incomplete_at_once(security: Security) {
    for habit in [Habit::Refuses(Refusal::Busy), Habit::Panics, Habit::Says(QueryReply::default())] {
        let broken = Fake::begin(500, security, habit.clone());
        let indexer = connected(security, &[broken.addr]).await;
        let peer = holder(0, &indexer, security).await;
        let began = Instant::now();
        let answer = asked(&peer, 1).await; // its deadline is far away
        assert_eq!(answer, (vec![(1, nodes([0]))], false), "{habit:?}");
        assert!(began.elapsed() < PATIENCE / 2, "{habit:?} was waited for");
    }
}
