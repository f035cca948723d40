//! The bytes of a held file, as the body of an answer.
//!
//! What the system has in memory is read at once, on the thread that sends it, so that it comes from the
//! processor's cache when it is sent; measured, that is as fast as `sendfile`. What is on a disk is read on another
//! thread, so that a slow disk delays this answer only. If the file changes meanwhile, the body fails before its
//! last byte, and with it the connection.

use std::{
    fs::File,
    io::{self, IoSliceMut},
    ops::Range,
    os::unix::fs::FileExt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use rustix::{
    fs::{Advice, fadvise, fstatfs},
    io::{Errno, ReadWriteFlags, preadv2},
};
use tokio::task::{JoinHandle, spawn_blocking};

use crate::content::stamp::Stamp;

/// Bytes that are read and sent at once: they stay in the processor's cache in between.
const PIECE_BYTES: usize = 256 * 1024;
/// The kind of file system that is memory, by `statfs(2)`: it does not know the flag that asks for what is in memory.
const TMPFS: i64 = 0x0102_1994;

/// Bytes of a file.
#[derive(Debug)]
pub(super) struct FileBody {
    source: Arc<Source>,
    left: Range<u64>,
    /// Buffers to read into; they come back when their bytes have been sent.
    buffers: Arc<Mutex<Vec<Vec<u8>>>>,
    reading: Option<JoinHandle<io::Result<Vec<u8>>>>,
}

#[derive(Debug)]
struct Source {
    file: File,
    stamp: Stamp,
    is_memory: bool,
}

impl FileBody {
    /// The bytes in `range` of `file`, whose stamp is `stamp`. Blocking.
    pub(super) fn new(file: File, stamp: Stamp, range: Range<u64>) -> Self {
        let is_memory = fstatfs(&file).is_ok_and(|system| system.f_type == TMPFS);
        let _ = fadvise(&file, range.start, None, Advice::Sequential); // advice only
        let source = Arc::new(Source { file, stamp, is_memory });
        Self { source, left: range, buffers: Arc::default(), reading: None }
    }

    fn buffer(&self) -> Vec<u8> {
        let len = usize::try_from(self.left.end - self.left.start).unwrap_or(PIECE_BYTES).min(PIECE_BYTES);
        let mut buffer = self.buffers.lock().pop().unwrap_or_default();
        buffer.resize(len, 0);
        buffer
    }

    /// The next bytes, if they can be had without waiting for a disk.
    fn read_at_once(&self) -> io::Result<Option<Vec<u8>>> {
        let mut buffer = self.buffer();
        let read = self.source.read_at_once(&mut buffer, self.left.start)?;
        if read.is_none() {
            self.buffers.lock().push(buffer);
            return Ok(None);
        }
        buffer.truncate(read.unwrap_or(0));
        Ok(Some(buffer))
    }
}

impl Source {
    fn read_at_once(&self, buffer: &mut [u8], at: u64) -> io::Result<Option<usize>> {
        if self.is_memory {
            return self.file.read_at(buffer, at).map(Some);
        }
        match preadv2(&self.file, &mut [IoSliceMut::new(buffer)], at, ReadWriteFlags::NOWAIT) {
            Ok(read) => Ok(Some(read)),
            Err(Errno::AGAIN | Errno::OPNOTSUPP | Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Fails if the file is not as it was. That it was moved or replaced by another does not change its bytes.
    fn check(&self) -> io::Result<()> {
        let now = Stamp::of(&self.file.metadata()?);
        if self.stamp.is_moved_to(&now) {
            Ok(())
        } else {
            Err(io::Error::other("the file changed while it was sent"))
        }
    }
}

impl Body for FileBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if self.left.is_empty() {
            return Poll::Ready(None);
        }
        let read = match &mut self.reading {
            Some(reading) => {
                let read = ready!(Pin::new(reading).poll(cx)).map_err(io::Error::other)?;
                self.reading = None;
                read?
            }
            None => match self.read_at_once()? {
                Some(read) => read,
                None => {
                    let (source, at, mut buffer) = (Arc::clone(&self.source), self.left.start, self.buffer());
                    self.reading = Some(spawn_blocking(move || {
                        let read = source.file.read_at(&mut buffer, at)?;
                        buffer.truncate(read);
                        Ok(buffer)
                    }));
                    return self.poll_frame(cx);
                }
            },
        };
        if read.is_empty() {
            return Poll::Ready(Some(Err(io::ErrorKind::UnexpectedEof.into())));
        }
        self.source.check()?;
        self.left.start += read.len() as u64;
        let lent = Lent { bytes: read, to: Arc::clone(&self.buffers) };
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_owner(lent)))))
    }

    fn is_end_stream(&self) -> bool {
        self.left.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left.end - self.left.start)
    }
}

/// A buffer that goes back when it was sent.
struct Lent {
    bytes: Vec<u8>,
    to: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.to.lock().push(std::mem::take(&mut self.bytes));
    }
}
