//! Rogue neighbors: what an indexer hears from whoever calls itself one.

use std::{net::SocketAddr, time::Duration};

use tokio::time::{interval, sleep, timeout};
use tokio_util::task::AbortOnDropHandle;

use super::{
    Order, RogueError,
    pretender::{Habit, Heard, Pretender},
    raw::{crowd, dial},
    summary::Teller,
};
use nekoproto::{IndexerServiceClient, NodeTag, Purpose, Role, summary::Filter, transport::control::Driver};

/// How often the slow one answers.
pub(super) const ANSWERS_EVERY: Duration = Duration::from_millis(400);
/// How long one that goes was there.
const STAYS: Duration = Duration::from_millis(20);
/// Pause of one that has no place among the neighbors yet.
const PLACED_AFTER: Duration = Duration::from_millis(500);
/// Names that the largest summary is made for, and more.
const SUMMARY_KEYS: usize = 4_000_000;

/// A connection to an indexer as a node that calls itself one, with a key of its own.
pub(super) struct Guest {
    /// The indexer.
    pub(super) to: NodeTag,
    /// Calls the indexer.
    pub(super) client: IndexerServiceClient,
    /// What it hears.
    pub(super) heard: Heard,
    driver: Driver,
}

impl Guest {
    pub(super) async fn dial(order: &Order, to: SocketAddr, habit: &Habit) -> Result<Self, RogueError> {
        let endpoint = order.endpoint(Role::Indexer)?;
        let connection = dial(&endpoint, to, Purpose::Control).await?;
        let to = connection.remote.node.tag();
        let (pretender, heard) = Pretender::new(habit.clone());
        let (client, driver) = pretender.open(connection.io);
        Ok(Self { to, client, heard, driver })
    }

    /// Does something besides what its habit says, until that or the connection ends.
    pub(super) async fn with(
        self,
        does: impl AsyncFnOnce(Teller, Heard) -> Result<(), RogueError>,
    ) -> Result<(), RogueError> {
        let driver = AbortOnDropHandle::new(tokio::spawn(self.driver));
        let does = does(Teller::new(self.client), self.heard);
        tokio::select! {
            done = does => done,
            _ = driver => Ok(()), // a task that panicked has ended too
        }
    }
}

/// This many neighbors with the same habit and the same names, each with a key of its own; they come again when they
/// are sent away.
pub(super) async fn neighbors(
    order: &Order,
    count: usize,
    habit: &Habit,
    names: Option<Filter>,
) -> Result<(), RogueError> {
    let (order, habit) = (order.clone(), habit.clone());
    crowd(count, move |_| {
        let (order, habit, names) = (order.clone(), habit.clone(), names.clone());
        async move {
            let guest = Guest::dial(&order, order.indexer, &habit).await?;
            guest
                .with(async move |mut teller, heard| {
                    drop(heard);
                    while let Some(names) = &names
                        && teller.names(names).await.is_err()
                    {
                        sleep(PLACED_AFTER).await;
                    }
                    teller.stays().await
                })
                .await
        }
    })
    .await
}

/// Neighbors that leave as soon as they have come, this many a second.
pub(super) async fn come_and_go(order: &Order, per_s: u32) -> Result<(), RogueError> {
    let mut ticks = interval(Duration::from_secs(1) / per_s);
    loop {
        ticks.tick().await;
        let order = order.clone();
        tokio::spawn(async move {
            let Ok(guest) = Guest::dial(&order, order.indexer, &Habit::nothing()).await else { return };
            drop(timeout(STAYS, guest.driver).await); // gone either way
        });
    }
}

/// Neighbors that each tell a filter of the largest size, and confirm it with heartbeats.
pub(super) async fn largest_summaries(order: &Order, count: usize) -> Result<(), RogueError> {
    neighbors(order, count, &Habit::nothing(), Some(Filter::for_keys(SUMMARY_KEYS))).await
}

pub(super) fn refused(why: impl std::error::Error) -> RogueError {
    RogueError::Refused(why.to_string())
}
