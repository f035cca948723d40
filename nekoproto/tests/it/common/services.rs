//! Small services whose answers show which call reached which node.

use std::{future::pending, iter::repeat_with, sync::LazyLock, sync::Mutex};

use futures::FutureExt;
use testkit::service;
use tokio_util::sync::CancellationToken;

use super::*;
use control::Driver;

/// What the answer to `work` takes; ten times as long in a debug build, as all else there.
pub(crate) const WORK: Duration = Duration::from_micros(if cfg!(debug_assertions) { 1000 } else { 100 });

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Waiting,
    Dropped,
}

pub(crate) type Events = mpsc::UnboundedReceiver<Event>;

struct Waiting(mpsc::UnboundedSender<Event>);

impl Waiting {
    fn begin(events: mpsc::UnboundedSender<Event>) -> Self {
        let _ = events.send(Event::Waiting); // nobody listens in most tests
        Self(events)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let _ = self.0.send(Event::Dropped); // nobody listens in most tests
    }
}

/// Answers a query by the name it is asked for: `work` after [`WORK`], during which nobody else goes on, `wait` never,
/// `panic` with a panic, `big` with a reply of the largest size, `long` with one of the longest names, `late` with the same
/// once it is told to, `nested` after it has driven the other connection it was given, any other with its length.
#[derive(Clone)]
pub(crate) struct Indexer {
    events: mpsc::UnboundedSender<Event>,
    nested: Arc<Mutex<Option<Driver>>>,
    late: CancellationToken,
}

impl Indexer {
    pub(crate) fn new() -> (Self, Events) {
        let (events, seen) = mpsc::unbounded_channel();
        (Self { events, nested: Arc::default(), late: CancellationToken::new() }, seen)
    }

    pub(crate) fn answer_late(&self) {
        self.late.cancel();
    }

    /// Asked for `nested`, it runs `driver` to its end before it answers.
    pub(crate) fn drive(&self, driver: Driver) {
        *self.nested.lock().unwrap() = Some(driver);
    }

    async fn answer(self, call: Ask) -> Result<Answer, Refusal> {
        Ok(match call {
            Ask::Register { request } => {
                let lease = LeaseReply { lease_ms: 1, names: 2 };
                Answer::Register(Ok(RegisterReply { lease, newer: request.records, unlisted: Names::new() }))
            }
            Ask::Deregister { names } => return Err(too_many(names.len())),
            Ask::Query { request } => Answer::Query(Ok(self.found(request.name.as_str()).await)),
            Ask::QueryAll { request } => {
                let reply = |name: &str| if name == "big" { big_reply() } else { of_length(name) };
                let mut room = indexer::AnswersRoom::default();
                let replies = request.names.iter().map(|name| room.fit(reply(name.as_str())));
                Answer::QueryAll(Ok(List::first_of(replies)))
            }
            _ => return Err(Refusal::WrongRole),
        })
    }

    async fn found(self, text: &str) -> QueryReply {
        match text {
            "work" => {
                let until = Instant::now() + WORK;
                while Instant::now() < until {}
                let _ = self.events.send(Event::Waiting); // nobody listens in most tests
                reply(4)
            }
            "wait" => {
                let _waiting = Waiting::begin(self.events);
                pending().await
            }
            "panic" => panic!("as the test asked"),
            "big" => big_reply(),
            "long" => long_reply(),
            "late" => {
                let _ = self.events.send(Event::Waiting); // nobody listens in most tests
                self.late.cancelled().await;
                long_reply()
            }
            "nested" => {
                let driver = self.nested.lock().unwrap().take().unwrap();
                driver.await;
                reply(0)
            }
            text => of_length(text),
        }
    }
}

/// Answers with what was asked; asked about `wait`, it never answers.
#[derive(Clone)]
pub(crate) struct Peer(mpsc::UnboundedSender<Event>);

impl Peer {
    pub(crate) fn new() -> (Self, Events) {
        let (events, seen) = mpsc::unbounded_channel();
        (Self(events), seen)
    }

    async fn answer(self, call: AskPeer) -> Result<PeerAnswer, Refusal> {
        match call {
            AskPeer::Invalidate { records } => Err(too_many(records.len())),
            AskPeer::Confirm { held } if held.iter().any(|held| held.name.as_str() == "wait") => {
                let _waiting = Waiting::begin(self.0);
                pending().await
            }
            AskPeer::Confirm { held } => {
                Ok(PeerAnswer::Confirm(Ok(List::first_of(held.iter().map(verdict)))))
            }
            AskPeer::DialBack { .. }
            | AskPeer::Reached { .. }
            | AskPeer::Lend { .. }
            | AskPeer::Introduce { .. } => Err(Refusal::Busy),
        }
    }
}

fn too_many(count: usize) -> Refusal {
    Refusal::TtlTooLarge(u8::try_from(count).unwrap_or(u8::MAX))
}

/// The verdict on odd versions is `Current`, on even ones a record with the name that was asked for.
pub(crate) fn verdict(held: &Held) -> Verdict {
    if held.version.get() % 2 == 1 {
        return Verdict::Current;
    }
    Verdict::Newer(Box::new(record(7, held.name.as_str(), held.version.get() + 1)))
}

pub(crate) fn reply(messages: u32) -> QueryReply {
    QueryReply { complete: true, messages, ..QueryReply::default() }
}

fn of_length(text: &str) -> QueryReply {
    reply(u32::try_from(text.len()).unwrap_or(u32::MAX))
}

/// A reply of 38 KiB, which costs less to write than its size says.
pub(crate) fn long_reply() -> QueryReply {
    static RECORD: LazyLock<SignedRecord> = LazyLock::new(|| verified(7, long_name(0), u64::MAX).to_signed());
    let hits = repeat_with(|| Hit { record: RECORD.clone(), holders: List::new() });
    QueryReply { hits: List::first_of(hits.take(HITS_MAX)), messages: u32::MAX, ..QueryReply::default() }
}

/// A reply with as many hits and holders as fit, each with the longest name.
pub(crate) fn big_reply() -> QueryReply {
    static REPLY: LazyLock<QueryReply> = LazyLock::new(|| {
        let addrs = (60_000..=u16::MAX).map(|port| SocketAddr::from(([0xffff; 8], port)));
        let node = NodeAddrs::new(identity(8).id(), addrs);
        let mut holders = repeat_with(|| ListedHolder::new(node.clone()));
        let mut hit = |hit| Hit { holders: List::first_of(holders.by_ref().take(HOLDERS_MAX)), ..hit };
        let QueryReply { hits, .. } = long_reply();
        QueryReply { hits: List::first_of(hits.into_iter().map(&mut hit)), ..long_reply() }
    });
    REPLY.clone()
}

pub(crate) fn held(name: FileName, version: u64) -> Held {
    Held { name, version: Version::new(version).unwrap(), content: ContentHash::from_bytes([7; 32]) }
}

pub(crate) fn open_as_indexer(connection: Connection, service: Indexer) -> (PeerServiceClient, Driver) {
    let service = service::indexer(move |_, call| service.answer(call));
    let (client, driver) = control::open(connection.io, service, PeerServiceClient::from);
    (client, driver.boxed())
}

pub(crate) fn open_as_peer(connection: Connection, service: Peer) -> (IndexerServiceClient, Driver) {
    let service = service::peer(move |_, call| service.answer(call));
    let (client, driver) = control::open(connection.io, service, IndexerServiceClient::from);
    (client, driver.boxed())
}
