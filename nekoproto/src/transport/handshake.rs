//! The exchange of hellos.
//!
//! Each message is `NEKO`, the protocol version and a length (both 16 bits, big-endian), then the encoded body.
//! This header never changes, so that nodes of any two versions can tell each other their versions. Without
//! TLS both sides then sign the two messages. In a private network the connecting side then proves the secret, and
//! the accepting side answers with its own proof or a refusal: whoever only connects gets no proof to guess at.

use serde::{Serialize, de::DeserializeOwned};
use serde_bytes::ByteArray;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{
    error::ConnectError,
    io::Io,
    secret::{Binding, NetworkSecret, Side},
    tls::exported,
};
use crate::{
    codec,
    identity::Identity,
    limits::HELLO_BYTES_MAX,
    messages::{Hello, HelloRefusal, NetworkName, PROTOCOL_VERSION},
    values::{NodeId, Signature},
};

const MAGIC: &[u8; 4] = b"NEKO";
const HEADER_BYTES: usize = 8;
/// Signed before each proof, so that its signature is valid for nothing else.
const PROOF_DOMAIN: &[u8] = b"nekop2p hello v1\0";
/// The first bytes of a TLS record: a handshake, or an alert.
const TLS_HANDSHAKE: [u8; 2] = [0x16, 0x03];
const TLS_ALERT: [u8; 2] = [0x15, 0x03];

/// What this side proves, and what TLS proved of the other.
pub(super) struct Proofs<'a> {
    pub(super) identity: &'a Identity,
    /// The network's secret, if it is private.
    pub(super) secret: Option<&'a NetworkSecret>,
    /// The node that TLS proved, if there is TLS.
    pub(super) proven: Option<NodeId>,
}

/// The connecting side; returns the other side's hello.
pub(super) async fn connect(io: &mut Io, ours: &Hello, proofs: &Proofs<'_>) -> Result<Hello, ConnectError> {
    let sent = message(ours)?;
    write(io, &sent).await?;
    let received = read_message(io).await?;
    let answer: Result<Hello, HelloRefusal> = body(&received)?;
    let theirs = answer.map_err(ConnectError::Refused)?;
    let transcript = blake3::hash(&[sent, received].concat());
    match proofs.proven {
        Some(node) if node == theirs.node => {}
        Some(_) => return Err(ConnectError::Unproven),
        None => {
            read_proof(io, theirs.node, Side::Accepting, &transcript).await?;
            write_proof(io, proofs.identity, Side::Connecting, &transcript).await?;
        }
    }
    if theirs.network != ours.network {
        return Err(ConnectError::Refused(HelloRefusal::OtherNetwork));
    }
    if let Some(secret) = proofs.secret {
        if !theirs.private {
            return Err(ConnectError::Refused(HelloRefusal::SecretUnasked));
        }
        let [ours, expected] = secret_proofs(io, secret, &transcript)?;
        write(io, &message(&ours)?).await?;
        let theirs: Result<SecretProof, HelloRefusal> = body(&read_message(io).await?)?;
        if !is_same(theirs.map_err(ConnectError::Refused)?, expected) {
            return Err(ConnectError::SecretUnproven);
        }
    }
    Ok(theirs)
}

/// The accepting side; returns the other side's hello. `answer` decides on it: our hello, or a refusal.
pub(super) async fn accept(
    io: &mut Io,
    proofs: &Proofs<'_>,
    answer: impl FnOnce(&Hello) -> Result<Hello, HelloRefusal>,
) -> Result<Hello, ConnectError> {
    let received = match read_message(io).await {
        Ok(received) => received,
        Err(error @ (ConnectError::VersionDiffers { .. } | ConnectError::SecurityDiffers)) => {
            write(io, &header(0)).await?; // tells our version, or that this is not TLS
            return Err(error);
        }
        Err(error) => return Err(error),
    };
    let theirs: Hello = body(&received)?;
    let answer = match proofs.proven {
        Some(node) if node != theirs.node => Err(HelloRefusal::NotYourKey),
        _ => answer(&theirs),
    };
    let sent = message(&answer)?;
    write(io, &sent).await?;
    answer.map_err(ConnectError::Refused)?;
    let transcript = blake3::hash(&[received, sent].concat());
    if proofs.proven.is_none() {
        write_proof(io, proofs.identity, Side::Accepting, &transcript).await?;
        read_proof(io, theirs.node, Side::Connecting, &transcript).await?;
    }
    if let Some(secret) = proofs.secret {
        let [expected, ours] = secret_proofs(io, secret, &transcript)?;
        let is_proven = is_same(body(&read_message(io).await?)?, expected);
        let answer = if is_proven { Ok(ours) } else { Err(HelloRefusal::SecretWrong) };
        write(io, &message(&answer)?).await?;
        answer.map_err(ConnectError::Refused)?;
    }
    Ok(theirs)
}

/// What a side sends to prove the secret.
type SecretProof = ByteArray<32>;

/// The proofs of the connecting and of the accepting side.
fn secret_proofs(
    io: &Io,
    secret: &NetworkSecret,
    hellos: &blake3::Hash,
) -> Result<[SecretProof; 2], ConnectError> {
    let exported = match io {
        Io::Tls(stream) => Some(exported(stream, hellos).map_err(|_| ConnectError::SecretUnproven)?),
        Io::Plain(_) => None,
    };
    let binding = Binding { exported, hellos };
    let proof = |side| ByteArray::new(secret.proof(side, &binding).into());
    Ok([proof(Side::Connecting), proof(Side::Accepting)])
}

/// Compares in constant time.
fn is_same(theirs: SecretProof, expected: SecretProof) -> bool {
    blake3::Hash::from(theirs.into_array()) == blake3::Hash::from(expected.into_array())
}

async fn write(io: &mut Io, message: &[u8]) -> Result<(), ConnectError> {
    io.write_all(message).await?;
    Ok(io.flush().await?)
}

fn header(body_bytes: u16) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..4].copy_from_slice(MAGIC);
    header[4..6].copy_from_slice(&PROTOCOL_VERSION.to_be_bytes());
    header[6..].copy_from_slice(&body_bytes.to_be_bytes());
    header
}

fn message<T: Serialize>(value: &T) -> Result<Vec<u8>, ConnectError> {
    let body = codec::encode(value).map_err(|_| ConnectError::Malformed)?;
    let len = u16::try_from(body.len()).map_err(|_| ConnectError::Malformed)?;
    Ok([header(len).as_slice(), &body].concat())
}

fn body<T: DeserializeOwned>(message: &[u8]) -> Result<T, ConnectError> {
    codec::decode(&message[HEADER_BYTES..]).map_err(|_| ConnectError::Malformed)
}

/// Bytes of the message that begins with `received`, as far as these tell.
fn message_len(received: &[u8]) -> Result<usize, ConnectError> {
    // Two bytes first: a TLS alert has only seven, fewer than a header.
    if received.len() < 2 {
        return Ok(2);
    }
    if [TLS_HANDSHAKE, TLS_ALERT].iter().any(|start| received.starts_with(start)) {
        return Err(ConnectError::SecurityDiffers);
    }
    let Some(header) = received.first_chunk::<HEADER_BYTES>() else { return Ok(HEADER_BYTES) };
    if !header.starts_with(MAGIC) {
        return Err(ConnectError::NotNekop2p);
    }
    let theirs = u16::from_be_bytes([header[4], header[5]]);
    if theirs != PROTOCOL_VERSION {
        return Err(ConnectError::VersionDiffers { theirs });
    }
    let len = usize::from(u16::from_be_bytes([header[6], header[7]]));
    if len > HELLO_BYTES_MAX { Err(ConnectError::Malformed) } else { Ok(HEADER_BYTES + len) }
}

/// Reads exactly one message, header included.
async fn read_message(io: &mut Io) -> Result<Vec<u8>, ConnectError> {
    let mut message = Vec::new();
    loop {
        let (had, wanted) = (message.len(), message_len(&message)?);
        if had == wanted {
            return Ok(message);
        }
        message.resize(wanted, 0);
        io.read_exact(&mut message[had..]).await?;
    }
}

/// The hello of the accepting side, which has not come yet: it is the first that comes, before the answers to what was sent
/// behind the hello of this side.
#[derive(Debug)]
pub(super) struct HelloReader {
    /// The node that TLS proved.
    pub(super) proven: NodeId,
    pub(super) network: NetworkName,
    pub(super) received: Vec<u8>,
}

impl HelloReader {
    /// Bytes of it that are to be read next; `None` once all have come.
    pub(super) fn wanted(&self) -> Result<Option<usize>, ConnectError> {
        let left = message_len(&self.received)? - self.received.len();
        Ok((left > 0).then_some(left))
    }

    /// All of it, checked.
    pub(super) fn hello(&self) -> Result<Hello, ConnectError> {
        let answer: Result<Hello, HelloRefusal> = body(&self.received)?;
        let theirs = answer.map_err(ConnectError::Refused)?;
        if theirs.node != self.proven {
            return Err(ConnectError::Unproven);
        }
        if theirs.network != self.network {
            return Err(ConnectError::Refused(HelloRefusal::OtherNetwork));
        }
        Ok(theirs)
    }
}

/// The connecting side, which does not wait for the other's hello.
pub(super) async fn connect_early(
    io: &mut Io,
    ours: &Hello,
    proven: NodeId,
) -> Result<HelloReader, ConnectError> {
    write(io, &message(ours)?).await?;
    Ok(HelloReader { proven, network: ours.network.clone(), received: Vec::new() })
}

fn proof_message(side: Side, transcript: &blake3::Hash) -> Vec<u8> {
    [PROOF_DOMAIN, &[side as u8], transcript.as_bytes()].concat()
}

async fn write_proof(
    io: &mut Io,
    identity: &Identity,
    side: Side,
    transcript: &blake3::Hash,
) -> Result<(), ConnectError> {
    write(io, &message(&identity.sign(&proof_message(side, transcript)))?).await
}

async fn read_proof(
    io: &mut Io,
    node: NodeId,
    side: Side,
    transcript: &blake3::Hash,
) -> Result<(), ConnectError> {
    let signature: Signature = body(&read_message(io).await?)?;
    if signature.is_by(&node, &proof_message(side, transcript)) {
        Ok(())
    } else {
        Err(ConnectError::Unproven)
    }
}
