//! Control calls over real sockets: both ways at once, under pressure, and with a hostile other end.

use std::{
    collections::BTreeSet,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use futures::{StreamExt, stream};
use nekoproto::{
    Fault, IndexerServiceClient, List, PeerServiceClient, Purpose, Refusal, RegisterReply, RegisterRequest,
    Role, codec,
    indexer::{IndexerServiceRequest, IndexerServiceResponse},
    limits::{BATCH_MAX, REQUESTS_IN_FLIGHT_MAX},
    peer::{PeerServiceRequest, PeerServiceResponse},
    transport::{Envelope, NodeIo, Security, call_until},
};
use tarpc::client::RpcError;
use tokio::{io::AsyncWriteExt, sync::mpsc, task::JoinHandle};

use crate::common::{
    connected, name, over_both, read_body, reads,
    services::{
        Event, Indexer, Peer, big_reply, held, long_name, open_as_indexer, open_as_peer, patient, record,
        reply, verdict,
    },
    write_frame, write_frames,
};

/// What a peer writes.
type ToIndexer = Envelope<IndexerServiceRequest, PeerServiceResponse>;
/// What an indexer writes.
type ToPeer = Envelope<PeerServiceRequest, IndexerServiceResponse>;

/// A peer and an indexer that run one connection, and what is needed to call each.
struct Pair {
    to_indexer: IndexerServiceClient,
    to_peer: PeerServiceClient,
    events: mpsc::UnboundedReceiver<Event>,
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

/// A connection written by hand to an indexer that runs.
async fn by_hand(security: Security) -> (NodeIo, JoinHandle<()>, mpsc::UnboundedReceiver<Event>) {
    let (dialed, accepted) = connected(security, Role::Indexer, Purpose::Control).await;
    let (service, events) = Indexer::new();
    let (_, indexer) = open_as_indexer(accepted, service);
    (dialed.io, tokio::spawn(indexer), events)
}

fn search(id: u64, deadline_ms: u32, text: &str) -> ToIndexer {
    let call = IndexerServiceRequest::Search { name: name(text) };
    ToIndexer::Request { id, deadline_ms, call }
}

fn answered(id: u64, messages: u32) -> ToPeer {
    ToPeer::Response { id, answer: Ok(IndexerServiceResponse::Search(Ok(reply(messages)))) }
}

#[testkit::test]
async fn one_connection_carries_calls_both_ways() {
    over_both(async |security| {
        let pair = pair(security).await;
        let records = List::first_of([record("a", 1), record("b", 2)]);
        let request = RegisterRequest { records: records.clone(), announce: true, partial: false };
        let registered = pair.to_indexer.register(patient(), request).await.unwrap();
        let RegisterReply { newer, lease, .. } = registered.unwrap();
        assert_eq!((newer, lease.names), (records.clone(), 2));
        let names = List::first_of([name("a")]);
        let refused = pair.to_indexer.deregister(patient(), names).await.unwrap();
        assert_eq!(refused, Err(Refusal::TtlTooLarge(1)));

        let refused = pair.to_peer.invalidate(patient(), records).await.unwrap();
        assert_eq!(refused, Err(Refusal::TtlTooLarge(2)));
        let asked = [held("a", 1), held("b", 2)];
        let verdicts = pair.to_peer.confirm(patient(), List::first_of(asked.clone())).await.unwrap();
        assert_eq!(verdicts.unwrap().into_vec(), asked.each_ref().map(verdict));
    })
    .await;
}

/// A task that used up its budget cannot poll timers in that turn: the deadline must fire nevertheless.
#[testkit::test]
async fn a_deadline_set_in_a_long_turn_is_kept() {
    over_both(async |security| {
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
        assert_eq!(client.search(patient(), name("abc")).await.unwrap(), Ok(reply(3)));
        long_turns.store(2, Ordering::Relaxed);
        let deadline = Instant::now() + Duration::from_millis(200);
        let late = client.search(call_until(deadline), name("wait")).await.unwrap_err();
        assert!(matches!(late, RpcError::DeadlineExceeded), "{late}");
        assert_eq!(long_turns.load(Ordering::Relaxed), 0, "the deadline was set in a long turn");
    })
    .await;
}

#[testkit::test]
async fn answers_to_many_names_fill_a_frame_and_the_rest_is_to_be_asked_for_again() {
    over_both(async |security| {
        let pair = pair(security).await;
        let asked = (0..12).map(|n| name(if n == 0 || n == 11 { "abc" } else { "big" }));
        let answers = pair.to_indexer.search_all(patient(), List::first_of(asked)).await.unwrap().unwrap();
        let fits = answers.iter().filter(|answer| **answer == Some(big_reply())).count();
        assert!((3..5).contains(&fits), "{fits} replies counted as 140 KB in 512 KB");
        assert_eq!(answers.iter().filter(|answer| answer.is_none()).count(), 10 - fits);
        assert_eq!((&answers[0], &answers[11]), (&Some(reply(3)), &Some(reply(3))));
        // The connection works on.
        assert_eq!(pair.to_indexer.search(patient(), name("abc")).await.unwrap(), Ok(reply(3)));
    })
    .await;
}

#[testkit::test(multi_thread)]
async fn crowd_of_calls_both_ways_is_answered_each_with_its_own_answer() {
    const CALLS: u32 = 2000;
    over_both(async |security| {
        let pair = pair(security).await;
        let up = stream::iter(0..CALLS).map(|n| {
            let client = pair.to_indexer.clone();
            async move {
                if n % 50 == 0 {
                    let big = client.search(patient(), name("big")).await.unwrap().unwrap();
                    assert!(big == big_reply(), "call {n}");
                } else {
                    let text = "n".repeat(1 + n as usize % 200);
                    let found = client.search(patient(), name(&text)).await.unwrap();
                    assert_eq!(found, Ok(reply(1 + n % 200)), "call {n}");
                }
            }
        });
        let down = stream::iter(0..CALLS).map(|n| {
            let client = pair.to_peer.clone();
            async move {
                let many = if n % 50 == 0 { BATCH_MAX } else { 1 };
                let asked: Vec<_> = (0..many).map(|_| held(&long_name(), 1 + u64::from(n) * 2)).collect();
                let expected: Vec<_> = asked.iter().map(verdict).collect();
                let verdicts = client.confirm(patient(), List::first_of(asked)).await.unwrap().unwrap();
                assert_eq!(verdicts.into_vec(), expected, "call {n}");
            }
        });
        let all = CALLS as usize;
        let up = up.buffer_unordered(all).count();
        let down = down.buffer_unordered(all).count();
        assert_eq!(futures::join!(up, down), (all, all));
    })
    .await;
}

#[testkit::test]
async fn broken_frame_closes_its_connection_and_no_other() {
    let over_the_limit = u32::MAX.to_be_bytes();
    let garbage = [0, 0, 0, 3, 0xff, 0xff, 0xff];
    let without_body = [0; 4];
    over_both(async |security| {
        let other = pair(security).await;
        for frame in [over_the_limit.as_slice(), &garbage, &without_body] {
            let (mut io, indexer, _events) = by_hand(security).await;
            io.write_all(frame).await.unwrap();
            io.flush().await.unwrap();
            crate::common::closes(&mut io).await;
            indexer.await.unwrap();
            assert_eq!(other.to_indexer.search(patient(), name("abc")).await.unwrap(), Ok(reply(3)));
        }
    })
    .await;
}

#[testkit::test]
async fn longest_deadline_is_served_and_the_connection_lives_on() {
    over_both(async |security| {
        let (mut io, _indexer, mut events) = by_hand(security).await;
        write_frame(&mut io, &search(0, u32::MAX, "wait")).await;
        assert_eq!(events.recv().await, Some(Event::Waiting));
        for (id, deadline_ms) in [(1, u32::MAX), (u64::MAX, 1000)] {
            write_frame(&mut io, &search(id, deadline_ms, "ab")).await;
            reads(&mut io, &answered(id, 2)).await;
        }
    })
    .await;
}

#[testkit::test]
async fn a_handler_may_drive_another_connection_itself() {
    over_both(async |security| {
        let (dialed, accepted) = connected(security, Role::Indexer, Purpose::Control).await;
        let (other, other_end) = connected(security, Role::Indexer, Purpose::Control).await;
        drop(other_end); // so that its driver ends
        let (service, _events) = Indexer::new();
        service.drive(open_as_peer(other, Peer::new().0).1);
        let (to_indexer, peer) = open_as_peer(dialed, Peer::new().0);
        let (_, indexer) = open_as_indexer(accepted, service);
        let _running = [tokio::spawn(peer), tokio::spawn(indexer)];
        assert_eq!(to_indexer.search(patient(), name("nested")).await.unwrap(), Ok(reply(0)));
    })
    .await;
}

#[testkit::test]
async fn panic_of_a_handler_is_answered_at_once_and_the_connection_works_on() {
    over_both(async |security| {
        let pair = pair(security).await;
        let failed = pair.to_indexer.search(patient(), name("panic")).await;
        assert!(matches!(failed, Err(RpcError::Server(_))), "{failed:?}");
        assert_eq!(pair.to_indexer.search(patient(), name("abc")).await.unwrap(), Ok(reply(3)));
        let verdicts = pair.to_peer.confirm(patient(), List::new()).await.unwrap();
        assert_eq!(verdicts, Ok(List::new()));
    })
    .await;
}

#[testkit::test]
async fn surplus_of_requests_is_answered_busy_and_the_rest_is_served() {
    const SURPLUS: u64 = 50;
    let limit = REQUESTS_IN_FLIGHT_MAX as u64;
    over_both(async |security| {
        let (mut io, _indexer, mut events) = by_hand(security).await;
        for id in 0..limit + SURPLUS {
            write_frame(&mut io, &search(id, 60_000, "wait")).await;
        }
        for id in limit..limit + SURPLUS {
            let busy = ToPeer::Response { id, answer: Err(Fault::Busy) };
            reads(&mut io, &busy).await;
        }
        for _ in 0..limit {
            assert_eq!(events.recv().await, Some(Event::Waiting));
        }
        write_frame(&mut io, &ToIndexer::Cancel { id: 7 }).await;
        assert_eq!(events.recv().await, Some(Event::Dropped));
        write_frame(&mut io, &search(limit, 60_000, "abc")).await;
        reads(&mut io, &answered(limit, 3)).await;
    })
    .await;
}

#[testkit::test]
async fn repeated_request_id_is_answered_once() {
    over_both(async |security| {
        let (mut io, _indexer, mut events) = by_hand(security).await;
        for _ in 0..2 {
            write_frame(&mut io, &search(5, 60_000, "wait")).await;
        }
        write_frame(&mut io, &search(6, 60_000, "abc")).await;
        reads(&mut io, &answered(6, 3)).await;
        assert_eq!(events.recv().await, Some(Event::Waiting));
        assert!(events.try_recv().is_err(), "a second handler for the same call");
    })
    .await;
}

#[testkit::test]
async fn dropped_call_cancels_its_handler_at_the_other_end() {
    over_both(async |security| {
        let Pair { to_indexer, mut events, to_peer: _to_peer, .. } = pair(security).await;
        let client = to_indexer.clone();
        let call = tokio::spawn(async move { client.search(patient(), name("wait")).await });
        assert_eq!(events.recv().await, Some(Event::Waiting));
        call.abort();
        assert_eq!(events.recv().await, Some(Event::Dropped));
        assert_eq!(to_indexer.search(patient(), name("abc")).await.unwrap(), Ok(reply(3)));
    })
    .await;
}

#[testkit::test]
async fn lost_connection_ends_both_drivers_their_calls_and_their_handlers() {
    over_both(async |security| {
        let Pair { to_indexer, to_peer, mut events, peer, indexer } = pair(security).await;
        let waiting = tokio::spawn(async move { to_indexer.search(patient(), name("wait")).await });
        assert_eq!(events.recv().await, Some(Event::Waiting));
        peer.abort();
        let lost = waiting.await.unwrap();
        assert!(matches!(lost, Err(RpcError::Shutdown | RpcError::Channel(_))), "{lost:?}");
        assert_eq!(events.recv().await, Some(Event::Dropped));
        indexer.await.unwrap();
        let late = to_peer.confirm(patient(), List::new()).await;
        assert!(matches!(late, Err(RpcError::Shutdown | RpcError::Channel(_))), "{late:?}");
    })
    .await;
}

#[testkit::test]
async fn lost_connection_of_a_node_that_never_called_ends_its_handlers_too() {
    over_both(async |security| {
        let (mut io, indexer, mut events) = by_hand(security).await; // its client is dropped
        write_frame(&mut io, &search(1, 60_000, "wait")).await;
        assert_eq!(events.recv().await, Some(Event::Waiting));
        drop(io);
        assert_eq!(events.recv().await, Some(Event::Dropped));
        indexer.await.unwrap();
    })
    .await;
}

#[testkit::test]
async fn answers_that_nobody_awaits_do_not_stop_the_connection() {
    over_both(async |security| {
        let (mut io, _indexer, _events) = by_hand(security).await; // its client is dropped
        for id in 0..1000 {
            let answer = Ok(PeerServiceResponse::Invalidate(Ok(())));
            write_frame(&mut io, &ToIndexer::Response { id, answer }).await;
        }
        write_frame(&mut io, &search(1, 60_000, "abc")).await;
        reads(&mut io, &answered(1, 3)).await;
    })
    .await;
}

/// Messages of one kind must not delay one of the other kind that follows them.
#[testkit::test]
async fn burst_of_one_kind_does_not_bury_the_message_behind_it() {
    over_both(async |security| {
        let (dialed, accepted) = connected(security, Role::Indexer, Purpose::Control).await;
        let (to_peer, indexer) = open_as_indexer(accepted, Indexer::new().0);
        tokio::spawn(indexer);
        let mut io = dialed.io;
        for burst in [1, 127, 128, 129, 300] {
            let unasked = |id| ToIndexer::Response { id, answer: Err(Fault::Busy) };
            let answers = (0..burst).map(|n| unasked(1_000_000 + n));
            write_frames(&mut io, answers.chain([search(1, 60_000, "abc")])).await;
            reads(&mut io, &answered(1, 3)).await;
        }
        for burst in [1, 127, 128, 129, 300] {
            let call = tokio::spawn({
                let client = to_peer.clone();
                async move { client.invalidate(patient(), List::new()).await }
            });
            let asked = PeerServiceRequest::Invalidate { records: List::new() };
            let request = codec::decode(&read_body(&mut io).await).unwrap();
            let ToPeer::Request { id, deadline_ms: 60_000, call: came } = request else {
                panic!("{request:?}")
            };
            assert_eq!(format!("{came:?}"), format!("{asked:?}"));
            let requests = (0..burst).map(|n| search(n, 60_000, "abc"));
            let answer = ToIndexer::Response { id, answer: Ok(PeerServiceResponse::Invalidate(Ok(()))) };
            write_frames(&mut io, requests.chain([answer])).await;
            assert_eq!(call.await.unwrap().unwrap(), Ok(()));
            let mut bodies = BTreeSet::new(); // in any order
            for _ in 0..burst {
                bodies.insert(read_body(&mut io).await);
            }
            assert!((0..burst).all(|n| bodies.contains(&codec::encode(&answered(n, 3)).unwrap())));
        }
    })
    .await;
}

/// Requests that keep arriving must not starve the indexer's own calls.
#[testkit::test(multi_thread)]
async fn flood_of_requests_does_not_starve_own_calls() {
    over_both(async |security| {
        let pair = pair(security).await;
        let searches = stream::repeat_with(|| pair.to_indexer.search(patient(), name("abc")));
        let flood = searches.buffer_unordered(900).for_each(|found| async {
            assert_eq!(found.unwrap(), Ok(reply(3)));
        });
        let own_calls = async {
            for _ in 0..100 {
                let verdicts = pair.to_peer.confirm(patient(), List::new()).await.unwrap();
                assert_eq!(verdicts, Ok(List::new()));
            }
        };
        tokio::select! {
            () = flood => unreachable!("it never ends"),
            () = own_calls => {}
        }
    })
    .await;
}

/// A late response must not be taken for that of the next call, which uses the same slot.
#[testkit::test]
async fn call_past_its_deadline_fails_is_cancelled_and_its_late_answer_ignored() {
    over_both(async |security| {
        let (dialed, accepted) = connected(security, Role::Indexer, Purpose::Control).await;
        let (to_peer, indexer) = open_as_indexer(accepted, Indexer::new().0);
        tokio::spawn(indexer);
        let mut io = dialed.io;
        let mut late_ids = Vec::new();
        for _ in 0..3 {
            let soon = call_until(Instant::now() + Duration::from_millis(30));
            let failed = to_peer.invalidate(soon, List::new()).await;
            assert!(matches!(failed, Err(RpcError::DeadlineExceeded)), "{failed:?}");
            let ToPeer::Request { id, .. } = codec::decode(&read_body(&mut io).await).unwrap() else {
                panic!("no request")
            };
            reads(&mut io, &ToPeer::Cancel { id }).await;
            late_ids.push(id);
        }
        let client = to_peer.clone();
        let call = tokio::spawn(async move { client.confirm(patient(), List::new()).await });
        let ToPeer::Request { id, .. } = codec::decode(&read_body(&mut io).await).unwrap() else {
            panic!("no request")
        };
        assert!(!late_ids.contains(&id));
        for late in late_ids {
            let answer = Ok(PeerServiceResponse::Invalidate(Ok(())));
            write_frame(&mut io, &ToIndexer::Response { id: late, answer }).await;
        }
        let answer = Ok(PeerServiceResponse::Confirm(Ok(List::new())));
        write_frame(&mut io, &ToIndexer::Response { id, answer }).await;
        assert_eq!(call.await.unwrap().unwrap(), Ok(List::new()));
    })
    .await;
}

/// Each answer is about 70 KiB; far more are requested than may wait to be read.
#[testkit::test]
async fn answers_to_one_who_does_not_read_are_bounded_and_come_when_it_does() {
    const ASKED: u64 = 500;
    over_both(async |security| {
        let (mut io, _indexer, _events) = by_hand(security).await;
        write_frames(&mut io, (0..ASKED).map(|id| search(id, 60_000, "big"))).await;
        let big = codec::encode(&big_reply()).unwrap().len();
        let mut ids = BTreeSet::new();
        for _ in 0..ASKED {
            let body = read_body(&mut io).await;
            assert!(body.len() > big, "an answer of {} bytes", body.len());
            let ToPeer::Response { id, .. } = codec::decode(&body).unwrap() else { panic!("no answer") };
            ids.insert(id);
        }
        assert_eq!(ids, (0..ASKED).collect());
        // With all of them read, the connection works as before.
        write_frame(&mut io, &search(ASKED, 60_000, "abc")).await;
        reads(&mut io, &answered(ASKED, 3)).await;
    })
    .await;
}

/// Requests held back for a caller that does not read are bounded too: the surplus is answered `Busy`.
#[testkit::test]
async fn flood_of_one_who_does_not_read_is_answered_busy_in_the_end() {
    over_both(async |security| {
        let (mut io, _indexer, _events) = by_hand(security).await;
        let asked = 2 * REQUESTS_IN_FLIGHT_MAX as u64;
        write_frames(&mut io, (0..asked).map(|id| search(id, 60_000, "big"))).await;
        for _ in 0..2 * asked {
            tokio::task::yield_now().await; // the other end reads all of them, in slices, on this thread
        }
        let (mut busy, mut served) = (0, 0);
        for _ in 0..asked {
            match codec::decode(&read_body(&mut io).await).unwrap() {
                ToPeer::Response { answer: Err(Fault::Busy), .. } => busy += 1,
                ToPeer::Response { answer: Ok(_), .. } => served += 1,
                other => panic!("{other:?}"),
            }
        }
        assert!(busy > 0 && served >= REQUESTS_IN_FLIGHT_MAX, "{busy} busy, {served} served");
    })
    .await;
}
