//! Guests of an open network: whoever connects and calls itself an indexer. They help where they answer, and harm nobody
//! where they do not.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use crate::{
    common::{
        Fake, Peer, eventually,
        fake::{Dialed, Habit, dial_with, summary_of, summary_of_none},
        hits, identity, indexer, name, nodes, patient, query, record, within,
    },
    program::Running,
};
use nekoindexer::IndexerHandle;
use nekoproto::{
    Hit, List, ListedHolder, MsgId, Names, QueryAllRequest, QueryReply,
    limits::{BATCH_MAX, HOLDERS_MAX},
    transport::Security,
};
use rustix::process::{Pid, Signal, kill_process};

const SECURITY: Security = Security::Insecure;
/// The origin of the file that everybody holds.
const ORIGIN: u16 = 1000;
/// The deadline of queries, and what a query that waits for nobody takes at most.
const DEADLINE: Duration = Duration::from_secs(2);
const AT_ONCE: Duration = Duration::from_secs(1);

/// A guest of `indexer` that says to have `a`.
async fn guest(seed: u16, indexer: &IndexerHandle, habit: Habit) -> Dialed {
    let guest = dial_with(seed, indexer.local_addr(), SECURITY, habit).await;
    let summary = summary_of(["a"], identity(seed).id().tag(), indexer.node().tag());
    assert!(guest.client.summarize(patient(), summary).await.unwrap().unwrap().is_taken);
    guest
}

async fn holder(seed: u16, indexer: &IndexerHandle) -> Peer {
    let peer = Peer::join(seed, indexer.local_addr(), SECURITY).await;
    peer.register([record(ORIGIN, "a", 1)]).await;
    peer
}

/// The answer, and how long it took.
async fn asked(peer: &Peer, text: &str) -> (QueryReply, Duration) {
    let began = Instant::now();
    let reply = peer.client.query(within(DEADLINE), query(text, 3)).await.unwrap().unwrap();
    (reply, began.elapsed())
}

/// Queries until the guest has been asked something else than a probe.
async fn is_asked(guest: &mut Dialed, peer: &Peer) {
    loop {
        asked(peer, "a").await;
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
    let indexer = indexer(SECURITY, &[]).await;
    let peer = holder(1, &indexer).await;
    let mut rogue = guest(500, &indexer, Habit::NeverAnswers).await;
    rogue.asked.recv().await.unwrap(); // the probe
    for _ in 0..20 {
        let (reply, took) = asked(&peer, "a").await;
        assert_eq!((hits(&reply), reply.complete, reply.messages), (vec![(1, nodes([1]))], true, 0));
        assert!(took < AT_ONCE, "{took:?}");
    }
    drop(rogue);
    assert!(asked(&peer, "a").await.0.complete);
}

/// It answers probes, so that it is asked; a query that it holds up does so for a fraction of the deadline, and once.
#[testkit::test]
async fn a_guest_that_answers_probes_only_is_soon_not_asked() {
    let indexer = indexer(SECURITY, &[]).await;
    let peer = holder(1, &indexer).await;
    let mut rogue = guest(500, &indexer, Habit::AnswersProbes).await;
    is_asked(&mut rogue, &peer).await;
    let mut slow = 0;
    for _ in 0..200 {
        let (reply, took) = asked(&peer, "a").await;
        assert!(reply.complete && took < AT_ONCE, "{took:?}");
        slow += u32::from(took > Duration::from_millis(200));
    }
    assert!(slow <= 2, "{slow} of 200");
}

/// It stands beside the asker and answers first; the real holder is registered with a configured neighbor.
#[testkit::test]
async fn holders_that_a_guest_makes_up_push_no_real_one_out() {
    let far = indexer(SECURITY, &[]).await;
    let asker = indexer(SECURITY, &[far.local_addr()]).await;
    asker.neighbors_reach(1).await;
    let real = holder(1, &far).await.holder.unwrap();
    let peer = Peer::join(2, asker.local_addr(), SECURITY).await;
    let nowhere = SocketAddr::from(([127, 0, 0, 1], 9));
    let false_holder = |n: u16| ListedHolder::new(identity(n).fresh_reach([nowhere]));
    let made_up = List::first_of((100..).map(false_holder).take(HOLDERS_MAX));
    let hit = Hit { record: record(ORIGIN, "a", 1), holders: made_up };
    let reply = QueryReply { hits: List::first_of([hit]), complete: true, messages: 0 };
    let _rogue = guest(500, &asker, Habit::Says(reply)).await;
    eventually(async || {
        let (reply, _) = asked(&peer, "a").await;
        let holders = reply.hits[0].at();
        assert_eq!((holders[0], reply.complete), (real, true));
        (holders.len() > 1).then_some(()) // the guest was asked
    })
    .await;
}

/// While they hold all places, and after they left.
#[testkit::test]
async fn an_honest_guest_gets_a_place_beside_and_after_256_rogue_ones() {
    let open = indexer(SECURITY, &[]).await;
    let peer = holder(1, &open).await;
    let mut rogues = Vec::new();
    for seed in 2000..2256 {
        rogues.push(guest(seed, &open, Habit::NeverAnswers).await);
    }
    for seed in [2, 3] {
        let honest = indexer(SECURITY, &[open.local_addr()]).await;
        let _other = holder(seed, &honest).await;
        eventually(async || {
            let (reply, _) = asked(&peer, "a").await;
            assert!(reply.complete);
            (hits(&reply) == [(1, nodes([1, seed]))]).then_some(())
        })
        .await;
        rogues.clear();
    }
}

#[testkit::test]
async fn guests_that_come_and_go_are_told_nothing_and_change_no_answer() {
    let honest = indexer(SECURITY, &[]).await;
    let open = indexer(SECURITY, &[honest.local_addr()]).await;
    open.neighbors_reach(1).await;
    let _far = holder(2, &honest).await;
    let peer = holder(1, &open).await;
    for seed in 2000..2150 {
        let rogue = guest(seed, &open, Habit::AnswersProbes).await;
        let (reply, took) = asked(&peer, "a").await;
        assert_eq!((hits(&reply), reply.complete), (vec![(1, nodes([1, 2]))], true));
        assert!(took < AT_ONCE, "{took:?}");
        drop(rogue);
    }
    open.neighbors_reach(1).await;
    let began = Instant::now();
    peer.register([record(ORIGIN, "b", 1)]).await;
    assert!(began.elapsed() < AT_ONCE, "a registration waited for who left: {:?}", began.elapsed());
}

/// A guest that was told our names and acknowledges no more keeps a registration waiting for a moment, once.
#[testkit::test]
async fn registrations_wait_once_and_shortly_for_a_guest_that_acknowledges_nothing() {
    let open = indexer(SECURITY, &[]).await;
    let peer = holder(1, &open).await;
    let honest =
        Fake::begin(500, SECURITY, Habit::Says(QueryReply { complete: true, ..QueryReply::default() }));
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
    let there = Peer::join(2, far.addr, SECURITY).await;
    there.register([record(ORIGIN, "far", 1)]).await;
    let peer = Peer::join(1, near.addr, SECURITY).await;
    let is_found = async || {
        let asked = peer.client.query(within(DEADLINE), query("far", 3)).await;
        let Ok(Ok(reply)) = asked else { return false };
        let is_found = hits(&reply) == [(1, nodes([2]))];
        assert!(is_found || !reply.complete, "it is missed, and the answer says complete");
        is_found && reply.complete
    };
    let first = async || {
        let reply = peer.client.query(within(DEADLINE), query("far", 3)).await.unwrap().unwrap();
        (!reply.hits.is_empty()).then_some(())
    };
    eventually(first).await;
    for _ in 0..40 {
        is_found().await; // it answers, and is good
    }
    let names = Names::first_of((0..BATCH_MAX).map(|n| name(&format!("none-{n}"))));
    let list = || QueryAllRequest { msg_id: MsgId::random(), names: names.clone(), ttl_hops: 3 };
    let rogue = async |seed: u16| {
        let rogue = Peer::join(seed, near.addr, SECURITY).await;
        loop {
            let calls = (0..16).map(|_| rogue.client.query_all(within(DEADLINE), list()));
            futures::future::join_all(calls).await;
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
    let far = Peer::join(2, stopped.addr, SECURITY).await;
    far.register([record(ORIGIN, "a", 1)]).await;
    let asker = indexer(SECURITY, &[stopped.addr]).await;
    asker.neighbors_reach(1).await;
    let peer = holder(1, &asker).await;
    assert_eq!(hits(&asked(&peer, "a").await.0), [(1, nodes([1, 2]))]);
    let pid = Pid::from_raw(stopped.child.id().unwrap().cast_signed()).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    eventually(async || {
        let (reply, took) = asked(&peer, "a").await;
        assert_eq!((hits(&reply), reply.complete), (vec![(1, nodes([1]))], false));
        (took < AT_ONCE).then_some(())
    })
    .await;
    for _ in 0..5 {
        let (reply, took) = asked(&peer, "a").await;
        assert!(!reply.complete && took < AT_ONCE, "{took:?}");
    }
    kill_process(pid, Signal::CONT).unwrap();
    eventually(async || {
        let (reply, _) = asked(&peer, "a").await;
        (reply.complete && hits(&reply) == [(1, nodes([1, 2]))]).then_some(())
    })
    .await;
}
