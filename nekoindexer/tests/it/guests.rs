//! Guests of an open network: whoever connects and calls itself an indexer. They help where they answer, and harm nobody
//! where they do not.

use crate::{
    common::*,
    program::{Running, Signal},
};

/// The deadline of queries, and what a query that waits for nobody takes at most.
const DEADLINE: Duration = Duration::from_secs(2);
const AT_ONCE: Duration = Duration::from_secs(1);

/// A guest of `indexer` that says to have `a`.
async fn guest(seed: u16, indexer: &IndexerHandle, habit: Habit) -> Dialed {
    let guest = dial_with(seed, indexer.local_addr(), CLEAR, habit).await;
    let summary = summary_of(["a"], identity(seed).id().tag(), indexer.node().tag());
    assert!(guest.client.summarize(patient(), summary).await.unwrap().unwrap().is_taken);
    guest
}

/// The answer to a query for `a` with a deadline, and how long it took.
async fn timed(peer: &Peer) -> (QueryReply, Duration) {
    let began = Instant::now();
    let reply = peer.client.query(within(DEADLINE), query("a", 3)).await.unwrap().unwrap();
    (reply, began.elapsed())
}

/// Asserts that the answer comes at once, that these hold `a`, and whether it is complete.
async fn finds_at_once(peer: &Peer, holders: &[u16], complete: bool) -> QueryReply {
    let (reply, took) = timed(peer).await;
    let expected = vec![(1, nodes(holders.iter().copied()))];
    assert_eq!((hits(&reply), reply.complete), (expected, complete));
    assert!(took < AT_ONCE, "{took:?}");
    reply
}

/// Queries until the guest has been asked something else than a probe.
async fn is_asked(guest: &mut Dialed, peer: &Peer) {
    loop {
        timed(peer).await;
        while let Ok((_, request)) = guest.asked.try_recv() {
            if request.ttl_hops > 0 {
                return;
            }
        }
        tokio::task::yield_now().await;
    }
}

#[testkit::test]
async fn a_guest_that_never_answers_neither_delays_an_answer_nor_makes_it_incomplete() {
    let indexer = indexer(CLEAR, &[]).await;
    let peer = holder(1, &indexer, CLEAR).await;
    let mut rogue = guest(500, &indexer, Habit::NeverAnswers).await;
    rogue.asked.recv().await.unwrap(); // the probe
    for _ in 0..20 {
        assert_eq!(finds_at_once(&peer, &[1], true).await.messages, 0);
    }
    drop(rogue);
    finds_at_once(&peer, &[1], true).await;
}

/// It answers probes, so that it is asked; a query that it holds up does so for a fraction of the deadline, and once.
#[testkit::test]
async fn a_guest_that_answers_probes_only_is_soon_not_asked() {
    let indexer = indexer(CLEAR, &[]).await;
    let peer = holder(1, &indexer, CLEAR).await;
    let mut rogue = guest(500, &indexer, Habit::AnswersProbes).await;
    is_asked(&mut rogue, &peer).await;
    let mut slow = 0;
    for _ in 0..200 {
        let (reply, took) = timed(&peer).await;
        assert!(reply.complete && took < AT_ONCE, "{took:?}");
        slow += u32::from(took > Duration::from_millis(200));
    }
    assert!(slow <= 2, "{slow} of 200");
}

/// It stands beside the asker and answers first; the real holder is registered with a configured neighbor.
#[testkit::test]
async fn holders_that_a_guest_makes_up_push_no_real_one_out() {
    let far = indexer(CLEAR, &[]).await;
    let asker = connected(CLEAR, &[far.local_addr()]).await;
    let real = holder(1, &far, CLEAR).await.holder.unwrap();
    let peer = Peer::join(2, asker.local_addr(), CLEAR).await;
    let nowhere = SocketAddr::from(([127, 0, 0, 1], 9));
    let false_holder = |n: u16| listed(n, nowhere);
    let holders = List::first_of((100..).map(false_holder).take(HOLDERS_MAX));
    let hits = List::first_of([Hit { record: record(ORIGIN, "a", 1), holders }]);
    let reply = QueryReply { hits, complete: true, ..QueryReply::default() };
    let _rogue = guest(500, &asker, Habit::Says(reply)).await;
    eventually(async || {
        let (reply, _) = timed(&peer).await;
        let holders = reply.hits[0].at();
        assert_eq!((holders[0], reply.complete), (real, true));
        (holders.len() > 1).then_some(()) // the guest was asked
    })
    .await;
}

/// While they hold all places, and after they left.
#[testkit::test]
async fn an_honest_guest_gets_a_place_beside_and_after_256_rogue_ones() {
    let open = indexer(CLEAR, &[]).await;
    let peer = holder(1, &open, CLEAR).await;
    let rogues = (2000..2256).map(|seed| guest(seed, &open, Habit::NeverAnswers));
    let mut rogues = join_all(rogues).await;
    for seed in [2, 3] {
        let honest = connected(CLEAR, &[open.local_addr()]).await;
        let _other = holder(seed, &honest, CLEAR).await;
        eventually(async || {
            let (reply, _) = timed(&peer).await;
            assert!(reply.complete);
            (hits(&reply) == [(1, nodes([1, seed]))]).then_some(())
        })
        .await;
        rogues.clear();
    }
}

#[testkit::test]
async fn guests_that_come_and_go_are_told_nothing_and_change_no_answer() {
    let honest = indexer(CLEAR, &[]).await;
    let open = connected(CLEAR, &[honest.local_addr()]).await;
    let _far = holder(2, &honest, CLEAR).await;
    let peer = holder(1, &open, CLEAR).await;
    for seed in 2000..2150 {
        let _rogue = guest(seed, &open, Habit::AnswersProbes).await;
        finds_at_once(&peer, &[1, 2], true).await;
    }
    open.neighbors_reach(1).await;
    let began = Instant::now();
    peer.register([record(ORIGIN, "b", 1)]).await;
    assert!(began.elapsed() < AT_ONCE, "a registration waited for who left: {:?}", began.elapsed());
}

/// A guest that was told our names and acknowledges no more keeps a registration waiting for a moment, once.
#[testkit::test]
async fn registrations_wait_once_and_shortly_for_a_guest_that_acknowledges_nothing() {
    let open = indexer(CLEAR, &[]).await;
    let peer = holder(1, &open, CLEAR).await;
    let honest = Fake::begin(500, CLEAR, Habit::nothing());
    let rogue = honest.dial(500, open.local_addr()).await;
    let summary = summary_of_none(identity(500).id().tag(), open.node().tag());
    assert!(rogue.summarize(patient(), summary).await.unwrap().unwrap().is_taken);
    open.neighbors_reach(1).await;
    honest.is_silent.send_replace(true);
    let began = Instant::now();
    for n in 0..5 {
        peer.register([record(ORIGIN, &format!("file-{n}"), 1)]).await;
    }
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
}

/// Goal: a pair of which one side names the other finds everything or says that something is missing, while the asked one
/// is loaded and after. Method: some peers ask it for as many names as fit, all the time.
#[testkit::test]
async fn an_honest_guest_is_not_missed_in_silence_where_the_asked_one_is_loaded() {
    let near = Running::begin(&["--insecure"]).await;
    let far = Running::begin(&["--insecure", "--neighbors", &near.addr.to_string()]).await;
    let there = Peer::join(2, far.addr, CLEAR).await;
    there.register([record(ORIGIN, "far", 1)]).await;
    let peer = Peer::join(1, near.addr, CLEAR).await;
    let reply = async || peer.client.query(within(DEADLINE), query("far", 3)).await;
    let is_found = async || {
        let Ok(Ok(reply)) = reply().await else { return false };
        let is_found = hits(&reply) == [(1, nodes([2]))];
        assert!(is_found || !reply.complete, "it is missed, and the answer says complete");
        is_found && reply.complete
    };
    eventually(async || (!reply().await.unwrap().unwrap().hits.is_empty()).then_some(())).await;
    for _ in 0..40 {
        is_found().await; // it answers, and is good
    }
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
        while began.elapsed() < Duration::from_secs(4) {
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
    let stopped = Running::begin(&["--insecure"]).await;
    let far = Peer::join(2, stopped.addr, CLEAR).await;
    far.register([record(ORIGIN, "a", 1)]).await;
    let asker = connected(CLEAR, &[stopped.addr]).await;
    let peer = holder(1, &asker, CLEAR).await;
    assert_eq!(hits(&timed(&peer).await.0), [(1, nodes([1, 2]))]);
    stopped.signal(Signal::STOP);
    eventually(async || {
        let (reply, took) = timed(&peer).await;
        assert_eq!((hits(&reply), reply.complete), (vec![(1, nodes([1]))], false));
        (took < AT_ONCE).then_some(())
    })
    .await;
    for _ in 0..5 {
        finds_at_once(&peer, &[1], false).await;
    }
    stopped.signal(Signal::CONT);
    eventually(async || {
        let (reply, _) = timed(&peer).await;
        (reply.complete && hits(&reply) == [(1, nodes([1, 2]))]).then_some(())
    })
    .await;
}
