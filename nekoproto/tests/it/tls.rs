//! Under TLS a node's id is its key: a node that claims another id than its key's is refused.

use std::{io, net::SocketAddr, sync::Arc};

use ed25519_dalek::{SigningKey, pkcs8::EncodePrivateKey};
use nekoproto::{
    Hello, HelloRefusal, PROTOCOL_VERSION, Purpose, Role, codec,
    transport::{ConnectError, Security},
};
use rustls::{
    ClientConfig, DigitallySignedStruct, DistinguishedName, Error, ServerConfig, SignatureScheme,
    client::{
        AlwaysResolvesClientRawPublicKeys,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime},
    server::{
        AlwaysResolvesServerRawPublicKeys,
        danger::{ClientCertVerified, ClientCertVerifier},
    },
    sign::CertifiedKey,
    version::TLS13,
};
use tokio::{
    io::AsyncWriteExt,
    net::{TcpListener, TcpStream},
};
use tokio_rustls::{TlsAcceptor, TlsConnector, client};

use crate::common::{
    ANY_PORT, Listening, endpoint, hello, identity,
    wire::{header, message, read_message},
};

/// How an Ed25519 key begins when it is written as SubjectPublicKeyInfo.
const SPKI_PREFIX: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// Shows the public key of node `shown` and signs with the private key of node `used`.
fn raw_key(shown: u16, used: u16) -> Arc<CertifiedKey> {
    let pkcs8 = SigningKey::from_bytes(&testkit::values::key(used)).to_pkcs8_der().unwrap();
    let key = PrivateKeyDer::try_from(pkcs8.as_bytes().to_vec()).unwrap();
    let key = provider().key_provider.load_private_key(key).unwrap();
    let spki = [SPKI_PREFIX.as_slice(), identity(shown).id().as_bytes()].concat();
    Arc::new(CertifiedKey::new(vec![CertificateDer::from(spki)], key))
}

/// Accepts every key, whether its possession is proven or not.
#[derive(Debug)]
struct Gullible;

impl ServerCertVerifier for Gullible {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        unreachable!("TLS 1.2 is not offered")
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

impl ClientCertVerifier for Gullible {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        ServerCertVerifier::verify_tls12_signature(self, message, key, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        ServerCertVerifier::verify_tls13_signature(self, message, key, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        ServerCertVerifier::supported_verify_schemes(self)
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

/// Connects with this key, or without any.
async fn connect(
    addr: SocketAddr,
    key: Option<Arc<CertifiedKey>>,
) -> io::Result<client::TlsStream<TcpStream>> {
    let config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Gullible));
    let config = match key {
        Some(key) => config.with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(key))),
        None => config.with_no_client_auth(),
    };
    let stream = TcpStream::connect(addr).await.unwrap();
    let name = ServerName::IpAddress(addr.ip().into());
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

#[testkit::test]
async fn hello_that_names_another_node_than_the_key_is_refused() {
    let mut listening = Listening::begin(&endpoint(2, Role::Indexer, Security::Tls));
    let mut stream = connect(listening.addr, Some(raw_key(9, 9))).await.unwrap();
    stream.write_all(&message(PROTOCOL_VERSION, &hello(1))).await.unwrap();
    let answer = read_message(&mut stream).await.unwrap();
    let answer: Result<Hello, HelloRefusal> = codec::decode(&answer[8..]).unwrap();
    assert_eq!(answer, Err(HelloRefusal::NotYourKey));

    let mut stream = connect(listening.addr, Some(raw_key(9, 9))).await.unwrap();
    stream.write_all(&message(PROTOCOL_VERSION, &hello(9))).await.unwrap();
    assert_eq!(listening.next().await.remote.node, identity(9).id());
}

#[testkit::test]
async fn caller_without_a_key_is_refused() {
    let mut listening = Listening::begin(&endpoint(2, Role::Indexer, Security::Tls));
    connect(listening.addr, None).await.unwrap_err();
    listening.admits_first(&endpoint(3, Role::Peer, Security::Tls)).await;
}

#[testkit::test]
async fn key_that_is_shown_but_not_had_is_refused() {
    let mut listening = Listening::begin(&endpoint(2, Role::Indexer, Security::Tls));
    let stream = connect(listening.addr, Some(raw_key(1, 9))).await;
    let mut stream = stream.unwrap(); // the client finishes its side of the handshake first
    let _ = stream.write_all(&message(PROTOCOL_VERSION, &hello(1))).await; // may come too late
    read_message(&mut stream).await.unwrap_err();
    listening.admits_first(&endpoint(3, Role::Peer, Security::Tls)).await;
}

#[testkit::test]
async fn node_of_another_version_is_told_ours_under_tls() {
    let mut listening = Listening::begin(&endpoint(2, Role::Indexer, Security::Tls));
    let mut stream = connect(listening.addr, Some(raw_key(1, 1))).await.unwrap();
    stream.write_all(&message(999, &"a body of another age")).await.unwrap();
    assert_eq!(read_message(&mut stream).await.unwrap(), header(PROTOCOL_VERSION, 0));
    listening.admits_first(&endpoint(3, Role::Peer, Security::Tls)).await;
}

#[testkit::test]
async fn server_that_claims_another_node_than_its_key_is_refused() {
    let config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])
        .unwrap()
        .with_client_cert_verifier(Arc::new(Gullible))
        .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(raw_key(9, 9))));
    let listener = TcpListener::bind(ANY_PORT).await.unwrap();
    let addr = listener.local_addr().unwrap();
    let serving = async {
        let (stream, _) = listener.accept().await.unwrap();
        let mut stream = TlsAcceptor::from(Arc::new(config)).accept(stream).await.unwrap();
        read_message(&mut stream).await.unwrap();
        let answer = message(PROTOCOL_VERSION, &Ok::<_, HelloRefusal>(hello(2)));
        stream.write_all(&answer).await.unwrap();
    };
    let dialer = endpoint(1, Role::Peer, Security::Tls);
    let dialing = dialer.dial(addr, Purpose::Control, Some(identity(2).id()));
    let ((), dialed) = futures::join!(serving, dialing);
    let error = dialed.unwrap_err();
    assert!(matches!(error, ConnectError::Unproven), "{error}");
}
