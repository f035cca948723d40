//! No reader gets other bytes under a number than another reader: not from a restored folder whose indexer is away.

use crate::{
    common::*,
    numbering::{backup, copy_data, publish, renumbered},
};

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
    let (ahead, other) = peer(&[addr]).await;
    other.get("a").await.unwrap();
    other.peer.shutdown().await;
    origin.peer.abort().await;
    drop(way);

    copy_data(&backup, &from);
    let mut origin = Node::start(config()).await;
    let outcome = origin.publish_all(&[&from.write("a", b"other")]).await;
    assert_eq!((outcome.published[0].version.get(), outcome.is_confirmed), (2, false));
    let mut reader = Node::start(to.config(&[addr])).await;
    reader.sees(&Event::OriginAway(name("a"))).await;
    let status = reader.status("a").await.unwrap();
    let unverified = Condition::Good(Freshness::Unverified);
    assert_eq!((status.record.version.get(), status.condition, status.newest), (1, unverified, None));
    let refused = reader.get("a").await.unwrap_err();
    assert!(refused.to_string().contains("cannot be asked"), "{refused}");
    assert_eq!(to.read("a"), b"first", "it is kept");

    let ahead = Node::start(ahead.config(&[addr])).await;
    ahead.peer.check_copies().await; // which shows the origin the version that it does not know
    let told = origin.event(|event| Some((renumbered(event)?, event.to_string()))).await;
    assert_eq!(told.0, (2, 3));
    assert!(told.1.starts_with("shared a as version 3: number 2 was already used"), "{}", told.1);
    let refused = reader.get("a").await.unwrap_err();
    assert!(refused.to_string().contains("cannot be asked"), "{refused}");
    let _way = Proxy::begin(addr, indexer.local_addr());
    reader.invalidated("a", 3).await;
    assert_eq!(reader.gets(&to, "a", b"other").await.record.version.get(), 3);
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
    reader.becomes("a", Freshness::Unverified).await;
    let unverified = reader.get("a").await.unwrap();
    assert_eq!((unverified.record.version.get(), unverified.freshness), (1, Freshness::Unverified));
    let _way = Proxy::begin(addr, indexer.local_addr());
    reader.invalidated("a", 2).await;
    assert_eq!(reader.get("a").await.unwrap().freshness, Freshness::Fresh);
    assert_eq!(to.read("a"), b"second");
}
