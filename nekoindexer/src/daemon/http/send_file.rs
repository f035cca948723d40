//! [`FileSender`]: parts of files in the body of an answer, which the system sends without copying them.
//!
//! The body has frames that stand for the bytes of a file. They are parts of one static region that is never read;
//! the connection knows them by their address, and has the system send the next part of the queue in their place.
//! Frames are written in the order in which the body yields them, so frames and parts stay in step. The system is
//! called on a thread of its own, since a disk may make it wait.

use std::{
    collections::VecDeque,
    fs::File,
    io,
    ops::Range,
    os::fd::{AsFd, OwnedFd},
    pin::Pin,
    sync::{Arc, LazyLock},
    task::{Context, Poll, Waker, ready},
    time::Duration,
};

use bytes::Bytes;
use parking_lot::Mutex;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::sendfile,
    io::Errno,
};
use tokio::{
    io::Interest,
    net::TcpStream,
    task::{JoinHandle, spawn_blocking},
};

/// Bytes of one frame at most.
pub const FRAME_BYTES_MAX: usize = 4 * 1024 * 1024;
/// How long a thread waits for a reader before it leaves that to the runtime.
const READER_WITHIN: Duration = Duration::from_millis(10);

/// Stands for bytes of files. It takes no memory, since nobody reads it, and on the heap no place in the program's file.
static STAND_IN: LazyLock<Box<[u8]>> = LazyLock::new(|| vec![0; FRAME_BYTES_MAX].into());

/// Sends parts of files over one connection. Found among the extensions of a request that came through an
/// [`HttpDoor`](super::HttpDoor); its frames mean nothing to any other connection.
#[derive(Clone, Debug, Default)]
pub struct FileSender(Arc<Mutex<Queue>>);

#[derive(Debug, Default)]
struct Queue {
    parts: VecDeque<Part>,
    waiting: Option<Waker>,
}

/// Bytes of a file that are still to be sent.
#[derive(Clone, Debug)]
struct Part {
    file: Arc<File>,
    range: Range<u64>,
}

impl FileSender {
    /// A frame that stands for the first bytes of `range` of `file`, at most [`FRAME_BYTES_MAX`]. To be called when
    /// the body is polled for its next frame, and not before: the body must yield it next. If the file ends before
    /// the range does, the connection is cut.
    #[must_use]
    pub fn frame(&self, file: &Arc<File>, range: Range<u64>) -> Bytes {
        let wanted = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
        let len = wanted.min(FRAME_BYTES_MAX);
        let range = range.start..range.start + len as u64;
        self.0.lock().parts.push_back(Part { file: Arc::clone(file), range });
        Bytes::from_static(&STAND_IN[..len])
    }

    /// Ready once the system was given all bytes that frames stand for.
    pub fn poll_sent(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut queue = self.0.lock();
        if queue.parts.is_empty() {
            return Poll::Ready(());
        }
        queue.waiting = Some(cx.waker().clone());
        Poll::Pending
    }

    fn first(&self) -> Option<Part> {
        self.0.lock().parts.front().cloned()
    }

    fn sent(&self, bytes: usize) {
        let mut queue = self.0.lock();
        let Some(part) = queue.parts.front_mut() else { return };
        part.range.start += bytes as u64;
        if part.range.is_empty() {
            queue.parts.pop_front();
        }
        if queue.parts.is_empty()
            && let Some(waiting) = queue.waiting.take()
        {
            waiting.wake();
        }
    }
}

/// Whether these bytes of an answer stand for bytes of a file.
pub(super) fn is_stand_in(bytes: &[u8]) -> bool {
    !bytes.is_empty() && STAND_IN.as_ptr_range().contains(&bytes.as_ptr())
}

/// What a connection sends in place of the frames.
#[derive(Debug, Default)]
pub(super) struct Sending {
    pub(super) sender: FileSender,
    /// The socket, for the thread that sends.
    socket: Option<Arc<OwnedFd>>,
    running: Option<JoinHandle<io::Result<usize>>>,
}

impl Sending {
    /// Sends bytes in place of the first `len` of a frame; returns how many.
    pub(super) fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        stream: &TcpStream,
        len: usize,
    ) -> Poll<io::Result<usize>> {
        loop {
            if let Some(running) = &mut self.running {
                let sent = ready!(Pin::new(running).poll(cx));
                self.running = None;
                let sent = sent.map_err(io::Error::other)??;
                self.sender.sent(sent);
                if sent > 0 {
                    return Poll::Ready(Ok(sent));
                }
                // The reader takes nothing: the runtime waits for it.
                let looked = stream.try_io(Interest::WRITABLE, || is_writable(stream));
                looked.or_else(|error| match error.kind() {
                    io::ErrorKind::WouldBlock => Ok(()),
                    _ => Err(error),
                })?;
            }
            ready!(stream.poll_write_ready(cx))?;
            let part = self.sender.first().ok_or_else(|| io::Error::other("a frame without its file"))?;
            debug_assert_eq!(part.range.end - part.range.start, len as u64, "frames and parts are in step");
            let socket = match &self.socket {
                Some(socket) => Arc::clone(socket),
                None => {
                    let socket = Arc::new(stream.as_fd().try_clone_to_owned()?);
                    self.socket = Some(Arc::clone(&socket));
                    socket
                }
            };
            self.running = Some(spawn_blocking(move || send(&socket, part)));
        }
    }
}

/// Whether the socket takes bytes now, as an operation that fails if it does not.
fn is_writable(stream: &TcpStream) -> io::Result<()> {
    let taken = poll(&mut [PollFd::new(stream, PollFlags::OUT)], Some(&Timespec::default()))?;
    if taken > 0 { Ok(()) } else { Err(io::ErrorKind::WouldBlock.into()) }
}

/// Sends as much of `part` as the reader takes without a long pause; returns how many bytes. Blocking.
fn send(socket: &OwnedFd, part: Part) -> io::Result<usize> {
    let Range { start, end } = part.range;
    let patience = Timespec::try_from(READER_WITHIN).unwrap_or_default();
    let mut at = start;
    while at < end {
        let left = usize::try_from(end - at).unwrap_or(usize::MAX);
        match sendfile(socket, &part.file, Some(&mut at), left) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()), // the file was shortened
            Ok(_) | Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                if poll(&mut [PollFd::new(socket, PollFlags::OUT)], Some(&patience))? == 0 {
                    break;
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(usize::try_from(at - start).unwrap_or(usize::MAX))
}
