//! Interrupted downloads: verified chunks are kept, and the next attempt fetches only the rest.

use std::{
    os::unix::fs::{FileExt, MetadataExt},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use crate::common::{
    Folder, Goods, Holder, MIB, Node, ScriptedReply, Then, bytes, eventually, goods::CHUNK_BYTES, identity,
    indexer, name, peer,
};
use nekoindexer::IndexerHandle;
use nekopeer::{DownloadError, DownloadOptions, Progress};
use nekoproto::{DataRequest, FetchRefusal};

/// Bytes that a failing holder delivers: whole chunks, and a part of the next.
const DELIVERED: usize = MIB / 2;

/// Delivers a part of the first run requested and then does `then`; refuses all others.
fn faltering(goods: &Goods, then: Then) -> Holder {
    let (goods, first) = (goods.clone(), AtomicBool::new(true));
    Holder::begin(identity(1), move |request| match request {
        DataRequest::Manifest(_) | DataRequest::Have(_) | DataRequest::Outboard(_) => goods.honest(request),
        DataRequest::Get { .. } if first.swap(false, Ordering::Relaxed) => {
            goods.honest(request).cut_to(DELIVERED + CHUNK_BYTES / 2).then(then)
        }
        DataRequest::Get { .. } => ScriptedReply::refusal(FetchRefusal::Unreadable),
    })
}

fn honest(goods: &Goods, seed: u16) -> Holder {
    let goods = goods.clone();
    Holder::begin(identity(seed), move |request| goods.honest(request))
}

/// A file of 5 MiB signed by node 1.
fn goods(version: u64) -> Goods {
    Goods::new(&identity(1), "a", version, bytes(u8::try_from(version).unwrap(), 5 * MIB))
}

/// Downloads from a holder that hangs, until exactly [`DELIVERED`] bytes are on disk.
async fn begin(indexer: &IndexerHandle, node: &Node, goods: &Goods) {
    let holder = faltering(goods, Then::Hang);
    holder.register(indexer.local_addr(), [goods.record.to_signed()]).await;
    let progress = Arc::new(Progress::default());
    let (file, options) = (name("a"), DownloadOptions::default());
    tokio::select! {
        ended = node.peer.download(&file, options, &progress) => panic!("{ended:?}"),
        () = eventually(async || (progress.done() == DELIVERED as u64).then_some(())) => {}
    }
}

#[testkit::test]
async fn exhausted_source_leaves_a_partial_that_another_completes() {
    let (goods, indexer) = (goods(1), indexer(&[]).await);
    let (to, reader) = peer(&[indexer.local_addr()]).await;
    let faltering = faltering(&goods, Then::Close);
    faltering.register(indexer.local_addr(), [goods.record.to_signed()]).await;
    let error = reader.get("a").await.unwrap_err();
    assert!(matches!(error, DownloadError::SourcesExhausted { .. }), "{error}");
    assert!(!to.has("a"));
    // A connection reset discards the bytes that the reader had not received.
    let kept = std::fs::metadata(&to.partials()[0]).unwrap().blocks() * 512;
    let honest = honest(&goods, 2);
    honest.register(indexer.local_addr(), [goods.record.to_signed()]).await;
    let done = reader.get("a").await.unwrap();
    assert_eq!(done.bytes_moved, goods.bytes.len() as u64 - kept);
    assert!(to.read("a") == goods.bytes);
    assert!(to.partials().is_empty());
}

#[testkit::test]
async fn dropped_download_goes_on_at_once_with_what_is_missing() {
    let (goods, indexer) = (goods(1), indexer(&[]).await);
    let (to, reader) = peer(&[indexer.local_addr()]).await;
    let honest = honest(&goods, 2);
    begin(&indexer, &reader, &goods).await;
    honest.register(indexer.local_addr(), [goods.record.to_signed()]).await;
    let (file, progress) = (name("a"), Arc::new(Progress::default()));
    let done = reader.peer.download(&file, DownloadOptions::default(), &progress).await.unwrap();
    assert_eq!((progress.kept(), progress.done()), (DELIVERED as u64, goods.bytes.len() as u64));
    assert_eq!(done.bytes_moved, (goods.bytes.len() - DELIVERED) as u64);
    assert!(to.read("a") == goods.bytes);
}

#[testkit::test]
async fn download_of_a_peer_that_crashed_goes_on_in_the_next() {
    let (goods, indexer) = (goods(1), indexer(&[]).await);
    let (to, reader) = peer(&[indexer.local_addr()]).await;
    begin(&indexer, &reader, &goods).await;
    reader.peer.abort().await;
    let reader = to.peer(&[indexer.local_addr()]).await;
    let honest = honest(&goods, 2);
    honest.register(indexer.local_addr(), [goods.record.to_signed()]).await;
    let done = reader.get("a").await.unwrap();
    assert_eq!(done.bytes_moved, (goods.bytes.len() - DELIVERED) as u64);
    assert!(to.read("a") == goods.bytes);
}

#[testkit::test]
async fn partial_that_was_damaged_meanwhile_costs_only_the_damaged_chunks() {
    let (goods, indexer) = (goods(1), indexer(&[]).await);
    let (to, reader) = peer(&[indexer.local_addr()]).await;
    begin(&indexer, &reader, &goods).await;
    reader.peer.abort().await;
    let partial = to.partials().remove(0);
    let mut bytes = std::fs::read(&partial).unwrap();
    bytes[CHUNK_BYTES + 1] ^= 1;
    std::fs::write(&partial, bytes).unwrap();
    let reader = to.peer(&[indexer.local_addr()]).await;
    let honest = honest(&goods, 2);
    honest.register(indexer.local_addr(), [goods.record.to_signed()]).await;
    let done = reader.get("a").await.unwrap();
    assert_eq!(done.bytes_moved, (goods.bytes.len() - DELIVERED + CHUNK_BYTES) as u64);
    assert!(to.read("a") == goods.bytes);
}

/// Writes a byte that is not the file's at `offset` of the only partial file.
fn scribble(to: &Folder, offset: u64) {
    let partial = std::fs::OpenOptions::new().write(true).open(&to.partials()[0]).unwrap();
    partial.write_all_at(b"\0", offset).unwrap();
}

#[testkit::test]
async fn what_another_program_writes_into_the_partial_is_fetched_again() {
    let (goods, indexer) = (goods(1), indexer(&[]).await);
    let (to, reader) = peer(&[indexer.local_addr()]).await;
    let (hanging, honest) = (faltering(&goods, Then::Hang), honest(&goods, 2));
    hanging.register(indexer.local_addr(), [goods.record.to_signed()]).await;
    let (file, progress) = (name("a"), Arc::new(Progress::default()));
    let downloading = reader.peer.download(&file, DownloadOptions::default(), &progress);
    let scribbling = async {
        eventually(async || (progress.done() == DELIVERED as u64).then_some(())).await;
        scribble(&to, CHUNK_BYTES as u64 + 1);
        honest.register(indexer.local_addr(), [goods.record.to_signed()]).await;
    };
    let (done, ()) = tokio::join!(downloading, scribbling);
    assert!(to.read("a") == goods.bytes, "what stands there is what was published");
    assert_eq!(done.unwrap().bytes_moved, (goods.bytes.len() + CHUNK_BYTES) as u64);
}

/// In a chunk that is not among those which are looked at before a download goes on.
#[testkit::test]
async fn what_another_program_writes_between_two_attempts_is_fetched_again() {
    let (goods, indexer) = (Goods::new(&identity(1), "a", 1, bytes(1, 20 * MIB)), indexer(&[]).await);
    let (to, reader) = peer(&[indexer.local_addr()]).await;
    let (part, served, sent) = (10 * MIB, goods.clone(), AtomicUsize::new(0));
    let hanging = Holder::begin(identity(1), move |request| match request {
        DataRequest::Get { .. } if sent.load(Ordering::Relaxed) >= part => {
            ScriptedReply::of(Vec::new()).then(Then::Hang)
        }
        _ => {
            sent.fetch_add(served.asked(request).len(), Ordering::Relaxed);
            served.honest(request)
        }
    });
    hanging.register(indexer.local_addr(), [goods.record.to_signed()]).await;
    let (file, progress) = (name("a"), Arc::new(Progress::default()));
    tokio::select! {
        ended = reader.peer.download(&file, DownloadOptions::default(), &progress) => panic!("{ended:?}"),
        () = eventually(async || (progress.done() >= part as u64).then_some(())) => {}
    }
    drop(hanging);
    reader.peer.shutdown().await;
    let there = std::fs::read(&to.partials()[0]).unwrap();
    let chunks = there.chunks(CHUNK_BYTES).zip(goods.bytes.chunks(CHUNK_BYTES)).enumerate();
    let second = chunks.filter(|(_, (there, wanted))| there == wanted).nth(1).unwrap().0;
    scribble(&to, (second * CHUNK_BYTES) as u64 + 1);
    let reader = to.peer(&[indexer.local_addr()]).await;
    let honest = honest(&goods, 2);
    honest.register(indexer.local_addr(), [goods.record.to_signed()]).await;
    reader.get("a").await.unwrap();
    assert!(to.read("a") == goods.bytes);
}

/// As after a loss of power: some chunks in the checkpoint are missing on disk.
#[testkit::test]
async fn partial_that_was_cut_short_costs_only_what_was_cut() {
    for (kept, zeros) in [(3, false), (3, true), (0, false)] {
        let (goods, indexer) = (goods(1), indexer(&[]).await);
        let (to, reader) = peer(&[indexer.local_addr()]).await;
        begin(&indexer, &reader, &goods).await;
        reader.peer.abort().await;
        let partial = std::fs::OpenOptions::new().write(true).open(&to.partials()[0]).unwrap();
        partial.set_len((kept * CHUNK_BYTES + kept.min(1) * 100) as u64).unwrap();
        if zeros {
            partial.set_len(goods.bytes.len() as u64).unwrap(); // the same length, but zeros
        }
        drop(partial);
        let reader = to.peer(&[indexer.local_addr()]).await;
        let honest = honest(&goods, 2);
        honest.register(indexer.local_addr(), [goods.record.to_signed()]).await;
        let done = reader.get("a").await.unwrap();
        assert_eq!(done.bytes_moved, (goods.bytes.len() - kept * CHUNK_BYTES) as u64, "{kept} {zeros}");
        assert!(to.read("a") == goods.bytes);
    }
}

#[testkit::test]
async fn partial_of_an_older_version_is_cleared_away() {
    let (old, indexer) = (goods(1), indexer(&[]).await);
    let (to, reader) = peer(&[indexer.local_addr()]).await;
    begin(&indexer, &reader, &old).await;
    let new = goods(2);
    let honest = honest(&new, 2);
    honest.register(indexer.local_addr(), [new.record.to_signed()]).await;
    assert_eq!(reader.get("a").await.unwrap().record.version.get(), 2);
    assert!(to.read("a") == new.bytes);
    assert!(to.partials().is_empty());
}

#[testkit::test(multi_thread)]
async fn download_dropped_at_any_moment_can_be_begun_again_at_once() {
    let indexer = indexer(&[]).await;
    let (from, origin) = peer(&[indexer.local_addr()]).await;
    let (to, reader) = peer(&[indexer.local_addr()]).await;
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
