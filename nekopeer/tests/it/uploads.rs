//! Readers that hold what they do not use: they read hardly anything, ask for nothing, or half. Others are served.

use crate::{common::*, program};
use nekoproto::transport::{DataStream, encoded};
use testkit::peer::endpoint;
use tokio::runtime::Runtime;

const OF_ONE: usize = 8;

fn all_of(content: ContentHash, len: u64) -> DataRequest {
    DataRequest::Get { content, ranges: List::first_of([ByteRange { offset: 0, len }]) }
}

/// Streams of `count` readers to the sharer, each begun by `begin`.
async fn streams(sharer: &Node, count: u16, begin: impl Fn(&mut DataStream)) -> Vec<DataStream> {
    let mut streams = Vec::new();
    for reader in 0..count {
        let reader = Holder::idle(100 + reader);
        for _ in 0..OF_ONE {
            let mut stream = reader.data(sharer.addr()).await;
            begin(&mut stream);
            streams.push(stream);
        }
    }
    streams
}

/// The largest file that one request may ask for: more than the buffers between the two ends hold.
async fn sharer_of_a_large_file() -> (IndexerHandle, Folder, Node, VerifiedRecord, DataRequest) {
    let (indexer, [(from, sharer)]) = network().await;
    let record = sharer.publish(&from.write("a", &bytes(1, 32 * MIB))).await;
    let all = all_of(record.content, record.size);
    (indexer, from, sharer, record, all)
}

async fn is_served(indexer: &IndexerHandle, from: &Folder, sharer: &Node, text: &str) -> Downloaded {
    let content = bytes(2, 3 * MIB);
    sharer.publish(&from.write(text, &content)).await;
    let (to, reader) = peer(&[indexer.local_addr()]).await;
    let done = reader.gets(&to, text, &content).await;
    assert!(done.took < STALL_TIMEOUT / 2, "it waited for the others: {:?}", done.took);
    done
}

#[testkit::test(multi_thread)]
async fn readers_that_read_nothing_keep_no_slot() {
    let (indexer, from, sharer, record, all) = sharer_of_a_large_file().await;
    let mut unread = streams(&sharer, 5, |stream| stream.send(&all).unwrap()).await;
    let granted = blocking(move || {
        for stream in unread.iter_mut().take(32) {
            stream.receive::<DataReply>(Duration::from_secs(20)).unwrap().unwrap();
        }
        unread
    });
    let unread = granted.await; // as many as there are slots
    is_served(&indexer, &from, &sharer, "b").await;
    // They are still served: one that reads gets all it asked for.
    let mut late = unread.into_iter().next().unwrap();
    let got = blocking(move || {
        let mut got = vec![0; usize::try_from(record.size).unwrap()];
        late.receive_bytes(&mut got).unwrap();
        got
    });
    assert!(got.await == from.read("a"));
}

#[testkit::test(multi_thread)]
async fn more_readers_that_read_nothing_than_places_give_way_and_unfinished_requests_keep_no_slot() {
    let (indexer, from, sharer, _, all) = sharer_of_a_large_file().await;
    let unread = streams(&sharer, 40, |stream| stream.send(&all).unwrap()).await;
    is_served(&indexer, &from, &sharer, "b").await;
    drop(unread);
    let request = encoded(&all, 0).unwrap();
    let _unfinished = streams(&sharer, 5, |stream| stream.send_bytes(&request[..7]).unwrap()).await;
    let done = is_served(&indexer, &from, &sharer, "c").await;
    assert!(done.took < Duration::from_secs(2), "as long as a request may take to come: {:?}", done.took);
}

#[testkit::test]
async fn of_too_many_streams_without_a_request_the_oldest_are_closed() {
    let (_indexer, [(_from, sharer)]) = network().await;
    let reader = Holder::idle(100);
    let mut oldest = reader.data(sharer.addr()).await;
    let mut later = Vec::new();
    for _ in 0..64 {
        later.push(reader.data(sharer.addr()).await);
    }
    let ended = blocking(move || oldest.receive_some(&mut [0]).unwrap_err()).await;
    assert!(matches!(ended, nekoproto::transport::DataError::Io(_)), "{ended:?}");
}

fn sharing(home: &program::Home, content: &[u8]) -> (program::Running, SocketAddr) {
    home.write("a", content);
    let mut sharer = home.start(&["share", "a", "--listen", "127.0.0.1:0"]);
    let addr = sharer.serves_at();
    (sharer, addr)
}

async fn data_stream(seed: u16, addr: SocketAddr) -> DataStream {
    let endpoint = endpoint(seed, Role::Peer, Security::Tls);
    DataStream::new(endpoint.dial(addr, Purpose::Data, None).await.unwrap().io).unwrap()
}

fn taken_by(process: i32) -> (usize, u64) {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let resident = resident.trim().trim_end_matches(" kB").parse().unwrap();
    (fs::read_dir(format!("/proc/{process}/fd")).unwrap().count(), resident)
}

#[test]
fn streams_without_a_request_take_one_descriptor_and_no_buffer() {
    const READERS: u16 = 10;
    const EACH: usize = 16;
    let (_indexers, home) = program::one_home();
    let (mut sharer, addr) = sharing(&home, b"some bytes");
    let (process, before) = (sharer.id(), taken_by(sharer.id()));
    let runtime = Runtime::new().unwrap();
    let streams: Vec<DataStream> = runtime.block_on(async {
        let mut streams = Vec::new();
        for seed in (0..READERS).flat_map(|seed| [100 + seed; EACH]) {
            streams.push(data_stream(seed, addr).await);
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
    let (sharer, addr) = sharing(&home, &content);
    let runtime = Runtime::new().unwrap();
    let mut stream = runtime.block_on(data_stream(100, addr));
    let hash = ContentHash::from_bytes(*blake3::hash(&content).as_bytes());
    stream.send(&all_of(hash, content.len() as u64)).unwrap();
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

/// The portion of the file that `stream` is told to begin with, as it asks for some of it.
fn portion_of(stream: &mut DataStream, request: &DataRequest) -> Portion {
    stream.send(request).unwrap();
    let granted = stream.receive::<DataReply>(Duration::from_secs(20)).unwrap().unwrap();
    stream.receive_bytes(&mut vec![0; usize::try_from(granted.len).unwrap()]).unwrap();
    granted.portion.unwrap()
}

#[test]
fn readers_of_a_file_have_a_portion_each_until_they_leave() {
    let (_indexers, home) = program::one_home();
    let content = bytes(1, MIB);
    let (mut sharer, addr) = sharing(&home, &content);
    let some = all_of(ContentHash::from_bytes(*blake3::hash(&content).as_bytes()), CHUNK_BYTES as u64);
    let runtime = Runtime::new().unwrap();
    let mut readers = [100, 101, 102].map(|seed| runtime.block_on(data_stream(seed, addr)));
    let grown = [0, 1, 2].map(|reader| portion_of(&mut readers[reader], &some).of);
    assert_eq!(grown, [1, 2, 3]);
    let [mut a, mut b, leaves] = readers;
    let mut places = [portion_of(&mut a, &some), portion_of(&mut b, &some)].map(|portion| portion.place);
    assert_ne!(places[0], places[1]);
    drop(leaves);
    let left = Instant::now();
    program::until(&mut sharer, "the portion of who left", || portion_of(&mut a, &some).of == 2);
    assert!(left.elapsed() < Duration::from_secs(8), "only as it asked no more: after {:?}", left.elapsed());
    places = [portion_of(&mut a, &some), portion_of(&mut b, &some)].map(|portion| portion.place);
    places.sort_unstable();
    assert_eq!(places, [0, 1]);
}
