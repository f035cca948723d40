//! Private networks and lists of allowed nodes: who gets in, and what the others are told.

use std::{fs, net::SocketAddr, sync::Arc};

use nekoproto::{
    Hello, HelloRefusal, NetworkName, PROTOCOL_VERSION, Purpose, Role,
    transport::{Access, Allowed, ConnectError, Endpoint, EndpointConfig, NetworkSecret, Security},
};
use tokio::io::AsyncWriteExt;

use crate::common::{
    Listening, closes, hello, identity, over_both,
    wire::{fake_server, message, proof, read_message, send_raw},
};

/// As long as a proof of the secret.
const NO_PROOF: &serde_bytes::ByteArray<32> = &serde_bytes::ByteArray::new([0; 32]);

fn secret(byte: u8) -> Option<NetworkSecret> {
    Some(NetworkSecret::new(&[byte; 64]).unwrap())
}

fn endpoint(seed: u16, secret: Option<NetworkSecret>, security: Security) -> Arc<Endpoint> {
    let access = Access { secret, allowed: Allowed::default() };
    let (identity, network) = (identity(seed), NetworkName::default());
    Endpoint::new(EndpointConfig { identity, role: Role::Peer, network, security, access }).unwrap()
}

async fn refusal(from: &Endpoint, addr: SocketAddr) -> HelloRefusal {
    match from.dial(addr, Purpose::Control, None).await {
        Err(ConnectError::Refused(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[testkit::test]
async fn only_who_knows_the_secret_gets_in() {
    over_both(async |security| {
        let mut listening = Listening::begin(&endpoint(2, secret(b'a'), security));
        let none = endpoint(3, None, security);
        let wrong = endpoint(4, secret(b'b'), security);
        assert_eq!(refusal(&none, listening.addr).await, HelloRefusal::SecretMissing);
        assert_eq!(refusal(&wrong, listening.addr).await, HelloRefusal::SecretWrong);
        listening.admits_first(&endpoint(1, secret(b'a'), security)).await;
        assert!(listening.accepted.try_recv().is_err(), "nobody else was handed out");
    })
    .await;
}

#[testkit::test]
async fn who_has_a_secret_does_not_enter_an_open_network() {
    over_both(async |security| {
        let listening = Listening::begin(&endpoint(2, None, security));
        let private = endpoint(1, secret(b'a'), security);
        assert_eq!(refusal(&private, listening.addr).await, HelloRefusal::SecretUnasked);
    })
    .await;
}

#[testkit::test]
async fn forged_proof_of_the_secret_gets_neither_in_nor_a_proof_back() {
    let mut listening = Listening::begin(&endpoint(2, secret(b'a'), Security::Insecure));
    let sent = message(PROTOCOL_VERSION, &Hello { private: true, ..hello(1) });
    let mut stream = send_raw(listening.addr, &sent).await;
    let answer = read_message(&mut stream).await.unwrap();
    read_message(&mut stream).await.unwrap();
    stream.write_all(&proof(1, 0, &sent, &answer)).await.unwrap();
    stream.write_all(&message(PROTOCOL_VERSION, &NO_PROOF)).await.unwrap();
    let refusal = message(PROTOCOL_VERSION, &Err::<(), _>(HelloRefusal::SecretWrong));
    assert_eq!(read_message(&mut stream).await.unwrap(), refusal);
    closes(&mut stream).await;
    listening.admits_first(&endpoint(3, secret(b'a'), Security::Insecure)).await;
}

#[testkit::test]
async fn server_that_does_not_know_the_secret_is_refused() {
    for is_private in [true, false] {
        let addr = fake_server(move |theirs| {
            let ours = Hello { private: is_private, ..hello(2) };
            let answer = message(PROTOCOL_VERSION, &Ok::<_, HelloRefusal>(ours));
            let proof = proof(2, 1, &theirs, &answer);
            let forged = message(PROTOCOL_VERSION, &Ok::<_, HelloRefusal>(NO_PROOF));
            [answer, proof, forged].concat()
        })
        .await;
        let dialer = endpoint(1, secret(b'a'), Security::Insecure);
        let error = dialer.dial(addr, Purpose::Control, None).await.unwrap_err();
        assert!(error.is_of_access() && error.to_string().contains("secret"), "{error}");
        assert_eq!(matches!(error, ConnectError::SecretUnproven), is_private, "{error}");
    }
}

#[testkit::test]
async fn list_of_allowed_nodes_holds_in_both_directions_and_for_open_connections() {
    over_both(async |security| {
        let folder = tempfile::tempdir().unwrap();
        let list = folder.path().join("allow");
        let allow = |access: &Access, seeds: &[u16]| {
            let ids = seeds.iter().map(|seed| format!("{}\n", identity(*seed).id()));
            fs::write(&list, ids.collect::<String>()).unwrap();
            access.allowed.load(Some(&list)).unwrap();
        };
        let node = endpoint(2, None, security);
        allow(node.access(), &[1, 3]);
        let mut listening = Listening::begin(&node);
        assert_eq!(refusal(&endpoint(4, None, security), listening.addr).await, HelloRefusal::NotAllowed);
        let dialer = endpoint(1, None, security);
        listening.admits_first(&dialer).await;

        allow(dialer.access(), &[3]);
        let error = dialer.dial(listening.addr, Purpose::Control, None).await.unwrap_err();
        assert!(matches!(error, ConnectError::NotAllowed(id) if id == identity(2).id()), "{error}");
    })
    .await;
}
