//! No reader gets other bytes under a number than another reader: not from a restored folder whose indexer is away, and
//! not where two indexers that listed two files under one number become neighbors.

use crate::{
    common::*,
    numbering::{backup, copy_data, hears_elsewhere, publish, renumbered},
};
use nekopeer::{Condition, Config, Doubt, DownloadError, Event};
use nekoproto::{Freshness, Mode};

#[testkit::test]
async fn restored_folder_hands_out_no_number_before_an_indexer_has_answered() {
    let ((_port, listen), (_way_port, addr)) = (kept_port(), kept_port());
    let indexer = indexer(&[]).await;
    let way = Proxy::begin(addr, indexer.local_addr());
    let from = Folder::new();
    let config = || Config { policy: policy(Mode::Pull, 1), listen: Some(listen), ..from.config(&[addr]) };
    let origin = Node::registered(config()).await;
    publish(&origin, &from, "first").await;
    let (to, reader) = peer(&[addr]).await;
    reader.get("a").await.unwrap();
    reader.peer.shutdown().await;
    origin.peer.abort().await;
    let backup = backup(&from);
    let origin = Node::registered(config()).await;
    assert_eq!(publish(&origin, &from, "second").await, 2);
    let (_ahead, other) = peer(&[addr]).await;
    other.get("a").await.unwrap();
    other.peer.shutdown().await;
    origin.peer.abort().await;
    drop(way);

    copy_data(&backup, &from);
    let mut origin = Node::start(config()).await;
    let outcome = origin.publish_all(&[&from.write("a", b"other")]).await;
    assert_eq!((outcome.published[0].version.get(), outcome.is_confirmed), (2, false));
    let mut reader = Node::start(to.config(&[addr])).await;
    reader.sees(&Event::Unsettled(name("a"))).await;
    let status = reader.status("a").await.unwrap();
    assert_eq!(
        (status.record.version.get(), status.condition, status.newest),
        (1, Condition::Doubtful(Doubt::Unsettled), None)
    );
    let refused = reader.get("a").await.unwrap_err();
    assert!(matches!(refused, DownloadError::Unsettled(_)), "{refused}");
    assert_eq!(to.read("a"), b"first", "it is kept");

    let _way = Proxy::begin(addr, indexer.local_addr());
    assert_eq!(origin.event(renumbered).await, (2, 3));
    reader.invalidated("a", 3).await;
    assert_eq!(reader.get("a").await.unwrap().record.version.get(), 3);
    assert_eq!(to.read("a"), b"other");
}

#[testkit::test]
async fn version_of_a_restarted_origin_is_handed_out_once_its_registration_is_answered() {
    let ((_port, listen), (_way_port, addr)) = (kept_port(), kept_port());
    let indexer = indexer(&[]).await;
    let way = Proxy::begin(addr, indexer.local_addr());
    let from = Folder::new();
    let config = |indexers: &[_]| {
        let policy = policy(Mode::Pull, 1);
        Config { policy, listen: Some(listen), ..from.config(indexers) }
    };
    let origin = Node::registered(config(&[addr])).await;
    publish(&origin, &from, "first").await;
    let (to, mut reader) = peer(&[indexer.local_addr()]).await;
    reader.get("a").await.unwrap();
    origin.peer.abort().await;
    drop(way);
    let origin = Node::start(config(&[addr])).await;
    publish(&origin, &from, "second").await;
    reader.sees(&Event::Unsettled(name("a"))).await;
    let unsettled = reader.get("a").await.unwrap();
    assert_eq!((unsettled.record.version.get(), unsettled.freshness), (1, Freshness::Unverified));
    assert_eq!(unsettled.doubt, Some(Doubt::Unsettled));
    let _way = Proxy::begin(addr, indexer.local_addr());
    reader.invalidated("a", 2).await;
    assert_eq!(reader.get("a").await.unwrap().freshness, Freshness::Fresh);
    assert_eq!(to.read("a"), b"second");
}

/// A folder and its clone publish at indexers that do not know each other, and those then become neighbors. Nobody
/// publishes any more.
#[testkit::test]
async fn two_files_under_one_number_are_one_to_all_readers_and_one_version_above_replaces_both() {
    let (near, far) = (indexer(&[]).await, indexer(&[]).await);
    let (one, first) = peer(&[near.local_addr()]).await;
    publish(&first, &one, "version 1").await;
    first.peer.abort().await;
    let other = backup(&one);
    let (first, second) = (one.peer(&[near.local_addr()]).await, other.peer(&[far.local_addr()]).await);
    assert_eq!(publish(&first, &one, "by the first").await, 2);
    assert_eq!(publish(&second, &other, "by the second").await, 2);
    let between = indexer(&[near.local_addr(), far.local_addr()]).await;
    between.neighbors_reach(2).await;

    let (to, reader) = peer(&[between.local_addr()]).await;
    let done = reader.get("a").await.unwrap();
    assert_eq!((done.record.version.get(), done.doubt), (2, Some(Doubt::Contested)));
    assert_ne!(done.freshness, Freshness::Fresh);
    let kept = to.read("a");
    let (mut wins, mut loses) = if kept == b"by the first" { (first, second) } else { (second, first) };
    assert_eq!(wins.event(renumbered).await, (2, 3), "the file that readers take is published again");
    assert_eq!(hears_elsewhere(&mut loses).await, 3);
    for indexer in [&near, &far, &between] {
        let (to, reader) = peer(&[indexer.local_addr()]).await;
        let done = reader.get("a").await.unwrap();
        assert_eq!((done.record.version.get(), done.doubt), (3, None));
        assert_eq!(to.read("a"), kept);
    }
    let renumbers = |node: &mut Node| node.unseen().iter().filter_map(renumbered).count();
    assert_eq!((renumbers(&mut wins), renumbers(&mut loses)), (0, 0), "once");
}
