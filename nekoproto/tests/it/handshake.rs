//! Who is admitted and who is refused: dialing, hellos, and everything that is not a hello.

use nekoproto::{
    HelloRefusal, NetworkName, PROTOCOL_VERSION, Purpose, Role,
    limits::HELLO_BYTES_MAX,
    transport::{ConnectError, Security},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::Instant,
};

use crate::common::{
    ANY_PORT, Listening, closes, endpoint, endpoint_in, hello, identity, kept_port, over_both,
    wire::{fake_server, header, message, proof, read_message, send_raw},
};

#[testkit::test]
async fn both_ends_learn_who_is_at_the_other() {
    over_both(async |security| {
        let indexer = endpoint(2, Role::Indexer, security);
        let mut listening = Listening::begin(&indexer);
        let peer = endpoint(1, Role::Peer, security);
        for peer_listens in [false, true] {
            let peer_addr = peer_listens.then(|| peer.bind(ANY_PORT).unwrap().local_addr());
            let expected = Some(indexer.node());
            let dialed = peer.dial(listening.addr, Purpose::Control, expected).await.unwrap();
            assert_eq!((dialed.remote.node, dialed.remote.role), (indexer.node(), Role::Indexer));
            assert_eq!(dialed.remote.addr, listening.addr);
            assert_eq!(dialed.remote.listens_at, Some(listening.addr));

            let accepted = listening.next().await;
            assert_eq!((accepted.remote.node, accepted.remote.role), (peer.node(), Role::Peer));
            assert_eq!(accepted.purpose, Purpose::Control);
            assert_eq!(accepted.remote.listens_at, peer_addr);
        }
    })
    .await;
}

#[testkit::test]
async fn another_node_than_the_expected_one_is_refused() {
    over_both(async |security| {
        let listening = Listening::begin(&endpoint(2, Role::Indexer, security));
        let wanted = identity(3).id();
        let peer = endpoint(1, Role::Peer, security);
        let error = peer.dial(listening.addr, Purpose::Control, Some(wanted)).await.unwrap_err();
        let ConnectError::OtherNode { expected, found } = error else { panic!("{error}") };
        assert_eq!((expected, found), (wanted, identity(2).id()));
    })
    .await;
}

#[testkit::test]
async fn wrong_network_purpose_or_node_is_refused_by_name() {
    over_both(async |security| {
        let indexer = endpoint(2, Role::Indexer, security);
        let mut listening = Listening::begin(&indexer);
        let peer = endpoint(1, Role::Peer, security);
        let elsewhere = NetworkName::try_from("elsewhere".to_owned()).unwrap();
        let stranger = endpoint_in(elsewhere, 3, Role::Peer, security);
        let twin = endpoint(2, Role::Peer, security);
        let cases = [
            (&stranger, Purpose::Control, HelloRefusal::OtherNetwork),
            (&peer, Purpose::Data, HelloRefusal::WrongPurpose),
            (&indexer, Purpose::Control, HelloRefusal::Yourself),
            (&twin, Purpose::Control, HelloRefusal::Yourself),
        ];
        for (dialer, purpose, refusal) in cases {
            let error = dialer.dial(listening.addr, purpose, None).await.unwrap_err();
            assert!(matches!(error, ConnectError::Refused(why) if why == refusal), "{refusal:?}: {error}");
        }
        listening.admits_first(&peer).await;
    })
    .await;
}

#[testkit::test]
async fn address_where_nobody_listens_is_unreachable() {
    over_both(async |security| {
        let (_kept, addr) = kept_port();
        let error = endpoint(1, Role::Peer, security).dial(addr, Purpose::Control, None).await.unwrap_err();
        assert!(matches!(error, ConnectError::Unreachable { .. }), "{error}");
    })
    .await;
}

#[testkit::test]
async fn one_end_with_tls_and_one_without_tell_their_users_so() {
    over_both(async |security| {
        let other = if security == Security::Tls { Security::Insecure } else { Security::Tls };
        let mut listening = Listening::begin(&endpoint(2, Role::Indexer, other));
        let dialer = endpoint(1, Role::Peer, security);
        let error = dialer.dial(listening.addr, Purpose::Control, None).await.unwrap_err();
        assert!(matches!(error, ConnectError::SecurityDiffers), "{error}");
        listening.admits_first(&endpoint(3, Role::Peer, other)).await;
    })
    .await;
}

#[testkit::test]
async fn node_of_another_version_is_told_ours() {
    let mut listening = Listening::begin(&endpoint(2, Role::Indexer, Security::Insecure));
    let mut stream = send_raw(listening.addr, &message(999, &"a body of another age")).await;
    assert_eq!(read_message(&mut stream).await.unwrap(), header(PROTOCOL_VERSION, 0));
    closes(&mut stream).await;
    listening.admits_first(&endpoint(3, Role::Peer, Security::Insecure)).await;
}

#[testkit::test]
async fn server_of_another_version_is_told_apart() {
    let addr = fake_server(|_| message(999, &[0u8; 4])).await;
    let dialer = endpoint(1, Role::Peer, Security::Insecure);
    let error = dialer.dial(addr, Purpose::Control, None).await.unwrap_err();
    assert!(matches!(error, ConnectError::VersionDiffers { theirs: 999 }), "{error}");
}

#[testkit::test]
async fn server_that_is_no_node_is_told_apart() {
    let dialer = endpoint(1, Role::Peer, Security::Insecure);
    let malformed =
        [message(PROTOCOL_VERSION, &0xffu8), header(PROTOCOL_VERSION, u16::MAX), header(PROTOCOL_VERSION, 0)];
    for answer in malformed {
        let addr = fake_server(|_| answer).await;
        let error = dialer.dial(addr, Purpose::Control, None).await.unwrap_err();
        assert!(matches!(error, ConnectError::Malformed), "{error}");
    }
    let addr = fake_server(|_| b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()).await;
    let error = dialer.dial(addr, Purpose::Control, None).await.unwrap_err();
    assert!(matches!(error, ConnectError::NotNekop2p), "{error}");
}

#[testkit::test]
async fn whatever_is_no_hello_is_closed_and_harms_nobody() {
    let over_long = u16::try_from(HELLO_BYTES_MAX + 1).unwrap();
    let cases: [Vec<u8>; 6] = [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(),
        vec![0xa5; 4096],
        vec![0; 64],
        header(PROTOCOL_VERSION, over_long),
        message(PROTOCOL_VERSION, b"abc"),
        [message(PROTOCOL_VERSION, &(hello(1), 0u8)), vec![0; 64]].concat(),
    ];
    over_both(async |security| {
        let mut listening = Listening::begin(&endpoint(2, Role::Indexer, security));
        for bytes in &cases {
            let mut stream = send_raw(listening.addr, bytes).await;
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer).await; // ends; whether by a reset does not matter
            assert!(answer.len() <= 8, "an alert at most, not {answer:?}");
        }
        listening.admits_first(&endpoint(3, Role::Peer, security)).await;
    })
    .await;
}

#[testkit::test]
async fn caller_that_says_nothing_is_closed_after_the_handshake_limit_over_tls() {
    silent_caller_is_closed(Security::Tls).await;
}

#[testkit::test]
async fn caller_that_says_nothing_is_closed_after_the_handshake_limit_in_the_clear() {
    silent_caller_is_closed(Security::Insecure).await;
}

async fn silent_caller_is_closed(security: Security) {
    let listening = Listening::begin(&endpoint(2, Role::Indexer, security));
    let mut stream = TcpStream::connect(listening.addr).await.unwrap();
    tokio::time::pause();
    let before = Instant::now();
    closes(&mut stream).await;
    let waited = before.elapsed();
    tokio::time::resume();
    assert!(waited <= nekoproto::limits::HANDSHAKE_TIMEOUT * 2, "{waited:?}");
}

#[testkit::test]
async fn id_without_its_proof_never_reaches_the_handler() {
    let mut listening = Listening::begin(&endpoint(2, Role::Indexer, Security::Insecure));
    let (victim, attacker) = (1, 9);
    let sent = message(PROTOCOL_VERSION, &hello(victim));

    let mut honest = send_raw(listening.addr, &sent).await;
    let answer = read_message(&mut honest).await.unwrap();
    assert_eq!(read_message(&mut honest).await.unwrap(), proof(2, 1, &sent, &answer));
    let good = proof(victim, 0, &sent, &answer);
    honest.write_all(&good).await.unwrap();
    assert_eq!(listening.next().await.remote.node, identity(victim).id());

    for forgery in ["another key", "as the other side", "replayed", "no signature"] {
        let mut stream = send_raw(listening.addr, &sent).await;
        let answer = read_message(&mut stream).await.unwrap();
        read_message(&mut stream).await.unwrap();
        let forged = match forgery {
            "another key" => proof(attacker, 0, &sent, &answer),
            "as the other side" => proof(victim, 1, &sent, &answer),
            "replayed" => good.clone(),
            _ => message(PROTOCOL_VERSION, &(64u8, [0u8; 32], [0u8; 32])),
        };
        assert_eq!(forged.len(), good.len());
        stream.write_all(&forged).await.unwrap();
        closes(&mut stream).await;
    }
    listening.admits_first(&endpoint(3, Role::Peer, Security::Insecure)).await;
}

#[testkit::test]
async fn server_without_the_key_of_its_id_is_refused() {
    let addr = fake_server(|theirs| {
        let answer = message(PROTOCOL_VERSION, &Ok::<_, HelloRefusal>(hello(2)));
        let forged = proof(9, 1, &theirs, &answer);
        [answer, forged].concat()
    })
    .await;
    let dialer = endpoint(1, Role::Peer, Security::Insecure);
    let error = dialer.dial(addr, Purpose::Control, Some(identity(2).id())).await.unwrap_err();
    assert!(matches!(error, ConnectError::Unproven), "{error}");
}
