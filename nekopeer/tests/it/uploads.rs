//! Readers that hold what they do not use: they read hardly anything, ask for nothing, or half. Others are served.

use std::{fs, sync::Arc, time::Duration};

use crate::{
    common::{Folder, Holder, MIB, Node, bytes, holder::blocking, identity, indexer, peer},
    program,
};
use nekopeer::Downloaded;
use nekoproto::{
    ByteRange, DataReply, DataRequest, List, NetworkName, Purpose, Role, VerifiedRecord,
    transport::{Access, DataStream, Endpoint, EndpointConfig, Security, encoded},
};

/// Data streams of one reader that a peer serves at once.
const OF_ONE: usize = 8;

/// Asks for as much as one request may.
fn all_of(record: &VerifiedRecord) -> DataRequest {
    let ranges = List::first_of([ByteRange { offset: 0, len: record.size }]);
    DataRequest::Get { content: record.content, ranges }
}

/// Streams of `count` readers that ask for all of a file and do not read it.
async fn ask_and_read_nothing(sharer: &Node, record: &VerifiedRecord, count: u16) -> Vec<DataStream> {
    let mut streams = Vec::new();
    for reader in 0..count {
        let reader = Holder::idle(identity(100 + reader));
        for _ in 0..OF_ONE {
            let mut stream = reader.data(sharer.addr()).await;
            stream.send(&all_of(record)).unwrap();
            streams.push(stream);
        }
    }
    streams
}

/// The largest file that one request may ask for: more than the buffers between the two ends hold.
async fn sharer_of_a_large_file() -> (nekoindexer::IndexerHandle, Folder, Node, VerifiedRecord) {
    let indexer = indexer(&[]).await;
    let (from, sharer) = peer(&[indexer.local_addr()]).await;
    let record = sharer.publish(&from.write("a", &bytes(1, 32 * MIB))).await;
    (indexer, from, sharer, record)
}

/// Gets a small file from the sharer, and asserts that it did not wait for the others.
async fn is_served(indexer: &nekoindexer::IndexerHandle, from: &Folder, sharer: &Node) -> Downloaded {
    let content = bytes(2, 3 * MIB);
    sharer.publish(&from.write("b", &content)).await;
    let (to, reader) = peer(&[indexer.local_addr()]).await;
    let done = reader.get("b").await.unwrap();
    assert!(to.read("b") == content);
    assert!(done.took < Duration::from_secs(3), "it waited for the others: {:?}", done.took);
    done
}

#[testkit::test(multi_thread)]
async fn readers_that_read_nothing_keep_no_slot() {
    let (indexer, from, sharer, record) = sharer_of_a_large_file().await;
    let mut streams = ask_and_read_nothing(&sharer, &record, 5).await;
    let granted = blocking(move || {
        for stream in streams.iter_mut().take(32) {
            stream.receive::<DataReply>(Duration::from_secs(20)).unwrap().unwrap();
        }
        streams
    });
    let streams = granted.await; // as many as there are slots
    is_served(&indexer, &from, &sharer).await;
    // They are still served: one that reads gets all it asked for.
    let mut late = streams.into_iter().next().unwrap();
    let got = blocking(move || {
        let mut got = vec![0; usize::try_from(record.size).unwrap()];
        late.receive_bytes(&mut got).unwrap();
        got
    });
    assert!(got.await == from.read("a"));
}

#[testkit::test(multi_thread)]
async fn more_readers_that_read_nothing_than_places_give_way() {
    let (indexer, from, sharer, record) = sharer_of_a_large_file().await;
    let _streams = ask_and_read_nothing(&sharer, &record, 40).await;
    is_served(&indexer, &from, &sharer).await;
}

#[testkit::test(multi_thread)]
async fn unfinished_requests_keep_no_slot() {
    let (indexer, from, sharer, record) = sharer_of_a_large_file().await;
    let request = encoded(&all_of(&record), 0).unwrap();
    let mut streams = Vec::new();
    for reader in 0..5 {
        let reader = Holder::idle(identity(100 + reader));
        for _ in 0..OF_ONE {
            let mut stream = reader.data(sharer.addr()).await;
            stream.send_bytes(&request[..7]).unwrap();
            streams.push(stream);
        }
    }
    let done = is_served(&indexer, &from, &sharer).await;
    assert!(done.took < Duration::from_secs(1), "{:?}", done.took);
}

#[testkit::test]
async fn of_too_many_streams_without_a_request_the_oldest_are_closed() {
    let indexer = indexer(&[]).await;
    let (_from, sharer) = peer(&[indexer.local_addr()]).await;
    let reader = Holder::idle(identity(100));
    let mut oldest = reader.data(sharer.addr()).await;
    let mut later = Vec::new();
    for _ in 0..64 {
        later.push(reader.data(sharer.addr()).await);
    }
    let ended = blocking(move || oldest.receive_some(&mut [0]).unwrap_err()).await;
    assert!(matches!(ended, nekoproto::transport::DataError::Io(_)), "{ended:?}");
}

fn reader(seed: u16) -> Arc<Endpoint> {
    let (role, network, security) = (Role::Peer, NetworkName::default(), Security::Tls);
    let identity = identity(seed);
    Endpoint::new(EndpointConfig { identity, role, network, security, access: Access::default() }).unwrap()
}

/// Open descriptors and resident memory, in KiB, of a process.
fn taken_by(process: i32) -> (usize, u64) {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let resident = resident.trim().trim_end_matches(" kB").parse().unwrap();
    (fs::read_dir(format!("/proc/{process}/fd")).unwrap().count(), resident)
}

#[test]
fn streams_without_a_request_take_one_descriptor_and_no_buffer() {
    const READERS: u16 = 10;
    const EACH: usize = 40;
    let (_indexers, home) = program::one_home();
    home.write("a", b"some bytes");
    let mut sharer = home.start(&["share", "a", "--listen", "127.0.0.1:0"]);
    let line = sharer.err_line("serving on ");
    let addr = line.split_whitespace().find_map(|word| word.trim_end_matches(',').parse().ok()).unwrap();
    let (process, before) = (sharer.id(), taken_by(sharer.id()));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let streams: Vec<DataStream> = runtime.block_on(async {
        let mut streams = Vec::new();
        for seed in 0..READERS {
            let reader = reader(100 + seed);
            for _ in 0..EACH {
                let connection = reader.dial(addr, Purpose::Data, None).await.unwrap();
                streams.push(DataStream::new(connection.io).unwrap());
            }
        }
        streams
    });
    let all = before.0 + streams.len();
    program::until(&mut sharer, "one descriptor each", || {
        let descriptors = taken_by(process).0;
        all <= descriptors && descriptors < all + streams.len() / 4
    });
    let each = taken_by(process).1.saturating_sub(before.1) / streams.len() as u64;
    assert!(each < 48, "{each} KiB each");
}

/// Told to end, a peer ends when the uploads under way have, also those whose readers take nothing at that moment.
#[test]
fn terminated_sharer_first_ends_the_upload_to_a_slow_reader() {
    let (_indexers, home) = program::one_home();
    let content = bytes(1, 32 * MIB);
    home.write("a", &content);
    let mut sharer = home.start(&["share", "a", "--listen", "127.0.0.1:0"]);
    let line = sharer.err_line("serving on ");
    let addr = line.split_whitespace().find_map(|word| word.trim_end_matches(',').parse().ok()).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let stream = runtime.block_on(async {
        let connection = reader(100).dial(addr, Purpose::Data, None).await.unwrap();
        DataStream::new(connection.io).unwrap()
    });
    let mut stream = stream;
    let hash = nekoproto::ContentHash::from_bytes(*blake3::hash(&content).as_bytes());
    let ranges = List::first_of([ByteRange { offset: 0, len: content.len() as u64 }]);
    stream.send(&DataRequest::Get { content: hash, ranges }).unwrap();
    stream.receive::<DataReply>(Duration::from_secs(20)).unwrap().unwrap();
    std::thread::sleep(Duration::from_millis(300)); // the sockets are full by now; if not, the test shows less
    sharer.signal("TERM");
    let mut got = vec![0; content.len()];
    stream.receive_bytes(&mut got[..1]).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    stream.receive_bytes(&mut got[1..]).unwrap();
    assert!(got == content);
    drop(stream);
    assert_eq!(sharer.wait().code, Some(0));
}
