//! The bytes of a held file, as the body of an answer.
//!
//! The connection has the system send them, all but the last, which are read here once the others have been sent:
//! if the file has changed by then, the body fails before its end, and with it the connection. Any other server
//! than our own gets bytes that were read on a thread.

use std::{
    fs::File,
    io,
    ops::Range,
    os::unix::fs::FileExt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use nekoindexer::daemon::http::FileSender;
use tokio::task::{JoinHandle, spawn_blocking};

use crate::{content::stamp::Stamp, storage::catalogue::Entry};

const PIECE_BYTES: u64 = 256 * 1024;
/// The last bytes of an answer, which are read and not sent by the system.
const LAST_BYTES: u64 = 16 * 1024;

#[derive(Debug)]
pub(super) struct FileBody {
    file: Arc<File>,
    /// What it was when it was opened.
    entry: Arc<Entry>,
    /// Its stamp when its bytes were known to be those of the entry last.
    stamp: Stamp,
    left: Range<u64>,
    sender: Option<FileSender>,
    reading: Option<JoinHandle<io::Result<(Bytes, Stamp)>>>,
}

impl FileBody {
    /// The bytes in `range` of `file`, which is that of `entry`, sent by `sender` if there is one.
    pub(super) fn new(file: File, entry: Arc<Entry>, range: Range<u64>, sender: Option<FileSender>) -> Self {
        let (file, stamp) = (Arc::new(file), entry.stamp);
        Self { file, entry, stamp, left: range, sender, reading: None }
    }

    /// Fails if the file is not as it was with this stamp; returns the stamp that it has now. That it was moved or replaced by another does not change its bytes, but
    /// looks as if they had been written and its time set back: then they are read again.
    fn check(file: &File, entry: &Entry, stamp: Stamp) -> io::Result<Stamp> {
        let now = Stamp::of(&file.metadata()?);
        let is_same = stamp == now
            || (stamp.is_moved_to(&now) && {
                let mut hasher = blake3::Hasher::new();
                hasher.update_reader(file)?;
                hasher.finalize() == *entry.record.content.as_bytes()
            });
        if is_same { Ok(now) } else { Err(io::Error::other("the file changed while it was sent")) }
    }

    fn poll_bytes(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        let len = self.left.end - self.left.start;
        if let Some(sender) = &self.sender {
            if len > LAST_BYTES {
                return Poll::Ready(
                    Ok(sender.frame(&self.file, self.left.start..self.left.end - LAST_BYTES)),
                );
            }
            ready!(sender.poll_sent(cx));
        }
        let (file, entry, at) = (Arc::clone(&self.file), Arc::clone(&self.entry), self.left.start);
        let stamp = self.stamp;
        let reading = self.reading.get_or_insert_with(|| {
            spawn_blocking(move || {
                let mut bytes = vec![0; usize::try_from(len.min(PIECE_BYTES)).unwrap_or(usize::MAX)];
                file.read_exact_at(&mut bytes, at)?;
                let stamp = Self::check(&file, &entry, stamp)?;
                Ok((bytes.into(), stamp))
            })
        });
        let read = ready!(Pin::new(reading).poll(cx));
        self.reading = None;
        let (bytes, stamp) = read.map_err(io::Error::other)??;
        self.stamp = stamp;
        Poll::Ready(Ok(bytes))
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
        let bytes = ready!(self.poll_bytes(cx))?;
        self.left.start += bytes.len() as u64;
        Poll::Ready(Some(Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.left.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left.end - self.left.start)
    }
}

#[cfg(test)]
mod tests {
    use testkit::goods::Goods;

    use super::*;
    use crate::storage::catalogue::model_tests::copy_of;

    #[tokio::test]
    async fn file_that_was_replaced_is_hashed_once_and_not_for_each_piece() {
        let folder = tempfile::tempdir().unwrap();
        let (path, beside) = (folder.path().join("a"), folder.path().join("b"));
        let content = vec![7; 3 * usize::try_from(PIECE_BYTES).unwrap()];
        std::fs::write(&path, &content).unwrap();
        let file = File::open(&path).unwrap();
        let record = Goods::new(1, "a", 1, content.clone()).record;
        let entry = copy_of(record, &path).entry;
        let len = content.len() as u64;
        let mut body = FileBody::new(file, Arc::new(entry), 0..len, None);
        std::fs::write(&beside, b"another").unwrap();
        std::fs::rename(&beside, &path).unwrap();
        let mut sent = Vec::new();
        while let Some(frame) = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
            sent.extend_from_slice(&frame.unwrap().into_data().unwrap());
            let now = Stamp::of(&body.file.metadata().unwrap());
            assert_eq!(body.stamp, now, "what is as it was then is not hashed again");
        }
        assert_eq!(sent, content);
    }
}
