//! Frames on the socket: a length and bytes, within limits.

use std::io;

use futures::{SinkExt, StreamExt};
use serde::{Serialize, de::DeserializeOwned};
use tokio::net::{
    UnixStream,
    unix::{OwnedReadHalf, OwnedWriteHalf},
};
use tokio_util::codec::{FramedRead, FramedWrite, LengthDelimitedCodec};

use super::{decode, encode};

/// Longest frame that a caller sends, in bytes: a command with half a million names of a hundred bytes.
pub(super) const REQUEST_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Longest frame of an answer, in bytes: the hits of one name at hundreds of indexers.
pub(super) const REPLY_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The receiving half. Waiting for a frame is cancel safe.
pub(super) struct Receiver(FramedRead<OwnedReadHalf, LengthDelimitedCodec>);

/// The sending half.
pub(super) struct Sender(FramedWrite<OwnedWriteHalf, LengthDelimitedCodec>);

/// Splits a connection; `receives` and `sends` are the longest frames in bytes.
pub(super) fn split(stream: UnixStream, receives: usize, sends: usize) -> (Receiver, Sender) {
    let codec = |limit| LengthDelimitedCodec::builder().max_frame_length(limit).new_codec();
    let (read, write) = stream.into_split();
    (Receiver(FramedRead::new(read, codec(receives))), Sender(FramedWrite::new(write, codec(sends))))
}

impl Receiver {
    /// The next value; `None` when the other end has closed the connection.
    pub(super) async fn next<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        match self.0.next().await {
            Some(frame) => decode(&frame?).map(Some),
            None => Ok(None),
        }
    }
}

impl Sender {
    /// Sends `value`. Waits while the other end does not take it.
    pub(super) async fn send<T: Serialize>(&mut self, value: &T) -> io::Result<()> {
        let limit = self.0.encoder().max_frame_length();
        self.0.send(encode(value, limit)?).await
    }

    /// Says that nothing more will come.
    pub(super) async fn close(&mut self) -> io::Result<()> {
        SinkExt::<bytes::Bytes>::close(&mut self.0).await
    }
}
