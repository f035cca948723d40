//! An indexer that gives every peer the answer that a test wants, true or not.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use nekoproto::{
    Answers, CallBack, FileName, FindReply, FindRequest, Hit, IndexerService, InvalidateRequest, LeaseReply,
    List, Names, PeerServiceClient, QueryAllRequest, QueryReply, QueryRequest, Records, Refusal,
    RegisterReply, RegisterRequest, Role, SignedRecord,
    indexer::answers,
    probe::{ProbeReply, ProbeRequest},
    summary::{SummaryNews, SummaryReply},
    transport::{Connection, Security, control},
};
use tarpc::context::Context;
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

#[derive(Clone)]
struct Service {
    hits: Vec<Hit>,
    /// Registrations and withdrawals that are not answered; `None`: all are.
    unanswered: Option<Arc<AtomicUsize>>,
}

impl FakeIndexer {
    /// Answers every query with `hits`, as complete.
    pub fn says(hits: impl IntoIterator<Item = Hit>) -> Self {
        Self::start(Service { hits: hits.into_iter().collect(), unanswered: None })
    }

    /// Answers no registration and no withdrawal. Also returns how many wait for their answer.
    pub fn that_hangs() -> (Self, Arc<AtomicUsize>) {
        let unanswered = Arc::<AtomicUsize>::default();
        (Self::start(Service { hits: Vec::new(), unanswered: Some(Arc::clone(&unanswered)) }), unanswered)
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
        Ok(LEASE)
    }

    async fn search(self, _: Context, _: FileName) -> Result<QueryReply, Refusal> {
        Ok(self.reply())
    }

    async fn query(self, _: Context, _: QueryRequest) -> Result<QueryReply, Refusal> {
        Ok(self.reply())
    }

    async fn search_all(self, _: Context, names: Names) -> Result<Answers, Refusal> {
        Ok(answers(names.iter().map(|_| self.reply())))
    }

    async fn query_all(self, _: Context, request: QueryAllRequest) -> Result<Answers, Refusal> {
        Ok(answers(request.names.iter().map(|_| self.reply())))
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
