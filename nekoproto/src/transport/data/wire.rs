//! [`Wire`]: the bytes of a data connection, moved by the calling thread, over plain TCP or TLS.
//!
//! To wake a runtime for every packet costs more than the packet. The socket is taken from the runtime and
//! stays non-blocking; a thread waits in `poll`, always with a timeout.

use std::{
    fs::File,
    io::{self, Read, Write},
    net::TcpStream,
    ops::Range,
    os::{fd::AsFd, unix::fs::FileExt},
    sync::Arc,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::sendfile,
    io::Errno,
};
use rustls::Connection as TlsConnection;
use tokio::io::{Interest, unix::AsyncFd};

use crate::transport::{error::DataError, io::Io};

/// Bytes read from the socket at once, for messages and for TLS: where file bytes arrive, and where only requests do.
const INBOX_BYTES: usize = 64 * 1024;
const INBOX_OF_REQUESTS_BYTES: usize = 4 * 1024;
/// Buffers of at least this many bytes are read into directly, without the inbox.
const DIRECT_BYTES: usize = 4 * 1024;
/// Bytes read from a file at once, to be encrypted.
const PIECE_BYTES: usize = 256 * 1024;
/// Encrypted bytes that TLS may buffer before they are sent.
const TLS_OUT_BYTES: usize = PIECE_BYTES + 64 * 1024;
/// Bytes for one `sendfile`, so that the deadline is looked at between calls.
const SENDFILE_BYTES: u64 = 4 * 1024 * 1024;

/// The bytes of one connection. Each read and write is told how long it may wait without progress.
#[derive(Debug)]
pub(super) struct Wire {
    tcp: Arc<TcpStream>,
    tls: Option<Box<TlsConnection>>,
    inbox: Inbox,
    /// File bytes to be encrypted.
    piece: Vec<u8>,
    pub(super) stall: Duration,
    /// The end of every wait, whatever the progress.
    pub(super) deadline: Option<Instant>,
}

/// Received bytes that are not consumed yet; under TLS they are encrypted.
#[derive(Debug)]
struct Inbox {
    /// Allocated by the first read.
    bytes: Vec<u8>,
    held: Range<usize>,
    size: usize,
}

impl Wire {
    /// Takes the socket from the runtime.
    pub(super) fn new(io: Io, stall: Duration) -> io::Result<Self> {
        let (tcp, tls) = match io {
            Io::Plain(tcp) => (tcp, None),
            Io::Tls(stream) => {
                let (tcp, connection) = match *stream {
                    tokio_rustls::TlsStream::Client(stream) => {
                        let (tcp, connection) = stream.into_inner();
                        (tcp, TlsConnection::from(connection))
                    }
                    tokio_rustls::TlsStream::Server(stream) => {
                        let (tcp, connection) = stream.into_inner();
                        (tcp, TlsConnection::from(connection))
                    }
                };
                (tcp, Some(Box::new(connection)))
            }
        };
        let mut wire = Self {
            tcp: Arc::new(tcp.into_std()?),
            tls,
            inbox: Inbox { bytes: Vec::new(), held: 0..0, size: INBOX_BYTES },
            piece: Vec::new(),
            stall,
            deadline: None,
        };
        if let Some(tls) = &mut wire.tls {
            tls.set_buffer_limit(Some(TLS_OUT_BYTES));
        }
        Ok(wire)
    }

    /// The socket, for another thread to shut down.
    pub(super) fn socket(&self) -> Arc<TcpStream> {
        Arc::clone(&self.tcp)
    }

    /// Whether received bytes are not consumed yet; under TLS they may be an incomplete record.
    pub(super) fn has_bytes(&mut self) -> bool {
        let decrypted = |tls: &mut Box<TlsConnection>| {
            tls.process_new_packets().map_or(1, |state| state.plaintext_bytes_to_read())
        };
        !self.inbox.held.is_empty() || self.tls.as_mut().map_or(0, decrypted) > 0
    }

    /// From now on only requests are received: a small buffer will do.
    pub(super) const fn receive_requests(&mut self) {
        self.inbox.size = INBOX_OF_REQUESTS_BYTES;
    }

    /// Frees the buffers that hold nothing; the next use allocates them again.
    pub(super) fn release(&mut self) {
        self.piece = Vec::new();
        if self.inbox.held.is_empty() {
            self.inbox.bytes = Vec::new();
        }
    }

    /// Waits, without blocking a thread, until the socket may be ready for `interest`. The runtime watches the socket
    /// only until this returns.
    #[allow(deprecated, reason = "sound: the Arc keeps the registered descriptor open")]
    pub(super) async fn ready(&self, interest: Interest) -> io::Result<()> {
        AsyncFd::with_interest(Arc::clone(&self.tcp), interest)?.ready(interest).await.map(drop)
    }

    /// Waits until the socket is ready for `events`; `Stalled` after `until`, or at once without it.
    fn wait(&self, events: PollFlags, until: Option<Instant>) -> Result<(), DataError> {
        let until = until.ok_or(DataError::Stalled)?;
        let until = self.deadline.map_or(until, |deadline| deadline.min(until));
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let left = Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
            match poll(&mut [PollFd::new(&*self.tcp, events)], Some(&left)) {
                Ok(0) => return Err(DataError::Stalled),
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(io::Error::from(error).into()),
            }
        }
    }

    /// Reads at least one byte; 0 at the end of the stream. Waits until `until`, or not at all without it.
    pub(super) fn read(&mut self, buffer: &mut [u8], until: Option<Instant>) -> Result<usize, DataError> {
        loop {
            if let Some(tls) = &mut self.tls {
                match tls.reader().read(buffer) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    read => return Ok(read?),
                }
            } else if !self.inbox.held.is_empty() {
                return Ok(self.inbox.take(buffer));
            } else if buffer.len() >= DIRECT_BYTES {
                match (&*self.tcp).read(buffer) {
                    Err(error) if is_retryable(&error) => self.wait(PollFlags::IN, until)?,
                    read => return Ok(read?),
                }
                continue;
            }
            if !self.fill(until)? {
                return Ok(0);
            }
        }
    }

    /// Fills the inbox from the socket, and under TLS decrypts it; `false` at the end of the stream.
    fn fill(&mut self, until: Option<Instant>) -> Result<bool, DataError> {
        if self.inbox.held.is_empty() {
            self.inbox.bytes.resize(self.inbox.size, 0);
            let read = loop {
                match (&*self.tcp).read(&mut self.inbox.bytes) {
                    Err(error) if is_retryable(&error) => self.wait(PollFlags::IN, until)?,
                    read => break read?,
                }
            };
            self.inbox.held = 0..read;
            if read == 0 {
                return Ok(false);
            }
        }
        let Some(tls) = &mut self.tls else { return Ok(true) };
        let mut encrypted = &self.inbox.bytes[self.inbox.held.clone()];
        let there = encrypted.len();
        tls.read_tls(&mut encrypted)?;
        self.inbox.held.start += there - encrypted.len();
        tls.process_new_packets().map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        Ok(true)
    }

    /// Writes `bytes` until all are written, or the socket takes none for `patience`; returns the number written. Under
    /// TLS some of them may not be [flushed](Self::flush) yet.
    pub(super) fn write(&mut self, bytes: &[u8], patience: Duration) -> Result<usize, DataError> {
        let mut done = 0;
        while done < bytes.len() && self.flush(patience)? {
            let written = match &mut self.tls {
                Some(tls) => tls.writer().write(&bytes[done..])?,
                None => match (&*self.tcp).write(&bytes[done..]) {
                    Err(error) if is_retryable(&error) => {
                        if self.takes_more(patience)? {
                            continue;
                        }
                        break;
                    }
                    written => written?,
                },
            };
            if written == 0 {
                return Err(io::Error::from(io::ErrorKind::WriteZero).into());
            }
            done += written;
        }
        Ok(done)
    }

    /// Sends what is encrypted; false if the socket takes none of it for `patience`.
    pub(super) fn flush(&mut self, patience: Duration) -> Result<bool, DataError> {
        loop {
            let Some(tls) = self.tls.as_mut().filter(|tls| tls.wants_write()) else { return Ok(true) };
            match tls.write_tls(&mut &*self.tcp) {
                Ok(0) => return Err(io::Error::from(io::ErrorKind::WriteZero).into()),
                Err(error) if is_retryable(&error) => {
                    if !self.takes_more(patience)? {
                        return Ok(false);
                    }
                }
                written => drop(written?),
            }
        }
    }

    /// Waits until the socket takes bytes; false after `patience`.
    fn takes_more(&self, patience: Duration) -> Result<bool, DataError> {
        match self.wait(PollFlags::OUT, Some(Instant::now() + patience)) {
            Err(DataError::Stalled) => Ok(false),
            waited => waited.map(|()| true),
        }
    }

    /// Sends `range` of `file`, by `sendfile` over plain TCP, in pieces under TLS, until all is sent or the socket takes
    /// nothing for `patience`; returns the number of bytes sent. A file shorter than the range is `UnexpectedEof`, after
    /// the bytes it has were sent.
    pub(super) fn send_file(
        &mut self,
        file: &File,
        range: Range<u64>,
        patience: Duration,
    ) -> Result<u64, DataError> {
        if self.tls.is_some() {
            return self.encrypt_file(file, range, patience);
        }
        let mut at = range.start;
        while at < range.end {
            let count = usize::try_from((range.end - at).min(SENDFILE_BYTES)).unwrap_or(usize::MAX);
            match sendfile(self.tcp.as_fd(), file, Some(&mut at), count) {
                Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                Ok(_) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) if self.takes_more(patience)? => {}
                Err(Errno::AGAIN) => break,
                Err(error) => return Err(io::Error::from(error).into()),
            }
        }
        Ok(at - range.start)
    }

    fn encrypt_file(&mut self, file: &File, range: Range<u64>, patience: Duration) -> Result<u64, DataError> {
        let mut piece = std::mem::take(&mut self.piece);
        piece.resize(PIECE_BYTES, 0);
        let mut at = range.start;
        while at < range.end {
            let len = usize::try_from(range.end - at).unwrap_or(PIECE_BYTES).min(PIECE_BYTES);
            file.read_exact_at(&mut piece[..len], at)?;
            let written = self.write(&piece[..len], patience)?;
            at += written as u64;
            if written < len {
                break;
            }
        }
        self.piece = piece;
        Ok(at - range.start)
    }
}

impl Inbox {
    fn take(&mut self, buffer: &mut [u8]) -> usize {
        let len = buffer.len().min(self.held.len());
        buffer[..len].copy_from_slice(&self.bytes[self.held.start..self.held.start + len]);
        self.held.start += len;
        len
    }
}

fn is_retryable(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
