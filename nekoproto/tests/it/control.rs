//! Control calls over real sockets: both ways at once, under pressure, and with a hostile other end.

use std::{
    collections::BTreeSet,
    pin::pin,
    sync::atomic::{AtomicUsize, Ordering},
};

use futures::{StreamExt, stream};
use tarpc::client::RpcError;

use crate::common::*;

struct Pair {
    to_indexer: IndexerServiceClient,
    to_peer: PeerServiceClient,
    events: Events,
    peer: JoinHandle<()>,
    indexer: JoinHandle<()>,
}

async fn pair(security: Security) -> Pair {
    let (dialed, accepted) = connected(security, Role::Indexer, Purpose::Control).await;
    let (service, events) = Indexer::new();
    let (to_indexer, peer) = open_as_peer(dialed, Peer::new().0);
    let (to_peer, indexer) = open_as_indexer(accepted, service);
    Pair { to_indexer, to_peer, events, peer: tokio::spawn(peer), indexer: tokio::spawn(indexer) }
}

async fn by_hand(security: Security) -> (Wire, Events) {
    let (service, events) = Indexer::new();
    (Site::indexer(security).by_hand(1, service).await, events)
}

#[testkit::test]
async fn one_connection_carries_calls_both_ways(security: Security) {
    let pair = pair(security).await;
    let records = List::first_of([record(7, "a", 1), record(7, "b", 2)]);
    let request = registration(records.clone());
    let registered = pair.to_indexer.register(patient(), request).await.unwrap();
    let RegisterReply { newer, lease, .. } = registered.unwrap();
    assert_eq!((newer, lease.names), (records.clone(), 2));
    let refused = pair.to_indexer.deregister(patient(), List::first_of([name("a")])).await.unwrap();
    assert_eq!(refused, Err(Refusal::TtlTooLarge(1)));

    let refused = pair.to_peer.invalidate(patient(), records).await.unwrap();
    assert_eq!(refused, Err(Refusal::TtlTooLarge(2)));
    let asked = [held(name("a"), 1), held(name("b"), 2)];
    let verdicts = pair.to_peer.confirm(patient(), List::first_of(asked.clone())).await.unwrap();
    assert_eq!(verdicts.unwrap().into_vec(), asked.each_ref().map(verdict));
}

/// A task that used up its budget cannot poll timers in that turn: the deadline must fire nevertheless.
#[testkit::test]
async fn a_deadline_set_in_a_long_turn_is_kept(security: Security) {
    let (dialed, accepted) = connected(security, Role::Indexer, Purpose::Control).await;
    let (_to_peer, indexer) = open_as_indexer(accepted, Indexer::new().0);
    let (client, mut driver) = open_as_peer(dialed, Peer::new().0);
    let long_turns = Arc::new(AtomicUsize::new(0));
    let left = Arc::clone(&long_turns);
    let driver = std::future::poll_fn(move |cx| {
        if left.load(Ordering::Relaxed) > 0 {
            left.fetch_sub(1, Ordering::Relaxed);
            while pin!(tokio::task::consume_budget()).poll(cx).is_ready() {}
        }
        driver.as_mut().poll(cx)
    });
    let _running = [tokio::spawn(indexer), tokio::spawn(driver)];
    calls_work(&client).await;
    long_turns.store(2, Ordering::Relaxed);
    let late = client.query(call_within(Duration::from_millis(200)), query("wait")).await.unwrap_err();
    assert!(matches!(late, RpcError::DeadlineExceeded), "{late}");
    assert_eq!(long_turns.load(Ordering::Relaxed), 0, "the deadline was set in a long turn");
}

#[testkit::test]
async fn answers_to_many_names_fill_a_frame_and_the_rest_is_to_be_asked_for_again(security: Security) {
    let pair = pair(security).await;
    let asked = (0..12).map(|n| name(if n == 0 || n == 11 { "abc" } else { "big" }));
    let request = QueryAllRequest::new(List::first_of(asked), 0);
    let answers = pair.to_indexer.query_all(patient(), request).await.unwrap().unwrap();
    let fits = answers.iter().filter(|answer| **answer == Some(big_reply())).count();
    assert!((3..5).contains(&fits), "{fits} replies counted as 140 KB in 512 KB");
    assert_eq!(answers.iter().filter(|answer| answer.is_none()).count(), 10 - fits);
    assert_eq!((&answers[0], &answers[11]), (&Some(reply(3)), &Some(reply(3))));
    calls_work(&pair.to_indexer).await;
}

#[testkit::test(multi_thread)]
async fn crowd_of_calls_both_ways_is_answered_each_with_its_own_answer(security: Security) {
    const CALLS: u32 = 2000;
    let pair = pair(security).await;
    let up = stream::iter(0..CALLS).map(|n| {
        let client = pair.to_indexer.clone();
        async move {
            if n % 50 == 0 {
                let big = client.query(patient(), query("big")).await.unwrap().unwrap();
                assert!(big == big_reply(), "call {n}");
            } else {
                let text = "n".repeat(1 + n as usize % 200);
                let found = client.query(patient(), query(&text)).await.unwrap();
                assert_eq!(found, Ok(reply(1 + n % 200)), "call {n}");
            }
        }
    });
    let down = stream::iter(0..CALLS).map(|n| {
        let client = pair.to_peer.clone();
        async move {
            let many = if n % 50 == 0 { BATCH_MAX } else { 1 };
            let asked = vec![held(long_name(0), 1 + u64::from(n) * 2); many];
            let expected: Vec<_> = asked.iter().map(verdict).collect();
            let verdicts = client.confirm(patient(), List::first_of(asked)).await.unwrap().unwrap();
            assert_eq!(verdicts.into_vec(), expected, "call {n}");
        }
    });
    let all = CALLS as usize;
    let answered = futures::join!(up.buffer_unordered(all).count(), down.buffer_unordered(all).count());
    assert_eq!(answered, (all, all));
}

#[testkit::test]
async fn broken_frame_closes_its_connection_and_no_other(security: Security) {
    let other = pair(security).await;
    let (over_the_limit, without_body) = (u32::MAX.to_be_bytes(), [0; 4]);
    for frame in [&over_the_limit[..], &frames::prefixed(&[0xff; 3]), &without_body] {
        let (Wire { mut io, driver, .. }, _events) = by_hand(security).await;
        frames::write(&mut io, frame).await;
        closes(&mut io).await;
        driver.await.unwrap();
        calls_work(&other.to_indexer).await;
    }
}

#[testkit::test]
async fn longest_deadline_is_served_and_the_connection_lives_on(security: Security) {
    let (mut wire, mut events) = by_hand(security).await;
    let with_deadline = |id, deadline_ms, text| ToIndexer::Request {
        id,
        deadline_ms,
        call: Ask::Query { request: query(text) },
    };
    wire.write([with_deadline(0, u32::MAX, "wait")]).await;
    assert_eq!(events.recv().await, Some(Event::Waiting));
    for (id, deadline_ms) in [(1, u32::MAX), (u64::MAX, 1000)] {
        wire.write([with_deadline(id, deadline_ms, "ab")]).await;
        wire.answers(id, 2).await;
    }
}

#[testkit::test]
async fn a_handler_may_drive_another_connection_itself(security: Security) {
    let (dialed, accepted) = connected(security, Role::Indexer, Purpose::Control).await;
    let (other, other_end) = connected(security, Role::Indexer, Purpose::Control).await;
    drop(other_end); // so that its driver ends
    let (service, _events) = Indexer::new();
    service.drive(open_as_peer(other, Peer::new().0).1);
    let (to_indexer, peer) = open_as_peer(dialed, Peer::new().0);
    let (_, indexer) = open_as_indexer(accepted, service);
    let _running = [tokio::spawn(peer), tokio::spawn(indexer)];
    assert_eq!(to_indexer.query(patient(), query("nested")).await.unwrap(), Ok(reply(0)));
}

#[testkit::test]
async fn panic_of_a_handler_is_answered_at_once_and_the_connection_works_on(security: Security) {
    let pair = pair(security).await;
    let failed = pair.to_indexer.query(patient(), query("panic")).await;
    assert!(matches!(failed, Err(RpcError::Server(_))), "{failed:?}");
    calls_work(&pair.to_indexer).await;
    assert_eq!(pair.to_peer.confirm(patient(), List::new()).await.unwrap(), Ok(List::new()));
}

#[testkit::test]
async fn surplus_of_requests_is_answered_busy_and_the_rest_is_served(security: Security) {
    const SURPLUS: u64 = 50;
    let limit = REQUESTS_IN_FLIGHT_MAX as u64;
    let (mut wire, mut events) = by_hand(security).await;
    wire.asks(0..limit + SURPLUS, "wait").await;
    for id in limit..limit + SURPLUS {
        reads(&mut wire.io, &ToPeer::Response { id, answer: Err(Fault::Busy) }).await;
    }
    for _ in 0..limit {
        assert_eq!(events.recv().await, Some(Event::Waiting));
    }
    wire.write([ToIndexer::Cancel { id: 7 }]).await;
    let cancelled = Instant::now();
    assert_eq!(events.recv().await, Some(Event::Dropped));
    assert!(cancelled.elapsed() < testkit::PATIENCE / 2, "its deadline ended it");
    wire.is_served(limit).await;
}

#[testkit::test]
async fn repeated_request_id_is_answered_once(security: Security) {
    let (mut wire, mut events) = by_hand(security).await;
    wire.asks([5, 5], "wait").await;
    wire.is_served(6).await;
    assert_eq!(events.recv().await, Some(Event::Waiting));
    assert!(events.try_recv().is_err(), "a second handler for the same call");
}

#[testkit::test]
async fn dropped_call_cancels_its_handler_at_the_other_end(security: Security) {
    let Pair { to_indexer, mut events, to_peer: _to_peer, .. } = pair(security).await;
    let client = to_indexer.clone();
    let call = tokio::spawn(async move { client.query(patient(), query("wait")).await });
    assert_eq!(events.recv().await, Some(Event::Waiting));
    call.abort();
    let aborted = Instant::now();
    assert_eq!(events.recv().await, Some(Event::Dropped));
    assert!(aborted.elapsed() < testkit::PATIENCE / 2, "its deadline ended it");
    calls_work(&to_indexer).await;
}

#[testkit::test]
async fn lost_connection_ends_both_drivers_their_calls_and_their_handlers(security: Security) {
    let Pair { to_indexer, to_peer, mut events, peer, indexer } = pair(security).await;
    let waiting = tokio::spawn(async move { to_indexer.query(patient(), query("wait")).await });
    assert_eq!(events.recv().await, Some(Event::Waiting));
    peer.abort();
    let lost = waiting.await.unwrap();
    assert!(matches!(lost, Err(RpcError::Shutdown | RpcError::Channel(_))), "{lost:?}");
    assert_eq!(events.recv().await, Some(Event::Dropped));
    indexer.await.unwrap();
    let late = to_peer.confirm(patient(), List::new()).await;
    assert!(matches!(late, Err(RpcError::Shutdown | RpcError::Channel(_))), "{late:?}");
}

#[testkit::test]
async fn lost_connection_of_a_node_that_never_called_ends_its_handlers_too(security: Security) {
    let (mut wire, mut events) = by_hand(security).await;
    wire.asks([1], "wait").await;
    assert_eq!(events.recv().await, Some(Event::Waiting));
    drop(wire.io);
    assert_eq!(events.recv().await, Some(Event::Dropped));
    wire.driver.await.unwrap();
}

#[testkit::test]
async fn answers_that_nobody_awaits_do_not_stop_the_connection(security: Security) {
    let (mut wire, _events) = by_hand(security).await;
    wire.write((0..1000).map(acknowledged)).await;
    wire.is_served(1).await;
}

#[testkit::test]
async fn burst_of_one_kind_does_not_bury_the_message_behind_it(security: Security) {
    let (mut wire, to_peer) = Site::indexer(security).called_by_hand(1, Indexer::new().0).await;
    for burst in [1, 127, 128, 129, 300] {
        let unasked = |id| ToIndexer::Response { id, answer: Err(Fault::Busy) };
        let answers = (0..burst).map(|n| unasked(1_000_000 + n));
        wire.write(answers.chain([asking(1, "abc")])).await;
        wire.answers(1, 3).await;
    }
    for burst in [1, 127, 128, 129, 300] {
        let client = to_peer.clone();
        let context = within(2 * DEADLINE_MAX);
        let call = tokio::spawn(async move { client.invalidate(context, List::new()).await });
        let request = wire.next().await;
        let ToPeer::Request { id, deadline_ms: 60_000, call: came } = request else { panic!("{request:?}") };
        assert!(matches!(&came, AskPeer::Invalidate { records } if records.is_empty()), "{came:?}");
        wire.write((0..burst).map(|n| asking(n, "abc")).chain([acknowledged(id)])).await;
        assert_eq!(call.await.unwrap().unwrap(), Ok(()));
        let mut bodies = BTreeSet::new(); // in any order
        for _ in 0..burst {
            bodies.insert(read_body(&mut wire.io).await);
        }
        assert!((0..burst).all(|n| bodies.contains(&codec::encode(&answered(n, 3)).unwrap())));
    }
}

#[testkit::test(multi_thread)]
async fn flood_of_requests_does_not_starve_own_calls(security: Security) {
    let pair = pair(security).await;
    let searches = stream::repeat_with(|| calls_work(&pair.to_indexer));
    let flood = searches.buffer_unordered(900).for_each(|()| async {});
    let own_calls = async {
        for _ in 0..100 {
            assert_eq!(pair.to_peer.confirm(patient(), List::new()).await.unwrap(), Ok(List::new()));
        }
    };
    tokio::select! {
        () = flood => unreachable!("it never ends"),
        () = own_calls => {}
    }
}

/// A late response must not be taken for that of the next call, which uses the same slot.
#[testkit::test]
async fn call_past_its_deadline_fails_is_cancelled_and_its_late_answer_ignored(security: Security) {
    let (mut wire, to_peer) = Site::indexer(security).called_by_hand(1, Indexer::new().0).await;
    let mut late_ids = Vec::new();
    for _ in 0..3 {
        let soon = call_within(Duration::from_millis(30));
        let failed = to_peer.invalidate(soon, List::new()).await;
        assert!(matches!(failed, Err(RpcError::DeadlineExceeded)), "{failed:?}");
        let id = wire.next_call().await;
        reads(&mut wire.io, &ToPeer::Cancel { id }).await;
        late_ids.push(id);
    }
    let call = tokio::spawn(async move { to_peer.confirm(patient(), List::new()).await });
    let id = wire.next_call().await;
    assert!(!late_ids.contains(&id));
    let answer = ToIndexer::Response { id, answer: Ok(PeerAnswer::Confirm(Ok(List::new()))) };
    wire.write(late_ids.into_iter().map(acknowledged).chain([answer])).await;
    assert_eq!(call.await.unwrap().unwrap(), Ok(List::new()));
}

/// Requests held back for a caller that does not read are bounded too: the surplus is answered `Busy`.
#[testkit::test]
async fn flood_of_one_who_does_not_read_is_answered_busy_in_the_end(security: Security) {
    let (mut wire, _events) = by_hand(security).await;
    let asked = 2 * REQUESTS_IN_FLIGHT_MAX as u64;
    wire.asks(0..asked, "long").await;
    for _ in 0..2 * asked {
        tokio::task::yield_now().await; // the other end reads all of them, in slices, on this thread
    }
    let (served, busy) = wire.served_and_busy(asked).await;
    assert!(busy > 0 && served >= REQUESTS_IN_FLIGHT_MAX, "{busy} busy, {served} served");
    wire.is_served(asked).await; // with all of them read, the connection works as before
}

/// Bytes that the driver of a connection takes, which is idle mostly.
const DRIVER_BYTES_MAX: usize = 640;

#[testkit::test]
async fn driver_takes_little_room(security: Security) {
    let (_dialed, accepted) = connected(security, Role::Indexer, Purpose::Control).await;
    let (_to_peer, driver) = open_as_indexer(accepted, Indexer::new().0);
    assert!(size_of_val(&*driver) <= DRIVER_BYTES_MAX, "{}", size_of_val(&*driver));
}
