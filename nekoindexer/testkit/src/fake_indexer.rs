//! An indexer that gives every peer the answer that a test wants, true or not.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use nekoproto::{
    Answers, CallBack, FileName, FindReply, FindRequest, Hit, IndexerService, InvalidateRequest, LeaseReply,
    List, Names, PeerServiceClient, QueryAllRequest, QueryReply, QueryRequest, Records, Refusal,
    RegisterReply, RegisterRequest, Role, SignedRecord,
    probe::{ProbeReply, ProbeRequest},
    summary::{SummaryNews, SummaryReply},
    transport::{Connection, Security, control},
};
use tarpc::context::Context;
use tokio::{sync::watch, time::sleep};
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};

use crate::{network::ANY_PORT, peer::endpoint, values::listed};

/// A fake indexer that listens. Dropping it stops it.
pub struct FakeIndexer {
    /// Where it listens.
    pub addr: SocketAddr,
    _stop: DropGuard,
}

/// A hit: this record, held by the node with the seed `node` at this address.
pub fn hit(record: SignedRecord, node: u16, addr: SocketAddr) -> Hit {
    Hit { record, holders: List::first_of([listed(node, addr)]) }
}

/// Names that a [far](FakeIndexer::far) one answers at once.
const FAR_NAMES: usize = 4;

#[derive(Clone, Default)]
struct Service {
    hits: Vec<Hit>,
    /// Registrations and withdrawals that are not answered; `None`: all are.
    unanswered: Option<Arc<AtomicUsize>>,
    /// The time that it takes for an answer; `None`: there is none yet.
    delay: Option<watch::Receiver<Option<Duration>>>,
}

impl FakeIndexer {
    /// Answers every query with `hits`, as complete.
    pub fn says(hits: impl IntoIterator<Item = Hit>) -> Self {
        Self::start(Service { hits: hits.into_iter().collect(), ..Service::default() })
    }

    /// Answers no registration and no withdrawal. Also returns how many wait for their answer.
    pub fn that_hangs() -> (Self, Arc<AtomicUsize>) {
        let unanswered = Arc::<AtomicUsize>::default();
        let service = Service { unanswered: Some(Arc::clone(&unanswered)), ..Service::default() };
        (Self::start(service), unanswered)
    }

    /// Takes `delay` for each answer about one name and each renewal. Of a list it answers the first few names, at once.
    pub fn far(delay: watch::Receiver<Option<Duration>>) -> Self {
        Self::start(Service { delay: Some(delay), ..Service::default() })
    }

    /// Takes connections, and answers nothing at all.
    pub fn that_is_silent() -> Self {
        Self::serving(|connection: Connection| async move {
            let _open = connection;
            std::future::pending().await
        })
    }

    fn start(service: Service) -> Self {
        Self::serving(move |connection| {
            let service = service.clone();
            async move {
                let (_client, driver) =
                    control::open(connection.io, service.serve(), PeerServiceClient::from);
                driver.await;
            }
        })
    }

    fn serving<S: Future<Output = ()> + Send + 'static>(
        serve: impl Fn(Connection) -> S + Clone + Send + 'static,
    ) -> Self {
        let listener = endpoint(200, Role::Indexer, Security::Tls).bind(ANY_PORT).unwrap();
        let addr = listener.local_addr();
        let stop = CancellationToken::new();
        tokio::spawn(listener.run(stop.clone(), TaskTracker::new(), serve));
        Self { addr, _stop: stop.drop_guard() }
    }
}

impl Service {
    /// Waits for ever, if it hangs.
    async fn hang(&self) {
        if let Some(unanswered) = &self.unanswered {
            unanswered.fetch_add(1, Ordering::Relaxed);
            scopeguard::defer! { unanswered.fetch_sub(1, Ordering::Relaxed); }
            std::future::pending::<()>().await;
        }
    }

    /// Waits as long as it is far.
    async fn wait(mut self) -> Self {
        if let Some(delay) = &mut self.delay {
            let delay = *delay.wait_for(Option::is_some).await.unwrap();
            sleep(delay.unwrap_or_default()).await;
        }
        self
    }

    fn replies(&self, names: &Names) -> Answers {
        let is_answered = |n| self.delay.is_none() || n < FAR_NAMES;
        Answers::first_of((0..names.len()).map(|n| is_answered(n).then(|| self.reply())))
    }

    fn reply(&self) -> QueryReply {
        QueryReply { hits: List::first_of(self.hits.clone()), complete: true, ..QueryReply::default() }
    }
}

const LEASE: LeaseReply = LeaseReply { lease_ms: 60_000, names: 0 };

impl IndexerService for Service {
    async fn call_back(self, _: Context, _: CallBack) -> Result<(), Refusal> {
        Err(Refusal::NotCalled)
    }

    async fn register(self, _: Context, _: RegisterRequest) -> Result<RegisterReply, Refusal> {
        self.hang().await;
        Ok(RegisterReply { lease: LEASE, newer: Records::new(), unlisted: Default::default() })
    }

    async fn deregister(self, _: Context, _: Names) -> Result<(), Refusal> {
        self.hang().await;
        Ok(())
    }

    async fn renew(self, _: Context) -> Result<LeaseReply, Refusal> {
        self.wait().await;
        Ok(LEASE)
    }

    async fn search(self, _: Context, _: FileName) -> Result<QueryReply, Refusal> {
        Ok(self.wait().await.reply())
    }

    async fn query(self, _: Context, _: QueryRequest) -> Result<QueryReply, Refusal> {
        Ok(self.wait().await.reply())
    }

    async fn search_all(self, _: Context, names: Names) -> Result<Answers, Refusal> {
        Ok(self.replies(&names))
    }

    async fn query_all(self, _: Context, request: QueryAllRequest) -> Result<Answers, Refusal> {
        Ok(self.replies(&request.names))
    }

    async fn find(self, _: Context, _: FindRequest) -> Result<FindReply, Refusal> {
        self.hang().await;
        Ok(FindReply { hits: List::first_of(self.hits), complete: true, ..FindReply::default() })
    }

    async fn deregister_all(self, _: Context) -> Result<(), Refusal> {
        Ok(())
    }

    async fn invalidate(self, _: Context, _: InvalidateRequest) -> Result<(), Refusal> {
        Ok(())
    }

    async fn summarize(self, _: Context, _: SummaryNews) -> Result<SummaryReply, Refusal> {
        Err(Refusal::Busy)
    }

    async fn probe(self, _: Context, _: ProbeRequest) -> Result<ProbeReply, Refusal> {
        Err(Refusal::Busy)
    }
}
