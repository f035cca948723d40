//! What one node may have kept by an indexer: past its share it is refused, and nobody else notices.

use std::ops::Range;

use nekoproto::budget::BUDGET_MIN;

use crate::common::*;

const GREEDY: u16 = 666;
const HONEST: u16 = 1;
const LEASE: Duration = Duration::from_secs(300);

async fn small(config: Config) -> IndexerHandle {
    Indexer::spawn(Config { memory: BUDGET_MIN, lease: LEASE, ..config }).await.unwrap()
}

async fn join(seed: u16, indexer: &IndexerHandle) -> Peer {
    Peer::join(seed, indexer.local_addr(), CLEAR).await
}

/// A record of the long name `n`. An indexer lists what an origin itself registers: one signature does for all.
fn named(seed: u16, n: usize) -> SignedRecord {
    let first = record(seed, "first", 1);
    let record = Record { name: long_name(n), ..first.unverified().clone() };
    SignedRecord::new(record, *first.signature())
}

/// Registers long names from `range` on, and returns those that are not listed.
async fn register(peer: &Peer, seed: u16, range: Range<usize>) -> Vec<FileName> {
    let mut unlisted = Vec::new();
    for start in range.clone().step_by(BATCH_MAX) {
        let batch = start..range.end.min(start + BATCH_MAX);
        let records = batch.map(|n| named(seed, n));
        let reply = peer.client.register(patient(), registration(records)).await;
        let Ok(Ok(reply)) = reply else { break }; // it was evicted
        unlisted.extend(reply.unlisted);
    }
    unlisted
}

#[testkit::test]
async fn names_past_a_share_are_told_and_nobody_else_notices() {
    let indexer = small(config(CLEAR, &[])).await;
    let greedy = join(GREEDY, &indexer).await;
    let honest = join(HONEST, &indexer).await;
    honest.register([record(HONEST, "before", 1)]).await;
    let unlisted = register(&greedy, GREEDY, 0..3000).await;
    let listed = 3000 - unlisted.len();
    assert!((1500..2800).contains(&listed), "a third of the budget holds {listed}");
    // The frame in which they come is on the same account: near the limit it decides which are left out.
    assert!((0..listed / 2).all(|n| !unlisted.contains(&long_name(n))), "the first ones are listed");
    assert_eq!(greedy.query_for(long_name(0), 0).await.hits.len(), 1);
    assert_eq!(greedy.query_for(unlisted[0].clone(), 0).await.hits.len(), 0);
    assert!(honest.register([record(HONEST, "after", 1)]).await.unlisted.is_empty());
    for name in ["before", "after"] {
        assert_eq!(hits(&greedy.query(name, 0).await), [(1, nodes([HONEST]))]);
    }
    // Frames of any size are read when no further name fits.
    let mut numbers = 6000..;
    while greedy.register(numbers.next().map(|n| named(GREEDY, n))).await.unlisted.is_empty() {}
    let batch = numbers.take(BATCH_MAX).map(|n| named(GREEDY, n));
    assert_eq!(greedy.register(batch).await.unlisted.len(), BATCH_MAX);
    // What it withdraws makes room for others of its names.
    let names = Names::first_of((0..9).map(long_name));
    greedy.client.deregister(patient(), names).await.unwrap().unwrap();
    assert!(register(&greedy, GREEDY, 5000..5009).await.is_empty());
}

#[testkit::test]
async fn the_largest_loses_its_names_at_once_when_all_is_used_up() {
    let indexer = small(config(CLEAR, &[])).await;
    let honest = join(HONEST, &indexer).await;
    honest.register([record(HONEST, "mine", 1)]).await;
    let mut greedy = Vec::new();
    for (n, seed) in (0..4).zip(GREEDY..) {
        let peer = join(seed, &indexer).await;
        register(&peer, seed, n * 10_000..n * 10_000 + 2000 + n * 10).await;
        greedy.push(peer);
    }
    // One of four is gone: three of them fit, and the honest one.
    let left = eventually(async || Some(indexer.names()).filter(|names| *names < 3 * 2100)).await;
    assert!(left > 3000, "{left} names are left");
    assert_eq!(hits(&honest.query("mine", 0).await), [(1, nodes([HONEST]))]);
    assert!(honest.register([record(HONEST, "more", 1)]).await.unlisted.is_empty());
}

#[testkit::test]
async fn keys_of_one_address_throw_out_nobody_at_another() {
    let indexer = small(config(CLEAR, &[])).await;
    let honest = join(HONEST, &indexer).await;
    assert!(register(&honest, HONEST, 0..1500).await.is_empty());
    let mut rogues = Vec::new();
    for (n, seed) in (1..14).zip(GREEDY..) {
        let peer = Peer::join_elsewhere(seed, indexer.local_addr(), CLEAR).await;
        register(&peer, seed, n * 10_000..n * 10_000 + 600).await;
        rogues.push(peer);
        if n == 10 {
            rogues.clear();
        }
    }
    assert!(honest.register([record(HONEST, "more", 1)]).await.unlisted.is_empty(), "it is connected");
    for n in [0, 700, 1499] {
        assert_eq!(honest.query_for(long_name(n), 0).await.hits.len(), 1);
    }
}

#[testkit::test]
async fn queries_of_one_peer_wait_for_their_places() {
    let far = indexer(CLEAR, &[]).await;
    let near = connected(CLEAR, &[far.local_addr()]).await;
    let peer = join(HONEST, &near).await;
    let asking = (0..600).map(|n| peer.client.query(patient(), query(&format!("none-{n}"), 1)));
    for answer in join_all(asking).await {
        assert!(answer.unwrap().unwrap().complete);
    }
}

#[testkit::test]
async fn traces_past_a_share_are_refused() {
    let fake = Fake::begin(20, CLEAR, Habit::NeverAnswers);
    let near = small(config(CLEAR, &[fake.addr])).await;
    near.neighbors_reach(1).await;
    let peer = join(GREEDY, &near).await;
    let asking = (0..24).map(|n| QueryRequest { trace: n < 12, ..query("a", 1) });
    let asking = asking.map(|request| peer.client.query(within(Duration::from_secs(1)), request));
    let answers = join_all(asking).await;
    let refused = |range: Range<usize>| {
        answers[range].iter().filter(|answer| matches!(answer, Ok(Err(Refusal::Busy)))).count()
    };
    assert_eq!((refused(0..12), refused(12..24)), (2, 0), "ten fit a third of the budget");
}

/// Goal: whoever floods message ids is answered from this indexer alone, and told so; others are answered as before.
#[testkit::test]
async fn ids_past_a_share_leave_queries_of_others_forwarded() {
    let far = small(config(CLEAR, &[])).await;
    let near = small(config(CLEAR, &[far.local_addr()])).await;
    near.neighbors_reach(1).await;
    let _holder = holder(2, &far, CLEAR).await;
    let (greedy, honest) = (join(GREEDY, &near).await, join(HONEST, &near).await);
    // At the last hop only those are asked whose summary names the file.
    eventually(async || Some(asked(&honest, 1).await).filter(|(hits, _)| !hits.is_empty())).await;
    let list = query_all("none", 1);
    let mut complete = 0;
    for _ in 0..400 {
        let request = QueryAllRequest { msg_id: MsgId::random(), ..list.clone() };
        let answers = greedy.client.query_all(patient(), request).await.unwrap().unwrap();
        complete += BATCH_MAX;
        if answers.iter().flatten().any(|answer| !answer.complete) {
            break;
        }
    }
    assert!((10_000..25_000).contains(&complete), "{complete} ids of one peer are remembered");
    assert!(!asked(&greedy, 1).await.1);
    assert_eq!(asked(&honest, 1).await, (vec![(1, nodes([2]))], true));
}

/// Goal: whoever sends many lists of names at once has them answered one after the other: others that ask wait for no more
/// than a part of one.
#[testkit::test]
async fn lists_of_one_caller_are_answered_in_turns() {
    let mut far = Fake::begin(900, CLEAR, Habit::NeverAnswers);
    let near = connected(CLEAR, &[far.addr]).await;
    let (greedy, honest) = (join(GREEDY, &near).await, join(HONEST, &near).await);
    let list = |n: usize| greedy.client.query_all(patient(), query_all(&n.to_string(), 1));
    let lists = join_all((0..4).map(list));
    let asked = async {
        let mut asked = vec![far.asked.recv().await.unwrap().1.name];
        let asking = honest.client.query(within(Duration::from_secs(2)), query("honest", 1));
        let seen = async {
            while asked.last().is_some_and(|name| name.as_str() != "honest") {
                asked.push(far.asked.recv().await.unwrap().1.name);
            }
        };
        let _ = futures::join!(asking, seen); // nobody answers
        asked.len() - 1
    };
    tokio::select! {
        _ = lists => panic!("nobody answers"),
        asked = asked => assert!(asked <= 16, "{asked} of the lists went before"),
    }
    while let Ok((_, request)) = far.asked.try_recv() {
        assert!(request.name.as_str().starts_with("0-"), "the others wait: {}", request.name.as_str());
    }
}
