//! Private networks and lists of allowed nodes: who gets in, and what the others are told.

use std::fs;

use crate::common::*;

/// As long as a proof of the secret.
const NO_PROOF: &serde_bytes::ByteArray<32> = &serde_bytes::ByteArray::new([0; 32]);

/// The peer with this seed, in a private network if there is a secret.
fn node(seed: u16, secret: Option<u8>, security: Security) -> Arc<Endpoint> {
    let secret = secret.map(|byte| NetworkSecret::new(&[byte; 64]).unwrap());
    let access = Access { secret, allowed: Allowed::default() };
    let (identity, network) = (identity(seed), NetworkName::default());
    Endpoint::new(EndpointConfig { identity, role: Role::Peer, network, security, access }).unwrap()
}

#[testkit::test]
async fn who_knows_the_secret_and_nobody_else_gets_in(security: Security) {
    let mut private = Site::of(node(2, Some(b'a'), security), security);
    let open = Site::of(node(2, None, security), security);
    let cases = [
        ("none", None, private.addr, HelloRefusal::SecretMissing),
        ("another", Some(b'b'), private.addr, HelloRefusal::SecretWrong),
        ("one for an open network", Some(b'a'), open.addr, HelloRefusal::SecretUnasked),
    ];
    for (case, secret, addr, refusal) in cases {
        let refused = node(3, secret, security).dial(addr, Purpose::Control, None).await.unwrap_err();
        assert!(matches!(refused, ConnectError::Refused(why) if why == refusal), "{case}: {refused}");
    }
    private.admits_first(&node(1, Some(b'a'), security)).await;
    assert!(private.accepted.try_recv().is_err(), "nobody else was handed out");
}

#[testkit::test]
async fn forged_proof_of_the_secret_gets_neither_in_nor_a_proof_back() {
    let mut site = Site::of(node(2, Some(b'a'), Security::Insecure), Security::Insecure);
    let private = Hello { private: true, ..hello(1) };
    let (mut stream, sent, [answer, _]) = exchange(site.addr, &private).await;
    stream.write_all(&[proof(1, 0, &sent, &answer), message(&NO_PROOF)].concat()).await.unwrap();
    let refusal = message(&Err::<(), _>(HelloRefusal::SecretWrong));
    assert_eq!(read_message(&mut stream).await.unwrap(), refusal);
    closes(&mut stream).await;
    site.admits_first(&node(3, Some(b'a'), Security::Insecure)).await;
}

#[testkit::test]
async fn server_that_does_not_know_the_secret_is_refused() {
    for is_private in [true, false] {
        let addr = fake_server(move |theirs| {
            let ours = Hello { private: is_private, ..hello(2) };
            let answer = message(&Ok::<_, HelloRefusal>(ours));
            let proof = proof(2, 1, &theirs, &answer);
            [answer, proof, message(&Ok::<_, HelloRefusal>(NO_PROOF))].concat()
        })
        .await;
        let dialer = node(1, Some(b'a'), Security::Insecure);
        let error = dialer.dial(addr, Purpose::Control, None).await.unwrap_err();
        assert!(error.is_of_access() && error.to_string().contains("secret"), "{error}");
        assert_eq!(matches!(error, ConnectError::SecretUnproven), is_private, "{error}");
    }
}

#[testkit::test]
async fn list_of_allowed_nodes_holds_in_both_directions_and_for_open_connections(security: Security) {
    let (_folder, list) = testkit::temp_path("allow");
    let allow = |access: &Access, seeds: &[u16]| {
        let ids = seeds.iter().map(|seed| format!("{}\n", identity(*seed).id()));
        fs::write(&list, ids.collect::<String>()).unwrap();
        access.allowed.load(Some(&list)).unwrap();
    };
    let mut site = Site::of(node(2, None, security), security);
    allow(site.endpoint.access(), &[1, 3]);
    let refused = node(4, None, security).dial(site.addr, Purpose::Control, None).await.unwrap_err();
    assert!(matches!(refused, ConnectError::Refused(HelloRefusal::NotAllowed)), "{refused}");
    let dialer = node(1, None, security);
    site.admits_first(&dialer).await;

    allow(dialer.access(), &[3]);
    let error = dialer.dial(site.addr, Purpose::Control, None).await.unwrap_err();
    assert!(matches!(error, ConnectError::NotAllowed(id) if id == identity(2).id()), "{error}");
}
