//! Interrupted downloads: verified chunks are kept, and the next attempt fetches only the rest.

use std::{
    fs::OpenOptions,
    mem::take,
    os::unix::fs::{FileExt, MetadataExt},
    sync::Mutex,
};

use crate::common::*;

/// Bytes that a failing holder delivers: whole chunks, and a part of the next.
const DELIVERED: usize = 3 * CHUNK_BYTES;

const SIZE: usize = 5 * MIB;

fn goods(version: u64) -> Goods {
    Goods::new(1, "a", version, bytes(version, SIZE))
}

/// A holder that delivers so much of the runs requested, ends within one and then does `then`; it refuses all others.
async fn faltering(indexer: &IndexerHandle, goods: &Goods, then: Then) -> Holder {
    let left = Mutex::new(DELIVERED + CHUNK_BYTES / 2);
    let script = move |goods: &Goods, request: &DataRequest| {
        let (mut left, asked) = (left.lock().unwrap(), goods.asked(request).len());
        match request {
            DataRequest::Get { .. } if *left == 0 => ScriptedReply::refusal(FetchRefusal::Unreadable),
            DataRequest::Get { .. } if asked > *left => {
                goods.honest(request).cut_to(take(&mut left)).then(then)
            }
            DataRequest::Get { .. } => {
                *left -= asked;
                goods.honest(request)
            }
            _ => goods.honest(request),
        }
    };
    goods.served(1, indexer.local_addr(), script).await
}

async fn download_until(node: &Node, bytes: usize) {
    let progress = Arc::new(Progress::default());
    let (file, options) = (name("a"), DownloadOptions::default());
    tokio::select! {
        ended = node.peer.download(&file, options, &progress) => panic!("{ended:?}"),
        () = eventually(async || (progress.done() >= bytes as u64).then_some(())) => {}
    }
}

/// A reader whose download has [`DELIVERED`] bytes on disk, and no source any more.
async fn begun(goods: &Goods) -> (IndexerHandle, Folder, Node) {
    let (indexer, [(to, reader)]) = network().await;
    let _hanging = faltering(&indexer, goods, Then::Hang).await;
    download_until(&reader, DELIVERED).await;
    (indexer, to, reader)
}

fn partial(to: &Folder) -> fs::File {
    OpenOptions::new().write(true).open(&to.partials()[0]).unwrap()
}

#[testkit::test]
async fn exhausted_source_leaves_a_partial_that_another_completes() {
    let (goods, (indexer, [(to, reader)])) = (goods(1), network().await);
    let _faltering = faltering(&indexer, &goods, Then::Close).await;
    let error = reader.get("a").await.unwrap_err();
    assert_eq!(error.reason, Reason::NoSource, "{error}");
    assert!(!to.has("a"));
    // A connection reset discards the bytes that the reader had not received.
    let kept = fs::metadata(&to.partials()[0]).unwrap().blocks() * 512;
    let _honest = goods.held(2, indexer.local_addr()).await;
    let done = reader.get("a").await.unwrap();
    assert_eq!(done.bytes_moved, goods.bytes.len() as u64 - kept);
    assert!(to.read("a") == goods.bytes);
    assert!(to.partials().is_empty());
}

/// The partial file as it was left, damaged, and as after a loss of power: some chunks in the checkpoint are missing on
/// disk.
#[testkit::test]
async fn download_of_a_peer_that_crashed_goes_on_in_the_next_with_what_is_intact() {
    type Damage = fn(&Folder);
    let damages: [(Damage, usize); 5] = [
        (|_| {}, DELIVERED),
        (|to| partial(to).write_all_at(b"\0", CHUNK_BYTES as u64 + 1).unwrap(), DELIVERED - CHUNK_BYTES),
        (|to| partial(to).set_len(2 * CHUNK_BYTES as u64 + 100).unwrap(), 2 * CHUNK_BYTES),
        (
            |to| {
                partial(to).set_len(2 * CHUNK_BYTES as u64 + 100).unwrap();
                partial(to).set_len(SIZE as u64).unwrap(); // the same length, but zeros
            },
            2 * CHUNK_BYTES,
        ),
        (|to| partial(to).set_len(0).unwrap(), 0),
    ];
    for (damage, kept) in damages {
        let goods = goods(1);
        let (indexer, to, reader) = begun(&goods).await;
        reader.peer.abort().await;
        damage(&to);
        let reader = to.peer(&[indexer.local_addr()]).await;
        let _honest = goods.held(2, indexer.local_addr()).await;
        let done = reader.get("a").await.unwrap();
        assert_eq!(done.bytes_moved, (goods.bytes.len() - kept) as u64, "{kept} are intact");
        assert!(to.read("a") == goods.bytes);
    }
}

/// In a chunk that is not among those which are looked at before a download goes on.
#[testkit::test]
async fn what_another_program_writes_between_two_attempts_is_fetched_again() {
    let (goods, (indexer, [(to, reader)])) = (Goods::new(1, "a", 1, bytes(1, 20 * MIB)), network().await);
    let (part, sent) = (10 * MIB, AtomicUsize::new(0));
    let script = move |goods: &Goods, request: &DataRequest| match request {
        DataRequest::Get { .. } if sent.load(Ordering::Relaxed) >= part => {
            ScriptedReply::of(Vec::new()).then(Then::Hang)
        }
        _ => {
            sent.fetch_add(goods.asked(request).len(), Ordering::Relaxed);
            goods.honest(request)
        }
    };
    let hanging = goods.served(1, indexer.local_addr(), script).await;
    download_until(&reader, part).await;
    drop(hanging);
    reader.peer.shutdown().await;
    let there = fs::read(&to.partials()[0]).unwrap();
    let chunks = there.chunks(CHUNK_BYTES).zip(goods.bytes.chunks(CHUNK_BYTES)).enumerate();
    let second = chunks.filter(|(_, (there, wanted))| there == wanted).nth(1).unwrap().0;
    partial(&to).write_all_at(b"\0", (second * CHUNK_BYTES) as u64 + 1).unwrap();
    let reader = to.peer(&[indexer.local_addr()]).await;
    let _honest = goods.held(2, indexer.local_addr()).await;
    reader.gets(&to, "a", &goods.bytes).await;
}

#[testkit::test]
async fn partial_of_an_older_version_is_cleared_away() {
    let (indexer, to, reader) = begun(&goods(1)).await;
    let new = goods(2);
    let _honest = new.held(2, indexer.local_addr()).await;
    assert_eq!(reader.gets(&to, "a", &new.bytes).await.record.version.get(), 2);
    assert!(to.partials().is_empty());
}

#[testkit::test(multi_thread)]
async fn download_dropped_at_any_moment_can_be_begun_again_at_once() {
    let (_indexer, [(from, origin), (to, reader)]) = network().await;
    let content = bytes(1, 24 * MIB);
    origin.publish(&from.write("a", &content)).await;
    for step in 1..=8 {
        let progress = Arc::new(Progress::default());
        let (file, options) = (name("a"), DownloadOptions::default());
        tokio::select! {
            ended = reader.peer.download(&file, options, &progress) => {
                drop(ended.expect("a download can resume an interrupted one"));
                break;
            }
            () = eventually(async || (progress.done() > step * 2 * MIB as u64).then_some(())) => {}
        }
    }
    let progress = Arc::new(Progress::default());
    let done = reader.peer.download(&name("a"), DownloadOptions::default(), &progress).await;
    let moved = done.unwrap().bytes_moved;
    assert!(moved < content.len() as u64, "what came is kept");
    let kept = progress.kept(); // what the speed does not count; 0 if the last attempt came to its end
    assert!(moved == 0 || (kept > 0 && kept + moved == content.len() as u64), "{kept} kept, {moved} moved");
    assert!(to.read("a") == content);
}
