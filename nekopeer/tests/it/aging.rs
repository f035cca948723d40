//! Copies whose origin is unreachable, across restarts and data loss: kept, never reported as fresh, never
//! replaced by an older version.

use crate::common::*;

fn version(number: u64, policy: Policy) -> Goods {
    let content = format!("version {number}").into_bytes();
    Goods::with(1, "a", number, content, |record| record.policy = policy)
}

fn chunk_of(record: &VerifiedRecord) -> DataRequest {
    let ranges = List::first_of([ByteRange { offset: 0, len: 1 }]);
    DataRequest::Get { content: record.content, ranges }
}

#[testkit::test]
async fn copy_is_not_served_past_its_bound_where_the_policy_forbids_it() {
    let (indexer, [(cached, cache)]) = network().await;
    let strict = Policy::new(Mode::Pull, 1, 1, Staleness::Bounded).unwrap();
    let goods = version(1, strict);
    let origin = goods.held(1, indexer.local_addr()).await;
    cache.get("a").await.unwrap();
    let stranger = Holder::idle(66);
    // Served only while the origin confirms it.
    let ask = async || stranger.ask(cache.addr(), &chunk_of(&goods.record)).await;
    eventually(async || ask().await.ok()).await;
    origin.confirms(Verdict::Unpublished);
    let refusal = eventually(async || ask().await.err()).await;
    assert_eq!(refusal, FetchRefusal::Unverified);
    let manifest = DataRequest::Manifest(goods.record.manifest);
    assert_eq!(stranger.ask(cache.addr(), &manifest).await, Err(FetchRefusal::Unverified));
    stranger.tell(cache.addr(), [version(2, strict).record.to_signed()]).await.unwrap();
    assert_eq!(ask().await, Err(FetchRefusal::Outdated(Version::new(2).unwrap())));
    assert_eq!(cached.read("a"), goods.bytes, "what is not served is still kept");
}

#[testkit::test]
async fn outdated_copy_is_served_as_stale_stays_so_over_a_kill_with_nobody_to_ask_and_is_then_refetched() {
    let (indexer, [(from, origin), (to, mut reader)]) = network().await;
    let first = origin.publish(&from.write("a", b"version 1")).await;
    reader.get("a").await.unwrap();
    reader.peer.check_copies().await;
    origin.publish(&from.write("a", b"version 2")).await;
    reader.invalidated("a", 2).await;
    let grant = Holder::idle(66).ask(reader.addr(), &chunk_of(&first)).await.unwrap();
    assert_eq!((grant.len, grant.freshness), (1, Freshness::Stale), "as its policy allows");
    reader.peer.abort().await;
    origin.peer.abort().await;
    let reader = Node::start(to.config(&[])).await;
    reader.peer.check_copies().await;
    assert!(reader.is("a", Freshness::Stale).await);
    assert_eq!(to.read("a"), b"version 1");
    reader.peer.abort().await;
    let _origin = from.peer(&[indexer.local_addr()]).await;
    let config = Config { on_stale: OnStale::Refetch, ..to.config(&[indexer.local_addr()]) };
    let mut reader = Node::start(config).await;
    reader.event(|event| matches!(event, Event::Refreshed { .. }).then_some(())).await;
    assert_eq!(to.read("a"), b"version 2");
}

/// Also where the copy is held no more, because it was withdrawn here.
#[testkit::test]
async fn older_version_in_the_network_does_not_replace_a_newer_copy() {
    let [old, new] = [1, 2].map(|number| version(number, Policy::default()));
    let script = new.clone();
    let served = Holder::begin(1, move |request| script.honest(request));
    let [before, after] = [&new, &old]
        .map(|goods| Fake::of_peers(Habit::says([hit(goods.record.to_signed(), 1, served.addr)])));
    let (to, reader) = peer(&[before.addr]).await;
    reader.get("a").await.unwrap();
    reader.peer.shutdown().await;
    let reader = Node::start(to.config(&[after.addr])).await;
    let refused = |error: Failure| {
        let said = "only version 1 of a can be found, and version 2 is or was here";
        assert!(error.message.contains(said), "{error}");
    };
    refused(reader.get("a").await.unwrap_err());
    assert_eq!(to.read("a"), new.bytes);
    let options = DownloadOptions { output: Some(to.path("elsewhere")), force: true, ..Default::default() };
    refused(reader.get_with("a", options).await.unwrap_err());
    reader.peer.deregister(&name("a")).await.unwrap();
    fs::remove_file(to.path("a")).unwrap();
    refused(reader.get("a").await.unwrap_err());
    assert!(!to.has("a"));
    reader.peer.shutdown().await;
    let reader = Node::start(to.config(&[before.addr])).await;
    assert_eq!(reader.get("a").await.unwrap().record.version.get(), 2, "the same version is none older");
}

/// Whatever indexers list, and whether the copy that was outdated is still there.
#[testkit::test]
async fn version_known_to_be_outdated_is_stale_when_it_comes_again() {
    for on_stale in [OnStale::Keep, OnStale::Drop] {
        let old = version(1, Policy::default());
        let script = old.clone();
        let served = Holder::begin(1, move |request| script.honest(request));
        served.confirms(Verdict::Current);
        let indexer = Fake::of_peers(Habit::says([hit(old.record.to_signed(), 1, served.addr)]));
        let to = Folder::new();
        let mut reader = Node::start(Config { on_stale, ..to.config(&[indexer.addr]) }).await;
        assert_eq!(reader.get("a").await.unwrap().freshness, Freshness::Fresh);
        let newer = version(2, Policy::default()).record.to_signed();
        served.tell(reader.addr(), [newer]).await.unwrap();
        let bytes_moved = if on_stale == OnStale::Drop {
            reader.sees(&Event::Dropped(name("a"))).await;
            old.bytes.len() as u64
        } else {
            0
        };
        let again = reader.get("a").await.unwrap();
        assert_eq!((again.bytes_moved, again.freshness), (bytes_moved, Freshness::Stale), "{on_stale:?}");
    }
}

#[testkit::test]
async fn news_during_a_download_is_not_forgotten_when_it_ends() {
    let [first, second, third] =
        [1, 2, 3].map(|version| Goods::new(1, "a", version, bytes(version, 2 * CHUNK_BYTES)));
    let (indexer, [(to, reader)]) = network().await;
    let served = first.held(1, indexer.local_addr()).await;
    reader.get("a").await.unwrap();
    drop(served);
    let gate = Arc::new(Notify::new());
    let closed = Arc::clone(&gate);
    let script = move |goods: &Goods, request: &DataRequest| match request {
        DataRequest::Get { .. } => goods.honest(request).behind(&closed),
        _ => goods.honest(request),
    };
    let mut slow = second.served(1, indexer.local_addr(), script).await;
    let meanwhile = async {
        while !matches!(slow.asked.recv().await, Some(DataRequest::Get { .. })) {}
        slow.tell(reader.addr(), [third.record.to_signed()]).await.unwrap();
        gate.notify_one();
    };
    let (done, ()) = tokio::join!(reader.get("a"), meanwhile);
    let done = done.unwrap();
    assert_eq!((done.record.version.get(), done.freshness), (2, Freshness::Stale));
    let status = async |node: &Node| {
        let status = node.status("a").await.unwrap();
        (status.record.version.get(), status.condition, status.newest)
    };
    let known = (2, Condition::Good(Freshness::Stale), Version::new(3));
    assert_eq!(status(&reader).await, known);
    reader.peer.abort().await;
    let reader = Node::start(to.config(&[])).await;
    assert_eq!(status(&reader).await, known, "on disk too");
}
