//! Control frames: our own envelope around tarpc's messages, and its framing.
//!
//! A frame is a 32-bit big-endian length and that many encoded bytes. The envelope carries what
//! a call needs and nothing else: tarpc's own form spends 29 bytes a call on a deadline that the
//! other end chooses freely (one hostile value ends the server) and on trace ids. Here a deadline
//! is 32 bits of milliseconds, cut to a limit on arrival.

use std::{marker::PhantomData, time::Instant};

use bytes::{Buf, BufMut, BytesMut};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use tarpc::{ClientMessage, Request, Response, ServerError, context};
use tokio_util::codec::{Decoder, Encoder};

use crate::{
    Fault,
    codec::{self, CodecError},
    limits::{DEADLINE_MAX, FRAME_BYTES_MAX},
};

const PREFIX_BYTES: usize = 4;

/// One control frame. `Call` is what this direction asks, `Answer` what it answers.
/// Wire: append variants, never reorder.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub enum Envelope<Call, Answer> {
    /// A call.
    Request {
        /// Chosen by the caller, unique among its calls in flight.
        id: u64,
        /// Milliseconds until the caller gives up; cut to [`DEADLINE_MAX`] on arrival.
        deadline_ms: u32,
        /// The call itself.
        call: Call,
    },
    /// The caller gave up.
    Cancel {
        /// Which call.
        id: u64,
    },
    /// The answer to a call of the other end.
    Response {
        /// Which call.
        id: u64,
        /// The answer, or why there is none.
        answer: Result<Answer, Fault>,
    },
}

impl<Call, Answer> Envelope<Call, Answer> {
    pub(super) fn from_client(message: ClientMessage<Call>) -> Option<Self> {
        match message {
            ClientMessage::Request(Request { context, id, message }) => {
                let left = context.deadline.saturating_duration_since(Instant::now()).min(DEADLINE_MAX);
                let deadline_ms = u32::try_from(left.as_millis()).unwrap_or(u32::MAX);
                Some(Self::Request { id, deadline_ms, call: message })
            }
            ClientMessage::Cancel { request_id, .. } => Some(Self::Cancel { id: request_id }),
            _ => None, // tarpc reserves the right to more; this version has none
        }
    }

    pub(super) fn from_server(response: Response<Answer>) -> Self {
        let answer = response.message.map_err(|error| match error.kind {
            std::io::ErrorKind::WouldBlock => Fault::Busy,
            _ => Fault::Internal,
        });
        Self::Response { id: response.request_id, answer }
    }

    /// The message for the half that it concerns.
    pub(super) fn sort(self) -> Sorted<Call, Answer> {
        match self {
            Self::Request { id, deadline_ms, call } => {
                let mut context = context::current();
                let left = std::time::Duration::from_millis(deadline_ms.into()).min(DEADLINE_MAX);
                context.deadline = Instant::now() + left;
                Sorted::ForServer(ClientMessage::Request(Request { context, id, message: call }))
            }
            Self::Cancel { id } => Sorted::ForServer(ClientMessage::Cancel {
                trace_context: tarpc::trace::Context::default(),
                request_id: id,
            }),
            Self::Response { id, answer } => {
                let message = answer.map_err(|fault| {
                    let kind = match fault {
                        Fault::Busy => std::io::ErrorKind::WouldBlock,
                        Fault::Internal => std::io::ErrorKind::Other,
                    };
                    ServerError::new(kind, fault.to_string())
                });
                Sorted::ForClient(Response { request_id: id, message })
            }
        }
    }
}

/// An incoming message and whom it concerns.
pub(super) enum Sorted<Call, Answer> {
    ForServer(ClientMessage<Call>),
    ForClient(Response<Answer>),
}

/// Why a control connection ended.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// A frame longer than the limit was announced.
    #[error("a frame of {0} bytes is over the limit of {FRAME_BYTES_MAX}")]
    TooLong(usize),
    /// The frame's bytes break a rule.
    #[error(transparent)]
    Malformed(#[from] CodecError),
    /// The connection broke.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// Cuts the byte stream into envelopes, and back.
#[derive(Debug)]
pub(super) struct FrameCodec<In, Out>(PhantomData<fn(Out) -> In>);

impl<In, Out> Default for FrameCodec<In, Out> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<In: DeserializeOwned, Out> Decoder for FrameCodec<In, Out> {
    type Item = In;
    type Error = FrameError;

    fn decode(&mut self, bytes: &mut BytesMut) -> Result<Option<In>, FrameError> {
        let Some(prefix) = bytes.first_chunk::<PREFIX_BYTES>() else { return Ok(None) };
        let len = usize::try_from(u32::from_be_bytes(*prefix)).unwrap_or(usize::MAX);
        if len > FRAME_BYTES_MAX {
            return Err(FrameError::TooLong(len));
        }
        let end = PREFIX_BYTES + len;
        let Some(frame) = bytes.get(PREFIX_BYTES..end) else {
            bytes.reserve(end - bytes.len());
            return Ok(None);
        };
        let item = codec::decode(frame)?;
        bytes.advance(end);
        Ok(Some(item))
    }
}

impl<In, Out: Serialize> Encoder<Out> for FrameCodec<In, Out> {
    type Error = FrameError;

    fn encode(&mut self, item: Out, bytes: &mut BytesMut) -> Result<(), FrameError> {
        let start = bytes.len();
        bytes.put_u32(0);
        if let Err(error) = codec::encode_into((&mut *bytes).writer(), &item, FRAME_BYTES_MAX as u64) {
            bytes.truncate(start);
            return Err(error.into());
        }
        let len = u32::try_from(bytes.len() - start - PREFIX_BYTES)
            .map_err(|_| FrameError::TooLong(bytes.len() - start))?;
        bytes[start..start + PREFIX_BYTES].copy_from_slice(&len.to_be_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Frame = Envelope<Vec<u8>, u8>;

    fn frame(len: u32, bytes: &[u8]) -> BytesMut {
        BytesMut::from([&len.to_be_bytes(), bytes].concat().as_slice())
    }

    #[test]
    fn an_echo_frame_has_nine_bytes() {
        let mut bytes = BytesMut::new();
        let call = Frame::Request { id: 1, deadline_ms: 100, call: vec![7] };
        FrameCodec::<Frame, Frame>::default().encode(call, &mut bytes).unwrap();
        assert_eq!(bytes.as_ref(), [0, 0, 0, 5, 0, 1, 100, 1, 7]);
    }

    #[test]
    fn an_announced_length_over_the_limit_ends_the_connection_before_it_is_read() {
        let mut codec = FrameCodec::<Frame, Frame>::default();
        let error = codec.decode(&mut frame(u32::MAX, b"")).unwrap_err();
        assert!(matches!(error, FrameError::TooLong(_)), "{error}");
    }

    #[test]
    fn garbage_and_trailing_bytes_are_malformed() {
        let mut codec = FrameCodec::<Frame, Frame>::default();
        for body in [b"\xff\xff\xff".as_slice(), b"\x01\x05more", b""] {
            let len = u32::try_from(body.len()).unwrap();
            assert!(matches!(codec.decode(&mut frame(len, body)), Err(FrameError::Malformed(_))), "{body:?}");
        }
    }

    #[test]
    fn the_longest_deadline_is_cut_to_the_limit() {
        let request = Frame::Request { id: 1, deadline_ms: u32::MAX, call: vec![] };
        let Sorted::ForServer(ClientMessage::Request(request)) = request.sort() else { panic!() };
        assert!(request.context.deadline <= Instant::now() + DEADLINE_MAX);
    }

    #[test]
    fn a_deadline_of_u64_max_seconds_is_malformed_and_no_panic() {
        // bincode writes an integer of 64 bits as 253 and its 8 bytes
        let body = [&[0, 1, 253][..], &[0xff; 8], &[0]].concat();
        let mut codec = FrameCodec::<Frame, Frame>::default();
        assert!(codec.decode(&mut frame(u32::try_from(body.len()).unwrap(), &body)).is_err());
    }

    #[test]
    fn frames_split_anywhere_decode_the_same() {
        let mut whole = BytesMut::new();
        let mut codec = FrameCodec::<Frame, Frame>::default();
        for id in 0..3 {
            codec.encode(Frame::Response { id, answer: Err(Fault::Busy) }, &mut whole).unwrap();
        }
        for split in 0..whole.len() {
            let (first, second) = whole.split_at(split);
            let (mut bytes, mut ids) = (BytesMut::from(first), Vec::new());
            for more in [&[][..], second] {
                bytes.extend_from_slice(more);
                while let Some(Frame::Response { id, .. }) = codec.decode(&mut bytes).unwrap() {
                    ids.push(id);
                }
            }
            assert_eq!(ids, [0, 1, 2], "split at {split}");
        }
    }
}
