//! Sessions with indexers that restart, withdrawals, and the lock of the data folder.

use std::{ffi::OsStr, net::SocketAddr, os::unix::ffi::OsStrExt, sync::Arc};

use crate::common::{
    ANY_PORT, Folder, Holder, Node, Proxy, eventually, identity, indexer, indexer_at, kept_port, name, peer,
};
use nekopeer::{Config, DownloadError, Event, LockError, Peer, PublishError, PublishOptions, StartError};
use nekoproto::{DataRequest, NetworkName, limits::TTL_DEFAULT, transport::Security};

/// Why the indexer is away, if the event says so.
fn away(event: &Event) -> Option<String> {
    match event {
        Event::Away { why, .. } => Some(why.clone()),
        _ => None,
    }
}

fn registered(event: &Event) -> Option<usize> {
    match event {
        Event::Registered { files, .. } => Some(*files),
        _ => None,
    }
}

#[testkit::test]
async fn peer_whose_indexer_is_away_serves_and_registers_when_it_comes() {
    let (_port, addr) = kept_port();
    let from = Folder::new();
    let mut origin = Node::start(from.config(&[addr])).await;
    let why = origin.event(away).await;
    assert!(why.contains(&addr.to_string()), "{why}");
    let outcome = origin.publish_all(&[&from.write("a", b"content")]).await;
    assert_eq!((outcome.published.len(), outcome.indexers_told), (1, 0));
    let request = DataRequest::Manifest(outcome.published[0].manifest);
    assert!(Holder::idle(identity(2)).ask(origin.addr(), &request).await.is_ok());
    let _indexer = indexer_at(addr, &[]).await;
    assert_eq!(origin.event(registered).await, 1);
    let (to, reader) = peer(&[addr]).await;
    reader.get("a").await.unwrap();
    assert_eq!(to.read("a"), b"content");
}

#[testkit::test]
async fn peer_registers_again_when_its_indexer_restarts() {
    let (_port, addr) = kept_port();
    let indexer = indexer_at(addr, &[]).await;
    let (from, mut origin) = peer(&[addr]).await;
    origin.publish(&from.write("a", b"content")).await;
    indexer.shutdown().await;
    origin.event(away).await;
    let indexer = indexer_at(addr, &[]).await;
    assert_eq!(origin.event(registered).await, 1);
    assert_eq!(indexer.names(), 1);
    let (_to, reader) = peer(&[addr]).await;
    reader.get("a").await.unwrap();
}

#[testkit::test]
async fn version_published_while_the_indexer_is_away_is_announced_when_it_is_back() {
    let near = indexer(&[]).await;
    let far = indexer(&[near.local_addr()]).await;
    far.neighbors_reach(1).await;
    near.neighbors_reach(1).await; // news goes to a guest once it has proved itself
    let (_port, addr) = kept_port();
    let way = Proxy::begin(addr, near.local_addr());
    let (from, mut origin) = peer(&[addr]).await;
    let old = origin.publish(&from.write("a", b"version 1")).await;
    let mut holder = Holder::idle(identity(2));
    holder.register(far.local_addr(), [old.to_signed()]).await;
    drop(way);
    origin.event(away).await;
    let outcome = origin.publish_all(&[&from.write("a", b"version 2")]).await;
    assert_eq!((outcome.published.len(), outcome.indexers_told), (1, 0));
    assert!(holder.told.try_recv().is_err());
    let _way = Proxy::begin(addr, near.local_addr());
    let news = holder.told.recv().await.unwrap().into_vec();
    assert_eq!(news, [outcome.published[0].to_signed()], "a peer of the neighboring indexer is told");
}

#[testkit::test]
async fn answer_of_one_indexer_is_enough_but_not_complete() {
    let (first, second) = (indexer(&[]).await, indexer(&[]).await);
    let (from, origin) = peer(&[first.local_addr(), second.local_addr()]).await;
    let (to, mut reader) = peer(&[first.local_addr(), second.local_addr()]).await;
    origin.publish(&from.write("a", b"content")).await;
    assert!(reader.peer.query(&name("a"), TTL_DEFAULT).await.unwrap().complete);
    second.shutdown().await;
    reader.event(away).await;
    for answer in [reader.peer.query(&name("a"), TTL_DEFAULT).await, reader.peer.search(&name("a")).await] {
        let answer = answer.unwrap();
        assert_eq!((answer.candidates.len(), answer.complete), (1, false));
    }
    let error = reader.get("b").await.unwrap_err();
    assert!(matches!(error, DownloadError::NotFound { complete: false, .. }), "{error}");
    reader.get("a").await.unwrap();
    assert_eq!(to.read("a"), b"content");
}

#[testkit::test]
async fn no_indexer_at_all_is_an_error_that_names_one() {
    let (_port, addr) = kept_port();
    let mut reader = Node::start(Folder::new().config(&[addr])).await;
    reader.event(away).await;
    let error = reader.get("a").await.unwrap_err().to_string();
    assert!(error.contains(&addr.to_string()), "{error}");
    let reader = Node::start(Folder::new().config(&[])).await;
    let error = reader.get("a").await.unwrap_err().to_string();
    assert!(error.contains("--indexer"), "{error}");
}

#[testkit::test]
async fn indexer_of_another_network_or_security_is_away_for_a_reason() {
    let indexer = indexer(&[]).await;
    let config = Folder::new().config(&[indexer.local_addr()]);
    let network = NetworkName::try_from("another".to_owned()).unwrap();
    let why = Node::start(Config { network, ..config.clone() }).await.event(away).await;
    assert!(why.contains("another network"), "{why}");
    let config = Config { security: Security::Insecure, dir: Folder::new().path(""), ..config };
    let why = Node::start(config).await.event(away).await;
    assert!(why.contains("--insecure"), "{why}");
}

#[testkit::test]
async fn deregistered_name_is_found_no_more_and_its_file_stays() {
    let indexer = indexer(&[]).await;
    let (from, origin) = peer(&[indexer.local_addr()]).await;
    let (_to, reader) = peer(&[indexer.local_addr()]).await;
    origin.publish(&from.write("a", b"content")).await;
    origin.peer.deregister(&name("a")).await.unwrap();
    let error = reader.get("a").await.unwrap_err();
    let is_withdrawn = |error: &DownloadError| matches!(error, DownloadError::Withdrawn { version, .. } if version.get() == 2);
    assert!(is_withdrawn(&error), "{error}");
    assert_eq!(from.read("a"), b"content");
    let error = origin.peer.deregister(&name("a")).await.unwrap_err();
    assert!(matches!(error, PublishError::NotRegistered(_)), "{error}");
    let again = origin.publish(&from.path("a")).await;
    assert_eq!(again.version.get(), 3, "a version number is never used again");
}

#[testkit::test]
async fn shutdown_withdraws_everything() {
    let indexer = indexer(&[]).await;
    let (from, origin) = peer(&[indexer.local_addr()]).await;
    let (_to, reader) = peer(&[indexer.local_addr()]).await;
    for text in ["a", "b"] {
        origin.publish(&from.write(text, b"content")).await;
    }
    origin.peer.shutdown().await;
    for text in ["a", "b"] {
        let error = reader.get(text).await.unwrap_err();
        assert!(matches!(error, DownloadError::NotFound { complete: true, .. }), "{error}");
    }
}

#[testkit::test]
async fn dropped_handle_ends_the_peer() {
    let (_folder, origin) = peer(&[]).await;
    let addr = origin.addr();
    drop(origin);
    eventually(async || tokio::net::TcpStream::connect(addr).await.err()).await;
}

#[testkit::test]
async fn data_folder_belongs_to_one_peer_at_a_time() {
    let indexer = indexer(&[]).await;
    let folder = Folder::new();
    let first = folder.peer(&[indexer.local_addr()]).await;
    let node = first.peer.node();
    let error = Peer::spawn(folder.config(&[])).await.unwrap_err();
    assert!(matches!(error, StartError::Lock(LockError::InUse { .. })), "{error}");
    for _ in 0..5 {
        let next = folder.config(&[indexer.local_addr()]);
        let data_dir = Some(Folder::new().path("data"));
        Peer::spawn(Config { data_dir, ..next }).await.unwrap().shutdown().await;
    }
    first.peer.shutdown().await;
    for round in 0..5 {
        let next = folder.peer(&[indexer.local_addr()]).await;
        assert_eq!(next.peer.node(), node, "the identity is kept");
        if round % 2 == 0 { next.peer.shutdown().await } else { next.peer.abort().await }
    }
}

#[testkit::test]
async fn address_in_use_is_named_and_leaves_the_data_folder_free() {
    let (_folder, other) = peer(&[]).await;
    let folder = Folder::new();
    let taken = Config { listen: Some(other.addr()), ..folder.config(&[]) };
    let error = Peer::spawn(taken).await.unwrap_err();
    assert!(matches!(error, StartError::Listen { addr, .. } if addr == other.addr()), "{error}");
    folder.peer(&[]).await;
}

#[testkit::test]
async fn peer_that_does_not_listen_downloads_and_is_nobody_s_holder() {
    let indexer = indexer(&[]).await;
    let (from, origin) = peer(&[indexer.local_addr()]).await;
    origin.publish(&from.write("a", b"content")).await;
    let to = Folder::new();
    let config = Config { listen: None, ..to.config(&[indexer.local_addr()]) };
    let reader = Node::start(config).await;
    reader.get("a").await.unwrap();
    assert_eq!(to.read("a"), b"content");
    let answer = origin.peer.search(&name("a")).await.unwrap();
    let holders: Vec<SocketAddr> = answer.candidates[0].holders.iter().map(|holder| holder.addr).collect();
    assert_eq!(holders, [origin.addr()]);
    assert_ne!(origin.addr(), ANY_PORT);
    reader.peer.deregister(&name("a")).await.expect("nobody is to be told");
    assert_eq!(reader.publish_all(&[&to.write("b", b"own")]).await.indexers_told, 0);
}

#[testkit::test]
async fn publish_says_which_path_is_missing_and_publishes_nothing() {
    let (from, origin) = peer(&[]).await;
    let paths = vec![from.write("a", b"content"), from.path("missing")];
    let error = origin.peer.publish(paths, PublishOptions::default(), &Default::default()).await.unwrap_err();
    assert!(matches!(&error, PublishError::Unreadable { path, .. } if path.ends_with("missing")), "{error}");
    assert!(origin.peer.files().await.is_empty());
}

#[testkit::test]
async fn folder_with_unusable_names_is_published_without_them() {
    let (_home, origin) = peer(&[]).await;
    let tree = Folder::new();
    tree.write("good", b"content");
    let bad = tree.path("").join(OsStr::from_bytes(b"b\xffd"));
    std::fs::write(&bad, b"content").unwrap();
    tree.write("back\\slash", b"content");
    let outcome = origin.publish_all(&[&tree.path("")]).await;
    assert_eq!(outcome.published.len(), 1);
    let failed: Vec<_> = outcome.failed.into_iter().map(|(path, error)| (path, error.to_string())).collect();
    assert_eq!(failed.len(), 2, "{failed:?}");
    assert!(failed.iter().any(|(path, why)| *path == bad && why.contains("UTF-8")), "{failed:?}");
}

#[testkit::test]
async fn folder_and_two_files_cannot_be_published_under_one_name() {
    let (from, origin) = peer(&[]).await;
    let (one, two) = (from.write("one/a", b"1"), Folder::new());
    let two = two.write("a", b"2");
    let publish = async |paths: Vec<_>| {
        let options = PublishOptions { name: Some(name("a")), ..PublishOptions::default() };
        origin.peer.publish(paths, options, &Default::default()).await.unwrap_err()
    };
    let error = publish(vec![from.path("one")]).await;
    assert!(matches!(error, PublishError::NameForFolder(_)), "{error}");
    drop(two);
    let error = publish(vec![one, from.write("two/a", b"2")]).await;
    assert!(matches!(error, PublishError::SameName { .. }), "{error}");
}

#[testkit::test]
async fn data_folder_with_the_private_key_is_never_shared() {
    let folder = Folder::new();
    folder.write("good", b"content");
    let data_dir = folder.path("state"); // inside the shared folder, and not named .neko
    let config = Config { data_dir: Some(data_dir.clone()), ..folder.config(&[]) };
    let origin = Node::start(config).await;
    assert!(data_dir.join("peer.key").exists());
    let outcome = origin.publish_all(&[&folder.path("")]).await;
    let names: Vec<&str> = outcome.published.iter().map(|record| record.name.as_str()).collect();
    assert_eq!(names, ["good"]);
    for path in [data_dir.clone(), data_dir.join("peer.key")] {
        let refused = origin.peer.publish(vec![path], PublishOptions::default(), &Arc::default()).await;
        assert!(matches!(refused, Err(PublishError::OwnData(_))), "{refused:?}");
    }
}

#[testkit::test]
async fn pipe_is_refused_and_not_waited_for() {
    let (_home, origin) = peer(&[]).await;
    let folder = Folder::new();
    let pipe = folder.path("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let outcome = origin.publish_all(&[&pipe]).await;
    assert!(outcome.published.is_empty());
    assert!(outcome.failed[0].1.to_string().contains("not a regular file"), "{:?}", outcome.failed);
}
