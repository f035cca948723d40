//! The answering end: control calls of other peers, and the data stream.
//!
//! A data stream waits for its next request without a thread. Then it waits for an upload slot, and a
//! thread answers what was asked, a bounded number of bytes, before the next stream has the slot.

mod answer;
pub(crate) mod control;
pub(crate) mod partial_files;
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

use self::{
    answer::{Answer, Body},
    control::PeerControl,
    partial_files::PartialFiles,
    upload_slots::UploadSlots,
};
use crate::{
    library::Library,
    util::rate::{self, Rate},
};

/// How long a data stream may stay open without a request.
const IDLE_MAX: Duration = Duration::from_secs(60);
/// File bytes sent before a slot is given up, beyond the request that reaches them.
const SLOT_BYTES: u64 = 16 * 1024 * 1024;
/// Time for a request to come, once it has begun and has its slot.
const REQUEST_WITHIN: Duration = Duration::from_secs(2);
/// Bytes per second below which a reader is not waited for any longer, since it holds a slot; and the
/// time that each has besides.
const SLOWEST_READER: u64 = 32 * 1024;
const READER_GRACE: Duration = Duration::from_secs(30);
/// What a request counts for in a slot beside its bytes.
const REQUEST_COUNTS_AS: u64 = 16 * 1024;

/// What this peer sends to others: from which files, to how many at once, how fast.
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

    /// Serves one connection until it ends.
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
                    // A refusal takes a thread: when all of these are taken, the stream is closed instead.
                    let Ok(_permit) = self.slots.refusals().try_acquire() else { return Ok(()) };
                    tasks.blocking(move || refuse(stream)).await?
                }
            };
        }
    }

    /// Answers what was asked, and what is asked meanwhile, until the slot is used up.
    fn answer(&self, mut stream: DataStream) -> Result<DataStream, DataError> {
        let mut sent = 0;
        loop {
            stream.end_at(Some(Instant::now() + REQUEST_WITHIN));
            let request = stream.receive(REQUEST_WITHIN)?;
            let answer = answer::answer(&self.library, &self.partial_files, request);
            sent += REQUEST_COUNTS_AS + self.send(&mut stream, answer)?;
            stream.end_at(None);
            if sent >= SLOT_BYTES || !stream.has_bytes() {
                return Ok(stream);
            }
        }
    }

    /// Sends the reply and its bytes, as fast as the limit allows; how many bytes they are.
    fn send(&self, stream: &mut DataStream, answer: Result<Answer, FetchRefusal>) -> Result<u64, DataError> {
        let Answer { freshness, body } = match answer {
            Ok(answer) => answer,
            Err(refusal) => {
                stream.send::<DataReply>(&Err(refusal))?;
                return Ok(0);
            }
        };
        let limit = self.limit.as_ref();
        let len = body.len();
        let within = READER_GRACE + Duration::from_secs(len / SLOWEST_READER);
        // With a limit of our own it is not the reader's fault if it takes long.
        stream.end_at(if limit.is_none() { Some(Instant::now() + within) } else { None });
        let piece = limit.map_or(u64::MAX, Rate::piece);
        match body {
            Body::Bytes(bytes) => {
                let piece = usize::try_from(piece).unwrap_or(usize::MAX);
                let (first, rest) = bytes.split_at(bytes.len().min(piece));
                rate::wait_for(limit, first.len() as u64);
                stream.send_with::<DataReply>(&Ok(Grant { len, freshness }), first)?;
                for part in rest.chunks(piece) {
                    rate::wait_for(limit, part.len() as u64);
                    stream.send_bytes(part)?;
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
