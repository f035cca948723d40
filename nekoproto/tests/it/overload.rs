//! Who takes more than its share: what is kept for it is bounded, counted and given back, and others notice nothing.

use std::{sync::Arc, time::Duration};

use nekoproto::{
    Fault, List, Purpose, Role,
    budget::Budget,
    codec,
    indexer::{IndexerServiceRequest, IndexerServiceResponse},
    limits::{CALLS_IN_FLIGHT_MAX, FRAME_BYTES_MAX, FRAME_WITHIN},
    peer::{PeerServiceRequest, PeerServiceResponse},
    transport::{Endpoint, Envelope, NodeIo, Security, call_within},
};
use tarpc::client::RpcError;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    task::JoinHandle,
    time::Instant,
};

use crate::common::{
    Listening, closes, endpoint, name, over_both, read_body, reads,
    services::{Event, Indexer, Peer, open_as_indexer, open_as_peer, patient, record, reply},
    write_frame, write_frames,
};

type ToIndexer = Envelope<IndexerServiceRequest, PeerServiceResponse>;
type ToPeer = Envelope<PeerServiceRequest, IndexerServiceResponse>;

const MIB: usize = 1 << 20;
/// Most bytes that one connection whose other end does not read may take.
const UNREAD_BYTES_MAX: usize = 8 * MIB;

/// An indexer that accepts connections.
struct Site {
    endpoint: Arc<Endpoint>,
    listening: Listening,
    security: Security,
}

impl Site {
    fn begin(security: Security) -> Self {
        let endpoint = endpoint(2, Role::Indexer, security);
        let listening = Listening::begin(&endpoint);
        Self { endpoint, listening, security }
    }

    fn budget(&self) -> &Arc<Budget> {
        self.endpoint.budget()
    }

    /// A connection of node `seed`, written by hand, to `service`.
    async fn by_hand(&mut self, seed: u16, service: Indexer) -> (NodeIo, JoinHandle<()>) {
        let peer = endpoint(seed, Role::Peer, self.security);
        let dialed = peer.dial(self.listening.addr, Purpose::Control, None).await.unwrap();
        let (_, driver) = open_as_indexer(self.listening.next().await, service);
        (dialed.io, tokio::spawn(driver))
    }

    async fn until_used(&self, is_enough: impl Fn(usize) -> bool) {
        while !is_enough(self.budget().used()) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

fn search(id: u64, text: &str) -> ToIndexer {
    let call = IndexerServiceRequest::Search { name: name(text) };
    ToIndexer::Request { id, deadline_ms: 60_000, call }
}

async fn is_served(io: &mut NodeIo, id: u64) {
    write_frame(io, &search(id, "abc")).await;
    let answer = Ok(IndexerServiceResponse::Search(Ok(reply(3))));
    reads(io, &ToPeer::Response { id, answer }).await;
}

/// Time is paused once in a runtime: timers that are set after it goes on may fire late.
#[testkit::test]
async fn frame_that_is_not_finished_is_counted_and_ends_its_connection_in_time_over_tls() {
    unfinished_frame_ends_its_connection(Security::Tls).await;
}

#[testkit::test]
async fn frame_that_is_not_finished_is_counted_and_ends_its_connection_in_time_in_the_clear() {
    unfinished_frame_ends_its_connection(Security::Insecure).await;
}

async fn unfinished_frame_ends_its_connection(security: Security) {
    let mut site = Site::begin(security);
    let (mut other, _running) = site.by_hand(1, Indexer::new().0).await;
    let (mut io, ends) = site.by_hand(3, Indexer::new().0).await;
    is_served(&mut io, 1).await;
    assert_eq!(site.budget().used(), 0, "a small request costs nothing");
    io.write_u32(u32::try_from(FRAME_BYTES_MAX).unwrap()).await.unwrap();
    io.write_all(&vec![0; FRAME_BYTES_MAX - 1]).await.unwrap();
    io.flush().await.unwrap();
    site.until_used(|used| used > FRAME_BYTES_MAX / 2).await;
    assert!(site.budget().used() < FRAME_BYTES_MAX + MIB / 4, "{}", site.budget().used());
    tokio::time::pause();
    let before = Instant::now();
    closes(&mut io).await;
    let waited = before.elapsed();
    tokio::time::resume();
    assert!(waited <= FRAME_WITHIN * 2, "{waited:?}");
    ends.await.unwrap();
    assert_eq!(site.budget().used(), 0, "all of it is given back");
    is_served(&mut other, 1).await;
}

/// A frame that comes in pieces is as good as any other.
#[testkit::test]
async fn frame_in_pieces_is_served_and_its_room_given_back() {
    over_both(async |security| {
        let mut site = Site::begin(security);
        let (mut io, _running) = site.by_hand(3, Indexer::new().0).await;
        let names = List::first_of((0..100).map(|n| name(&format!("{n}/{}", "x".repeat(250)))));
        let call = IndexerServiceRequest::SearchAll { names };
        let body = codec::encode(&ToIndexer::Request { id: 7, deadline_ms: 60_000, call }).unwrap();
        let mut bytes = u32::try_from(body.len()).unwrap().to_be_bytes().to_vec();
        bytes.extend(body);
        for piece in bytes.chunks(3001) {
            let (first, second) = piece.split_at(piece.len().min(2));
            for part in [first, second] {
                io.write_all(part).await.unwrap();
                io.flush().await.unwrap();
                tokio::task::yield_now().await;
            }
        }
        let answer: ToPeer = codec::decode(&read_body(&mut io).await).unwrap();
        assert!(matches!(answer, ToPeer::Response { id: 7, answer: Ok(_) }), "{answer:?}");
        is_served(&mut io, 8).await;
        site.until_used(|used| used == 0).await;
    })
    .await;
}

/// Goal: answers to one who does not read take a bounded memory, whenever they are there. Method: as many handlers as may
/// wait, all of which answer at the same moment, 70 KiB each.
#[testkit::test]
async fn answers_that_come_at_once_and_are_not_read_are_bounded() {
    const ASKED: u64 = 900;
    over_both(async |security| {
        let mut site = Site::begin(security);
        let (service, mut events) = Indexer::new();
        let (mut io, _running) = site.by_hand(3, service.clone()).await;
        let (mut other, _other_running) = site.by_hand(1, Indexer::new().0).await;
        write_frames(&mut io, (0..ASKED).map(|id| search(id, "late"))).await;
        for _ in 0..ASKED {
            assert_eq!(events.recv().await, Some(Event::Waiting));
        }
        assert!(site.budget().used() > 0, "waiting requests are counted");
        service.answer_late();
        site.until_used(|used| used > MIB).await;
        is_served(&mut other, 1).await;
        for _ in 0..4 * ASKED {
            tokio::task::yield_now().await; // the handlers end in slices, on this thread
            assert!(site.budget().used() < UNREAD_BYTES_MAX, "{}", site.budget().used());
        }
        let (mut served, mut busy) = (0, 0);
        for _ in 0..ASKED {
            match codec::decode(&read_body(&mut io).await).unwrap() {
                ToPeer::Response { answer: Ok(_), .. } => served += 1,
                ToPeer::Response { answer: Err(Fault::Busy), .. } => busy += 1,
                other => panic!("{other:?}"),
            }
        }
        assert!(served > 10 && busy > 0, "{served} served, {busy} busy");
        is_served(&mut io, ASKED).await;
        site.until_used(|used| used == 0).await;
    })
    .await;
}

#[testkit::test]
async fn who_asks_on_and_never_reads_is_closed_and_others_are_served() {
    over_both(async |security| {
        let mut site = Site::begin(security);
        let (mut io, ends) = site.by_hand(3, Indexer::new().0).await;
        let (mut other, _running) = site.by_hand(1, Indexer::new().0).await;
        let mut frames = Vec::new();
        for id in 0..1000 {
            let body = codec::encode(&search(id, "big")).unwrap();
            frames.extend(u32::try_from(body.len()).unwrap().to_be_bytes());
            frames.extend(body);
        }
        // It is closed in the end, whatever fits the buffers of the system.
        while io.write_all(&frames).await.is_ok() && io.flush().await.is_ok() {
            is_served(&mut other, 1).await;
            assert!(site.budget().used() < UNREAD_BYTES_MAX, "{}", site.budget().used());
        }
        ends.await.unwrap();
        site.until_used(|used| used == 0).await;
        is_served(&mut other, 2).await;
    })
    .await;
}

/// Own calls to one who does not read wait with their callers, who give up by their deadlines.
#[testkit::test]
async fn calls_to_one_who_does_not_read_wait_with_their_callers() {
    over_both(async |security| {
        let mut site = Site::begin(security);
        let peer = endpoint(3, Role::Peer, security);
        let mut io = peer.dial(site.listening.addr, Purpose::Control, None).await.unwrap().io;
        let (to_peer, driver) = open_as_indexer(site.listening.next().await, Indexer::new().0);
        let _running = tokio::spawn(driver);
        let records = List::first_of((0..128).map(|n| record(&format!("{n}/{}", "x".repeat(250)), 1)));
        let calls = (0..CALLS_IN_FLIGHT_MAX / 2).map(|_| {
            let (client, records) = (to_peer.clone(), records.clone());
            tokio::spawn(async move { client.invalidate(call_within(Duration::from_secs(2)), records).await })
        });
        let calls: Vec<_> = calls.collect();
        site.until_used(|used| used > MIB).await;
        for call in calls {
            assert!(matches!(call.await.unwrap(), Err(RpcError::DeadlineExceeded)));
            assert!(site.budget().used() < UNREAD_BYTES_MAX, "{}", site.budget().used());
        }
        // Read on, it is as before.
        let call = tokio::spawn(async move { to_peer.invalidate(patient(), List::new()).await });
        loop {
            let request = codec::decode(&read_body(&mut io).await).unwrap();
            let ToPeer::Request { id, call: PeerServiceRequest::Invalidate { records }, .. } = request else {
                continue;
            };
            if records.is_empty() {
                let answer = Ok(PeerServiceResponse::Invalidate(Ok(())));
                write_frame(&mut io, &ToIndexer::Response { id, answer }).await;
                break;
            }
        }
        assert_eq!(call.await.unwrap().unwrap(), Ok(()));
        site.until_used(|used| used == 0).await;
    })
    .await;
}

/// Goal: all connections of an evicted account end, and no other.
#[testkit::test]
async fn connections_of_an_evicted_account_end_and_no_other() {
    over_both(async |security| {
        let mut listening = Listening::begin(&endpoint(2, Role::Peer, security));
        let mut open = Vec::new();
        for seed in [3, 3, 1] {
            let peer = endpoint(seed, Role::Peer, security);
            let dialed = peer.dial(listening.addr, Purpose::Control, None).await.unwrap();
            let accepted = listening.next().await;
            let account = accepted.account.clone();
            open.push((dialed, account, tokio::spawn(open_as_peer(accepted, Peer::new().0).1)));
        }
        let (honest, account, _running) = open.pop().unwrap();
        open[0].1.evicted().cancel();
        for (mut connection, _, running) in open {
            running.await.unwrap();
            closes(&mut connection.io).await;
        }
        assert!(!account.evicted().is_cancelled());
        let mut io = honest.io;
        let confirm = PeerServiceRequest::Confirm { held: List::new() };
        let request = Envelope::<_, PeerServiceResponse>::Request { id: 1, deadline_ms: 1000, call: confirm };
        write_frame(&mut io, &request).await;
        let answer: Envelope<PeerServiceRequest, PeerServiceResponse> =
            codec::decode(&read_body(&mut io).await).unwrap();
        assert!(matches!(answer, Envelope::Response { id: 1, answer: Ok(_) }), "{answer:?}");
    })
    .await;
}

/// Goal: whoever connects and says nothing, or begins a handshake and does not go on, keeps nobody out. Method: more of
/// both than there are places for handshakes.
#[testkit::test]
async fn handshakes_that_do_not_go_on_keep_nobody_out() {
    nekoproto::transport::raise_file_limit();
    let mut listening = Listening::begin(&endpoint(2, Role::Indexer, Security::Tls));
    let mut open = Vec::new();
    for n in 0..1500 {
        let mut stream = tokio::net::TcpStream::connect(listening.addr).await.unwrap();
        if n % 2 == 0 {
            stream.write_all(&[0x16, 0x03, 0x01, 0x02, 0x00]).await.unwrap(); // a TLS record begins
        }
        open.push(stream);
    }
    listening.admits_first(&endpoint(1, Role::Peer, Security::Tls)).await;
    let mut closed = [0; 2];
    for (n, stream) in open.iter_mut().enumerate() {
        let mut byte = [0];
        let read = tokio::time::timeout(Duration::ZERO, stream.read(&mut byte)).await;
        closed[n % 2] += usize::from(read.is_ok());
    }
    assert!(closed[0] > 200 && closed[1] == 0, "of those who began, and of the silent: {closed:?}");
}
