//! Rogue neighbors: what an indexer hears from whoever calls itself one.

use std::{collections::HashMap, net::SocketAddr, sync::Arc, time::Duration};

use futures::FutureExt;
use tarpc::context::{self, Context};
use tokio::{
    sync::Mutex,
    time::{interval, sleep},
};
use tokio_util::{
    sync::CancellationToken,
    task::{AbortOnDropHandle, TaskTracker},
};

use super::{Order, RogueError, raw::crowd};
use crate::{
    IndexerServiceClient,
    indexer::IndexerService,
    messages::{
        Answers, FindReply, FindRequest, InvalidateRequest, LeaseReply, Names, Purpose, QueryAllRequest,
        QueryReply, QueryRequest, Refusal, RegisterReply, RegisterRequest, Role, TraceReply,
        summary::{Change, Filter, SummaryNews, SummaryReply, What},
    },
    transport::{Connection, Endpoint, Link, control},
    values::{FileName, List},
};

/// How often the slow one answers.
pub(super) const ANSWERS_EVERY: Duration = Duration::from_millis(400);
/// How long one that goes was there.
const STAYS: Duration = Duration::from_millis(20);
/// Names that the largest summary is made for, and more.
const SUMMARY_KEYS: usize = 4_000_000;

/// What a rogue neighbor does with queries. Heartbeats and summaries it confirms.
#[derive(Clone, Debug)]
pub enum Habit {
    /// Takes the question and never answers.
    NeverAnswers,
    /// Answers with nothing, one question after the other, each after this time.
    OneEach(Duration, Arc<Mutex<()>>),
    /// Answers these names with this, and others with nothing; always as complete.
    Says(Arc<HashMap<FileName, QueryReply>>),
}

impl Habit {
    /// Answers everything with nothing, at once.
    #[must_use]
    pub fn nothing() -> Self {
        Self::Says(Arc::default())
    }

    /// Answers one query after the other, each after `time`.
    #[must_use]
    pub fn one_each(time: Duration) -> Self {
        Self::OneEach(time, Arc::default())
    }

    async fn answer(&self, name: &FileName) -> QueryReply {
        let nothing = QueryReply { complete: true, ..QueryReply::default() };
        match self {
            Self::NeverAnswers => std::future::pending().await,
            Self::OneEach(time, turn) => {
                let _turn = turn.lock().await;
                sleep(*time).await;
                nothing
            }
            Self::Says(replies) => replies.get(name).cloned().unwrap_or(nothing),
        }
    }
}

/// A node that calls itself an indexer; dropping it closes its connection.
pub struct Neighbor {
    /// Calls the other end.
    pub client: IndexerServiceClient,
    driver: AbortOnDropHandle<()>,
}

impl Neighbor {
    /// Connects to the indexer at `addr`.
    ///
    /// # Errors
    /// It is refused.
    pub async fn dial(endpoint: &Endpoint, addr: SocketAddr, habit: Habit) -> Result<Self, RogueError> {
        let connection = endpoint.dial(addr, Purpose::Control, None).await?;
        let (client, driver) =
            control::open(connection.io, Service(habit).serve(), IndexerServiceClient::from);
        Ok(Self { client, driver: AbortOnDropHandle::new(tokio::spawn(driver)) })
    }

    /// Waits until the other end has closed the connection.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection.
    pub async fn ended(self) {
        drop(self.driver.await); // a task that panicked has ended too
    }
}

/// This many neighbors with the same habit, each with a key of its own; they redial as real ones do.
pub(super) async fn neighbors(order: &Order, count: usize, habit: &Habit) -> Result<(), RogueError> {
    let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
    for _ in 0..count {
        let habit = habit.clone();
        let open = move |connection: Connection| {
            let service = Service(habit.clone()).serve();
            let (client, driver) = control::open(connection.io, service, IndexerServiceClient::from);
            (client, driver.boxed())
        };
        Link::spawn(order.endpoint(Role::Indexer)?, (order.indexer, None), stop.clone(), &tasks, open);
    }
    let _stopping = stop.drop_guard();
    std::future::pending().await
}

/// Neighbors that leave as soon as they have come, this many a second.
pub(super) async fn come_and_go(order: &Order, per_s: u32) -> Result<(), RogueError> {
    let mut ticks = interval(Duration::from_secs(1) / per_s);
    loop {
        ticks.tick().await;
        let endpoint = order.endpoint(Role::Indexer)?;
        let indexer = order.indexer;
        tokio::spawn(async move {
            let neighbor = Neighbor::dial(&endpoint, indexer, Habit::nothing()).await;
            sleep(STAYS).await;
            drop(neighbor);
        });
    }
}

/// Neighbors that each tell a filter of the largest size, and confirm it with heartbeats.
pub(super) async fn largest_summaries(order: &Order, count: usize) -> Result<(), RogueError> {
    let order = order.clone();
    let filter = Filter::for_keys(SUMMARY_KEYS);
    crowd(count, move |n| {
        let (order, filter) = (order.clone(), filter.clone());
        async move {
            let endpoint = order.endpoint(Role::Indexer)?;
            let neighbor = Neighbor::dial(&endpoint, order.indexer, Habit::nothing()).await?;
            let of = endpoint.node().tag();
            let parts = filter.parts().count();
            for (number, part) in (1..).zip(filter.parts()) {
                let what = What::Whole { epoch: n as u64 + 1, count: 1, part, neighbors: List::new() };
                let changes = List::first_of([Change { of, hops: 0, what }]);
                let news = SummaryNews {
                    echo_ms: 0,
                    number,
                    begins: number == 1,
                    is_all: number == parts as u64,
                    changes,
                };
                neighbor
                    .client
                    .summarize(context::current(), news)
                    .await
                    .map_err(refused)?
                    .map_err(refused)?;
            }
            neighbor.ended().await;
            Ok(())
        }
    })
    .await
}

pub(super) fn refused(why: impl std::error::Error) -> RogueError {
    RogueError::Refused(why.to_string())
}

#[derive(Clone)]
struct Service(Habit);

impl IndexerService for Service {
    async fn introduce(
        self,
        _: Context,
        _: crate::values::SignedReach,
    ) -> Result<crate::messages::Introduction, Refusal> {
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

    async fn search(self, _: Context, name: FileName) -> Result<QueryReply, Refusal> {
        Ok(self.0.answer(&name).await)
    }

    async fn query(self, _: Context, request: QueryRequest) -> Result<QueryReply, Refusal> {
        Ok(self.0.answer(&request.name).await)
    }

    async fn invalidate(self, _: Context, _: InvalidateRequest) -> Result<(), Refusal> {
        Ok(())
    }

    async fn summarize(self, _: Context, _: SummaryNews) -> Result<SummaryReply, Refusal> {
        Ok(SummaryReply { clock_ms: 1, is_taken: true, confirms: 0 })
    }

    async fn search_all(self, _: Context, _: Names) -> Result<Answers, Refusal> {
        Err(Refusal::WrongRole)
    }

    async fn query_all(self, _: Context, _: QueryAllRequest) -> Result<Answers, Refusal> {
        Err(Refusal::WrongRole)
    }

    async fn deregister_all(self, _: Context) -> Result<(), Refusal> {
        Err(Refusal::WrongRole)
    }

    async fn find(self, _: Context, _: FindRequest) -> Result<FindReply, Refusal> {
        Ok(FindReply { complete: true, ..FindReply::default() })
    }

    async fn trace(self, _: Context, _: QueryRequest) -> Result<TraceReply, Refusal> {
        Err(Refusal::WrongRole)
    }
}
