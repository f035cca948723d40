//! The handshake by hand, byte for byte.

use std::io;

use nekoproto::codec;
use serde::Serialize;
use tokio::io::{AsyncRead, AsyncReadExt};

/// The eight bytes before each body of the handshake: they never change.
pub(crate) fn header(version: u16, len: u16) -> Vec<u8> {
    [b"NEKO".as_slice(), &version.to_be_bytes(), &len.to_be_bytes()].concat()
}

/// One message of the handshake.
pub(crate) fn message(version: u16, body: &impl Serialize) -> Vec<u8> {
    let body = codec::encode(body).unwrap();
    [header(version, u16::try_from(body.len()).unwrap()), body].concat()
}

/// Reads one message of the handshake, all of it.
pub(crate) async fn read_message(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Vec<u8>> {
    let mut message = vec![0; 8];
    stream.read_exact(&mut message).await?;
    let len = usize::from(u16::from_be_bytes([message[6], message[7]]));
    message.resize(8 + len, 0);
    stream.read_exact(&mut message[8..]).await?;
    Ok(message)
}
