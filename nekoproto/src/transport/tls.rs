//! TLS 1.3 with raw public keys (RFC 7250): the key that a connection proves *is* the node's id.

use std::sync::Arc;

use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, Error, ServerConfig,
    SignatureScheme,
    client::{
        AlwaysResolvesClientRawPublicKeys, Resumption,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{CryptoProvider, ring, verify_tls13_signature_with_raw_key},
    pki_types::{
        CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime,
    },
    server::{
        AlwaysResolvesServerRawPublicKeys, NoServerSessionStorage,
        danger::{ClientCertVerified, ClientCertVerifier},
    },
    sign::CertifiedKey,
    version::TLS13,
};
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};

use crate::{identity::Identity, values::NodeId};

/// The bytes before an Ed25519 key in its SubjectPublicKeyInfo (RFC 8410, section 4).
const SPKI_PREFIX: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// What the exported value is for.
const EXPORT_LABEL: &[u8] = b"EXPORTER-nekop2p-network-secret";

/// TLS with one node's key, for both sides.
pub(super) struct Tls {
    pub(super) connector: TlsConnector,
    pub(super) acceptor: TlsAcceptor,
}

/// The crypto provider, named only here.
fn provider() -> CryptoProvider {
    ring::default_provider()
}

impl Tls {
    pub(super) fn new(identity: &Identity) -> Result<Self, Error> {
        let provider = Arc::new(provider());
        let pkcs8 = identity.to_pkcs8().ok_or(Error::General("the key cannot be encoded".into()))?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(pkcs8.as_slice()));
        let key = provider.key_provider.load_private_key(key.clone_key())?;
        let spki = CertificateDer::from([SPKI_PREFIX.as_slice(), identity.id().as_bytes()].concat());
        let certified = Arc::new(CertifiedKey::new(vec![spki], key));
        let verifier = Arc::new(AnyEd25519Key { provider: Arc::clone(&provider) });

        let mut client = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&TLS13])?
            .dangerous() // no certificates: the caller checks which node the key is
            .with_custom_certificate_verifier(Arc::clone(&verifier) as _)
            .with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(Arc::clone(
                &certified,
            ))));
        client.resumption = Resumption::disabled();

        let mut server = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])?
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(certified)));
        server.session_storage = Arc::new(NoServerSessionStorage {});
        server.send_tls13_tickets = 0;

        Ok(Self {
            connector: TlsConnector::from(Arc::new(client)),
            acceptor: TlsAcceptor::from(Arc::new(server)),
        })
    }
}

/// The node whose key the other end proved to have.
pub(super) fn proven_node<T>(stream: &TlsStream<T>) -> Option<NodeId> {
    let (_, connection) = stream.get_ref();
    node_of(connection.peer_certificates()?.first()?)
}

/// What both ends derive from this TLS session, and nobody else.
pub(super) fn exported<T>(stream: &TlsStream<T>, hellos: &blake3::Hash) -> Result<[u8; 32], Error> {
    let context = Some(hellos.as_bytes().as_slice());
    match stream {
        TlsStream::Client(stream) => {
            stream.get_ref().1.export_keying_material([0; 32], EXPORT_LABEL, context)
        }
        TlsStream::Server(stream) => {
            stream.get_ref().1.export_keying_material([0; 32], EXPORT_LABEL, context)
        }
    }
}

fn node_of(spki: &CertificateDer<'_>) -> Option<NodeId> {
    let key = spki.strip_prefix(SPKI_PREFIX.as_slice())?;
    key.try_into().ok().map(NodeId::from_bytes)
}

/// Accepts any Ed25519 key whose possession is proven. The caller checks which node it is.
#[derive(Debug)]
struct AnyEd25519Key {
    provider: Arc<CryptoProvider>,
}

impl AnyEd25519Key {
    fn check(key: &CertificateDer<'_>) -> Result<(), Error> {
        node_of(key).map(|_| ()).ok_or(Error::InvalidCertificate(CertificateError::BadEncoding))
    }

    fn check_signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let spki = SubjectPublicKeyInfoDer::from(key.as_ref());
        verify_tls13_signature_with_raw_key(
            message,
            &spki,
            dss,
            &self.provider.signature_verification_algorithms,
        )
    }
}

/// What both traits ask about signatures.
macro_rules! signatures_of_keys {
    () => {
        fn verify_tls12_signature(
            &self,
            _message: &[u8],
            _cert: &CertificateDer<'_>,
            _dss: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Err(Error::General("only TLS 1.3 is spoken".into()))
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            key: &CertificateDer<'_>,
            dss: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            self.check_signature(message, key, dss)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            vec![SignatureScheme::ED25519]
        }

        fn requires_raw_public_keys(&self) -> bool {
            true
        }
    };
}

impl ServerCertVerifier for AnyEd25519Key {
    fn verify_server_cert(
        &self,
        key: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Self::check(key).map(|()| ServerCertVerified::assertion())
    }

    signatures_of_keys!();
}

impl ClientCertVerifier for AnyEd25519Key {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        key: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Self::check(key).map(|()| ClientCertVerified::assertion())
    }

    signatures_of_keys!();
}
