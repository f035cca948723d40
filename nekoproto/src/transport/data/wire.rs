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

use crate::transport::{error::DataError, io::Io};

/// Bytes read from the socket at once, for messages and for TLS.
const INBOX_BYTES: usize = 64 * 1024;
/// Buffers of at least this many bytes are read into directly, without the inbox.
const DIRECT_BYTES: usize = 4 * 1024;
/// Bytes read from a file at once, to be encrypted.
const PIECE_BYTES: usize = 256 * 1024;
/// Encrypted bytes that TLS may buffer before they are sent.
const TLS_OUT_BYTES: usize = PIECE_BYTES + 64 * 1024;
/// Bytes for one `sendfile`, so that the deadline is looked at between calls.
const SENDFILE_BYTES: u64 = 4 * 1024 * 1024;

/// The bytes of one connection. A write waits at most `stall` without progress; a read is told how long.
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
    bytes: Box<[u8]>,
    held: Range<usize>,
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
            inbox: Inbox { bytes: vec![0; INBOX_BYTES].into(), held: 0..0 },
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

    /// Waits, without blocking a thread, until there may be something to read.
    pub(super) async fn readable(&self) -> io::Result<()> {
        // The runtime watches a duplicate of the socket, and only until this returns.
        tokio::net::TcpStream::from_std(self.tcp.try_clone()?)?.readable().await
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

    /// Reads what has arrived, without waiting; 0 if nothing has, or at the end of the stream.
    pub(super) fn read_ready(&mut self, buffer: &mut [u8]) -> Result<usize, DataError> {
        match self.read(buffer, None) {
            Err(DataError::Stalled) => Ok(0),
            read => read,
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

    /// Writes all of `bytes`.
    pub(super) fn write_all(&mut self, bytes: &[u8]) -> Result<(), DataError> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let until = Some(Instant::now() + self.stall);
            let written = match &mut self.tls {
                Some(tls) => {
                    let written = tls.writer().write(rest)?;
                    self.send_encrypted()?;
                    written
                }
                None => loop {
                    match (&*self.tcp).write(rest) {
                        Err(error) if is_retryable(&error) => self.wait(PollFlags::OUT, until)?,
                        written => break written?,
                    }
                },
            };
            if written == 0 {
                return Err(io::Error::from(io::ErrorKind::WriteZero).into());
            }
            rest = &rest[written..];
        }
        Ok(())
    }

    fn send_encrypted(&mut self) -> Result<(), DataError> {
        loop {
            let Some(tls) = self.tls.as_mut().filter(|tls| tls.wants_write()) else { return Ok(()) };
            match tls.write_tls(&mut &*self.tcp) {
                Ok(0) => return Err(io::Error::from(io::ErrorKind::WriteZero).into()),
                Err(error) if is_retryable(&error) => {
                    self.wait(PollFlags::OUT, Some(Instant::now() + self.stall))?;
                }
                written => drop(written?),
            }
        }
    }

    /// Sends `range` of `file`: by `sendfile` over plain TCP, in pieces under TLS. A file shorter than the range
    /// is `UnexpectedEof`, after the bytes it has were sent.
    pub(super) fn send_file(&mut self, file: &File, range: Range<u64>) -> Result<(), DataError> {
        if self.tls.is_some() {
            return self.encrypt_file(file, range);
        }
        let mut at = range.start;
        while at < range.end {
            let count = usize::try_from((range.end - at).min(SENDFILE_BYTES)).unwrap_or(usize::MAX);
            match sendfile(self.tcp.as_fd(), file, Some(&mut at), count) {
                Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                Ok(_) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => self.wait(PollFlags::OUT, Some(Instant::now() + self.stall))?,
                Err(error) => return Err(io::Error::from(error).into()),
            }
        }
        Ok(())
    }

    fn encrypt_file(&mut self, file: &File, range: Range<u64>) -> Result<(), DataError> {
        let mut piece = std::mem::take(&mut self.piece);
        piece.resize(PIECE_BYTES, 0);
        let mut at = range.start;
        while at < range.end {
            let len = usize::try_from(range.end - at).unwrap_or(PIECE_BYTES).min(PIECE_BYTES);
            file.read_exact_at(&mut piece[..len], at)?;
            self.write_all(&piece[..len])?;
            at += len as u64;
        }
        self.piece = piece;
        Ok(())
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
