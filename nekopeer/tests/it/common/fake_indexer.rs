//! An indexer that gives every query the answer that a test wants, true or not.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use nekoproto::{
    Answers, FileName, FindReply, FindRequest, Hit, IndexerService, Introduction, InvalidateRequest,
    LeaseReply, List, Names, NetworkName, PeerServiceClient, QueryAllRequest, QueryReply, QueryRequest,
    Records, Refusal, RegisterReply, RegisterRequest, Role, SignedReach,
    indexer::answers,
    probe::{ProbeReply, ProbeRequest},
    transport::{Access, Connection, Endpoint, EndpointConfig, Security, control},
};
use tarpc::context::Context;
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};

use super::{ANY_PORT, identity};

/// A fake indexer that listens. Dropping it stops it.
pub(crate) struct FakeIndexer {
    pub(crate) addr: SocketAddr,
    _stop: DropGuard,
}

#[derive(Clone)]
struct Service {
    hits: Vec<Hit>,
    /// Registrations and withdrawals that are not answered; `None`: all are.
    unanswered: Option<Arc<AtomicUsize>>,
}

impl FakeIndexer {
    /// Answers every query with `hits`, as complete.
    pub(crate) fn says(hits: Vec<Hit>) -> Self {
        Self::start(Service { hits, unanswered: None })
    }

    /// Answers no registration and no withdrawal. Also returns how many wait for their answer.
    pub(crate) fn that_hangs() -> (Self, Arc<AtomicUsize>) {
        let unanswered = Arc::<AtomicUsize>::default();
        (Self::start(Service { hits: Vec::new(), unanswered: Some(Arc::clone(&unanswered)) }), unanswered)
    }

    /// Takes connections, and answers nothing at all.
    pub(crate) fn that_is_silent() -> Self {
        Self::serving(|connection: Connection| async move {
            let _open = connection;
            std::future::pending().await
        })
    }

    fn start(service: Service) -> Self {
        Self::serving(move |connection| run(connection, service.clone()))
    }

    fn serving<S: Future<Output = ()> + Send + 'static>(
        serve: impl Fn(Connection) -> S + Clone + Send + 'static,
    ) -> Self {
        let config = EndpointConfig {
            identity: identity(200),
            role: Role::Indexer,
            network: NetworkName::default(),
            security: Security::Tls,
            access: Access::default(),
        };
        let listener = Endpoint::new(config).unwrap().bind(ANY_PORT).unwrap();
        let addr = listener.local_addr();
        let stop = CancellationToken::new();
        tokio::spawn(listener.run(stop.clone(), TaskTracker::new(), serve));
        Self { addr, _stop: stop.drop_guard() }
    }
}

async fn run(connection: Connection, service: Service) {
    let (_client, driver) = control::open(connection.io, service.serve(), PeerServiceClient::from);
    driver.await;
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

    fn reply(self) -> QueryReply {
        QueryReply { hits: List::first_of(self.hits), complete: true, messages: 0 }
    }
}

const LEASE: LeaseReply = LeaseReply { lease_ms: 60_000, names: 0 };

impl IndexerService for Service {
    async fn introduce(self, _: Context, reach: SignedReach) -> Result<Introduction, Refusal> {
        Ok(Introduction { seen_at: reach.unverified().addrs[0].ip(), listed_at: 1 })
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
        Ok(LEASE)
    }

    async fn search(self, _: Context, _: FileName) -> Result<QueryReply, Refusal> {
        Ok(self.reply())
    }

    async fn summarize(
        self,
        _: tarpc::context::Context,
        _: nekoproto::summary::SummaryNews,
    ) -> Result<nekoproto::summary::SummaryReply, Refusal> {
        Ok(nekoproto::summary::SummaryReply { is_taken: true, ..Default::default() })
    }

    async fn query(self, _: Context, _: QueryRequest) -> Result<QueryReply, Refusal> {
        Ok(self.reply())
    }

    async fn trace(self, _: Context, _: QueryRequest) -> Result<nekoproto::TraceReply, Refusal> {
        Ok(nekoproto::TraceReply::of(Default::default()))
    }

    async fn probe(self, _: Context, _: ProbeRequest) -> Result<ProbeReply, Refusal> {
        Err(Refusal::Busy)
    }

    async fn search_all(self, _: Context, names: Names) -> Result<Answers, Refusal> {
        Ok(answers(names.iter().map(|_| self.clone().reply())))
    }

    async fn query_all(self, _: Context, request: QueryAllRequest) -> Result<Answers, Refusal> {
        Ok(answers(request.names.iter().map(|_| self.clone().reply())))
    }

    async fn find(self, _: Context, _: FindRequest) -> Result<FindReply, Refusal> {
        self.hang().await;
        let hits = List::first_of(self.hits);
        Ok(FindReply { hits, more: false, complete: true, messages: 0 })
    }

    async fn deregister_all(self, _: Context) -> Result<(), Refusal> {
        Ok(())
    }

    async fn invalidate(self, _: Context, _: InvalidateRequest) -> Result<(), Refusal> {
        Ok(())
    }
}
