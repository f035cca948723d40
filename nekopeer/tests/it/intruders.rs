//! Hostile input to a peer's port: the peer refuses it and keeps serving.

use crate::common::*;
use testkit::holder::ask_over;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

struct Stage {
    indexer: IndexerHandle,
    _from: Folder,
    origin: Node,
    record: VerifiedRecord,
    stranger: Holder,
}

impl Stage {
    async fn set() -> Self {
        let (indexer, [(from, origin)]) = network().await;
        let record = origin.publish(&from.write("a", &bytes(1, 2 * MIB))).await;
        Self { indexer, _from: from, origin, record, stranger: Holder::idle(66) }
    }

    fn get(&self, offset: u64, len: u64) -> DataRequest {
        get(self.record.content, offset, len)
    }

    async fn is_alive(&self) {
        let (to, reader) = peer(&[self.indexer.local_addr()]).await;
        reader.gets(&to, "a", bytes(1, 2 * MIB)).await;
    }
}

fn get(content: ContentHash, offset: u64, len: u64) -> DataRequest {
    DataRequest::Get { content, ranges: List::first_of([ByteRange { offset, len }]) }
}

async fn send_raw(addr: SocketAddr, bytes: &[u8]) {
    let mut stream = TcpStream::connect(addr).await.unwrap();
    drop(stream.write_all(bytes).await); // the peer may close it before all is sent
    drop(stream.read_to_end(&mut Vec::new()).await); // closed or reset
}

#[testkit::test]
async fn garbage_ends_its_own_connection_and_nothing_else() {
    let stage = Stage::set().await;
    let addr = stage.origin.addr();
    send_raw(addr, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    send_raw(addr, &[0xff; 4096]).await;
    send_raw(addr, &bytes(3, MIB)).await;
    drop(TcpStream::connect(addr).await.unwrap()); // sends nothing
    let prefixes: [&[u8]; 3] = [&[0xff; 4], &[0, 0, 0, 5, 9, 9, 9, 9, 9], &[0, 0, 0, 0]];
    for (purpose, bytes) in [Purpose::Data, Purpose::Control]
        .into_iter()
        .flat_map(|purpose| prefixes.map(|bytes| (purpose, bytes)))
    {
        let mut io = stage.stranger.endpoint.dial(addr, purpose, None).await.unwrap().io;
        io.write_all(bytes).await.unwrap();
        io.flush().await.unwrap();
        let mut rest = Vec::new();
        drop(io.read_to_end(&mut rest).await); // closed or reset
        assert!(rest.is_empty(), "{purpose:?} {bytes:?} was answered");
    }
    stage.is_alive().await;
}

#[testkit::test]
async fn range_outside_the_file_is_refused_and_the_stream_goes_on() {
    let stage = Stage::set().await;
    let mut stream = stage.stranger.data(stage.origin.addr()).await;
    let size = stage.record.size;
    for (offset, len) in [(0, 0), (0, size + 1), (size, 1), (u64::MAX, 2), (1, u64::MAX), (1 << 40, 1)] {
        let (back, reply) = ask_over(stream, &stage.get(offset, len)).await;
        stream = back;
        assert_eq!(reply, Err(FetchRefusal::BadRange), "{len} at {offset}");
    }
    let (mut stream, reply) = ask_over(stream, &stage.get(size - 10, 10)).await;
    assert_eq!(reply.map(|grant| (grant.len, grant.freshness)), Ok((10, Freshness::Fresh)));
    let tail = blocking(move || {
        let mut tail = [0; 10];
        stream.receive_bytes(&mut tail).unwrap();
        tail
    })
    .await;
    assert_eq!(tail, bytes(1, 2 * MIB)[2 * MIB - 10..]);
}

#[testkit::test]
async fn what_is_not_shared_is_not_served() {
    let stage = Stage::set().await;
    let unknown = [
        DataRequest::Manifest(ManifestHash::from_bytes([7; 32])),
        get(ContentHash::from_bytes([7; 32]), 0, 1),
    ];
    let refused = async |request| {
        let reply = stage.stranger.ask(stage.origin.addr(), &request).await;
        assert_eq!(reply, Err(FetchRefusal::NotShared), "{request:?}");
    };
    for request in unknown {
        refused(request).await;
    }
    stage.origin.peer.deregister(&stage.record.name).await.unwrap();
    for request in [DataRequest::Manifest(stage.record.manifest), stage.get(0, 1)] {
        refused(request).await;
    }
}

#[testkit::test]
async fn downloads_that_one_node_does_not_read_take_its_own_turns_until_they_are_closed() {
    let (_indexer, [(from, origin)]) = network().await;
    let len = 24 * MIB; // more than the socket buffers hold
    let record = origin.publish(&from.write("a", &bytes(1, len))).await;
    let stranger = Holder::idle(66);
    let request = get(record.content, 0, len as u64);
    let mut unread = Vec::new();
    let busy = loop {
        match ask_over(stranger.data(origin.addr()).await, &request).await {
            (stream, Ok(_)) => unread.push(stream),
            (_, Err(refusal)) => break refusal,
        }
    };
    assert_eq!((busy, unread.len()), (FetchRefusal::Busy, 8));
    let other = Holder::idle(67);
    assert!(other.ask(origin.addr(), &request).await.is_ok(), "others have upload slots of their own");
    drop(unread);
    eventually(async || stranger.ask(origin.addr(), &request).await.ok()).await;
}

/// A copy of version 2, of node 1, and what strangers say of it.
#[testkit::test]
async fn invalidations_that_are_forged_replayed_or_of_another_origin_change_nothing() {
    let (indexer, [(_to, reader)]) = network().await;
    let version = |origin, version: u64| Goods::new(origin, "a", version, version.to_string().into_bytes());
    let told = |origin, number| version(origin, number).record.to_signed();
    let _origin = version(1, 2).held(1, indexer.local_addr()).await;
    reader.get("a").await.unwrap();
    let (stranger, addr) = (Holder::idle(66), reader.addr());
    for (records, reply, newest) in [
        (vec![forged(99, 1, "a", 3)], Err(Refusal::Forged), None),
        (vec![told(1, 3), forged(99, 1, "a", 3)], Err(Refusal::Forged), None), // with all that came with it
        (vec![told(66, 9)], Ok(()), None),
        ([1, 2].map(|number| told(1, number)).to_vec(), Ok(()), None),
        (vec![told(1, 3)], Ok(()), Some(3)), // any node may forward a genuine record
        ([5, 4, 5, 1].map(|number| told(1, number)).to_vec(), Ok(()), Some(5)),
    ] {
        assert_eq!(stranger.tell(addr, records.clone()).await, reply, "{records:?}");
        assert_eq!(reader.versions("a").await, (2, newest), "{records:?}");
    }
}
