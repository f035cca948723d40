//! [`Sending`]: a reply on its way, which goes on where it stopped.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use nekoproto::{
    DataReply, FetchRefusal, Grant,
    transport::{DataError, DataStream, encoded},
};

use super::reply::{Body, Reply, SHORT_BYTES};
use crate::{library::events::Counters, util::rate::Rate};

/// Bytes sent before the share of the turn is looked at again.
const PIECE_BYTES: u64 = 1024 * 1024;

/// A reply and how much of it is sent.
pub(super) struct Sending {
    /// The header, and the bytes of a short reply.
    head: Vec<u8>,
    /// What follows the head.
    body: Body,
    header: u64,
    /// Bytes sent, the header included.
    sent: u64,
}

/// How far a reply came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    All,
    /// As many bytes as one turn has.
    Share,
    /// As much as the socket took without waiting.
    Some,
}

/// What remains of one turn.
#[derive(Debug)]
pub(super) struct Share {
    pub(super) bytes: u64,
    pub(super) until: Instant,
}

impl Share {
    /// Whether another piece may be sent.
    pub(super) fn is_left(&self) -> bool {
        self.bytes > 0 && Instant::now() < self.until
    }

    pub(super) const fn take(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}

impl Sending {
    pub(super) fn new(reply: Result<Reply, FetchRefusal>) -> Result<Self, DataError> {
        let (header, body): (DataReply, Body) = match reply {
            Ok(Reply { freshness, body }) => (Ok(Grant { len: body.len(), freshness }), body),
            Err(refusal) => (Err(refusal), Body::Bytes(Arc::default())),
        };
        let short = match &body {
            Body::Bytes(bytes) if bytes.len() as u64 <= SHORT_BYTES => bytes.len(),
            _ => 0,
        };
        let mut head = encoded(&header, short)?;
        let header = head.len() as u64;
        let body = match body {
            Body::Bytes(bytes) if short > 0 => {
                head.extend_from_slice(&bytes);
                Body::Bytes(Arc::default())
            }
            body => body,
        };
        Ok(Self { head, body, header, sent: 0 })
    }

    /// Bytes sent so far.
    pub(super) const fn sent(&self) -> u64 {
        self.sent
    }

    /// Sends on, as fast as `limit` allows, for as long as the `share` of a turn lasts. Blocking, but never for longer
    /// than the limit asks, and than `patience` without the socket taking any.
    pub(super) fn go_on(
        &mut self,
        stream: &mut DataStream,
        share: &mut Share,
        limit: &Rate,
        counters: &Counters,
        patience: Duration,
    ) -> Result<Sent, DataError> {
        let all = self.head.len() as u64 + self.body.len();
        while self.sent < all {
            if !share.is_left() {
                return Ok(Sent::Share);
            }
            let piece = share.bytes.min(limit.piece().unwrap_or(PIECE_BYTES)).min(all - self.sent);
            limit.wait_for(piece);
            let (asked, sent) = self.send_piece(stream, piece, patience)?;
            share.take(sent);
            let before = self.sent.max(self.header);
            self.sent += sent;
            counters.bytes_up.inc_by(self.sent.max(self.header) - before);
            if sent < asked {
                return Ok(Sent::Some);
            }
        }
        Ok(if stream.flush_some(patience)? { Sent::All } else { Sent::Some })
    }

    /// Sends up to `max` bytes that lie together; returns how many it tried, and how many were sent.
    fn send_piece(
        &self,
        stream: &mut DataStream,
        max: u64,
        patience: Duration,
    ) -> Result<(u64, u64), DataError> {
        let head = self.head.len() as u64;
        let mut bytes = |bytes: &[u8], from: u64| {
            let from = usize::try_from(from).unwrap_or(usize::MAX);
            let piece = &bytes[from..bytes.len().min(from + usize::try_from(max).unwrap_or(usize::MAX))];
            Ok((piece.len() as u64, stream.send_some(piece, patience)? as u64))
        };
        if self.sent < head {
            return bytes(&self.head, self.sent);
        }
        let mut at = self.sent - head;
        match &self.body {
            Body::Bytes(body) => bytes(body, at),
            Body::Parts { parts, .. } => {
                for (file, range) in parts {
                    if at < range.len {
                        let (from, len) = (range.offset + at, max.min(range.len - at));
                        let sent = stream.send_file_some(file, from..from + len, patience)?;
                        return Ok((len, sent));
                    }
                    at -= range.len;
                }
                Ok((0, 0))
            }
        }
    }
}
