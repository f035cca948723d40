//! The server side: control calls of other nodes, and the data stream.
//!
//! A data stream waits for its next request without a thread. It then waits for an upload slot, in which a
//! thread sends a bounded number of bytes before the slot passes to the next stream.

pub(crate) mod control;
pub(crate) mod partial_files;
mod reply;
mod upload_slots;

use std::{
    num::NonZeroU64,
    sync::Arc,
    time::{Duration, Instant},
};

use nekoproto::{
    DataReply, DataRequest, FetchRefusal, Grant, NodeId, PeerService, PeerServiceClient, Purpose,
    transport::{self, Connection, DataError, DataStream},
};
use tracing::debug;

pub(crate) use self::upload_slots::Slots;
use self::{
    control::PeerControl,
    partial_files::PartialFiles,
    reply::{Body, Reply},
    upload_slots::UploadSlots,
};
use crate::{
    library::Library,
    util::rate::{self, Rate},
};

/// Time after which a data stream without a request is closed.
const IDLE_MAX: Duration = Duration::from_secs(60);
/// File bytes after which a slot is released; the request that reaches the limit is completed.
const SLOT_BYTES: u64 = 16 * 1024 * 1024;
/// Time limit for receiving a request, once it has begun and has its slot.
const REQUEST_WITHIN: Duration = Duration::from_secs(2);
/// Minimum speed of a reader in bytes per second, since it holds a slot; and the extra time that each reply
/// gets.
const SLOWEST_READER: u64 = 32 * 1024;
const READER_GRACE: Duration = Duration::from_secs(30);
/// Bytes that a request counts in a slot, in addition to the file bytes sent.
const REQUEST_COUNTS_AS: u64 = 16 * 1024;

/// What this peer uploads: which files, to how many readers at once, and how fast.
#[derive(Debug)]
pub(crate) struct Uploads {
    library: Arc<Library>,
    partial_files: Arc<PartialFiles>,
    slots: UploadSlots,
    limit: Option<Rate>,
}

impl Uploads {
    pub(crate) fn new(
        library: &Arc<Library>,
        partial_files: &Arc<PartialFiles>,
        limit: Option<NonZeroU64>,
    ) -> Arc<Self> {
        let (library, partial_files) = (Arc::clone(library), Arc::clone(partial_files));
        Arc::new(Self { library, partial_files, slots: UploadSlots::default(), limit: limit.map(Rate::new) })
    }

    /// The slots now.
    pub(crate) fn slots(&self) -> Slots {
        self.slots.now()
    }

    /// Serves one connection until it closes.
    pub(crate) async fn serve(self: Arc<Self>, connection: Connection) {
        match connection.purpose {
            Purpose::Control => {
                let control = PeerControl { library: Arc::clone(&self.library), remote: connection.remote };
                let (_client, driver) =
                    transport::control::open(connection.io, control.serve(), PeerServiceClient::from);
                driver.await;
            }
            Purpose::Data => {
                let node = connection.remote.node;
                let served = match DataStream::new(connection.io) {
                    Ok(stream) => self.serve_data(stream, node).await,
                    Err(error) => Err(error.into()),
                };
                if let Err(error) = served {
                    debug!(peer = %node.short(), %error, "data stream ended");
                }
            }
        }
    }

    async fn serve_data(self: &Arc<Self>, mut stream: DataStream, node: NodeId) -> Result<(), DataError> {
        let _ends_with_this = stream.hang_up().on_drop();
        let tasks = &self.library.tasks;
        loop {
            stream.message_begins(IDLE_MAX).await?;
            stream = match self.slots.acquire(node).await {
                Some(slot) => {
                    let uploads = Arc::clone(self);
                    let answering = move || {
                        let answered = uploads.answer(stream);
                        drop(slot);
                        answered
                    };
                    tasks.blocking(answering).await?
                }
                None => {
                    self.library.counters.requests_refused.add(1);
                    // A refusal takes a thread. If all refusal threads are busy, the stream is closed instead.
                    let Ok(_permit) = self.slots.refusals().try_acquire() else { return Ok(()) };
                    tasks.blocking(move || refuse(stream)).await?
                }
            };
        }
    }

    /// Answers requests until none is waiting or the slot is used up.
    fn answer(&self, mut stream: DataStream) -> Result<DataStream, DataError> {
        let mut sent = 0;
        loop {
            stream.end_at(Some(Instant::now() + REQUEST_WITHIN));
            let request = stream.receive(REQUEST_WITHIN)?;
            let reply = reply::reply(&self.library, &self.partial_files, request);
            self.library.counters.requests.add(1);
            sent += REQUEST_COUNTS_AS + self.send(&mut stream, reply)?;
            stream.end_at(None);
            if sent >= SLOT_BYTES || !stream.has_bytes() {
                return Ok(stream);
            }
        }
    }

    /// Sends the reply and its bytes, as fast as the limit allows; returns the number of bytes.
    fn send(&self, stream: &mut DataStream, reply: Result<Reply, FetchRefusal>) -> Result<u64, DataError> {
        let Reply { freshness, body } = match reply {
            Ok(reply) => reply,
            Err(refusal) => {
                stream.send::<DataReply>(&Err(refusal))?;
                return Ok(0);
            }
        };
        let limit = self.limit.as_ref();
        let len = body.len();
        let within = READER_GRACE + Duration::from_secs(len / SLOWEST_READER);
        // With an upload limit, slowness is not the reader's fault.
        stream.end_at(if limit.is_none() { Some(Instant::now() + within) } else { None });
        let piece = limit.map_or(u64::MAX, Rate::piece);
        match body {
            Body::Bytes(bytes) => {
                let piece = usize::try_from(piece).unwrap_or(usize::MAX);
                let (first, rest) = bytes.split_at(bytes.len().min(piece));
                rate::wait_for(limit, first.len() as u64);
                stream.send_with::<DataReply>(&Ok(Grant { len, freshness }), first)?;
                self.library.counters.bytes_up.add(first.len() as u64);
                for part in rest.chunks(piece) {
                    rate::wait_for(limit, part.len() as u64);
                    stream.send_bytes(part)?;
                    self.library.counters.bytes_up.add(part.len() as u64);
                }
            }
            Body::Ranges { file, ranges, .. } => {
                stream.send::<DataReply>(&Ok(Grant { len, freshness }))?;
                for range in ranges {
                    let (mut at, end) = (range.offset, range.offset + range.len);
                    while at < end {
                        let len = piece.min(end - at);
                        rate::wait_for(limit, len);
                        stream.send_file(&file, at..at + len)?;
                        self.library.counters.bytes_up.add(len);
                        at += len;
                    }
                }
            }
        }
        Ok(len)
    }
}

fn refuse(mut stream: DataStream) -> Result<DataStream, DataError> {
    stream.end_at(Some(Instant::now() + REQUEST_WITHIN));
    stream.receive::<DataRequest>(REQUEST_WITHIN)?;
    stream.send::<DataReply>(&Err(FetchRefusal::Busy))?;
    Ok(stream)
}
