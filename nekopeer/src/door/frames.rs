//! Frames on the socket: a length and bytes, within limits.

use std::{io, sync::Arc, time::Duration};

use bytes::BytesMut;
use futures::{SinkExt, StreamExt};
use serde::{Serialize, de::DeserializeOwned};
use tokio::{
    net::{
        UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};
use tokio_util::codec::{Decoder, FramedRead, FramedWrite, LengthDelimitedCodec};

use super::{decode, encode};

/// Longest frame that a caller sends, in bytes: a command with half a million names of a hundred bytes.
pub(super) const REQUEST_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Longest frame of an answer, in bytes: the hits of one name at hundreds of indexers.
pub(super) const REPLY_BYTES_MAX: usize = 16 * 1024 * 1024;

/// KiB of long frames that are received at once by one peer.
const ROOM_KIB: usize = 128 * 1024;
/// Frames up to this many bytes need no room: a connection has that anyway.
const SMALL_BYTES: usize = 1024;
/// Time within which a frame that has begun must end, once or twice.
const FRAME_WITHIN: Duration = Duration::from_secs(10);
const _: () = assert!(REQUEST_BYTES_MAX <= ROOM_KIB * 1024);

/// The receiving half. Waiting for a frame is cancel safe.
pub(super) struct Receiver {
    frames: FramedRead<OwnedReadHalf, Frames>,
}

/// Room for the long frames of all callers.
#[derive(Clone, Debug)]
pub(super) struct Room(Arc<Semaphore>);

/// Takes frames apart. With a room, one that has none is an error.
struct Frames {
    codec: LengthDelimitedCodec,
    room: Option<Room>,
    /// The room of the frame that has begun.
    taken: Option<OwnedSemaphorePermit>,
}

impl Default for Room {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(ROOM_KIB)))
    }
}

impl Room {
    /// The room of a frame of `bytes`.
    fn take(&self, bytes: usize) -> io::Result<OwnedSemaphorePermit> {
        let kib = if bytes <= SMALL_BYTES { 0 } else { bytes.div_ceil(1024).min(ROOM_KIB) };
        let kib = u32::try_from(kib).unwrap_or(u32::MAX);
        let none = |_| io::Error::new(io::ErrorKind::OutOfMemory, "too much is sent by all callers at once");
        Arc::clone(&self.0).try_acquire_many_owned(kib).map_err(none)
    }
}

impl Decoder for Frames {
    type Item = BytesMut;
    type Error = io::Error;

    fn decode(&mut self, bytes: &mut BytesMut) -> io::Result<Option<BytesMut>> {
        if let (Some(room), None, Some(length)) = (&self.room, &self.taken, bytes.first_chunk()) {
            let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
            self.taken = Some(room.take(length)?);
        }
        let frame = self.codec.decode(bytes)?;
        if frame.is_some() {
            self.taken = None;
        }
        Ok(frame)
    }
}

/// The sending half.
pub(super) struct Sender(FramedWrite<OwnedWriteHalf, LengthDelimitedCodec>);

/// Splits a connection; `receives` and `sends` are the longest frames in bytes. Frames of a caller need `room`, and must
/// end in time.
pub(super) fn split(
    stream: UnixStream,
    receives: usize,
    sends: usize,
    room: Option<&Room>,
) -> (Receiver, Sender) {
    let codec = |limit| LengthDelimitedCodec::builder().max_frame_length(limit).new_codec();
    let (read, write) = stream.into_split();
    let frames = Frames { codec: codec(receives), room: room.cloned(), taken: None };
    (Receiver { frames: FramedRead::new(read, frames) }, Sender(FramedWrite::new(write, codec(sends))))
}

impl Receiver {
    /// The next value; `None` when the other end has closed the connection.
    pub(super) async fn next<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        let mut has_begun = false;
        loop {
            match timeout(FRAME_WITHIN, self.frames.next()).await {
                Ok(Some(frame)) => return decode(&frame?).map(Some),
                Ok(None) => return Ok(None),
                Err(_) if has_begun => {
                    return Err(io::Error::new(io::ErrorKind::TimedOut, "a frame does not come to its end"));
                }
                // Whoever waits for a peer waits as long as it takes.
                Err(_) => {
                    let Frames { room, taken, .. } = self.frames.decoder();
                    has_begun = room.is_some() && (taken.is_some() || !self.frames.read_buffer().is_empty());
                }
            }
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

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;
    use crate::door::{Facts, Request};

    /// What a caller sends, as a stream of frames and as one.
    #[test]
    fn frames_of_a_caller() {
        testkit::fuzz("frames_of_a_caller", |bytes: &[u8]| {
            let codec = LengthDelimitedCodec::builder().max_frame_length(REQUEST_BYTES_MAX).new_codec();
            let mut frames = Frames { codec, room: Some(Room::default()), taken: None };
            let mut stream = BytesMut::from(bytes);
            while let Ok(Some(frame)) = frames.decode(&mut stream) {
                drop(decode::<Request>(&frame));
            }
            drop(decode::<Facts>(bytes));
            let Ok(request) = decode::<Request>(bytes) else { return };
            let encoded = encode(&request, REQUEST_BYTES_MAX).unwrap();
            let again = encode(&decode::<Request>(&encoded).unwrap(), REQUEST_BYTES_MAX).unwrap();
            assert_eq!(again, encoded);
        });
    }

    /// A caller's end that says what it likes, and the peer's end.
    fn pair(room: &Room) -> (UnixStream, Receiver) {
        let (caller, peer) = UnixStream::pair().unwrap();
        (caller, split(peer, REQUEST_BYTES_MAX, REPLY_BYTES_MAX, Some(room)).0)
    }

    #[tokio::test(start_paused = true)]
    async fn a_frame_that_does_not_end_is_an_error_and_silence_is_none() {
        let room = Room::default();
        let ((mut caller, mut receiver), (_silent, mut idle)) = (pair(&room), pair(&room));
        caller.write_all(&[0, 1, 0, 0, 7]).await.unwrap();
        let error = receiver.next::<u32>().await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(timeout(9 * FRAME_WITHIN, idle.next::<u32>()).await.is_err(), "between frames it may wait");
    }

    #[tokio::test]
    async fn long_frames_of_all_callers_together_have_a_bound() {
        let room = Room::default();
        let long = u32::try_from(REQUEST_BYTES_MAX).unwrap().to_be_bytes();
        let mut callers: Vec<_> = (0..3).map(|_| pair(&room)).collect();
        for (caller, _) in &mut callers {
            caller.write_all(&long).await.unwrap();
        }
        for n in [0, 1] {
            let waits = timeout(Duration::from_millis(100), callers[n].1.next::<u32>()).await;
            assert!(waits.is_err(), "it has room: {n}");
        }
        let refused = callers[2].1.next::<u32>().await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::OutOfMemory);
        drop(callers.remove(0));
        let (mut small, mut receiver) = pair(&room);
        let word = encode(&9_u32, 64).unwrap();
        small
            .write_all(&[&u32::try_from(word.len()).unwrap().to_be_bytes(), &word[..]].concat())
            .await
            .unwrap();
        assert_eq!(receiver.next::<u32>().await.unwrap(), Some(9));
        let (mut again, mut receiver) = pair(&room);
        again.write_all(&long).await.unwrap();
        assert!(timeout(Duration::from_millis(100), receiver.next::<u32>()).await.is_err(), "room came back");
    }
}
