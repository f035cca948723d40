//! Data streams over real sockets: messages, raw bytes between them, and every way to fail.

use std::{fs::File, io::Write};

use crate::common::*;

const FILE_BYTES: usize = 20 * 1024 * 1024;
const SOON: Duration = Duration::from_secs(20);
const STALL: Duration = Duration::from_millis(50);

async fn ends(security: Security) -> (NodeIo, NodeIo) {
    let (dialed, accepted) = connected(security, Role::Peer, Purpose::Data).await;
    assert_eq!(accepted.purpose, Purpose::Data);
    (dialed.io, accepted.io)
}

async fn streams(security: Security) -> (DataStream, DataStream) {
    let (downloader, holder) = ends(security).await;
    (DataStream::new(downloader).unwrap(), DataStream::new(holder).unwrap())
}

/// What a downloader says of an answer for which these bytes come, and then no more.
async fn received(security: Security, bytes: &[u8]) -> DataError {
    let (downloader, mut holder) = ends(security).await;
    frames::write(&mut holder, bytes).await;
    drop(holder);
    DataStream::new(downloader).unwrap().receive::<DataReply>(SOON).unwrap_err()
}

fn file() -> (Vec<u8>, File) {
    let (mut bytes, mut file) = (vec![0; FILE_BYTES], tempfile::tempfile().unwrap());
    blake3::Hasher::new().finalize_xof().fill(&mut bytes);
    file.write_all(&bytes).unwrap();
    (bytes, file)
}

fn grant(len: usize) -> DataReply {
    Ok(Grant { len: len as u64, freshness: Freshness::Fresh, portion: None })
}

fn longest_request() -> DataRequest {
    let range = ByteRange { offset: u64::MAX, len: u64::MAX };
    DataRequest::Get {
        content: ContentHash::from_bytes([9; 32]),
        ranges: List::first_of([range; RANGES_MAX]),
    }
}

fn is_early_end(error: &DataError) -> bool {
    matches!(error, DataError::Io(error) if error.kind() == io::ErrorKind::UnexpectedEof)
}

#[testkit::test(multi_thread)]
async fn messages_and_raw_bytes_arrive_in_order_and_whole(security: Security) {
    let (file, _) = file();
    let (mut downloader, mut holder) = streams(security).await;
    let second = DataRequest::Manifest(ManifestHash::from_bytes([1; 32]));
    let refusal: DataReply = Err(FetchRefusal::Outdated(Version::FIRST));
    let (sent, asked) = (file.clone(), second.clone());
    let holding = std::thread::spawn(move || {
        assert_eq!(holder.receive::<DataRequest>(SOON).unwrap(), longest_request());
        holder.send(&grant(sent.len())).unwrap();
        for part in sent.chunks(1_000_003) {
            holder.send_bytes(part).unwrap();
        }
        assert_eq!(holder.receive::<DataRequest>(SOON).unwrap(), asked);
        holder.send(&refusal).unwrap();
        holder.send(&grant(5)).unwrap();
        holder.send_bytes(b"bytes").unwrap();
        (holder, refusal)
    });

    downloader.send(&longest_request()).unwrap();
    assert_eq!(downloader.receive::<DataReply>(SOON).unwrap(), grant(FILE_BYTES));
    let mut received = vec![0; FILE_BYTES];
    for part in received.chunks_mut(777_777) {
        downloader.receive_bytes(part).unwrap();
    }
    assert!(received == file, "the bytes differ");
    downloader.send(&second).unwrap();
    let refused: DataReply = downloader.receive(SOON).unwrap();
    assert_eq!(downloader.receive::<DataReply>(SOON).unwrap(), grant(5));
    let mut bytes = [0; 5];
    downloader.receive_bytes(&mut bytes).unwrap();
    assert_eq!(&bytes, b"bytes");
    assert_eq!(refused, holding.join().unwrap().1);
}

#[testkit::test]
async fn what_breaks_off_is_an_early_end(security: Security) {
    let (mut downloader, mut holder) = streams(security).await;
    holder.send(&grant(1000)).unwrap();
    holder.send_bytes(&[7; 400]).unwrap();
    drop(holder);
    assert_eq!(downloader.receive::<DataReply>(SOON).unwrap(), grant(1000));
    let error = downloader.receive_bytes(&mut [0; 1000]).unwrap_err();
    assert!(is_early_end(&error), "{error}");
    for sent in [&[][..], &[0, 0], &[0, 0, 0, 9, 1, 2]] {
        let error = received(security, sent).await;
        assert!(is_early_end(&error), "{sent:?}: {error}");
    }
}

#[testkit::test]
async fn message_that_is_over_long_or_breaks_a_rule_is_refused_on_both_ways(security: Security) {
    let limit = u32::try_from(DATA_MESSAGE_BYTES_MAX).unwrap();
    for len in [limit + 1, u32::MAX] {
        let error = received(security, &len.to_be_bytes()).await;
        assert!(matches!(error, DataError::TooLong(found) if found == len), "{error}");
    }
    for body in [&[][..], &[2], &[0, 1, 0, 0, 0], &[1, 99]] {
        let error = received(security, &frames::prefixed(body)).await;
        assert!(matches!(error, DataError::Malformed(_)), "{body:?}: {error}");
    }
    let (mut downloader, mut holder) = streams(security).await;
    let error = downloader.send(&vec![0u8; DATA_MESSAGE_BYTES_MAX + 1]).unwrap_err();
    assert!(matches!(error, DataError::Malformed(_)), "{error}");
    let longest = vec![1u8; DATA_MESSAGE_BYTES_MAX - 3]; // its own length takes three bytes
    downloader.send(&longest).unwrap();
    assert_eq!(holder.receive::<Vec<u8>>(SOON).unwrap(), longest);
}

#[testkit::test]
async fn holder_that_falls_silent_is_given_up(security: Security) {
    let (downloader, mut holder) = streams(security).await;
    let mut downloader = downloader.with_stall(STALL);
    holder.send_bytes(&[0, 0, 0, 100, 1, 2, 3]).unwrap();
    let before = Instant::now();
    let stalled = downloader.receive::<DataReply>(SOON);
    assert!(matches!(stalled, Err(DataError::Stalled)), "{stalled:?}");
    assert!(before.elapsed() >= STALL);
    let silent = holder.receive::<DataRequest>(Duration::from_millis(10));
    assert!(matches!(silent, Err(DataError::Stalled)), "{silent:?}");
}

/// A request that comes in pieces, with others behind it, is received without a thread and without a wait in between.
#[testkit::test]
async fn requests_are_received_as_they_arrive(security: Security) {
    let (mut downloader, holder) = streams(security).await;
    let mut holder = holder.for_requests();
    let (soon, request) = (Duration::from_millis(10), longest_request());
    let silent = holder.next_message::<DataRequest>(soon, SOON).await;
    assert!(matches!(silent, Err(DataError::Stalled)), "{silent:?}");
    let bytes = encoded(&request, 0).unwrap();
    downloader.send_bytes(&bytes[..3]).unwrap();
    let unfinished = holder.next_message::<DataRequest>(SOON, soon).await;
    assert!(matches!(unfinished, Err(DataError::Stalled)), "{unfinished:?}");
    assert!(holder.receive_arrived::<DataRequest>().unwrap().is_none());
    downloader.send_bytes(&bytes[3..]).unwrap();
    downloader.send(&request).unwrap();
    for _ in 0..2 {
        assert_eq!(holder.next_message::<DataRequest>(SOON, SOON).await.unwrap(), request);
    }
    downloader.send_bytes(&[255; 4]).unwrap();
    let long = holder.next_message::<DataRequest>(SOON, SOON).await;
    assert!(matches!(long, Err(DataError::TooLong(_))), "{long:?}");
    drop(downloader);
    let (downloader, mut holder) = streams(security).await;
    drop(downloader);
    let ended = holder.next_message::<DataRequest>(SOON, SOON).await.unwrap_err();
    assert!(matches!(ended, DataError::Io(_)), "{ended:?}");
}

#[testkit::test]
async fn what_the_socket_does_not_take_is_sent_later(security: Security) {
    let (bytes, source) = file();
    let (mut downloader, mut holder) = streams(security).await;
    let len = FILE_BYTES as u64;
    let mut sent = holder.send_file_some(&source, 0..len, STALL).unwrap();
    assert!(0 < sent && sent < len, "{sent} bytes fit the socket");
    let receiving = tokio::task::spawn_blocking(move || {
        let mut received = vec![0; FILE_BYTES];
        downloader.receive_bytes(&mut received).unwrap();
        assert!(received == bytes);
    });
    while sent < len || !holder.flush_some(STALL).unwrap() {
        holder.takes_more(SOON).await.unwrap();
        sent += holder.send_file_some(&source, sent..len, Duration::ZERO).unwrap();
    }
    receiving.await.unwrap();
}

#[testkit::test]
async fn downloader_that_does_not_read_is_given_up(security: Security) {
    let (_downloader, holder) = streams(security).await;
    let more_than_any_buffer = vec![0; 64 * 1024 * 1024];
    let given_up = holder.with_stall(STALL).send_bytes(&more_than_any_buffer);
    assert!(matches!(given_up, Err(DataError::Stalled)), "{given_up:?}");
}

#[testkit::test]
async fn ranges_of_a_file_arrive_and_a_file_that_was_cut_is_an_early_end(security: Security) {
    let (content, file) = file();
    let (mut downloader, mut holder) = streams(security).await;
    let holding = std::thread::spawn(move || {
        holder.send_file(&file, 5..9_000_001).unwrap();
        holder.send_file(&file, 0..3).unwrap();
        let cut = holder.send_file(&file, FILE_BYTES as u64 - 3..FILE_BYTES as u64 + 1);
        assert!(matches!(&cut, Err(error) if is_early_end(error)), "{cut:?}");
    });
    let mut received = vec![0; 8_999_996 + 3];
    downloader.receive_bytes(&mut received).unwrap();
    assert!(received == [&content[5..9_000_001], &content[..3]].concat(), "the bytes differ");
    holding.join().unwrap();
}

#[testkit::test]
async fn a_stream_that_is_hung_up_ends_the_wait_of_its_reader(security: Security) {
    let (mut downloader, _holder) = streams(security).await;
    let hang_up = downloader.hang_up();
    let reading = std::thread::spawn(move || downloader.receive::<DataReply>(SOON));
    hang_up.now();
    assert!(reading.join().unwrap().is_err());
}
