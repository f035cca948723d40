//! Publishing and downloading between real peers: whole files, and only the missing chunks.

use crate::common::*;

#[testkit::test]
async fn files_of_every_size_arrive_as_they_are() {
    let (_indexer, [(from, origin), (to, reader)]) = network().await;
    let files = [("empty", 0), ("deep/er/one", 1), ("a b/ü.bin", 5 * MIB), ("large", 24 * MIB)];
    for ((text, len), seed) in files.into_iter().zip(0..) {
        let content = bytes(seed, len);
        let record = origin.publish(&from.write(text, &content)).await;
        assert_eq!(record.content.as_bytes(), blake3::hash(&content).as_bytes());
        let done = reader.get(text).await.unwrap();
        assert_eq!((done.path, done.record), (to.path(text), record));
        assert_eq!((done.bytes_moved, done.freshness), (len as u64, Freshness::Fresh));
        assert!(to.read(text) == content, "{text}");
        assert!(to.partials().is_empty());
    }
}

#[testkit::test]
async fn copy_is_served_from_where_it_stands_while_its_origin_is_gone() {
    let (_indexer, [(from, origin), (to, cache), (third, reader)]) = network().await;
    origin.publish_all(&[&from.write("a", b"content"), &from.write("b", b"more")]).await;
    let (node, elsewhere) = (origin.peer.node(), Folder::new());
    cache.get("b").await.unwrap();
    let output = Some(elsewhere.path("renamed"));
    let done = cache.get_with("a", DownloadOptions { output, ..Default::default() }).await.unwrap();
    assert_eq!(done.path, elsewhere.path("renamed"));
    assert!(elsewhere.read("renamed") == b"content" && !to.has("a"));
    origin.peer.shutdown().await;
    for (text, content) in [("a", &b"content"[..]), ("b", b"more")] {
        let done = reader.get(text).await.unwrap();
        assert_eq!((done.record.origin, third.read(text).as_slice()), (node, content));
        assert_eq!(done.freshness, Freshness::Unverified);
    }
}

#[testkit::test]
async fn second_download_of_a_name_at_the_same_time_is_refused() {
    let (_indexer, [(from, origin), (_to, reader)]) = network().await;
    origin.publish(&from.write("a", b"content")).await;
    let (first, second) = tokio::join!(reader.get("a"), reader.get("a"));
    assert_eq!(first.unwrap().bytes_moved, 7);
    assert!(matches!(&second, Err(failure) if failure.reason == Reason::AlreadyRunning), "{second:?}");
    assert_eq!(reader.get("a").await.unwrap().bytes_moved, 0);
}

#[testkit::test]
async fn progress_ends_at_the_size_of_all_files_and_counts_apart_what_was_there() {
    let (_indexer, [(from, origin), (_to, reader)]) = network().await;
    let sizes = [("there", MIB), ("large", 2 * MIB), ("larger", 3 * MIB), ("small", 10)];
    for ((text, size), seed) in sizes.into_iter().zip(1..) {
        let (paths, progress) = (vec![from.write(text, &bytes(seed, size))], Arc::new(Progress::default()));
        origin.peer.publish(paths, PublishOptions::default(), &progress).await.unwrap();
        assert_eq!((progress.done(), progress.total()), (size as u64, size as u64));
    }
    for _ in 0..2 {
        let (name, progress) = (name("there"), Arc::new(Progress::default()));
        reader.peer.download(&name, DownloadOptions::default(), &progress).await.unwrap();
        assert_eq!((progress.done(), progress.total()), (MIB as u64, MIB as u64));
    }
    let (names, progress) = (sizes.map(|(text, _)| name(text)), Arc::new(Progress::default()));
    let outcomes = reader.peer.download_all(&names, &DownloadOptions::default(), &progress).await;
    assert!(outcomes.iter().all(|(_, outcome)| outcome.is_ok()), "{outcomes:?}");
    let all: usize = sizes.iter().map(|(_, size)| size).sum();
    assert_eq!((progress.done(), progress.total()), (all as u64, all as u64));
    assert_eq!(progress.kept(), MIB as u64);
}
