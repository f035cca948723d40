//! Control frames: the [`Envelope`] around tarpc's messages, and its framing.
//!
//! A frame is a 32-bit big-endian length and as many encoded bytes. tarpc's own envelope spends 29 bytes a
//! call on trace ids and on a deadline without a limit, of which one hostile value ends the server. Here a
//! deadline is 32 bits of milliseconds, cut to a limit on arrival.

use std::io;

use serde::{Deserialize, Serialize};
use tarpc::{ServerError, client::RpcError};

use crate::{codec, limits::FRAME_BYTES_MAX, messages::Fault, transport::error::FrameError};

pub(super) const PREFIX_BYTES: usize = 4;

/// One control frame. `Req` are the requests of this direction, `Resp` its responses.
/// Wire: append variants, never reorder.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub enum Envelope<Req, Resp> {
    /// A call.
    Request {
        /// Chosen by the caller, unique among its calls in flight.
        id: u64,
        /// Milliseconds until the caller gives up; cut to [`DEADLINE_MAX`](crate::limits::DEADLINE_MAX) on arrival.
        deadline_ms: u32,
        /// The call itself.
        call: Req,
    },
    /// The caller gave up.
    Cancel {
        /// The call's id.
        id: u64,
    },
    /// The response to a call of the other end.
    Response {
        /// The call's id.
        id: u64,
        /// The response, or why there is none.
        answer: Result<Resp, Fault>,
    },
}

/// The result of a call, from the response on the wire.
pub(super) fn result_of<Resp>(answer: Result<Resp, Fault>) -> Result<Resp, RpcError> {
    answer.map_err(|fault| {
        let kind = match fault {
            Fault::Busy => io::ErrorKind::WouldBlock,
            Fault::Internal => io::ErrorKind::Other,
        };
        RpcError::Server(ServerError::new(kind, fault.to_string()))
    })
}

/// The fault that the other end is told of a failed handler.
pub(super) const fn fault_of(error: &ServerError) -> Fault {
    match error.kind {
        io::ErrorKind::WouldBlock => Fault::Busy,
        _ => Fault::Internal,
    }
}

/// Takes the next whole frame from the front of `bytes`, without its prefix; `None` while it is incomplete.
pub(super) fn next_frame<'a>(bytes: &mut &'a [u8]) -> Result<Option<&'a [u8]>, FrameError> {
    let Some(whole) = whole_bytes(bytes)? else { return Ok(None) };
    let Some((frame, rest)) = bytes.split_at_checked(whole) else { return Ok(None) };
    *bytes = rest;
    Ok(Some(&frame[PREFIX_BYTES..]))
}

/// Length of the frame that `bytes` begin with, its prefix included; `None` while the prefix is incomplete.
pub(super) fn whole_bytes(bytes: &[u8]) -> Result<Option<usize>, FrameError> {
    let Some(prefix) = bytes.first_chunk::<PREFIX_BYTES>() else { return Ok(None) };
    let len = usize::try_from(u32::from_be_bytes(*prefix)).unwrap_or(usize::MAX);
    if len > FRAME_BYTES_MAX { Err(FrameError::TooLong(len)) } else { Ok(Some(PREFIX_BYTES + len)) }
}

pub(super) fn put_frame<Req: Serialize, Resp: Serialize>(
    out: &mut Vec<u8>,
    envelope: &Envelope<Req, Resp>,
) -> Result<(), FrameError> {
    let start = out.len();
    out.extend_from_slice(&[0; PREFIX_BYTES]);
    let encoded = codec::append(&mut *out, envelope);
    let len = out.len() - start - PREFIX_BYTES;
    match u32::try_from(len) {
        Ok(prefix) if encoded.is_ok() && len <= FRAME_BYTES_MAX => {
            out[start..start + PREFIX_BYTES].copy_from_slice(&prefix.to_be_bytes());
            Ok(())
        }
        _ => {
            out.truncate(start);
            encoded?;
            Err(FrameError::TooLong(len))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Frame = Envelope<Vec<u8>, u8>;

    fn framed(frame: &Frame) -> Vec<u8> {
        let mut bytes = Vec::new();
        put_frame(&mut bytes, frame).unwrap();
        bytes
    }

    #[test]
    fn an_echo_frame_has_nine_bytes() {
        let bytes = framed(&Frame::Request { id: 1, deadline_ms: 100, call: vec![7] });
        assert_eq!(bytes, [0, 0, 0, 5, 0, 1, 100, 1, 7]);
    }

    #[test]
    fn an_announced_length_over_the_limit_is_refused_before_the_frame_is_there() {
        let error = next_frame(&mut &u32::MAX.to_be_bytes()[..]).unwrap_err();
        assert!(matches!(error, FrameError::TooLong(_)), "{error}");
    }

    #[test]
    fn garbage_and_trailing_bytes_are_malformed() {
        for body in [b"\xff\xff\xff".as_slice(), b"\x01\x05more", b""] {
            assert!(codec::decode::<Frame>(body).is_err(), "{body:?}");
        }
        // A deadline of 64 bits: bincode writes it as 253 and its 8 bytes.
        let body = [&[0, 1, 253][..], &[0xff; 8], &[0]].concat();
        assert!(codec::decode::<Frame>(&body).is_err());
    }

    #[test]
    fn what_does_not_fit_leaves_the_buffer_as_it_was() {
        let mut bytes = framed(&Frame::Cancel { id: 1 });
        let before = bytes.clone();
        let call = vec![0; FRAME_BYTES_MAX + 1];
        assert!(put_frame(&mut bytes, &Frame::Request { id: 1, deadline_ms: 1, call }).is_err());
        assert_eq!(bytes, before);
    }

    #[test]
    fn frames_split_anywhere_are_the_same() {
        let whole: Vec<u8> =
            (0..3).flat_map(|id| framed(&Frame::Response { id, answer: Err(Fault::Busy) })).collect();
        for split in 0..=whole.len() {
            let (first, second) = whole.split_at(split);
            let (mut bytes, mut ids) = (Vec::new(), Vec::new());
            for more in [first, second] {
                bytes.extend_from_slice(more);
                let mut left = &bytes[..];
                while let Some(frame) = next_frame(&mut left).unwrap() {
                    let Frame::Response { id, .. } = codec::decode(frame).unwrap() else { panic!() };
                    ids.push(id);
                }
                bytes = left.to_vec();
            }
            assert_eq!(ids, [0, 1, 2], "split at {split}");
        }
    }
}
