//! [`NodeIo`]: the bytes of a connection to a node, whose account it goes on, and whether it is used.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{io::Io, pending::PendingHello, slots::Activity};
use crate::budget::Account;

/// The byte stream of a connection after its handshake.
#[derive(Debug)]
pub struct NodeIo {
    pub(super) io: Io,
    pub(super) account: Account,
    pub(super) activity: Activity,
    /// The other end's hello, if it was not waited for.
    pub(super) pending: Option<Box<PendingHello>>,
}

impl NodeIo {
    /// It ends when `account` is evicted, or when another takes its place.
    pub(super) fn new(io: Io, account: Account) -> Self {
        let activity = Activity::new(account.evicted().child_token());
        Self { io, account, activity, pending: None }
    }
}

impl AsyncRead for NodeIo {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if let Some(pending) = &mut this.pending {
            ready!(pending.poll_read(cx, &mut this.io))?;
            this.pending = None;
        }
        Pin::new(&mut this.io).poll_read(cx, buf)
    }
}

impl AsyncWrite for NodeIo {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().io).poll_write(cx, buf)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_shutdown(cx)
    }
}
