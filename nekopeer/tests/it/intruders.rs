//! Hostile input to a peer's port: the peer refuses it and keeps serving.

use std::net::SocketAddr;

use crate::common::{
    Folder, Goods, Holder, MIB, Node, bytes, eventually, goods,
    holder::{ask_over, blocking, patient},
    identity, indexer, peer,
};
use nekoindexer::IndexerHandle;
use nekoproto::{
    ByteRange, ContentHash, DataRequest, FetchRefusal, Freshness, List, ManifestHash, Purpose, Records,
    Refusal, SignedRecord, VerifiedRecord,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// A peer that publishes 2 MiB as `a`, and a stranger.
struct Stage {
    indexer: IndexerHandle,
    _from: Folder,
    origin: Node,
    record: VerifiedRecord,
    stranger: Holder,
}

impl Stage {
    async fn set() -> Self {
        let indexer = indexer(&[]).await;
        let (from, origin) = peer(&[indexer.local_addr()]).await;
        let record = origin.publish(&from.write("a", &bytes(1, 2 * MIB))).await;
        Self { indexer, _from: from, origin, record, stranger: Holder::idle(identity(66)) }
    }

    fn get(&self, offset: u64, len: u64) -> DataRequest {
        get(self.record.content, offset, len)
    }

    /// Asserts that the peer still serves other readers.
    async fn is_alive(&self) {
        let (to, reader) = peer(&[self.indexer.local_addr()]).await;
        reader.get("a").await.unwrap();
        assert!(to.read("a") == bytes(1, 2 * MIB));
    }
}

fn get(content: ContentHash, offset: u64, len: u64) -> DataRequest {
    DataRequest::Get { content, ranges: List::first_of([ByteRange { offset, len }]) }
}

/// Sends raw bytes to the port, and waits until the connection is closed.
async fn send_raw(addr: SocketAddr, bytes: &[u8]) {
    let mut stream = TcpStream::connect(addr).await.unwrap();
    drop(stream.write_all(bytes).await); // the peer may close it before all is sent
    drop(stream.read_to_end(&mut Vec::new()).await); // closed or reset
}

#[testkit::test]
async fn garbage_on_the_port_ends_its_own_connection_and_nothing_else() {
    let stage = Stage::set().await;
    let addr = stage.origin.addr();
    send_raw(addr, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    send_raw(addr, &[0xff; 4096]).await;
    send_raw(addr, &bytes(3, MIB)).await;
    drop(TcpStream::connect(addr).await.unwrap()); // sends nothing
    stage.is_alive().await;
}

#[testkit::test]
async fn garbage_after_the_hello_ends_its_own_connection_and_nothing_else() {
    let stage = Stage::set().await;
    let endpoint = &stage.stranger.endpoint;
    let prefixes: [&[u8]; 3] = [&[0xff; 4], &[0, 0, 0, 5, 9, 9, 9, 9, 9], &[0, 0, 0, 0]];
    for purpose in [Purpose::Data, Purpose::Control] {
        for bytes in prefixes {
            let mut io = endpoint.dial(stage.origin.addr(), purpose, None).await.unwrap().io;
            io.write_all(bytes).await.unwrap();
            io.flush().await.unwrap();
            let mut rest = Vec::new();
            drop(io.read_to_end(&mut rest).await); // closed or reset
            assert!(rest.is_empty(), "{purpose:?} {bytes:?} was answered");
        }
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
    for request in unknown {
        let reply = stage.stranger.ask(stage.origin.addr(), &request).await;
        assert_eq!(reply, Err(FetchRefusal::NotShared), "{request:?}");
    }
    stage.origin.peer.deregister(&stage.record.name).await.unwrap();
    for request in [DataRequest::Manifest(stage.record.manifest), stage.get(0, 1)] {
        let reply = stage.stranger.ask(stage.origin.addr(), &request).await;
        assert_eq!(reply, Err(FetchRefusal::NotShared), "{request:?}");
    }
}

#[testkit::test]
async fn downloads_that_one_node_does_not_read_take_its_own_turns_until_they_are_closed() {
    let indexer = indexer(&[]).await;
    let (from, origin) = peer(&[indexer.local_addr()]).await;
    let len = 24 * MIB; // more than the socket buffers hold
    let record = origin.publish(&from.write("a", &bytes(1, len))).await;
    let stranger = Holder::idle(identity(66));
    let request = get(record.content, 0, len as u64);
    let mut unread = Vec::new();
    let busy = loop {
        match ask_over(stranger.data(origin.addr()).await, &request).await {
            (stream, Ok(_)) => unread.push(stream),
            (_, Err(refusal)) => break refusal,
        }
    };
    assert_eq!((busy, unread.len()), (FetchRefusal::Busy, 8));
    let other = Holder::idle(identity(67));
    assert!(other.ask(origin.addr(), &request).await.is_ok(), "others have upload slots of their own");
    drop(unread);
    eventually(async || stranger.ask(origin.addr(), &request).await.ok()).await;
}

/// A reader with a copy of version 2 of a file, and the file's origin, node 1.
struct Copy {
    _indexer: IndexerHandle,
    reader: Node,
    stranger: Holder,
    held: VerifiedRecord,
    _origin: Holder,
}

impl Copy {
    async fn made() -> Self {
        let indexer = indexer(&[]).await;
        let goods = version(1, 2);
        let held = goods.record.clone();
        let origin = Holder::begin(identity(1), move |request| goods.honest(request));
        origin.register(indexer.local_addr(), [held.to_signed()]).await;
        let (_to, reader) = peer(&[indexer.local_addr()]).await;
        reader.get("a").await.unwrap();
        Self { _indexer: indexer, reader, stranger: Holder::idle(identity(66)), held, _origin: origin }
    }

    /// The reader's reply to an invalidation with these records from a stranger.
    async fn told(&self, records: impl IntoIterator<Item = SignedRecord>) -> Result<(), Refusal> {
        let client = self.stranger.call(self.reader.addr()).await;
        client.invalidate(patient(), Records::first_of(records)).await.unwrap()
    }

    /// The version that the reader holds, and the newest version that it knows.
    async fn known(&self) -> (VerifiedRecord, Option<u64>) {
        let status = self.reader.status("a").await.unwrap();
        (status.record, status.newest.map(|version| version.get()))
    }
}

fn version(origin: u16, version: u64) -> Goods {
    Goods::new(&identity(origin), "a", version, version.to_string().into_bytes())
}

#[testkit::test]
async fn forged_invalidation_is_refused_with_all_that_came_with_it() {
    let copy = Copy::made().await;
    let forged = goods::forged(&copy.held, 3);
    let genuine = version(1, 3).record.to_signed();
    assert_eq!(copy.told([forged.clone()]).await, Err(Refusal::Forged));
    assert_eq!(copy.told([genuine.clone(), forged]).await, Err(Refusal::Forged));
    assert_eq!(copy.known().await, (copy.held.clone(), None));
    assert_eq!(copy.told([genuine]).await, Ok(()), "any node may forward a genuine record");
    assert_eq!(copy.known().await, (copy.held.clone(), Some(3)));
}

#[testkit::test]
async fn record_of_somebody_else_under_the_same_name_changes_nothing() {
    let copy = Copy::made().await;
    assert_eq!(copy.told([version(66, 9).record.to_signed()]).await, Ok(()));
    assert_eq!(copy.known().await, (copy.held.clone(), None));
}

#[testkit::test]
async fn replayed_invalidations_change_nothing() {
    let copy = Copy::made().await;
    assert_eq!(copy.told([1, 2].map(|n| version(1, n).record.to_signed())).await, Ok(()));
    assert_eq!(copy.known().await, (copy.held.clone(), None));
    assert_eq!(copy.told([4, 3, 4, 1].map(|n| version(1, n).record.to_signed())).await, Ok(()));
    assert_eq!(copy.known().await, (copy.held.clone(), Some(4)));
}
