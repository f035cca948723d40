//! An indexer that answers what a test wants: stuck, lying, or only taking notes.

use std::net::SocketAddr;

use nekoproto::{
    Answers, FileName, FindReply, FindRequest, IndexerService, IndexerServiceClient, Introduction,
    InvalidateRequest, LeaseReply, List, Names, NodeTag, Purpose, QueryAllRequest, QueryReply, QueryRequest,
    Refusal, RegisterReply, RegisterRequest, Role, SignedReach, TraceReply,
    summary::{Change, Filter, NameKey, SummaryNews, SummaryReply, What},
    transport::{Connection, NodeIo, Security, control, control::Driver},
};
use tarpc::context::Context;
use tokio::sync::{mpsc, watch};
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::{AbortOnDropHandle, TaskTracker},
};

use super::{ANY_PORT, name, peer::endpoint};

/// A made-up indexer that listens. Dropping it ends it.
pub(crate) struct Fake {
    pub(crate) addr: SocketAddr,
    /// The queries that it is asked, each with its context.
    pub(crate) asked: mpsc::UnboundedReceiver<(Context, QueryRequest)>,
    /// The invalidations that it is told.
    pub(crate) told: mpsc::UnboundedReceiver<InvalidateRequest>,
    /// What it is told of names.
    pub(crate) summaries: mpsc::UnboundedReceiver<SummaryNews>,
    /// Whether it answers nothing new of that at the moment.
    pub(crate) is_silent: watch::Sender<bool>,
    service: Service,
    _stop: DropGuard,
}

/// What it does with a query.
#[derive(Clone, Debug)]
pub(crate) enum Habit {
    /// Answers this.
    Says(QueryReply),
    /// Answers a trace with this.
    Traces(TraceReply),
    /// Answers a search by pattern with this, and queries with nothing.
    Shows(FindReply),
    /// Refuses.
    Refuses(Refusal),
    /// Takes the question and never answers.
    NeverAnswers,
    /// Answers nothing but what goes no further, as probes do.
    AnswersProbes,
    /// Panics in its handler.
    Panics,
}

#[derive(Clone)]
struct Service {
    habit: Habit,
    asked: mpsc::UnboundedSender<(Context, QueryRequest)>,
    told: mpsc::UnboundedSender<InvalidateRequest>,
    summaries: mpsc::UnboundedSender<SummaryNews>,
    is_silent: watch::Sender<bool>,
}

impl Fake {
    /// A node with this seed in the role of an indexer.
    pub(crate) fn begin(seed: u16, security: Security, habit: Habit) -> Self {
        let listener = endpoint(seed, Role::Indexer, security).bind(ANY_PORT).unwrap();
        let addr = listener.local_addr();
        let (asked_sender, asked) = mpsc::unbounded_channel();
        let (told_sender, told) = mpsc::unbounded_channel();
        let (summaries_sender, summaries) = mpsc::unbounded_channel();
        let is_silent = watch::Sender::new(false);
        let service = Service {
            habit,
            asked: asked_sender,
            told: told_sender,
            summaries: summaries_sender,
            is_silent: is_silent.clone(),
        };
        let serving = service.clone();
        let serve = move |connection| run(connection, serving.clone());
        let stop = CancellationToken::new();
        tokio::spawn(listener.run(stop.clone(), TaskTracker::new(), serve));
        Self { addr, asked, told, summaries, is_silent, service, _stop: stop.drop_guard() }
    }

    /// Connects to the indexer at `addr` as a neighbor with these manners, for as long as the runtime lives.
    pub(crate) async fn dial(&self, seed: u16, addr: SocketAddr) -> IndexerServiceClient {
        let connection = deaf_neighbor(seed, addr, Security::Insecure).await;
        let service = self.service.clone().serve();
        let (client, driver) = control::open(connection.io, service, IndexerServiceClient::from);
        tokio::spawn(driver);
        client
    }
}

/// Connects to the indexer at `addr` as a neighbor that never answers anything: it does not even
/// read. The connection lives as long as what is returned.
pub(crate) async fn deaf_neighbor(seed: u16, addr: SocketAddr, security: Security) -> Connection {
    endpoint(seed, Role::Indexer, security).dial(addr, Purpose::Control, None).await.unwrap()
}

/// A made-up indexer that connected to another, and never answers a query. Dropping it closes the connection.
pub(crate) struct Dialed {
    /// Calls the other.
    pub(crate) client: IndexerServiceClient,
    /// The queries that it is asked.
    pub(crate) asked: mpsc::UnboundedReceiver<(Context, QueryRequest)>,
    _driver: AbortOnDropHandle<()>,
}

/// Connects to the indexer at `addr` as a neighbor that never answers a query.
pub(crate) async fn dial(seed: u16, addr: SocketAddr, security: Security) -> Dialed {
    dial_with(seed, addr, security, Habit::NeverAnswers).await
}

/// Connects to the indexer at `addr` as a neighbor.
pub(crate) async fn dial_with(seed: u16, addr: SocketAddr, security: Security, habit: Habit) -> Dialed {
    let connection = deaf_neighbor(seed, addr, security).await;
    let (client, driver, asked) = open(connection.io, habit);
    Dialed { client, asked, _driver: AbortOnDropHandle::new(tokio::spawn(driver)) }
}

/// What a node without names says of itself, whose only neighbor is this one.
pub(crate) fn summary_of_none(of: NodeTag, neighbor: NodeTag) -> SummaryNews {
    summary_of([], of, neighbor)
}

/// What a node with these names says of itself, whose only neighbor is this one.
pub(crate) fn summary_of<const N: usize>(names: [&str; N], of: NodeTag, neighbor: NodeTag) -> SummaryNews {
    let filter = Filter::for_keys(N.max(1));
    names.iter().for_each(|text| filter.insert(NameKey::of(&name(text))));
    let part = filter.parts().next().unwrap();
    let what = What::Whole { epoch: 1, count: 0, part, neighbors: List::first_of([neighbor]) };
    let changes = List::first_of([Change { of, hops: 0, what }]);
    SummaryNews { echo_ms: 0, number: 1, begins: true, is_all: true, changes }
}

/// Speaks as an indexer over a connection that was dialed.
pub(crate) fn speak(io: NodeIo) -> (IndexerServiceClient, Driver) {
    let (client, driver, _) = open(io, Habit::NeverAnswers);
    (client, driver)
}

fn open(
    io: NodeIo,
    habit: Habit,
) -> (IndexerServiceClient, Driver, mpsc::UnboundedReceiver<(Context, QueryRequest)>) {
    let ((asked, questions), told) = (mpsc::unbounded_channel(), mpsc::unbounded_channel().0);
    let (summaries, is_silent) = (mpsc::unbounded_channel().0, watch::Sender::new(false));
    let service = Service { habit, asked, told, summaries, is_silent };
    let (client, driver) = control::open(io, service.serve(), IndexerServiceClient::from);
    (client, Box::pin(driver), questions)
}

async fn run(connection: Connection, service: Service) {
    let (client, driver) = control::open(connection.io, service.serve(), IndexerServiceClient::from);
    driver.await;
    drop(client);
}

impl IndexerService for Service {
    async fn introduce(self, _: Context, _: SignedReach) -> Result<Introduction, Refusal> {
        Err(Refusal::WrongRole)
    }

    async fn register(self, _: Context, _: RegisterRequest) -> Result<RegisterReply, Refusal> {
        Err(Refusal::WrongRole)
    }

    async fn deregister(self, _: Context, _: Names) -> Result<(), Refusal> {
        Err(Refusal::WrongRole)
    }

    async fn renew(self, _: Context) -> Result<LeaseReply, Refusal> {
        Err(Refusal::WrongRole)
    }

    async fn search(self, _: Context, _: FileName) -> Result<QueryReply, Refusal> {
        Err(Refusal::WrongRole)
    }

    async fn summarize(self, _: Context, news: SummaryNews) -> Result<SummaryReply, Refusal> {
        let is_heartbeat = news.changes.is_empty();
        let _ = self.summaries.send(news); // few tests listen
        // The sender is here.
        let _ = self.is_silent.subscribe().wait_for(|is_silent| is_heartbeat || !is_silent).await;
        Ok(SummaryReply { clock_ms: 1, is_taken: true, confirms: 0 })
    }

    async fn query(self, context: Context, request: QueryRequest) -> Result<QueryReply, Refusal> {
        let ttl_hops = request.ttl_hops;
        let _ = self.asked.send((context, request)); // few tests listen
        match self.habit {
            Habit::Says(reply) => Ok(reply),
            Habit::Shows(_) => Ok(QueryReply { complete: true, ..QueryReply::default() }),
            Habit::Refuses(refusal) => Err(refusal),
            Habit::AnswersProbes if ttl_hops == 0 => {
                Ok(QueryReply { complete: true, ..QueryReply::default() })
            }
            Habit::NeverAnswers | Habit::AnswersProbes | Habit::Traces(_) => std::future::pending().await,
            Habit::Panics => panic!("as the test asked"),
        }
    }

    async fn trace(self, context: Context, request: QueryRequest) -> Result<TraceReply, Refusal> {
        let _ = self.asked.send((context, request)); // few tests listen
        match self.habit {
            Habit::Traces(reply) => Ok(reply),
            Habit::Refuses(refusal) => Err(refusal),
            _ => std::future::pending().await,
        }
    }

    async fn search_all(self, _: Context, _: Names) -> Result<Answers, Refusal> {
        Err(Refusal::WrongRole)
    }

    async fn query_all(self, _: Context, _: QueryAllRequest) -> Result<Answers, Refusal> {
        Err(Refusal::WrongRole)
    }

    async fn find(self, _: Context, _: FindRequest) -> Result<FindReply, Refusal> {
        match self.habit {
            Habit::Shows(reply) => Ok(reply),
            Habit::Says(_) => Ok(FindReply { complete: true, ..FindReply::default() }),
            Habit::Refuses(refusal) => Err(refusal),
            Habit::NeverAnswers | Habit::AnswersProbes | Habit::Traces(_) => std::future::pending().await,
            Habit::Panics => panic!("as the test asked"),
        }
    }

    async fn deregister_all(self, _: Context) -> Result<(), Refusal> {
        Err(Refusal::WrongRole)
    }

    async fn invalidate(self, _: Context, request: InvalidateRequest) -> Result<(), Refusal> {
        let _ = self.told.send(request); // few tests listen
        match self.habit {
            Habit::NeverAnswers => std::future::pending().await,
            _ => Ok(()),
        }
    }
}
