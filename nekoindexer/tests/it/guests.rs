//! Guests of an open network: whoever connects and calls itself an indexer. They add answers where nobody else has any, and
//! remove, delay and spoil none.

use tokio_util::task::AbortOnDropHandle;

use crate::{common::*, program::Running};

/// The deadline of queries: one that takes half of it has waited for somebody.
const DEADLINE: Duration = PATIENCE;
const AT_ONCE: Duration = DEADLINE.checked_div(2).unwrap();
/// A registration that takes as long has waited for somebody, which it does for [`CURRENT_FOR`].
const WAITED: Duration = CURRENT_FOR.checked_mul(2).unwrap().checked_div(3).unwrap();

/// A guest that says to have these names, until dropped.
struct Guest {
    dialed: Dialed,
    _advertises: AbortOnDropHandle<()>,
}

async fn guest<const N: usize>(seed: u16, indexer: &IndexerHandle, names: [&str; N], habit: Habit) -> Guest {
    let dialed = dial(seed, indexer.local_addr(), CLEAR, habit).await;
    let summary = summary_of(names, &[indexer.node().tag()]);
    Guest { _advertises: advertise(&dialed.client, summary).await, dialed }
}

async fn timed(peer: &Peer, name: &str) -> (QueryReply, Duration) {
    let began = Instant::now();
    let reply = peer.client.query(within(DEADLINE), query(name, 3)).await.unwrap().unwrap();
    (reply, began.elapsed())
}

async fn find(peer: &Peer, glob: &str) -> FindReply {
    let search = Search { terms: Terms::first_of(Term::new(glob)), ..Search::default() };
    let request = FindRequest { limit: 9, ..FindRequest::new(search, 3) };
    peer.client.find(within(DEADLINE), request).await.unwrap().unwrap()
}

/// Asserts that the answer comes at once, that these hold `a`, and whether it is complete.
async fn finds_at_once(peer: &Peer, holders: &[u16], complete: bool) -> QueryReply {
    let (reply, took) = timed(peer, "a").await;
    let expected = vec![(1, nodes(holders.iter().copied()))];
    assert_eq!((hits(&reply), reply.complete), (expected, complete));
    assert!(took < AT_ONCE, "{took:?}");
    reply
}

/// Two indexers that name each other, one that is asked and one where 1 holds `a`, and the asker.
async fn pair() -> (Vec<IndexerHandle>, [Peer; 2]) {
    let pair = line(CLEAR, 2).await;
    let peers = [Peer::join(2, pair[0].local_addr(), CLEAR).await, holder(1, &pair[1], CLEAR).await];
    (pair, peers)
}

/// Goal: who is trusted finds it: a guest is neither asked nor waited for, and the answer says that it may know more.
#[testkit::test]
async fn guests_that_never_answer_or_come_and_go_delay_nothing_that_others_find_and_are_told_nothing() {
    let (pair, [peer, _holder]) = pair().await;
    let mut rogue = guest(500, &pair[0], ["a"], Habit::NeverAnswers).await;
    for _ in 0..20 {
        let reply = finds_at_once(&peer, &[1], true).await;
        assert!(reply.guests_unheard && reply.messages == 1);
    }
    assert!(rogue.dialed.asked.try_recv().is_err());
    drop(rogue);
    eventually(async || (!finds_at_once(&peer, &[1], true).await.guests_unheard).then_some(())).await;
    for seed in 2000..2050 {
        let _rogue = guest(seed, &pair[0], ["a"], Habit::NeverAnswers).await;
        finds_at_once(&peer, &[1], true).await;
    }
    let began = Instant::now();
    peer.register([record(ORIGIN, "b", 1)]).await;
    assert!(began.elapsed() < WAITED, "a registration waited for who left: {:?}", began.elapsed());
}

/// Goal: where nobody else has anything a guest is asked, and waited for a quarter of a second; its hits count, and
/// nothing else that it says.
#[testkit::test]
async fn a_guest_adds_what_nobody_else_has() {
    let (pair, [peer, _holder]) = pair().await;
    let nowhere = SocketAddr::from(([127, 0, 0, 1], 9));
    let hit = |text| Hit { record: record(ORIGIN, text, 1), holders: List::first_of([listed(7, nowhere)]) };
    let reply = QueryReply { hits: List::first_of([hit("b"), hit("other")]), ..QueryReply::default() };
    let _helpful = guest(500, &pair[0], ["b", "c"], Habit::Says(reply)).await;
    let (found, _) = timed(&peer, "b").await;
    assert_eq!(hits(&found), [(1, nodes([7]))]);
    let is_all = found.complete && !found.guests_unheard;
    assert!(is_all, "it says that it is not complete, and more than was asked for");

    let _stuck = guest(501, &pair[0], ["b", "c"], Habit::NeverAnswers).await;
    for (name, found) in [("b", 1), ("c", 0), ("d", 0)] {
        let (reply, took) = timed(&peer, name).await;
        assert_eq!((reply.hits.len(), reply.complete, reply.guests_unheard), (found, true, true), "{name}");
        assert!(took < AT_ONCE, "{took:?}");
    }
    let (began, search) = (Instant::now(), find(&peer, "*").await);
    assert!(search.complete && search.guests_unheard && began.elapsed() < AT_ONCE);
    assert_eq!(search.hits.len(), 1);
}

/// Goal: one hop further, where only its own names count, a guest is not asked for what it does not have.
#[testkit::test]
async fn a_guest_is_not_asked_for_what_its_own_names_rule_out() {
    let open = indexer(CLEAR, &[]).await;
    let peer = holder(1, &open, CLEAR).await;
    let mut rogue = guest(500, &open, ["b"], Habit::nothing()).await;
    for (name, ttl_hops, is_asked) in [("c", 1, false), ("c", 2, true), ("b", 1, true)] {
        peer.query(name, ttl_hops).await;
        let asked = rogue.dialed.asked.try_recv().is_ok();
        assert_eq!(asked, is_asked, "{name} with {ttl_hops} hops");
    }
}

/// Goal: the copy that a guest sends ahead, as an indexer or as a peer, hides none that crosses trusted links.
#[testkit::test]
async fn a_message_that_is_sent_ahead_hides_no_answer_and_no_news() {
    let (pair, [peer, mut holder]) = pair().await;
    let asker = identity(2).id();
    let rogue = dial(500, pair[1].local_addr(), CLEAR, Habit::nothing()).await;
    let other = Peer::join(501, pair[1].local_addr(), CLEAR).await;
    for _ in 0..20 {
        let request = query("a", 3);
        for id in [request.msg_id, request.msg_id.sent_by(&asker)] {
            let ahead = QueryRequest { msg_id: id, ttl_hops: 16, ..request.clone() };
            for client in [&rogue.client, &other.client] {
                client.query(patient(), ahead.clone()).await.unwrap().unwrap();
            }
        }
        let reply = peer.client.query(patient(), request).await.unwrap().unwrap();
        assert_eq!((hits(&reply), reply.complete), (vec![(1, nodes([1]))], true));
    }
    // What origin 2 publishes is held by 1, at the other.
    let origin = identity(2);
    peer.register([record(2, "b", 1)]).await;
    holder.register([record(2, "b", 1)]).await;
    let news = invalidation([record(2, "b", 2)], 3);
    for id in [news.msg_id, news.msg_id.sent_by(&origin.id())] {
        let ahead = InvalidateRequest { msg_id: id, ..invalidation([record(2, "other", 2)], 16) };
        rogue.client.invalidate(patient(), ahead.clone()).await.unwrap().unwrap();
        let _ = other.client.invalidate(patient(), ahead).await.unwrap();
    }
    peer.client.invalidate(patient(), news).await.unwrap().unwrap();
    let told = holder.invalidations.recv().await.unwrap();
    assert_eq!(told[0].unverified().version.get(), 2);
}

#[testkit::test]
async fn a_chain_that_is_named_on_one_side_is_searched_both_ways() {
    let first = indexer(CLEAR, &[]).await;
    let second = indexer(CLEAR, &[first.local_addr()]).await;
    let third = indexer(CLEAR, &[second.local_addr()]).await;
    second.neighbors_reach(1).await;
    third.neighbors_reach(1).await;
    let mut peers = Vec::new();
    for (seed, at) in [(1, &first), (3, &third)] {
        let peer = Peer::join(seed, at.local_addr(), CLEAR).await;
        peer.register([record(ORIGIN, &format!("at-{seed}"), 1)]).await;
        peers.push(peer);
    }
    for (peer, other) in [(&peers[0], 3), (&peers[1], 1)] {
        let name = format!("at-{other}");
        // Each time: a guest has said which names it has, and answers in the time that one gets.
        for _ in 0..10 {
            eventually(async || (hits(&timed(peer, &name).await.0) == [(1, nodes([other]))]).then_some(()))
                .await;
            eventually(async || (find(peer, "at-*").await.hits.len() == 2).then_some(())).await;
        }
    }
}

/// Goal: a guest is told no names, so no registration waits for it.
#[testkit::test]
async fn registrations_do_not_wait_for_guests() {
    let open = indexer(CLEAR, &[]).await;
    let peer = holder(1, &open, CLEAR).await;
    let mut rogue = Fake::begin(500, CLEAR, Habit::nothing());
    let client = rogue.dial(500, open.local_addr()).await;
    let _advertises = advertise(&client, summary_of(["a"], &[])).await;
    rogue.is_silent.send_replace(true);
    let began = Instant::now();
    for n in 0..20 {
        peer.register([record(ORIGIN, &format!("file-{n}"), 1)]).await;
    }
    assert!(began.elapsed() < WAITED, "{:?}", began.elapsed());
    assert!(rogue.summaries.try_recv().is_err());
}

/// Goal: a pair of which one side names the other finds everything or says that something is missing, while the asked one
/// is loaded and after. Method: some peers ask it for as many names as fit, all the time.
#[testkit::test]
async fn an_honest_guest_is_not_missed_in_silence_where_the_asked_one_is_loaded() {
    let near = Running::begin(&["--insecure"]);
    let far = Running::begin(&["--insecure", "--neighbors", &near.addr.to_string()]);
    let there = Peer::join(2, far.addr, CLEAR).await;
    there.register([record(ORIGIN, "far", 1)]).await;
    let peer = Peer::join(1, near.addr, CLEAR).await;
    let reply = async || peer.client.query(within(DEADLINE), query("far", 3)).await;
    let is_found = async || {
        let Ok(Ok(reply)) = reply().await else { return false };
        let is_found = hits(&reply) == [(1, nodes([2]))];
        assert!(is_found || reply.guests_unheard, "it is missed, and the answer does not say so");
        is_found && reply.complete
    };
    eventually(async || (!reply().await.unwrap().unwrap().hits.is_empty()).then_some(())).await;
    let rogue = async |seed: u16| {
        let rogue = Peer::join(seed, near.addr, CLEAR).await;
        let list = QueryAllRequest { msg_id: MsgId::random(), ..query_all("none", 3) };
        loop {
            let list = || QueryAllRequest { msg_id: MsgId::random(), ..list.clone() };
            join_all((0..16).map(|_| rogue.client.query_all(within(DEADLINE), list()))).await;
        }
    };
    let rogues: Vec<_> = (600..604).map(|seed| Box::pin(rogue(seed))).collect();
    let asking = async {
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(2) {
            is_found().await;
        }
    };
    tokio::select! {
        _ = futures::future::select_all(rogues) => {}
        () = asking => {}
    }
    eventually(async || is_found().await.then_some(())).await;
}

/// The connection stays, and nothing answers over it.
#[testkit::test]
async fn a_configured_neighbor_that_is_stopped_is_soon_not_waited_for_and_comes_back() {
    let stopped = Running::begin(&["--insecure"]);
    let far = Peer::join(2, stopped.addr, CLEAR).await;
    far.register([record(ORIGIN, "a", 1)]).await;
    let asker = connected(CLEAR, &[stopped.addr]).await;
    let peer = holder(1, &asker, CLEAR).await;
    assert_eq!(hits(&timed(&peer, "a").await.0), [(1, nodes([1, 2]))]);
    stopped.signal("STOP");
    let soon = Duration::from_secs(2);
    eventually(async || {
        let began = Instant::now();
        let reply = peer.client.query(within(soon), query("a", 3)).await.ok()?.unwrap();
        assert_eq!((hits(&reply), reply.complete), (vec![(1, nodes([1]))], false));
        (began.elapsed() < soon / 2).then_some(())
    })
    .await;
    for _ in 0..5 {
        finds_at_once(&peer, &[1], false).await;
    }
    stopped.signal("CONT");
    eventually(async || {
        let (reply, _) = timed(&peer, "a").await;
        (reply.complete && hits(&reply) == [(1, nodes([1, 2]))]).then_some(())
    })
    .await;
}
