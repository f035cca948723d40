//! Who takes more than its share: what is kept for it is bounded, counted and given back, and others notice nothing.

use tarpc::client::RpcError;
use tokio::time::Instant;

use crate::common::*;

const MIB: usize = 1 << 20;
const UNREAD_BYTES_MAX: usize = 8 * MIB;

#[testkit::test]
async fn frame_that_is_not_finished_is_counted_and_ends_its_connection_in_time(security: Security) {
    let mut site = Site::indexer(security);
    let mut other = site.by_hand(1, Indexer::new().0).await;
    let mut wire = site.by_hand(3, Indexer::new().0).await;
    wire.is_served(1).await;
    assert_eq!(site.used(), 0, "a small request costs nothing");
    let frame = frames::prefixed(&vec![0; FRAME_BYTES_MAX]);
    frames::write(&mut wire.io, &frame[..frame.len() - 1]).await;
    site.until_used(|used| used > FRAME_BYTES_MAX / 2).await;
    assert!(site.used() < FRAME_BYTES_MAX + MIB / 4, "{}", site.used());
    tokio::time::pause();
    let before = Instant::now();
    closes(&mut wire.io).await;
    let waited = before.elapsed();
    tokio::time::resume();
    assert!(waited <= FRAME_WITHIN * 2, "{waited:?}");
    wire.driver.await.unwrap();
    assert_eq!(site.used(), 0, "all of it is given back");
    other.is_served(1).await;
}

#[testkit::test]
async fn frame_under_way_when_the_time_of_an_earlier_one_is_over_is_served(security: Security) {
    let mut site = Site::indexer(security);
    let mut wire = site.by_hand(3, Indexer::new().0).await;
    let [first, second] = [1, 2].map(|id| frames::frame(&asking(id, "abc")).unwrap());
    // The other end sees what has come, and the second frame has that much longer than the first.
    let a_moment = async || {
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(20) {
            tokio::task::yield_now().await;
        }
    };
    frames::write(&mut wire.io, &first[..6]).await;
    a_moment().await;
    frames::write(&mut wire.io, &first[6..]).await;
    wire.answers(1, 3).await;
    let ended = Instant::now();
    a_moment().await;
    frames::write(&mut wire.io, &second[..6]).await;
    a_moment().await;
    tokio::time::pause();
    tokio::spawn(async {
        loop {
            tokio::task::yield_now().await; // time stands still unless it is advanced
        }
    });
    tokio::time::advance(FRAME_WITHIN + Duration::from_millis(5) - ended.elapsed()).await;
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    frames::write(&mut wire.io, &second[6..]).await;
    wire.answers(2, 3).await;
}

#[testkit::test]
async fn frame_in_pieces_is_served_and_its_room_given_back(security: Security) {
    let mut site = Site::indexer(security);
    let mut wire = site.by_hand(3, Indexer::new().0).await;
    let names = List::first_of((0..100).map(|n| name(&format!("{n}/{}", "x".repeat(250)))));
    let call = Ask::QueryAll { request: QueryAllRequest::new(names, 0) };
    let request = ToIndexer::Request { id: 7, deadline_ms: 60_000, call };
    for piece in frames::frame(&request).unwrap().chunks(3001) {
        let (first, second) = piece.split_at(piece.len().min(2));
        for part in [first, second] {
            frames::write(&mut wire.io, part).await;
            tokio::task::yield_now().await;
        }
    }
    let answer = wire.next().await;
    assert!(matches!(answer, ToPeer::Response { id: 7, answer: Ok(_) }), "{answer:?}");
    wire.is_served(8).await;
    site.until_used(|used| used == 0).await;
}

/// Goal: answers to one who does not read take a bounded memory, whenever they are there. Method: as many handlers as may
/// wait, all of which answer at the same moment, 38 KiB each.
#[testkit::test]
async fn answers_that_come_at_once_and_are_not_read_are_bounded(security: Security) {
    const ASKED: u64 = 900;
    let mut site = Site::indexer(security);
    let (service, mut events) = Indexer::new();
    let mut wire = site.by_hand(3, service.clone()).await;
    let mut other = site.by_hand(1, Indexer::new().0).await;
    wire.asks(0..ASKED, "late").await;
    for _ in 0..ASKED {
        assert_eq!(events.recv().await, Some(Event::Waiting));
    }
    assert!(site.used() > 0, "waiting requests are counted");
    service.answer_late();
    site.until_used(|used| used > MIB).await;
    other.is_served(1).await;
    for _ in 0..4 * ASKED {
        tokio::task::yield_now().await; // the handlers end in slices, on this thread
        assert!(site.used() < UNREAD_BYTES_MAX, "{}", site.used());
    }
    let (served, busy) = wire.served_and_busy(ASKED).await;
    assert!(served > 10 && busy > 0, "{served} served, {busy} busy");
    wire.is_served(ASKED).await;
    site.until_used(|used| used == 0).await;
}

#[testkit::test]
async fn who_asks_on_and_never_reads_is_closed_and_others_are_served(security: Security) {
    let mut site = Site::indexer(security);
    let Wire { mut io, driver, .. } = site.by_hand(3, Indexer::new().0).await;
    let mut other = site.by_hand(1, Indexer::new().0).await;
    let frames: Vec<u8> = (0..1000).flat_map(|id| frames::frame(&asking(id, "long")).unwrap()).collect();
    // It is closed in the end, whatever fits the buffers of the system.
    while io.write_all(&frames).await.is_ok() && io.flush().await.is_ok() {
        other.is_served(1).await;
        assert!(site.used() < UNREAD_BYTES_MAX, "{}", site.used());
    }
    driver.await.unwrap();
    site.until_used(|used| used == 0).await;
    other.is_served(2).await;
}

#[testkit::test]
async fn calls_to_one_who_does_not_read_wait_with_their_callers(security: Security) {
    let mut site = Site::indexer(security);
    let (mut wire, to_peer) = site.called_by_hand(3, Indexer::new().0).await;
    let records = List::first_of((0..128).map(|n| record(7, &format!("{n}/{}", "x".repeat(250)), 1)));
    let calls = (0..CALLS_IN_FLIGHT_MAX / 2).map(|_| {
        let (client, records) = (to_peer.clone(), records.clone());
        tokio::spawn(async move { client.invalidate(call_within(Duration::from_secs(2)), records).await })
    });
    let calls: Vec<_> = calls.collect();
    site.until_used(|used| used > MIB).await;
    for call in calls {
        assert!(matches!(call.await.unwrap(), Err(RpcError::DeadlineExceeded)));
        assert!(site.used() < UNREAD_BYTES_MAX, "{}", site.used());
    }
    // Read on, it is as before.
    let call = tokio::spawn(async move { to_peer.invalidate(patient(), List::new()).await });
    let id = loop {
        match wire.next().await {
            ToPeer::Request { id, call: AskPeer::Invalidate { records }, .. } if records.is_empty() => {
                break id;
            }
            _ => {}
        }
    };
    wire.write([acknowledged(id)]).await;
    assert_eq!(call.await.unwrap().unwrap(), Ok(()));
    site.until_used(|used| used == 0).await;
}

#[testkit::test]
async fn connections_of_an_evicted_account_end_and_no_other(security: Security) {
    let mut site = Site::indexer(security);
    let mut open = Vec::new();
    for seed in [3, 3, 1] {
        open.push(site.by_hand(seed, Indexer::new().0).await);
    }
    let mut honest = open.pop().unwrap();
    open[0].account.evicted().cancel();
    for mut wire in open {
        wire.driver.await.unwrap();
        closes(&mut wire.io).await;
    }
    assert!(!honest.account.evicted().is_cancelled());
    honest.is_served(1).await;
}

/// Goal: whoever connects and says nothing, or begins a handshake and does not go on, keeps nobody out. Method: more of
/// both than there are places for handshakes.
#[testkit::test]
async fn handshakes_that_do_not_go_on_keep_nobody_out() {
    raise_file_limit();
    let mut site = Site::indexer(Security::Tls);
    let mut open = Vec::new();
    for n in 0..1500 {
        let began = Instant::now();
        let mut stream = TcpStream::connect(site.addr).await.unwrap();
        if n % 2 == 0 {
            stream.write_all(&[0x16, 0x03, 0x01, 0x02, 0x00]).await.unwrap(); // a TLS record begins
        }
        open.push((stream, began));
    }
    site.admits_first(&endpoint(1, Role::Peer, Security::Tls)).await;
    let mut closed = [0; 2];
    for (n, (stream, began)) in open.iter_mut().enumerate() {
        let mut byte = [0];
        let read = tokio::time::timeout(Duration::ZERO, stream.read(&mut byte)).await;
        let is_in_time = n % 2 == 0 || began.elapsed() < HANDSHAKE_TIMEOUT;
        closed[n % 2] += usize::from(read.is_ok() && is_in_time);
    }
    assert!(closed[1] == 0, "{} of the silent were closed before their time", closed[1]);
    assert!(closed[0] > 200, "{} of those who began were closed", closed[0]);
}
