//! Who is admitted and who is refused: dialing, hellos, and everything that is not a hello.

use tokio::time::Instant;

use crate::common::*;

fn peer(seed: u16, security: Security) -> Arc<Endpoint> {
    endpoint(seed, Role::Peer, security)
}

/// How a peer, in the clear, fails to connect to a server that answers a hello so.
async fn dialed(answer: impl FnOnce(Vec<u8>) -> Vec<u8> + Send + 'static) -> ConnectError {
    let addr = fake_server(answer).await;
    let expected = Some(identity(2).id());
    peer(1, Security::Insecure).dial(addr, Purpose::Control, expected).await.unwrap_err()
}

/// Why it is not let in. Of a data connection under TLS that comes with the first answer.
async fn refused(dialer: &Endpoint, addr: SocketAddr, purpose: Purpose) -> ConnectError {
    let dialed = match dialer.dial(addr, purpose, None).await {
        Ok(dialed) => dialed,
        Err(error) => return error,
    };
    let mut stream = DataStream::new(dialed.io).unwrap();
    let receive = move || stream.receive::<DataReply>(Duration::from_secs(20));
    match tokio::task::spawn_blocking(receive).await.unwrap() {
        Err(DataError::Hello(error)) => error,
        other => panic!("{other:?}"),
    }
}

#[testkit::test]
async fn both_ends_learn_who_is_at_the_other(security: Security) {
    let mut site = Site::indexer(security);
    let (indexer, peer) = (site.endpoint.node(), peer(1, security));
    for peer_listens in [false, true] {
        let peer_addr = peer_listens.then(|| peer.bind(ANY_PORT).unwrap().local_addr());
        let dialed = peer.dial(site.addr, Purpose::Control, Some(indexer)).await.unwrap();
        assert_eq!((dialed.remote.node, dialed.remote.role), (indexer, Role::Indexer));
        assert_eq!((dialed.remote.addr, dialed.remote.listens_at), (site.addr, Some(site.addr)));

        let accepted = site.next().await;
        assert_eq!((accepted.remote.node, accepted.remote.role), (peer.node(), Role::Peer));
        assert_eq!((accepted.purpose, accepted.remote.listens_at), (Purpose::Control, peer_addr));
    }
}

#[testkit::test]
async fn another_node_than_the_expected_one_or_nobody_is_an_error(security: Security) {
    let site = Site::indexer(security);
    let (wanted, peer) = (identity(3).id(), peer(1, security));
    let error = peer.dial(site.addr, Purpose::Control, Some(wanted)).await.unwrap_err();
    let ConnectError::OtherNode { expected, found } = error else { panic!("{error}") };
    assert_eq!((expected, found), (wanted, identity(2).id()));
    let (_kept, nobody) = kept_port();
    let error = peer.dial(nobody, Purpose::Control, None).await.unwrap_err();
    assert!(matches!(error, ConnectError::Unreachable { .. }), "{error}");
}

#[testkit::test]
async fn wrong_network_purpose_or_node_is_refused_by_name(security: Security) {
    let mut site = Site::indexer(security);
    let (indexer, twin, peer) = (Arc::clone(&site.endpoint), peer(2, security), peer(1, security));
    let network = NetworkName::try_from("elsewhere".to_owned()).unwrap();
    let (identity, role, access) = (identity(3), Role::Peer, Access::default());
    let stranger = Endpoint::new(EndpointConfig { identity, role, network, security, access }).unwrap();
    let cases = [
        (&stranger, Purpose::Control, HelloRefusal::OtherNetwork),
        (&peer, Purpose::Data, HelloRefusal::WrongPurpose),
        (&indexer, Purpose::Control, HelloRefusal::Yourself),
        (&twin, Purpose::Control, HelloRefusal::Yourself),
    ];
    for (dialer, purpose, refusal) in cases {
        let error = refused(dialer, site.addr, purpose).await;
        assert!(matches!(error, ConnectError::Refused(why) if why == refusal), "{refusal:?}: {error}");
    }
    site.admits_first(&peer).await;
}

#[testkit::test]
async fn one_end_with_tls_and_one_without_tell_their_users_so(security: Security) {
    let other = if security == Security::Tls { Security::Insecure } else { Security::Tls };
    let mut site = Site::indexer(other);
    let error = peer(1, security).dial(site.addr, Purpose::Control, None).await.unwrap_err();
    assert!(matches!(error, ConnectError::SecurityDiffers), "{error}");
    site.admits_first(&peer(3, other)).await;
}

#[testkit::test]
async fn node_of_another_version_is_told_ours() {
    let mut site = Site::indexer(Security::Insecure);
    let mut stream = send_raw(site.addr, &message_of(999, &"a body of another age")).await;
    assert_eq!(read_message(&mut stream).await.unwrap(), header(PROTOCOL_VERSION, 0));
    closes(&mut stream).await;
    site.admits_first(&peer(3, Security::Insecure)).await;
}

#[testkit::test]
async fn server_that_is_no_node_of_this_version_or_lacks_its_key_is_told_apart() {
    let error = dialed(|_| message_of(999, &[0u8; 4])).await;
    assert!(matches!(error, ConnectError::VersionDiffers { theirs: 999 }), "{error}");
    for answer in [message(&0xffu8), header(PROTOCOL_VERSION, u16::MAX), header(PROTOCOL_VERSION, 0)] {
        let error = dialed(|_| answer).await;
        assert!(matches!(error, ConnectError::Malformed), "{error}");
    }
    let error = dialed(|_| b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()).await;
    assert!(matches!(error, ConnectError::NotNekop2p), "{error}");
    let forge = |theirs: Vec<u8>| {
        let answer = message(&Ok::<_, HelloRefusal>(hello(2)));
        let forged = proof(9, 1, &theirs, &answer);
        [answer, forged].concat()
    };
    let error = dialed(forge).await;
    assert!(matches!(error, ConnectError::Unproven), "{error}");
}

#[testkit::test]
async fn whatever_is_no_hello_is_closed_and_harms_nobody(security: Security) {
    let over_long = u16::try_from(HELLO_BYTES_MAX + 1).unwrap();
    let cases: [Vec<u8>; 6] = [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(),
        vec![0xa5; 4096],
        vec![0; 64],
        header(PROTOCOL_VERSION, over_long),
        message(b"abc"),
        [message(&(hello(1), 0u8)), vec![0; 64]].concat(),
    ];
    let mut site = Site::indexer(security);
    for bytes in &cases {
        let mut stream = send_raw(site.addr, bytes).await;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await; // ends; whether by a reset does not matter
        assert!(answer.len() <= 8, "an alert at most, not {answer:?}");
    }
    site.admits_first(&peer(3, security)).await;
}

#[testkit::test]
async fn caller_that_says_nothing_is_closed_after_the_handshake_limit(security: Security) {
    let site = Site::indexer(security);
    let mut stream = TcpStream::connect(site.addr).await.unwrap();
    tokio::time::pause();
    let before = Instant::now();
    closes(&mut stream).await;
    let waited = before.elapsed();
    tokio::time::resume();
    assert!(waited <= HANDSHAKE_TIMEOUT * 2, "{waited:?}");
}

#[testkit::test]
async fn id_without_its_proof_never_reaches_the_handler() {
    let mut site = Site::indexer(Security::Insecure);
    let (victim, attacker) = (1, 9);
    let (mut honest, sent, [answer, proven]) = exchange(site.addr, &hello(victim)).await;
    assert_eq!(proven, proof(2, 1, &sent, &answer));
    let good = proof(victim, 0, &sent, &answer);
    honest.write_all(&good).await.unwrap();
    assert_eq!(site.next().await.remote.node, identity(victim).id());

    for forgery in ["another key", "as the other side", "replayed", "no signature"] {
        let (mut stream, sent, [answer, _]) = exchange(site.addr, &hello(victim)).await;
        let forged = match forgery {
            "another key" => proof(attacker, 0, &sent, &answer),
            "as the other side" => proof(victim, 1, &sent, &answer),
            "replayed" => good.clone(),
            _ => message(&(64u8, [0u8; 32], [0u8; 32])),
        };
        assert_eq!(forged.len(), good.len(), "{forgery}");
        stream.write_all(&forged).await.unwrap();
        closes(&mut stream).await;
    }
    site.admits_first(&peer(3, Security::Insecure)).await;
}
