//! Unfinished downloads that serve each other, chunks reused from disk, bulk downloads, and downloads to a
//! pipe.

use std::{io::Write, num::NonZeroU64, sync::Mutex};

use crate::common::*;

/// A rate in bytes per second that makes a download long enough for other readers to join in.
const SLOW: u64 = 16 * 1024 * 1024;

fn slow(config: Config) -> Config {
    Config { limit_up: NonZeroU64::new(SLOW), ..config }
}

#[testkit::test(multi_thread)]
async fn readers_of_one_slow_origin_share_what_they_have() {
    let indexer = indexer(&[]).await;
    let from = Folder::new();
    let origin = Node::registered(slow(from.config(&[indexer.local_addr()]))).await;
    let content = bytes(1, 32 * MIB);
    origin.publish(&from.write("a", &content)).await;
    let mut readers = Vec::new();
    for _ in 0..4 {
        let folder = Folder::new();
        let node = Node::registered(slow(folder.config(&[indexer.local_addr()]))).await;
        readers.push((folder, node));
    }
    let done = futures::future::join_all(readers.iter().map(|(_, reader)| reader.get("a"))).await;
    let mut from_origin = 0;
    for (done, (folder, _)) in done.into_iter().zip(&readers) {
        let done = done.unwrap();
        assert!(folder.read("a") == content);
        let of_origin = done.sources.iter().filter(|source| source.node == origin.peer.node());
        from_origin += of_origin.map(|source| source.bytes).sum::<u64>();
        assert!(done.sources.len() > 1, "other readers helped: {:?}", done.sources);
    }
    // Without sharing: 4 copies. With it: one, and what several request before they find each other.
    let copies = from_origin as f64 / content.len() as f64;
    assert!(copies < 2.5, "the origin sent {copies} copies");
}

#[testkit::test(multi_thread)]
async fn a_peer_that_is_still_downloading_is_listed_so_and_serves_what_it_has() {
    is_listed_and_serves(false).await;
}

/// Nothing else that it holds is listed, or sent to whoever knows its hash.
#[testkit::test(multi_thread)]
async fn a_peer_that_serves_its_downloads_only_does_so_while_they_last() {
    is_listed_and_serves(true).await;
}

async fn is_listed_and_serves(serves_downloads_only: bool) {
    let (indexer, [(from, origin)]) = network().await;
    let other = origin.publish(&from.write("other", &bytes(2, MIB))).await;
    let to = Folder::new();
    let reader = Node::start(Config { serves_downloads_only, ..to.config(&[indexer.local_addr()]) }).await;
    reader.get("other").await.unwrap();
    let goods = Goods::new(1, "a", 1, bytes(1, 16 * MIB));
    // The origin sends the first half only.
    let half = goods.bytes.len() as u64 / 2;
    let script = move |goods: &Goods, request: &DataRequest| match request {
        DataRequest::Get { ranges, .. } if ranges.iter().any(|range| range.offset + range.len > half) => {
            ScriptedReply::refusal(FetchRefusal::Busy)
        }
        request => goods.honest(request),
    };
    let _origin = goods.served(1, indexer.local_addr(), script).await;
    let (file, options, progress) = (name("a"), DownloadOptions::default(), Arc::new(Progress::default()));
    let downloading = reader.peer.download(&file, options, &progress);
    let looking = async {
        let listed = async || {
            let found = reader.peer.query(&file, 0).await.ok()?.candidates.into_iter().next()?;
            found.holders.into_iter().find(|holder| holder.partial)
        };
        let partial = eventually(listed).await;
        assert_eq!(partial.node, reader.peer.node());
        let stranger = Holder::idle(66);
        let ask = async |offset: u64| {
            let range = nekoproto::ByteRange { offset, len: 10 };
            let ranges = nekoproto::List::first_of([range]);
            let content = goods.record.content;
            stranger.ask(partial.addr, &DataRequest::Get { content, ranges }).await
        };
        eventually(async || ask(0).await.ok()).await;
        assert_eq!(ask(half + CHUNK_BYTES as u64).await, Err(FetchRefusal::NotYet));
        let manifest = stranger.ask(partial.addr, &DataRequest::Manifest(goods.record.manifest)).await;
        assert!(manifest.is_ok());
        let have = stranger.ask(partial.addr, &DataRequest::Have(goods.record.content)).await.unwrap();
        assert_eq!(have.len, goods.bytes.len().div_ceil(CHUNK_BYTES).div_ceil(8) as u64);
        let of_other = stranger.ask(partial.addr, &DataRequest::Have(other.content)).await;
        assert_eq!(of_other.is_ok(), !serves_downloads_only, "{of_other:?}");
        let found = reader.peer.query(&name("other"), 0).await.unwrap().candidates;
        let holders = found.iter().flat_map(|found| &found.holders);
        assert_eq!(
            holders.filter(|holder| holder.node == reader.peer.node()).count(),
            usize::from(!serves_downloads_only)
        );
    };
    tokio::select! {
        ended = downloading => panic!("{ended:?}"),
        () = looking => {}
    }
    // The download was given up: the reader is not listed any more.
    let gone = async || {
        let candidates = reader.peer.query(&file, 0).await.ok()?.candidates;
        let holders = candidates.into_iter().flat_map(|found| found.holders);
        holders.into_iter().all(|holder| holder.node != reader.peer.node()).then_some(())
    };
    eventually(gone).await;
}

/// Method: the source gives it the second half. What it asked for before it was told so is of the first, and little.
#[testkit::test]
async fn reader_begins_with_the_portion_that_its_source_gives_it() {
    let (indexer, [(to, reader)]) = network().await;
    let goods = Goods::new(1, "a", 1, bytes(1, 6 * MIB));
    let script = |goods: &Goods, request: &DataRequest| {
        goods.honest(request).with_portion(Portion { place: 1, of: 2 })
    };
    let mut holder = goods.served(1, indexer.local_addr(), script).await;
    reader.gets(&to, "a", &goods.bytes).await;
    let half = goods.bytes.len() as u64 / 2;
    let asked = std::iter::from_fn(|| holder.asked.try_recv().ok()).filter_map(|request| match request {
        DataRequest::Get { ranges, .. } => Some(ranges.to_vec()),
        _ => None,
    });
    let asked: Vec<_> = asked.flatten().collect();
    let last = asked.iter().rposition(|range| range.offset >= half).unwrap();
    let of_first = asked[..last].iter().filter(|range| range.offset < half).map(|range| range.len);
    let before = of_first.sum::<u64>();
    assert!(before < half / 2, "{before} bytes of the first half before all of the second: {asked:?}");
}

#[testkit::test]
async fn chunks_of_other_files_are_not_fetched() {
    let (_indexer, [(from, origin), (to, reader)]) = network().await;
    let first = bytes(1, 6 * MIB);
    let second = [&first[MIB..5 * MIB], &bytes(2, MIB)].concat();
    origin.publish(&from.write("a", &first)).await;
    reader.get("a").await.unwrap();
    origin.publish(&from.write("b", &second)).await;
    let done = reader.gets(&to, "b", &second).await;
    assert!(done.bytes_moved < 2 * MIB as u64, "{} bytes moved", done.bytes_moved);
    // Equal bytes under another name are not fetched again.
    origin.publish(&from.write("c", &second)).await;
    assert_eq!(reader.get("c").await.unwrap().bytes_moved, 0);
    assert!(to.read("c") == second);
}

#[testkit::test]
async fn zeros_are_not_fetched_and_stay_a_hole() {
    use std::os::unix::fs::{FileExt, MetadataExt};
    let (_indexer, [(from, origin), (to, reader)]) = network().await;
    let path = from.write("a", b"");
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(64 * MIB as u64).unwrap();
    file.write_all_at(&bytes(1, 100_000), 30 * MIB as u64).unwrap();
    origin.publish(&path).await;
    let done = reader.gets(&to, "a", from.read("a")).await;
    assert!(done.bytes_moved < MIB as u64, "{} bytes moved", done.bytes_moved);
    let on_disk = std::fs::metadata(to.path("a")).unwrap().blocks() * 512;
    assert!(on_disk < 4 * MIB as u64, "{on_disk} bytes on disk");
}

#[testkit::test]
async fn many_files_come_together_and_each_has_its_outcome() {
    let (_indexer, [(from, origin), (to, reader)]) = network().await;
    let mut names = Vec::new();
    for n in 0..300u64 {
        let text = format!("d{}/f{n}", n % 7);
        from.write(&text, &bytes(n, usize::try_from(n).unwrap() * 40));
        names.push(name(&text));
    }
    let large = bytes(9, 3 * MIB);
    from.write("large", &large);
    origin.publish_all(&[&from.path("")]).await;
    to.write("d0/f7", b"somebody's own work");
    names.extend([name("large"), name("nobody has this"), name("d1/f1")]);
    let outcomes = reader.get_all(&names).await;
    assert_eq!(outcomes.len(), 302, "a duplicate name has one outcome");
    for (name, outcome) in outcomes {
        match (name.as_str(), outcome) {
            ("nobody has this", Err(Failure { reason: Reason::NotFound, .. })) => {}
            ("d0/f7", Err(failure)) if failure.message.contains("exists and is not a copy") => {}
            (text, Ok(done)) => {
                assert!(to.read(text) == from.read(text), "{text}");
                assert_eq!(done.freshness, nekoproto::Freshness::Fresh, "{text}");
            }
            (text, Err(error)) => panic!("{text}: {error}"),
        }
    }
    assert_eq!(to.read("d0/f7"), b"somebody's own work");
    assert_eq!(reader.peer.files().await.len(), 300);
    assert!(to.partials().is_empty());
    // They are listed, and a second download moves nothing.
    let found = origin.peer.query(&name("d2/f2"), 0).await.unwrap();
    assert_eq!(found.candidates[0].holders.len(), 2);
    let again = reader.get_all(&names[..5]).await;
    assert!(again.iter().skip(1).all(|(_, outcome)| outcome.as_ref().unwrap().bytes_moved == 0));
}

#[testkit::test]
async fn small_file_that_is_corrupted_by_one_source_comes_from_another() {
    let (indexer, [(to, reader)]) = network().await;
    let goods = Goods::new(1, "a", 1, bytes(1, 5000));
    let lies = |goods: &Goods, request: &DataRequest| {
        let mut bytes = goods.asked(request);
        bytes[0] ^= 1;
        ScriptedReply::of(bytes)
    };
    let _liar = goods.served(1, indexer.local_addr(), lies).await;
    let _honest = goods.held(2, indexer.local_addr()).await;
    let names = [name("a")];
    let outcomes = reader.get_all(&names).await;
    outcomes[0].1.as_ref().unwrap();
    assert!(to.read("a") == goods.bytes);
}

#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[testkit::test]
async fn a_file_that_is_read_comes_in_order_and_leaves_nothing() {
    let (_indexer, [(from, origin), (to, reader)]) = network().await;
    for (text, len, seed) in [("a", 20 * MIB, 1), ("small", 10, 2), ("empty", 0, 3)] {
        let content = bytes(seed, len);
        origin.publish(&from.write(text, &content)).await;
        let sink = Sink::default();
        let options = DownloadOptions::default();
        let done = reader.peer.read(&name(text), &options, sink.clone(), &Arc::default()).await.unwrap();
        assert_eq!(done.bytes_moved, len as u64);
        assert!(*sink.0.lock().unwrap() == content, "{text}");
    }
    assert!(!to.has("a") && to.partials().is_empty() && reader.peer.files().await.is_empty());
}

#[testkit::test]
async fn what_a_liar_sends_is_not_read() {
    let (indexer, [(_to, reader)]) = network().await;
    let goods = Goods::new(1, "a", 1, bytes(1, 2 * MIB));
    let lies = |goods: &Goods, request: &DataRequest| {
        let mut bytes = goods.asked(request);
        if let (DataRequest::Get { .. }, Some(byte)) = (request, bytes.get_mut(CHUNK_BYTES)) {
            *byte ^= 1;
        }
        ScriptedReply::of(bytes)
    };
    let _liar = goods.served(1, indexer.local_addr(), lies).await;
    let (sink, options) = (Sink::default(), DownloadOptions::default());
    let error = reader.peer.read(&name("a"), &options, sink.clone(), &Arc::default()).await.unwrap_err();
    assert_eq!(error.reason, Reason::NoSource, "{error}");
    let read = sink.0.lock().unwrap().clone();
    let is_verified = read.len() <= CHUNK_BYTES && goods.bytes.starts_with(&read);
    assert!(is_verified, "only verified chunks are written");
}

/// Also what a kill, or an interruption, leaves between the move to its place and the publish is replaced.
#[testkit::test]
async fn what_comes_through_a_pipe_is_stored_whole_and_overwrites_nothing_unasked() {
    let (indexer, [(from, origin)]) = network().await;
    let content = bytes(1, 5 * MIB);
    let store = async |origin: &Node, content: &[u8], force| {
        let content = std::io::Cursor::new(content.to_vec());
        origin.peer.store(&name("logs/today"), content, force, &Arc::default()).await
    };
    let path = store(&origin, &content, false).await.unwrap();
    assert_eq!(path, from.path("logs/today"));
    assert!(from.read("logs/today") == content);
    store(&origin, b"stored, and not published", false).await.unwrap();
    origin.peer.shutdown().await;
    let origin = from.peer(&[indexer.local_addr()]).await;
    store(&origin, b"after a restart", false).await.unwrap();
    assert_eq!(from.read("logs/today"), b"after a restart");
    from.write("logs/today", b"my own work");
    let error = store(&origin, b"other", false).await.unwrap_err();
    assert!(error.message.contains("exists and is not what was shared"), "{error}");
    origin.publish(&path).await;
    store(&origin, b"the next version", false).await.unwrap();
    assert_eq!(from.read("logs/today"), b"the next version");
    store(&origin, b"forced", true).await.unwrap();
    assert_eq!(from.read("logs/today"), b"forced");
    assert!(from.partials().is_empty());
}

#[testkit::test(multi_thread)]
async fn a_file_that_changes_or_goes_while_it_is_served_never_arrives_half_and_half() {
    type Change = fn(&std::path::Path);
    let changes: [Change; 3] = [
        |path| std::fs::write(path, bytes(9, 24 * MIB)).unwrap(),
        |path| drop(std::fs::OpenOptions::new().write(true).open(path).unwrap().set_len(MIB as u64)),
        |path| std::fs::remove_file(path).unwrap(),
    ];
    for (change, number) in changes.into_iter().zip(0..) {
        let indexer = indexer(&[]).await;
        let from = Folder::new();
        let origin = Node::registered(slow(from.config(&[indexer.local_addr()]))).await;
        let content = bytes(1, 24 * MIB);
        let path = from.write("a", &content);
        origin.publish(&path).await;
        let (to, reader) = peer(&[indexer.local_addr()]).await;
        let (file, options, progress) = (name("a"), DownloadOptions::default(), Arc::default());
        let downloading = reader.peer.download(&file, options, &progress);
        let changing = async {
            eventually(async || (progress.done() > 2 * MIB as u64).then_some(())).await;
            change(&path);
        };
        let (done, ()) = tokio::join!(downloading, changing);
        let error = done.expect_err("no source has the second half");
        assert_eq!(error.reason, Reason::NoSource, "change {number}: {error}");
        assert!(!to.has("a"), "change {number}");
    }
}
