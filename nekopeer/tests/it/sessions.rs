//! Sessions with indexers that restart, withdrawals, and the lock of the data folder.

use crate::common::*;

fn away(event: &Event) -> Option<String> {
    match event {
        Event::Away { why, .. } => Some(why.to_string()),
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
async fn peer_whose_indexer_is_away_serves_and_registers_when_it_comes_and_comes_again() {
    let (_port, addr) = kept_port();
    let from = Folder::new();
    let mut origin = Node::start(from.config(&[addr])).await;
    let why = origin.event(away).await;
    assert!(why.contains(&addr.to_string()), "{why}");
    let outcome = origin.publish_all(&[&from.write("a", b"content")]).await;
    assert_eq!((outcome.published.len(), outcome.indexers_told), (1, 0));
    let request = DataRequest::Manifest(outcome.published[0].manifest);
    assert!(Holder::idle(2).ask(origin.addr(), &request).await.is_ok());
    for _ in 0..2 {
        let indexer = indexer_at(addr, &[]).await;
        assert_eq!(origin.event(registered).await, 1);
        assert_eq!(indexer.names(), 1);
        let (to, reader) = peer(&[addr]).await;
        reader.gets(&to, "a", b"content").await;
        indexer.shutdown().await;
        origin.event(away).await;
    }
}

#[testkit::test]
async fn version_published_while_the_indexer_is_away_is_announced_when_it_is_back() {
    let near = indexer(&[]).await;
    let far = indexer(&[near.local_addr()]).await;
    far.neighbors_reach(1).await;
    let (_port, addr) = kept_port();
    let way = Proxy::begin(addr, near.local_addr());
    let (from, mut origin) = peer(&[addr]).await;
    let old = origin.publish(&from.write("a", b"version 1")).await;
    let mut holder = Holder::idle(2);
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
    for answer in [reader.peer.query(&name("a"), TTL_DEFAULT).await, reader.peer.query(&name("a"), 0).await] {
        let answer = answer.unwrap();
        assert_eq!((answer.candidates.len(), answer.complete), (1, false));
    }
    let error = reader.get("b").await.unwrap_err();
    assert_eq!(error.reason, Reason::NotFound, "{error}");
    assert!(error.message.contains("not every indexer answered"), "{error}");
    reader.gets(&to, "a", b"content").await;
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
    assert!(why.contains("one end uses TLS"), "{why}");
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
    assert_eq!(error.kind, FailureKind::Busy, "{error}");
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
    assert!(error.message.starts_with(&format!("cannot listen on {}: ", other.addr())), "{error}");
    folder.peer(&[]).await;
}

#[testkit::test]
async fn peer_that_does_not_listen_downloads_and_is_nobody_s_holder() {
    let (indexer, [(from, origin)]) = network().await;
    origin.publish(&from.write("a", b"content")).await;
    let to = Folder::new();
    let config = Config { listen: None, ..to.config(&[indexer.local_addr()]) };
    let reader = Node::start(config).await;
    reader.gets(&to, "a", b"content").await;
    let answer = origin.peer.query(&name("a"), 0).await.unwrap();
    let holders: Vec<SocketAddr> = answer.candidates[0].holders.iter().map(|holder| holder.addr).collect();
    assert_eq!(holders, [origin.addr()]);
    assert_ne!(origin.addr(), ANY_PORT);
    reader.peer.deregister(&name("a")).await.expect("nobody is to be told");
    assert_eq!(reader.publish_all(&[&to.write("b", b"own")]).await.indexers_told, 0);
}

#[testkit::test]
async fn what_cannot_be_published_is_named_and_the_rest_is_published() {
    let (from, origin) = peer(&[]).await;
    let publish = async |paths: Vec<_>, name: Option<&str>| {
        let options = PublishOptions { name: name.map(testkit::values::name), ..Default::default() };
        origin.peer.publish(paths, options, &Default::default()).await
    };
    let error = publish(vec![from.write("a", b"content"), from.path("missing")], None).await.unwrap_err();
    assert!(matches!(&error, PublishError::Unreadable { path, .. } if path.ends_with("missing")), "{error}");
    assert!(origin.peer.files().await.is_empty(), "nothing is published");
    let (one, two) = (from.write("one/a", b"1"), from.write("two/a", b"2"));
    let error = publish(vec![from.path("one")], Some("a")).await.unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("one is a folder: its files are named by their paths, a name cannot be given"),
        "{error}"
    );
    let error = publish(vec![one, two], Some("a")).await.unwrap_err();
    assert!(error.to_string().contains("would both be shared as a: "), "{error}");

    testkit::pipe(from.path("pipe"));
    let outcome = origin.publish_all(&[&from.path("one"), &from.path("pipe")]).await;
    let [(path, why)] = &outcome.failed[..] else { panic!("{outcome:?}") };
    assert!(*path == from.path("pipe") && why.to_string().contains("not a regular file"), "{outcome:?}");
    assert_eq!(outcome.published.len(), 1, "nothing waits for the pipe");
}
