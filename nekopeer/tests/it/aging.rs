//! Copies whose origin is unreachable, across restarts and data loss: kept, never reported as fresh, never
//! replaced by an older version.

use std::{os::unix::fs::PermissionsExt, sync::Arc};

use crate::common::{
    Folder, Goods, Holder, Node, ScriptedReply, bytes, eventually, fake_indexer::FakeIndexer,
    goods::CHUNK_BYTES, holder::patient, identity, indexer, name, peer, policy,
};
use nekopeer::{Condition, Config, DownloadError, Event, OnStale};
use nekoproto::{
    ByteRange, DataRequest, FetchRefusal, Freshness, Hit, List, Mode, Policy, Records, Staleness, Verdict,
    Version,
};
use tokio::sync::Notify;

/// A holder of these goods that is their origin.
fn origin(goods: &Goods) -> Holder {
    let goods = goods.clone();
    Holder::begin(identity(1), move |request| goods.honest(request))
}

fn version(number: u64, policy: Policy) -> Goods {
    let content = format!("version {number}").into_bytes();
    Goods::with(&identity(1), "a", number, content, |record| record.policy = policy)
}

fn chunk_of(goods: &Goods) -> DataRequest {
    let ranges = List::first_of([ByteRange { offset: 0, len: 1 }]);
    DataRequest::Get { content: goods.record.content, ranges }
}

#[testkit::test]
async fn copy_of_an_unreachable_origin_is_kept_and_served_as_unverified() {
    let indexer = indexer(&[]).await;
    let goods = version(1, policy(Mode::Pull, 1));
    let origin = origin(&goods);
    origin.confirms(Verdict::Current);
    origin.register(indexer.local_addr(), [goods.record.to_signed()]).await;
    let (cached, mut cache) = peer(&[indexer.local_addr()]).await;
    cache.get("a").await.unwrap();
    cache.becomes("a", Freshness::Fresh).await;
    drop(origin);
    cache.sees(&Event::OriginAway(name("a"))).await;
    cache.becomes("a", Freshness::Unverified).await;
    assert_eq!(cached.read("a"), goods.bytes);
    let (to, reader) = peer(&[indexer.local_addr()]).await;
    let done = reader.get("a").await.unwrap();
    assert_eq!((done.freshness, to.read("a")), (Freshness::Unverified, goods.bytes));
}

#[testkit::test]
async fn copy_is_not_served_past_its_bound_where_the_policy_forbids_it() {
    let indexer = indexer(&[]).await;
    let strict = Policy::new(Mode::Pull, 1, 1, Staleness::Bounded).unwrap();
    let goods = version(1, strict);
    let origin = origin(&goods);
    origin.confirms(Verdict::Current);
    origin.register(indexer.local_addr(), [goods.record.to_signed()]).await;
    let (cached, cache) = peer(&[indexer.local_addr()]).await;
    cache.get("a").await.unwrap();
    let stranger = Holder::idle(identity(66));
    // Served only while the origin confirms it.
    let ask = async || stranger.ask(cache.addr(), &chunk_of(&goods)).await;
    eventually(async || ask().await.ok()).await;
    origin.confirms(Verdict::Unpublished);
    let refusal = eventually(async || ask().await.err()).await;
    assert_eq!(refusal, FetchRefusal::Unverified);
    let manifest = DataRequest::Manifest(goods.record.manifest);
    assert_eq!(stranger.ask(cache.addr(), &manifest).await, Err(FetchRefusal::Unverified));
    let newer = version(2, strict);
    let client = stranger.call(cache.addr()).await;
    client.invalidate(patient(), Records::first_of([newer.record.to_signed()])).await.unwrap().unwrap();
    assert_eq!(ask().await, Err(FetchRefusal::Outdated(Version::new(2).unwrap())));
    assert_eq!(cached.read("a"), goods.bytes, "what is not served is still kept");
}

#[testkit::test]
async fn outdated_copy_is_served_as_stale_where_the_policy_allows_it() {
    let indexer = indexer(&[]).await;
    let goods = version(1, policy(Mode::Pull, 600));
    let origin = origin(&goods);
    origin.register(indexer.local_addr(), [goods.record.to_signed()]).await;
    let (_cached, cache) = peer(&[indexer.local_addr()]).await;
    cache.get("a").await.unwrap();
    let client = origin.call(cache.addr()).await;
    let newer = version(2, policy(Mode::Pull, 600)).record.to_signed();
    client.invalidate(patient(), Records::first_of([newer])).await.unwrap().unwrap();
    let grant = origin.ask(cache.addr(), &chunk_of(&goods)).await.unwrap();
    assert_eq!((grant.len, grant.freshness), (1, Freshness::Stale));
}

#[testkit::test]
async fn holder_that_missed_an_update_knows_right_after_its_start() {
    let indexer = indexer(&[]).await;
    let (from, origin) = peer(&[indexer.local_addr()]).await;
    let (to, reader) = peer(&[indexer.local_addr()]).await;
    origin.publish(&from.write("a", b"version 1")).await;
    reader.get("a").await.unwrap();
    reader.peer.shutdown().await;
    origin.publish(&from.write("a", b"version 2")).await;
    let reader = Node::start(to.config(&[indexer.local_addr()])).await;
    assert!(!reader.is("a", Freshness::Fresh).await, "nobody confirmed it yet");
    reader.peer.check_copies().await;
    let status = reader.status("a").await.unwrap();
    assert_eq!(status.condition, Condition::Good(Freshness::Stale));
    assert_eq!(status.newest, Version::new(2));
}

#[testkit::test]
async fn stale_is_remembered_over_a_restart_without_origin_and_indexer() {
    let indexer = indexer(&[]).await;
    let (from, origin) = peer(&[indexer.local_addr()]).await;
    let (to, mut reader) = peer(&[indexer.local_addr()]).await;
    origin.publish(&from.write("a", b"version 1")).await;
    reader.get("a").await.unwrap();
    reader.peer.check_copies().await;
    origin.publish(&from.write("a", b"version 2")).await;
    reader.invalidated("a", 2).await;
    reader.peer.abort().await;
    origin.peer.abort().await;
    indexer.shutdown().await;
    let reader = Node::start(to.config(&[])).await;
    reader.peer.check_copies().await;
    assert!(reader.is("a", Freshness::Stale).await);
    assert_eq!(to.read("a"), b"version 1");
}

#[testkit::test]
async fn refetch_that_a_restart_interrupted_is_made_up_for() {
    let indexer = indexer(&[]).await;
    let (from, origin) = peer(&[indexer.local_addr()]).await;
    let (to, mut reader) = peer(&[indexer.local_addr()]).await;
    origin.publish(&from.write("a", b"version 1")).await;
    reader.get("a").await.unwrap();
    reader.peer.check_copies().await;
    origin.publish(&from.write("a", b"version 2")).await;
    reader.invalidated("a", 2).await;
    reader.peer.abort().await;
    let config = Config { on_stale: OnStale::Refetch, ..to.config(&[indexer.local_addr()]) };
    let mut reader = Node::start(config).await;
    reader.event(|event| matches!(event, Event::Refreshed { .. }).then_some(())).await;
    assert_eq!(to.read("a"), b"version 2");
}

#[testkit::test]
async fn older_version_in_the_network_does_not_replace_a_newer_copy() {
    let (old, new) = (version(1, Policy::default()), version(2, Policy::default()));
    let served = origin(&new);
    let says = |goods: &Goods| {
        let holder = nekoproto::ListedHolder::new(identity(1).fresh_reach([served.addr]));
        FakeIndexer::says(vec![Hit {
            record: goods.record.to_signed(),
            holders: List::first_of([holder.clone()]),
        }])
    };
    let (before, after) = (says(&new), says(&old));
    let (to, reader) = peer(&[before.addr]).await;
    reader.get("a").await.unwrap();
    reader.peer.shutdown().await;
    let reader = Node::start(to.config(&[after.addr])).await;
    let error = reader.get("a").await.unwrap_err();
    let (found, held) = match error {
        DownloadError::Older { found, held, .. } => (found.get(), held.get()),
        error => panic!("{error}"),
    };
    assert_eq!((found, held), (1, 2));
    assert_eq!(to.read("a"), new.bytes);
    let output = Some(to.path("elsewhere"));
    let options = nekopeer::DownloadOptions { output, force: true, ..Default::default() };
    let error = reader.get_with("a", options).await.unwrap_err();
    assert!(matches!(error, DownloadError::Older { .. }), "{error}");
}

/// As [`older_version_in_the_network_does_not_replace_a_newer_copy`], of a copy that is held no more.
#[testkit::test]
async fn older_version_in_the_network_does_not_take_the_place_of_a_copy_that_was_withdrawn_here() {
    let (old, new) = (version(1, Policy::default()), version(2, Policy::default()));
    let served = origin(&new);
    let holder = nekoproto::ListedHolder::new(identity(1).fresh_reach([served.addr]));
    let says = |goods: &Goods| {
        let holders = List::first_of([holder.clone()]);
        FakeIndexer::says(vec![Hit { record: goods.record.to_signed(), holders }])
    };
    let (before, after) = (says(&new), says(&old));
    let (to, reader) = peer(&[before.addr]).await;
    reader.get("a").await.unwrap();
    reader.peer.deregister(&name("a")).await.unwrap();
    std::fs::remove_file(to.path("a")).unwrap();
    reader.peer.shutdown().await;
    let reader = Node::start(to.config(&[after.addr])).await;
    let error = reader.get("a").await.unwrap_err();
    assert!(matches!(error, DownloadError::Older { .. }), "{error}");
    assert!(!to.has("a"));
    reader.peer.shutdown().await;
    let reader = Node::start(to.config(&[before.addr])).await;
    assert_eq!(reader.get("a").await.unwrap().record.version.get(), 2, "the same version is none older");
}

#[testkit::test]
async fn version_that_was_dropped_as_outdated_is_stale_when_it_comes_again() {
    let old = version(1, Policy::default());
    let served = origin(&old);
    served.confirms(Verdict::Current);
    let holder = nekoproto::ListedHolder::new(identity(1).fresh_reach([served.addr]));
    let hit = Hit { record: old.record.to_signed(), holders: List::first_of([holder.clone()]) };
    let indexer = FakeIndexer::says(vec![hit]);
    let to = Folder::new();
    let config = Config { on_stale: OnStale::Drop, ..to.config(&[indexer.addr]) };
    let mut reader = Node::start(config).await;
    reader.get("a").await.unwrap();
    let client = served.call(reader.addr()).await;
    let newer = version(2, Policy::default()).record.to_signed();
    client.invalidate(patient(), Records::first_of([newer])).await.unwrap().unwrap();
    reader.sees(&Event::Dropped(name("a"))).await;
    assert_eq!(reader.get("a").await.unwrap().freshness, Freshness::Stale);
}

#[testkit::test]
async fn copy_known_to_be_outdated_is_called_stale_whatever_indexers_list() {
    let old = version(1, Policy::default());
    let served = origin(&old);
    served.confirms(Verdict::Current);
    let holder = nekoproto::ListedHolder::new(identity(1).fresh_reach([served.addr]));
    let hit = Hit { record: old.record.to_signed(), holders: List::first_of([holder.clone()]) };
    let indexer = FakeIndexer::says(vec![hit]);
    let (_to, reader) = peer(&[indexer.addr]).await;
    assert_eq!(reader.get("a").await.unwrap().freshness, Freshness::Fresh);
    let client = served.call(reader.addr()).await;
    let newer = version(2, Policy::default()).record.to_signed();
    client.invalidate(patient(), Records::first_of([newer])).await.unwrap().unwrap();
    let again = reader.get("a").await.unwrap();
    assert_eq!((again.bytes_moved, again.freshness), (0, Freshness::Stale));
}

#[testkit::test]
async fn origin_that_lost_its_data_publishes_beyond_what_others_have_seen() {
    let indexer = indexer(&[]).await;
    let (from, origin) = peer(&[indexer.local_addr()]).await;
    let (to, mut reader) = peer(&[indexer.local_addr()]).await;
    for content in ["1", "2", "3"] {
        origin.publish(&from.write("a", content.as_bytes())).await;
    }
    reader.get("a").await.unwrap();
    let node = origin.peer.node();
    origin.peer.shutdown().await;
    let fresh = Folder::new();
    let key = fresh.write(".neko/peer.key", &from.read(".neko/peer.key"));
    std::fs::set_permissions(key, std::fs::Permissions::from_mode(0o600)).unwrap();
    let origin = fresh.peer(&[indexer.local_addr()]).await;
    assert_eq!(origin.peer.node(), node);
    assert_eq!(origin.publish(&fresh.write("a", b"4")).await.version.get(), 4, "and says so at once");
    reader.invalidated("a", 4).await;
    assert_eq!(origin.status("a").await.unwrap().record.version.get(), 4);
    assert_eq!(reader.get("a").await.unwrap().record.version.get(), 4);
    assert_eq!(to.read("a"), b"4");
    assert_eq!(origin.publish(&fresh.write("a", b"5")).await.version.get(), 5);
}

#[testkit::test]
async fn news_during_a_download_is_not_forgotten_when_it_ends() {
    let goods = |version: u64| {
        Goods::new(&identity(1), "a", version, bytes(u8::try_from(version).unwrap(), 2 * CHUNK_BYTES))
    };
    let (first, second, third) = (goods(1), goods(2), goods(3));
    let indexer = indexer(&[]).await;
    let (to, reader) = peer(&[indexer.local_addr()]).await;
    let served = origin(&first);
    served.register(indexer.local_addr(), [first.record.to_signed()]).await;
    reader.get("a").await.unwrap();
    drop(served);
    let gate = Arc::new(Notify::new());
    let (script, closed) = (second.clone(), Arc::clone(&gate));
    let mut slow = Holder::begin(identity(1), move |request| match request {
        DataRequest::Manifest(_) | DataRequest::Have(_) | DataRequest::Outboard(_) => script.honest(request),
        DataRequest::Get { .. } => ScriptedReply::of(script.asked(request)).behind(&closed),
    });
    slow.register(indexer.local_addr(), [second.record.to_signed()]).await;
    let meanwhile = async {
        while !matches!(slow.asked.recv().await, Some(DataRequest::Get { .. })) {}
        let client = slow.call(reader.addr()).await;
        let news = Records::first_of([third.record.to_signed()]);
        client.invalidate(patient(), news).await.unwrap().unwrap();
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
