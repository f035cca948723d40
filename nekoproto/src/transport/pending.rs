//! [`PendingHello`]: the other end's hello where this end sends its first requests without waiting for it.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::{
    io::{AsyncRead, ReadBuf},
    sync::oneshot,
};

use super::{error::ConnectError, handshake::HelloReader, io::Io};
use crate::{limits::HELLO_BYTES_MAX, messages::Hello};

/// A hello that comes before the first answer, and who waits to hear of it.
#[derive(Debug)]
pub(super) struct PendingHello {
    pub(super) hello: HelloReader,
    pub(super) told: Option<oneshot::Sender<Result<Hello, ConnectError>>>,
}

impl PendingHello {
    /// Reads it to its end, and tells who waits for it. A refusal ends the connection.
    pub(super) fn poll_read(&mut self, cx: &mut Context<'_>, io: &mut Io) -> Poll<io::Result<()>> {
        let read = ready!(self.poll_hello(cx, io));
        let is_read = read.is_ok();
        if let Some(told) = self.told.take() {
            drop(told.send(read)); // nobody may wait any more
        }
        let refused = || io::Error::new(io::ErrorKind::ConnectionRefused, "the other end refused the hello");
        Poll::Ready(if is_read { Ok(()) } else { Err(refused()) })
    }

    fn poll_hello(&mut self, cx: &mut Context<'_>, io: &mut Io) -> Poll<Result<Hello, ConnectError>> {
        let mut piece = [0; HELLO_BYTES_MAX];
        while let Some(wanted) = self.hello.wanted()? {
            let room = wanted.min(piece.len());
            let mut buffer = ReadBuf::new(&mut piece[..room]);
            ready!(Pin::new(&mut *io).poll_read(cx, &mut buffer))?;
            if buffer.filled().is_empty() {
                return Poll::Ready(Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()));
            }
            self.hello.received.extend_from_slice(buffer.filled());
        }
        Poll::Ready(self.hello.hello())
    }
}
