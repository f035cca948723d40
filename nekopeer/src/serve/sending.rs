//! [`Sending`]: a reply on its way, which goes on where it stopped.

use std::{
    fs::File,
    ops::Range,
    sync::Arc,
    time::{Duration, Instant},
};

use nekoproto::{
    DataReply, FetchRefusal, Grant, Portion,
    transport::{DataError, DataStream, encoded},
};

use super::reply::{Body, Reply, SHORT_BYTES};
use crate::{library::events::Counters, util::rate::Rate};

/// Bytes sent before the share of the turn is looked at again.
const PIECE_BYTES: u64 = 1024 * 1024;

pub(super) struct Sending {
    /// The header, and the bytes of a short reply.
    head: Vec<u8>,
    body: Body,
    header: u64,
    /// Bytes sent, the header included.
    pub(super) sent: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    All,
    /// As many bytes as one turn has.
    Share,
    /// As much as the socket took without waiting.
    Some,
}

#[derive(Debug)]
pub(super) struct Share {
    pub(super) bytes: u64,
    pub(super) until: Instant,
}

impl Share {
    pub(super) fn is_left(&self) -> bool {
        self.bytes > 0 && Instant::now() < self.until
    }

    pub(super) const fn take(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}

impl Sending {
    pub(super) fn new(
        reply: Result<Reply, FetchRefusal>,
        portion: Option<Portion>,
    ) -> Result<Self, DataError> {
        let (header, body): (DataReply, Body) = match reply {
            Ok(Reply { freshness, body }) => (Ok(Grant { len: body.len(), freshness, portion }), body),
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
            let extent = self.extent(share.bytes.min(limit.piece().unwrap_or(PIECE_BYTES)));
            let asked = extent.len();
            limit.wait_for(asked);
            let sent = extent.send(stream, patience)?;
            limit.give_back(asked - sent);
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

    /// The next bytes: up to `max` that lie together, none at the end.
    fn extent(&self, max: u64) -> Extent<'_> {
        let head = self.head.len() as u64;
        if self.sent < head {
            return Extent::of(&self.head, self.sent, max);
        }
        let mut at = self.sent - head;
        match &self.body {
            Body::Bytes(body) => Extent::of(body, at, max),
            Body::Parts { parts, .. } => {
                for (file, range) in parts {
                    if at < range.len {
                        let from = range.offset + at;
                        return Extent::OfFile(file, from..from + max.min(range.len - at));
                    }
                    at -= range.len;
                }
                Extent::Bytes(&[])
            }
        }
    }
}

/// Bytes that lie together: what is charged to the limit is what may be sent at once.
enum Extent<'a> {
    Bytes(&'a [u8]),
    OfFile(&'a File, Range<u64>),
}

impl<'a> Extent<'a> {
    fn of(bytes: &'a [u8], from: u64, max: u64) -> Self {
        let rest = bytes.get(usize::try_from(from).unwrap_or(usize::MAX)..).unwrap_or_default();
        Self::Bytes(&rest[..rest.len().min(usize::try_from(max).unwrap_or(usize::MAX))])
    }

    fn len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::OfFile(_, range) => range.end - range.start,
        }
    }

    /// Sends it as far as the socket takes it; returns the number of bytes.
    fn send(self, stream: &mut DataStream, patience: Duration) -> Result<u64, DataError> {
        match self {
            Self::Bytes(bytes) => Ok(stream.send_some(bytes, patience)? as u64),
            Self::OfFile(file, range) => stream.send_file_some(file, range, patience),
        }
    }
}

#[cfg(test)]
mod tests {
    use nekoproto::{ByteRange, Freshness};

    use super::*;

    /// A reply's header, charged as a whole piece, took from a limit of 50 MB/s 15 of them.
    #[test]
    fn extents_are_the_reply_and_each_is_as_long_as_what_is_sent_of_it() {
        let file = Arc::new(tempfile::tempfile().unwrap());
        let part = |offset, len| (Arc::clone(&file), ByteRange { offset, len });
        let body = Body::Parts { parts: vec![part(7, 250), part(1000, 30)], len: 280 };
        let mut sending = Sending::new(Ok(Reply { freshness: Freshness::Fresh, body }), None).unwrap();
        let (mut lens, header) = (Vec::new(), sending.header);
        while lens.last() != Some(&0) {
            lens.push(sending.extent(100).len());
            sending.sent += lens.last().unwrap();
        }
        assert_eq!(lens, [header, 100, 100, 50, 30, 0]);
        for (sent, expected) in [(200, 207..257), (250, 1000..1030)] {
            sending.sent = header + sent;
            assert!(matches!(sending.extent(100), Extent::OfFile(_, range) if range == expected), "{sent}");
        }
    }
}
