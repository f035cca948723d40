//! Rogue neighbors: what an indexer hears from whoever calls itself one.

use crate::prelude::*;

use super::{
    Order, RogueError,
    pretender::{Habit, Heard, Pretender},
    raw::{AGAIN_AFTER, crowd, dial},
    summary::Teller,
};

pub(super) const ANSWERS_EVERY: Duration = Duration::from_millis(400);
/// How long one that goes was there.
const STAYS: Duration = Duration::from_millis(20);
/// Pause of one that has no place among the neighbors yet.
const PLACED_AFTER: Duration = Duration::from_millis(500);
/// Names that the largest summary is made for, and more.
const SUMMARY_KEYS: usize = 4_000_000;

/// A connection to an indexer as a node that calls itself one, with a key of its own.
pub(super) struct Guest {
    pub(super) to: NodeTag,
    pub(super) client: IndexerServiceClient,
    driver: Driver,
}

impl Guest {
    pub(super) async fn dial(
        order: &Order,
        to: SocketAddr,
        habit: Habit,
    ) -> Result<(Self, Heard), RogueError> {
        let endpoint = order.endpoint(Role::Indexer)?;
        let connection = dial(&endpoint, to, Purpose::Control).await?;
        let to = connection.remote.node.tag();
        let (pretender, heard) = Pretender::new(habit);
        let (client, driver) = pretender.open(connection.io);
        Ok((Self { to, client, driver }, heard))
    }

    /// Does something besides what its habit says, until that or the connection ends.
    pub(super) async fn with(
        self,
        does: impl AsyncFnOnce(Teller) -> Result<(), RogueError>,
    ) -> Result<(), RogueError> {
        let driver = AbortOnDropHandle::new(tokio::spawn(self.driver));
        let does = does(Teller::new(self.client));
        tokio::select! {
            done = does => done,
            _ = driver => Ok(()), // a task that panicked has ended too
        }
    }
}

/// This many neighbors with the same habit and the same names, each with a key of its own; they come again when they
/// are sent away.
pub(super) async fn neighbors(
    order: &'static Order,
    count: usize,
    habit: Habit,
    names: Option<Filter>,
) -> Result<(), RogueError> {
    crowd(count, AGAIN_AFTER, move |_| {
        let (habit, names) = (habit.clone(), names.clone());
        async move {
            let (guest, _) = Guest::dial(order, order.indexer, habit).await?;
            guest
                .with(async move |mut teller| {
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

pub(super) async fn come_and_go(order: &'static Order, per_s: u32) -> Result<(), RogueError> {
    let mut ticks = interval(Duration::from_secs(1) / per_s);
    loop {
        ticks.tick().await;
        tokio::spawn(async move {
            let Ok((guest, _)) = Guest::dial(order, order.indexer, Habit::nothing()).await else { return };
            drop(timeout(STAYS, guest.driver).await); // gone either way
        });
    }
}

pub(super) async fn largest_summaries(order: &'static Order, count: usize) -> Result<(), RogueError> {
    neighbors(order, count, Habit::nothing(), Some(Filter::for_keys(SUMMARY_KEYS))).await
}

pub(super) fn refused(why: impl std::error::Error) -> RogueError {
    RogueError::Refused(why.to_string())
}
