//! [`Io`]: the bytes of one HTTP connection. One whose client reads nothing counts as idle, and is closed after a time limit.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use nekoproto::transport::slots::Activity;
use socket2::SockRef;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    time::{Instant, Sleep, sleep},
};

use super::send_file::{FileSender, Sending, is_stand_in};

/// How long a write may wait for a reader that takes nothing. Also how long the system keeps trying to deliver to
/// a host that does not acknowledge.
const WRITE_STALL_MAX: Duration = Duration::from_secs(45);
/// Bytes that the system queues unsent. Few, so that a slow reader is told from one that takes nothing: it must
/// take half of them in [`WRITE_STALL_MAX`], which is 1.4 KiB/s.
const UNSENT_BYTES_MAX: u32 = 128 * 1024;

/// A TCP connection whose writes fail once they have waited for [`WRITE_STALL_MAX`].
#[derive(Debug)]
pub(super) struct Io {
    stream: TcpStream,
    stalled: Stalled,
    files: Sending,
}

/// Since when writes have been waiting, if they are.
#[derive(Debug)]
struct Stalled {
    activity: Activity,
    /// The timer is made once, when a write has to wait for the first time.
    until: Option<Pin<Box<Sleep>>>,
    is_waiting: bool,
}

impl Io {
    /// Prepares an accepted connection; `activity` learns whether what is written is read.
    ///
    /// # Errors
    /// The connection is lost already.
    pub(super) fn new(stream: TcpStream, activity: Activity) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        let socket = SockRef::from(&stream);
        socket.set_tcp_notsent_lowat(UNSENT_BYTES_MAX)?;
        socket.set_tcp_user_timeout(Some(WRITE_STALL_MAX))?;
        let stalled = Stalled { activity, until: None, is_waiting: false };
        Ok(Self { stream, stalled, files: Sending::default() })
    }

    pub(super) fn file_sender(&self) -> FileSender {
        self.files.sender.clone()
    }
}

impl Stalled {
    /// Passes the outcome of a write on, and an error instead if it has waited too long.
    fn watch<T>(&mut self, cx: &mut Context<'_>, outcome: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if outcome.is_ready() {
            self.is_waiting = false;
            self.activity.used();
            return outcome;
        }
        self.activity.set_busy(false); // until the next request
        let until = self.until.get_or_insert_with(|| Box::pin(sleep(WRITE_STALL_MAX)));
        if !self.is_waiting {
            self.is_waiting = true;
            until.as_mut().reset(Instant::now() + WRITE_STALL_MAX);
        }
        ready!(until.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the reader takes nothing")))
    }
}

impl AsyncRead for Io {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Io {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let Self { stream, stalled, files } = &mut *self;
        let written = if is_stand_in(buf) {
            files.poll_send(cx, stream, buf.len())
        } else {
            Pin::new(stream).poll_write(cx, buf)
        };
        stalled.watch(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let Self { stream, stalled, files } = &mut *self;
        let first = bufs.iter().find(|bytes| !bytes.is_empty()).filter(|bytes| is_stand_in(bytes));
        let written = match first {
            Some(frame) => files.poll_send(cx, stream, frame.len()),
            None => {
                let plain = bufs.iter().position(|bytes| is_stand_in(bytes)).unwrap_or(bufs.len());
                Pin::new(stream).poll_write_vectored(cx, &bufs[..plain])
            }
        };
        stalled.watch(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::{io::AsyncWriteExt, net::TcpListener};
    use tokio_util::sync::CancellationToken;

    use super::*;

    async fn pair() -> (Io, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let reader = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let activity = Activity::new(CancellationToken::new());
        (Io::new(listener.accept().await.unwrap().0, activity).unwrap(), reader)
    }

    /// Paused time runs on when nothing else happens, as when the reader takes nothing.
    #[tokio::test(start_paused = true)]
    async fn a_reader_that_takes_nothing_is_cut() {
        let (mut io, _reader) = pair().await;
        let began = Instant::now();
        let error = io.write_all(&vec![0; 64 << 20]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(began.elapsed() >= WRITE_STALL_MAX && began.elapsed() < WRITE_STALL_MAX * 2);
    }
}
