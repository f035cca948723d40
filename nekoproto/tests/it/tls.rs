//! Under TLS a node's id is its key: a node that claims another id than its key's is refused.

use ed25519_dalek::{SigningKey, pkcs8::EncodePrivateKey};
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
use tokio_rustls::{TlsAcceptor, TlsConnector, client};

use crate::common::*;

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

#[derive(Debug)]
struct Gullible;

/// What is the same of both kinds of verifiers.
macro_rules! accepts_every_signature {
    () => {
        fn verify_tls12_signature(&self, _: &[u8], _: &Der<'_>, _: &DigitallySignedStruct) -> Accepted {
            unreachable!("TLS 1.2 is not offered")
        }

        fn verify_tls13_signature(&self, _: &[u8], _: &Der<'_>, _: &DigitallySignedStruct) -> Accepted {
            Ok(HandshakeSignatureValid::assertion())
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            vec![SignatureScheme::ED25519]
        }

        fn requires_raw_public_keys(&self) -> bool {
            true
        }
    };
}

type Accepted = Result<HandshakeSignatureValid, Error>;
type Der<'a> = CertificateDer<'a>;

impl ServerCertVerifier for Gullible {
    fn verify_server_cert(
        &self,
        _: &Der<'_>,
        _: &[Der<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    accepts_every_signature!();
}

impl ClientCertVerifier for Gullible {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _: &Der<'_>,
        _: &[Der<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    accepts_every_signature!();
}

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
async fn only_who_has_the_key_that_its_hello_names_is_admitted() {
    let mut site = Site::indexer(Security::Tls);
    connect(site.addr, None).await.unwrap_err(); // without a key

    let mut other = connect(site.addr, Some(raw_key(9, 9))).await.unwrap();
    other.write_all(&message(&hello(1))).await.unwrap();
    let answer = read_message(&mut other).await.unwrap();
    let answer: Result<Hello, HelloRefusal> = codec::decode(&answer[8..]).unwrap();
    assert_eq!(answer, Err(HelloRefusal::NotYourKey));

    // The client finishes its side of the handshake first.
    let mut shown = connect(site.addr, Some(raw_key(1, 9))).await.unwrap();
    let _ = shown.write_all(&message(&hello(1))).await; // may come too late
    read_message(&mut shown).await.expect_err("a key that is shown and not had");

    let mut stream = connect(site.addr, Some(raw_key(9, 9))).await.unwrap();
    stream.write_all(&message(&hello(9))).await.unwrap();
    assert_eq!(site.next().await.remote.node, identity(9).id());
}

#[testkit::test]
async fn node_of_another_version_is_told_ours_under_tls() {
    let mut site = Site::indexer(Security::Tls);
    let mut stream = connect(site.addr, Some(raw_key(1, 1))).await.unwrap();
    stream.write_all(&message_of(999, &"a body of another age")).await.unwrap();
    assert_eq!(read_message(&mut stream).await.unwrap(), header(PROTOCOL_VERSION, 0));
    site.admits_first(&endpoint(3, Role::Peer, Security::Tls)).await;
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
        stream.write_all(&message(&Ok::<_, HelloRefusal>(hello(2)))).await.unwrap();
    };
    let dialer = endpoint(1, Role::Peer, Security::Tls);
    let dialing = dialer.dial(addr, Purpose::Control, Some(identity(2).id()));
    let error = futures::join!(serving, dialing).1.unwrap_err();
    assert!(matches!(error, ConnectError::Unproven), "{error}");
}
