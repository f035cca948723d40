//! The handshake by hand, byte for byte.

use ed25519_dalek::{Signer, SigningKey};
use serde::Serialize;
use tokio::io::AsyncRead;

use super::*;

pub(crate) fn hello(seed: u16) -> Hello {
    Hello {
        node: identity(seed).id(),
        role: Role::Peer,
        purpose: Purpose::Control,
        network: NetworkName::default(),
        private: false,
        listen_port: 0,
        is_open: false,
        hints: List::new(),
        instance: 0xe0,
        nonce: [7; 32],
    }
}

/// The eight bytes before each body of the handshake: they never change.
pub(crate) fn header(version: u16, len: u16) -> Vec<u8> {
    [b"NEKO".as_slice(), &version.to_be_bytes(), &len.to_be_bytes()].concat()
}

pub(crate) fn message(body: &impl Serialize) -> Vec<u8> {
    message_of(PROTOCOL_VERSION, body)
}

pub(crate) fn message_of(version: u16, body: &impl Serialize) -> Vec<u8> {
    let body = codec::encode(body).unwrap();
    [header(version, u16::try_from(body.len()).unwrap()), body].concat()
}

pub(crate) async fn read_message(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Vec<u8>> {
    let mut message = vec![0; 8];
    stream.read_exact(&mut message).await?;
    let len = usize::from(u16::from_be_bytes([message[6], message[7]]));
    message.resize(8 + len, 0);
    stream.read_exact(&mut message[8..]).await?;
    Ok(message)
}

/// The proof that the node with this seed took part in an exchange. `side` is 0 for the one that
/// connects, 1 for the one that accepts.
pub(crate) fn proof(seed: u16, side: u8, sent_by_dialer: &[u8], sent_by_listener: &[u8]) -> Vec<u8> {
    let transcript = blake3::hash(&[sent_by_dialer, sent_by_listener].concat());
    let signed = [b"nekop2p hello v1\0".as_slice(), &[side], transcript.as_bytes()].concat();
    let signature = SigningKey::from_bytes(&key(seed)).sign(&signed).to_bytes();
    let (first, second): (&[u8; 32], _) = signature.split_first_chunk().unwrap();
    message(&(64u8, first, <&[u8; 32]>::try_from(second).unwrap()))
}

pub(crate) async fn send_raw(addr: SocketAddr, bytes: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(addr).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    stream
}

/// Sends the hello of a node, and reads what the server answers: its hello, and its proof.
pub(crate) async fn exchange(addr: SocketAddr, hello: &Hello) -> (TcpStream, Vec<u8>, [Vec<u8>; 2]) {
    let sent = message(hello);
    let mut stream = send_raw(addr, &sent).await;
    let answer = read_message(&mut stream).await.unwrap();
    let proof = read_message(&mut stream).await.unwrap();
    (stream, sent, [answer, proof])
}

/// A server that accepts one connection, reads a hello and replies with `answer(hello)`.
pub(crate) async fn fake_server(answer: impl FnOnce(Vec<u8>) -> Vec<u8> + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind(ANY_PORT).await.unwrap();
    let addr = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let hello = read_message(&mut stream).await.unwrap();
        stream.write_all(&answer(hello)).await.unwrap();
        closes(&mut stream).await;
    });
    addr
}
