//! The server side: control calls of other nodes, and the data stream.
//!
//! A data stream waits for its next request without a thread. The request then waits for an upload slot, in which a
//! thread sends a bounded number of bytes before the slot passes to the next one. While the reader takes no bytes, the
//! request has neither a slot nor a thread.

pub(crate) mod control;
mod dial_back;
mod packing;
pub(crate) mod partial_files;
mod reply;
mod sending;
mod upload_slots;

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use nekoproto::{
    DataRequest, FetchRefusal, PeerService, PeerServiceClient, Purpose, Record,
    limits::STALL_TIMEOUT,
    tasks::spawn_until,
    transport::{
        self, Connection, DataError, DataStream, Listener, Remote, file_limit,
        slots::{Activity, SlotLimits, SlotOwner, Slots},
    },
};
use parking_lot::Mutex;
use tokio::{sync::Semaphore, time::sleep};
use tokio_util::sync::CancellationToken;
use tracing::debug;

pub(crate) use self::upload_slots::SlotCounts;
use self::{
    control::PeerControl,
    dial_back::DIALED_BACK_MAX,
    packing::Packer,
    partial_files::PartialFiles,
    reply::InMemory,
    sending::{Sending, Sent, Share},
    upload_slots::{Turn, UploadSlots},
};
use crate::{
    library::Library,
    state::{portions::Portions, upload_turns::Phase},
    util::{rate::Rate, throttle::Throttle},
};

/// Time after which a data stream without a request is closed.
pub(crate) const IDLE_MAX: Duration = Duration::from_secs(300);
/// Time after which a data stream that never sent a request is closed.
const FIRST_REQUEST_WITHIN: Duration = Duration::from_secs(15);
/// Time limit for receiving a request, once it has begun.
const REQUEST_WITHIN: Duration = Duration::from_secs(2);
/// What one turn has: bytes, and the time after which it waits for its next turn behind the others.
const TURN_BYTES: u64 = 16 * 1024 * 1024;
const TURN_TIME: Duration = Duration::from_millis(250);
/// Time for which a thread waits until the reader takes more, before it gives the slot back.
const BLOCKED_AFTER: Duration = Duration::from_millis(20);
/// Streams of one reader that wait for a request; a further one closes the oldest.
const IDLE_OF_ONE_MAX: usize = 64;
/// Bounds of their number in all, and the part of the limit of open files that it follows from.
const IDLE_MIN: usize = 64;
const IDLE_ALL_MAX: usize = 1024;
const IDLE_FILES_PARTS: usize = 8;
/// Bytes that a request counts in a turn, in addition to those sent.
const REQUEST_COUNTS_AS: u64 = 16 * 1024;
/// Minimum length of a reply that counts its reader among those of the file, in bytes: most small files are shorter.
const PORTIONED_FROM: u64 = 16 * 1024;
/// Interval between looks at what the packer keeps open.
const PACKER_LOOK_EVERY: Duration = Duration::from_secs(10);
/// Minimum speed of a reader in bytes per second, over the time in which the peer waits for it to take bytes; and the
/// extra time that each request gets.
const SLOWEST_READER: u64 = 32 * 1024;
const READER_GRACE: Duration = Duration::from_secs(30);

/// What this peer uploads: which files, to how many readers at once, and how fast.
#[derive(Debug)]
pub(crate) struct Uploads {
    library: Arc<Library>,
    partial_files: Arc<PartialFiles>,
    slots: Arc<UploadSlots>,
    /// Streams that wait for a request: each has a TLS session too, so that there are fewer than data connections.
    idle: Slots,
    portions: Mutex<Portions>,
    in_memory: InMemory,
    packer: Packer,
    /// It is looked whether something of the packer is to be closed.
    closes_packer: AtomicBool,
    throttle: Arc<Throttle>,
    /// Places for connections to nodes that cannot connect here.
    dialed_back: Arc<Semaphore>,
    /// Data streams that asked for something and are open.
    readers: AtomicUsize,
    /// Of a peer that serves nothing but what it downloads: these files, by content and by manifest.
    only: Option<Mutex<HashSet<[u8; 32]>>>,
}

enum Turned {
    Answered,
    /// This is left, for a further turn.
    Left(Sending),
    /// This is left, and the reader takes no bytes now.
    Blocked(Sending),
}

impl Uploads {
    pub(crate) fn new(
        library: &Arc<Library>,
        partial_files: &Arc<PartialFiles>,
        throttle: &Arc<Throttle>,
        downloads_only: bool,
    ) -> Arc<Self> {
        let (library, partial_files) = (Arc::clone(library), Arc::clone(partial_files));
        let (slots, portions, in_memory, packer, closes_packer) = Default::default();
        let all = (file_limit() / IDLE_FILES_PARTS).clamp(IDLE_MIN, IDLE_ALL_MAX);
        let idle = Slots::with(SlotLimits { each: IDLE_OF_ONE_MAX, ..SlotLimits::new(all) });
        let (throttle, dialed_back) = (Arc::clone(throttle), Arc::new(Semaphore::new(DIALED_BACK_MAX)));
        let (readers, only) = (AtomicUsize::default(), downloads_only.then(Mutex::default));
        Arc::new(Self {
            library,
            partial_files,
            slots,
            idle,
            portions,
            in_memory,
            packer,
            closes_packer,
            throttle,
            dialed_back,
            readers,
            only,
        })
    }

    pub(crate) fn slots(&self) -> SlotCounts {
        self.slots.now()
    }

    /// Serves the connections that come in, until `accepts` is cancelled; those that are open then are served on.
    pub(crate) fn accept(self: &Arc<Self>, listener: Listener, accepts: &CancellationToken) {
        let (tasks, uploads) = (&self.library.tasks, Arc::clone(self));
        let serve = move |connection| Arc::clone(&uploads).serve(connection);
        spawn_until(&tasks.tracker, accepts, listener.run(tasks.stop.clone(), tasks.tracker.clone(), serve));
    }

    /// This file is served too, where nothing but downloads is.
    pub(crate) fn admit(&self, record: &Record) {
        if let Some(only) = &self.only {
            only.lock().extend([*record.content.as_bytes(), *record.manifest.as_bytes()]);
        }
    }

    fn may_send(&self, request: &DataRequest) -> bool {
        let of = match request {
            DataRequest::Get { content, .. }
            | DataRequest::Packed { content, .. }
            | DataRequest::Have(content) => content.as_bytes(),
            DataRequest::Manifest(hash) | DataRequest::Outboard(hash) => hash.as_bytes(),
            DataRequest::Confirm(_) => return true,
        };
        self.only.as_ref().is_none_or(|only| only.lock().contains(of))
    }

    pub(crate) fn readers(&self) -> usize {
        self.readers.load(Ordering::Relaxed)
    }

    pub(crate) async fn serve(self: Arc<Self>, connection: Connection) {
        match connection.purpose {
            Purpose::Control => {
                let control = PeerControl::new(&self.library, connection.remote);
                let (_client, driver) =
                    transport::control::open(connection.io, control.serve(), PeerServiceClient::from);
                driver.await;
            }
            Purpose::Data => {
                let served = match DataStream::new(connection.io) {
                    Ok(stream) => self.serve_data(stream.for_requests(), &connection.remote).await,
                    Err(error) => Err(error.into()),
                };
                self.portions.lock().left(&connection.remote.node);
                if let Err(error) = served {
                    debug!(peer = %connection.remote.node.short(), %error, "data stream ended");
                }
            }
        }
    }

    async fn serve_data(self: &Arc<Self>, mut stream: DataStream, reader: &Remote) -> Result<(), DataError> {
        let _ends_with_this = stream.hang_up().on_drop();
        let owner = SlotOwner::at(reader.addr.ip(), Some(reader.node));
        let mut has_asked = false;
        let mut counted = None;
        loop {
            let request = match stream.receive_arrived()? {
                Some(request) => request,
                None => {
                    let activity = Activity::default();
                    if has_asked {
                        activity.used();
                    }
                    let Some(idle) = self.idle.enter(owner, activity) else { return Ok(()) };
                    let patience = if has_asked { IDLE_MAX } else { FIRST_REQUEST_WITHIN };
                    let next = stream.next_message(patience, REQUEST_WITHIN);
                    let Some(request) = idle.activity().ended().run_until_cancelled(next).await else {
                        return Ok(());
                    };
                    request?
                }
            };
            has_asked = true;
            counted.get_or_insert_with(|| {
                self.readers.fetch_add(1, Ordering::Relaxed);
                scopeguard::guard(&self.readers, |readers| {
                    readers.fetch_sub(1, Ordering::Relaxed);
                })
            });
            stream = match self.slots.ask(owner) {
                Some(turn) => self.answer(stream, request, reader, turn).await?,
                None => self.refuse(stream)?,
            };
        }
    }

    /// Answers `request` in as many turns as it takes, and those behind it while the turn lasts.
    async fn answer(
        self: &Arc<Self>,
        mut stream: DataStream,
        request: DataRequest,
        reader: &Remote,
        turn: Turn,
    ) -> Result<DataStream, DataError> {
        if !turn.begins().await {
            return self.refuse(stream);
        }
        let (mut sending, mut request) = (None, Some(request));
        let mut waited = Duration::ZERO; // for the reader
        loop {
            let (uploads, reader, now, left) = (Arc::clone(self), *reader, request.take(), sending.take());
            let turning = move || {
                let turned = uploads.turn(&mut stream, &reader, left, now);
                (stream, turned)
            };
            let (back, turned) = self.library.tasks.blocking(turning).await;
            stream = back;
            let left = match turned? {
                Turned::Answered => return Ok(stream),
                Turned::Left(left) => left,
                Turned::Blocked(left) => {
                    turn.becomes(Phase::Blocked);
                    let within = READER_GRACE + Duration::from_secs(left.sent / SLOWEST_READER);
                    let patience = within.saturating_sub(waited).min(STALL_TIMEOUT);
                    let began = Instant::now();
                    tokio::select! {
                        takes = stream.takes_more(patience) => takes?,
                        () = turn.gives_way() => {}
                    }
                    waited += began.elapsed();
                    left
                }
            };
            turn.becomes(Phase::Waiting);
            if !turn.goes_on().await {
                debug!("an upload ended: it took too few bytes, and others wait");
                return Err(DataError::Stalled);
            }
            sending = Some(left);
        }
    }

    /// Refuses a request as busy. If the socket does not take the refusal at once, the stream ends.
    fn refuse(&self, mut stream: DataStream) -> Result<DataStream, DataError> {
        self.library.counters.requests_refused.inc();
        let mut share = Share { bytes: TURN_BYTES, until: Instant::now() + TURN_TIME };
        let mut refusal = Sending::new(Err(FetchRefusal::Busy), None)?;
        match refusal.go_on(
            &mut stream,
            &mut share,
            &Rate::default(),
            &self.library.counters,
            Duration::ZERO,
        )? {
            Sent::All => Ok(stream),
            Sent::Share | Sent::Some => Err(DataError::Stalled),
        }
    }

    /// One turn: sends what is `left`, or answers `request`; then the requests that have arrived. Blocking.
    fn turn(
        self: &Arc<Self>,
        stream: &mut DataStream,
        reader: &Remote,
        left: Option<Sending>,
        request: Option<DataRequest>,
    ) -> Result<Turned, DataError> {
        let mut share = Share { bytes: TURN_BYTES, until: Instant::now() + TURN_TIME };
        let mut next = match (left, request) {
            (Some(left), _) => Some(left),
            (None, Some(request)) => Some(self.reply(request, reader, &mut share)?),
            (None, None) => None,
        };
        while let Some(mut sending) = next {
            let counters = &self.library.counters;
            match sending.go_on(stream, &mut share, &self.throttle.up, counters, BLOCKED_AFTER)? {
                Sent::All => {}
                Sent::Share => return Ok(Turned::Left(sending)),
                Sent::Some => return Ok(Turned::Blocked(sending)),
            }
            if !share.is_left() {
                break;
            }
            next = match stream.receive_arrived()? {
                Some(request) => Some(self.reply(request, reader, &mut share)?),
                None => None,
            };
        }
        Ok(Turned::Answered)
    }

    fn reply(
        self: &Arc<Self>,
        request: DataRequest,
        reader: &Remote,
        share: &mut Share,
    ) -> Result<Sending, DataError> {
        self.library.counters.requests.inc();
        share.take(REQUEST_COUNTS_AS);
        if !self.may_send(&request) {
            return Sending::new(Err(FetchRefusal::NotShared), None);
        }
        if matches!(request, DataRequest::Packed { .. }) {
            self.close_packer();
        }
        let content = match &request {
            DataRequest::Get { content, .. } | DataRequest::Packed { content, .. } => Some(*content),
            _ => None,
        };
        let (library, partial, packer) = (&self.library, &self.partial_files, &self.packer);
        let reply = reply::reply(library, partial, &self.in_memory, packer, reader, request);
        let is_long = reply.as_ref().is_ok_and(|reply| reply.body.len() >= PORTIONED_FROM);
        let asked = |content| self.portions.lock().asked(content, reader.node, Instant::now());
        Sending::new(reply, content.filter(|_| is_long).and_then(asked))
    }

    /// Has the packer close what nobody asks for any more: the files may be removed, and take room until then.
    fn close_packer(self: &Arc<Self>) {
        if self.closes_packer.swap(true, Ordering::AcqRel) {
            return;
        }
        let uploads = Arc::clone(self);
        self.library.tasks.spawn_until_stop(async move {
            loop {
                sleep(PACKER_LOOK_EVERY).await;
                if !uploads.packer.close_idle() {
                    return uploads.closes_packer.store(false, Ordering::Release);
                }
            }
        });
    }
}
