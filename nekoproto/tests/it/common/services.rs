//! Small services whose answers show which call reached which node.

use std::{
    future::pending,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use nekoproto::{
    Answers, FindReply, FindRequest, Held, Hit, IndexerService, IndexerServiceClient, Introduction,
    InvalidateRequest, LeaseReply, List, ListedHolder, Names, Numbered, PeerService, PeerServiceClient,
    Policy, QueryAllRequest, QueryReply, QueryRequest, Record, Records, Refusal, RegisterReply,
    RegisterRequest, SignedReach, SignedRecord, Verdict, Version,
    indexer::answers,
    limits::{BATCH_MAX, HITS_MAX, HOLDERS_MAX, REACH_ADDRS_MAX},
    probe::{ProbeReply, ProbeRequest},
    transport::{Connection, control, control::Driver},
};
use tarpc::context::{self, Context};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{identity, name};

/// What the answer to `work` takes; ten times as long in a debug build, as all else there.
pub(crate) const WORK: Duration = Duration::from_micros(if cfg!(debug_assertions) { 1000 } else { 100 });

/// What happened to a handler that never answers.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// It began.
    Waiting,
    /// It was dropped.
    Dropped,
}

/// Tells when a waiting handler is dropped.
struct Waiting(mpsc::UnboundedSender<Event>);

async fn wait_forever<T>(events: mpsc::UnboundedSender<Event>) -> T {
    let _ = events.send(Event::Waiting); // nobody listens in most tests
    let _dropped = Waiting(events);
    pending().await
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let _ = self.0.send(Event::Dropped); // nobody listens in most tests
    }
}

/// Answers by the name it is asked for: `work` after [`WORK`], during which nobody else goes on, `wait` never, `panic` with a panic, `big` with a reply of
/// the largest size, `late` with the same once it is told to, `nested` after it has driven the other connection it was
/// given, any other with its length.
#[derive(Clone)]
pub(crate) struct Indexer {
    events: mpsc::UnboundedSender<Event>,
    nested: Arc<Mutex<Option<Driver>>>,
    late: CancellationToken,
}

impl Indexer {
    /// The service, and what its handlers do.
    pub(crate) fn new() -> (Self, mpsc::UnboundedReceiver<Event>) {
        let (events, seen) = mpsc::unbounded_channel();
        (Self { events, nested: Arc::default(), late: CancellationToken::new() }, seen)
    }

    /// From now on it answers those who asked for `late`.
    pub(crate) fn answer_late(&self) {
        self.late.cancel();
    }

    /// Asked for `nested`, it runs `driver` to its end before it answers.
    pub(crate) fn drive(&self, driver: Driver) {
        *self.nested.lock().unwrap() = Some(driver);
    }
}

impl IndexerService for Indexer {
    async fn introduce(self, _: Context, _: SignedReach) -> Result<Introduction, Refusal> {
        Err(Refusal::WrongRole)
    }

    async fn register(self, _: Context, request: RegisterRequest) -> Result<RegisterReply, Refusal> {
        let lease = self.renew(context::current()).await?;
        Ok(RegisterReply { lease, newer: request.records, unlisted: Names::new() })
    }

    async fn deregister(self, _: Context, names: Names) -> Result<(), Refusal> {
        Err(Refusal::TtlTooLarge(u8::try_from(names.len()).unwrap_or(u8::MAX)))
    }

    async fn renew(self, _: Context) -> Result<LeaseReply, Refusal> {
        Ok(LeaseReply { lease_ms: 1, names: 2 })
    }

    async fn search(self, _: Context, name: nekoproto::FileName) -> Result<QueryReply, Refusal> {
        match name.as_str() {
            "work" => {
                let until = Instant::now() + WORK;
                while Instant::now() < until {}
                let _ = self.events.send(Event::Waiting); // nobody listens in most tests
                Ok(reply(4))
            }
            "wait" => wait_forever(self.events).await,
            "panic" => panic!("as the test asked"),
            "big" => Ok(big_reply()),
            "late" => {
                let _ = self.events.send(Event::Waiting); // nobody listens in most tests
                self.late.cancelled().await;
                Ok(big_reply())
            }
            "nested" => {
                let driver = self.nested.lock().unwrap().take().unwrap();
                driver.await;
                Ok(reply(0))
            }
            text => Ok(reply(u32::try_from(text.len()).unwrap_or(u32::MAX))),
        }
    }

    async fn summarize(
        self,
        _: tarpc::context::Context,
        _: nekoproto::summary::SummaryNews,
    ) -> Result<nekoproto::summary::SummaryReply, Refusal> {
        Ok(nekoproto::summary::SummaryReply { is_taken: true, ..Default::default() })
    }

    async fn query(self, _: Context, request: QueryRequest) -> Result<QueryReply, Refusal> {
        Ok(reply(request.ttl_hops.into()))
    }

    async fn trace(self, _: Context, _: QueryRequest) -> Result<nekoproto::TraceReply, Refusal> {
        Ok(nekoproto::TraceReply::of(Default::default()))
    }

    async fn probe(self, _: Context, _: ProbeRequest) -> Result<ProbeReply, Refusal> {
        Err(Refusal::Busy)
    }

    async fn search_all(self, _: Context, names: Names) -> Result<Answers, Refusal> {
        Ok(answers(names.iter().map(|name| match name.as_str() {
            "big" => big_reply(),
            text => reply(u32::try_from(text.len()).unwrap_or(u32::MAX)),
        })))
    }

    async fn query_all(self, _: Context, request: QueryAllRequest) -> Result<Answers, Refusal> {
        Ok(answers(request.names.iter().map(|_| reply(request.ttl_hops.into()))))
    }

    async fn deregister_all(self, _: Context) -> Result<(), Refusal> {
        Ok(())
    }

    async fn invalidate(self, _: Context, _: InvalidateRequest) -> Result<(), Refusal> {
        Err(Refusal::WrongRole)
    }

    async fn find(self, _: Context, request: FindRequest) -> Result<FindReply, Refusal> {
        Ok(FindReply { messages: request.ttl_hops.into(), ..FindReply::default() })
    }
}

/// Answers with what was asked; asked about `wait`, it never answers.
#[derive(Clone)]
pub(crate) struct Peer {
    events: mpsc::UnboundedSender<Event>,
}

impl Peer {
    /// The service, and what its handlers do.
    pub(crate) fn new() -> (Self, mpsc::UnboundedReceiver<Event>) {
        let (events, seen) = mpsc::unbounded_channel();
        (Self { events }, seen)
    }
}

impl PeerService for Peer {
    async fn invalidate(self, _: Context, records: Records) -> Result<(), Refusal> {
        Err(Refusal::TtlTooLarge(u8::try_from(records.len()).unwrap_or(u8::MAX)))
    }

    async fn confirm(
        self,
        _: Context,
        held: List<Held, BATCH_MAX>,
    ) -> Result<List<Verdict, BATCH_MAX>, Refusal> {
        if held.iter().any(|held| held.name.as_str() == "wait") {
            return wait_forever(self.events).await;
        }
        Ok(List::first_of(held.into_iter().map(|held| verdict(&held))))
    }

    async fn lend(self, _: Context, _: Numbered) -> Result<Option<Box<SignedRecord>>, Refusal> {
        Err(Refusal::Busy)
    }
}

/// The verdict on odd versions is `Current`, on even ones a record with the name that was asked for.
pub(crate) fn verdict(held: &Held) -> Verdict {
    if held.version.get() % 2 == 1 {
        return Verdict::Current;
    }
    Verdict::Newer(Box::new(record(held.name.as_str(), held.version.get() + 1)))
}

/// A record of node 7.
pub(crate) fn record(text: &str, version: u64) -> SignedRecord {
    let origin = identity(7);
    let record = Record {
        origin: origin.id(),
        name: name(text),
        version: Version::new(version).unwrap(),
        size: 1 << 40,
        content: nekoproto::ContentHash::from_bytes([3; 32]),
        manifest: nekoproto::ManifestHash::from_bytes([4; 32]),
        policy: Policy::default(),
        published_ms: 1_795_000_000_000,
    };
    record.sign(&origin).unwrap().to_signed()
}

/// A reply without hits that carries a number.
pub(crate) fn reply(messages: u32) -> QueryReply {
    QueryReply { hits: List::new(), complete: true, messages }
}

/// A reply with as many hits and holders as fit, each with the longest name.
pub(crate) fn big_reply() -> QueryReply {
    static RECORD: std::sync::LazyLock<SignedRecord> =
        std::sync::LazyLock::new(|| record(&long_name(), u64::MAX));
    static HITS: std::sync::LazyLock<Vec<Hit>> = std::sync::LazyLock::new(|| {
        let mut places = 0..;
        let reach = |ends_ms| {
            identity(8).sign_reach([SocketAddr::from(([0xffff; 8], u16::MAX)); REACH_ADDRS_MAX], ends_ms)
        };
        let reaches: Vec<_> = (0..128).map(|n| reach(u64::MAX - n)).collect();
        let mut holder = || ListedHolder::new(reaches[places.next().unwrap() % reaches.len()].clone());
        let holders = || List::first_of(std::iter::repeat_with(&mut holder).take(HOLDERS_MAX));
        std::iter::repeat_with(holders)
            .take(HITS_MAX)
            .map(|holders| Hit { record: RECORD.clone(), holders })
            .collect()
    });
    QueryReply { hits: List::first_of(HITS.clone()), complete: false, messages: u32::MAX }
}

/// A name of 1024 bytes.
pub(crate) fn long_name() -> String {
    ["n".repeat(204).as_str(); 5].join("/")
}

/// A context with the longest deadline there is on the wire.
pub(crate) fn patient() -> Context {
    let mut context = context::current();
    context.deadline += Duration::from_secs(3600);
    context
}

/// What a peer asks about.
pub(crate) fn held(text: &str, version: u64) -> Held {
    Held {
        name: name(text),
        version: Version::new(version).unwrap(),
        content: nekoproto::ContentHash::from_bytes([7; 32]),
    }
}

/// Runs a connection as an indexer: serves `service`, and calls the peer.
pub(crate) fn open_as_indexer(connection: Connection, service: Indexer) -> (PeerServiceClient, Driver) {
    let (client, driver) = control::open(connection.io, service.serve(), PeerServiceClient::from);
    (client, Box::pin(driver))
}

/// Runs a connection as a peer: serves `service`, and calls the indexer.
pub(crate) fn open_as_peer(connection: Connection, service: Peer) -> (IndexerServiceClient, Driver) {
    let (client, driver) = control::open(connection.io, service.serve(), IndexerServiceClient::from);
    (client, Box::pin(driver))
}
