//! Rogue neighbors: what an indexer hears from whoever calls itself one.

use std::{sync::Arc, time::Duration};

use tarpc::context;
use tokio::time::{interval, timeout};
use tokio_util::{
    sync::CancellationToken,
    task::{AbortOnDropHandle, TaskTracker},
};

use super::{
    Order, RogueError,
    pretender::{Habit, Pretender},
    raw::crowd,
};
use nekoproto::{
    IndexerServiceClient, List, Purpose, Role,
    summary::{Change, Filter, SummaryNews},
    transport::{Connection, Endpoint, Link, control::Driver},
};

/// How often the slow one answers.
pub(super) const ANSWERS_EVERY: Duration = Duration::from_millis(400);
/// How long one that goes was there.
const STAYS: Duration = Duration::from_millis(20);
/// Names that the largest summary is made for, and more.
const SUMMARY_KEYS: usize = 4_000_000;

/// A connection to the indexer as a node that calls itself one: what calls it, and what it runs on.
async fn dial(
    order: &Order,
    habit: &Habit,
) -> Result<(Arc<Endpoint>, IndexerServiceClient, Driver), RogueError> {
    let endpoint = order.endpoint(Role::Indexer)?;
    let connection = endpoint.dial(order.indexer, Purpose::Control, None).await?;
    let (client, driver) = Pretender::new(habit.clone()).0.open(connection.io);
    Ok((endpoint, client, driver))
}

/// This many neighbors with the same habit, each with a key of its own; they redial as real ones do.
pub(super) async fn neighbors(order: &Order, count: usize, habit: &Habit) -> Result<(), RogueError> {
    let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
    for _ in 0..count {
        let pretender = Pretender::new(habit.clone()).0;
        let open = move |connection: Connection| pretender.clone().open(connection.io);
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
        let order = order.clone();
        tokio::spawn(async move {
            let Ok((_, _client, driver)) = dial(&order, &Habit::nothing()).await else { return };
            drop(timeout(STAYS, driver).await); // gone either way
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
            let (_endpoint, client, driver) = dial(&order, &Habit::nothing()).await?;
            let driver = AbortOnDropHandle::new(tokio::spawn(driver));
            let parts = filter.parts().count();
            for (number, part) in (1..).zip(filter.parts()) {
                let changes = List::first_of([Change::Filter { epoch: n as u64 + 1, count: 1, part }]);
                let news = SummaryNews {
                    echo_ms: 0,
                    number,
                    begins: number == 1,
                    is_all: number == parts as u64,
                    changes,
                };
                client.summarize(context::current(), news).await.map_err(refused)?.map_err(refused)?;
            }
            drop(driver.await); // a task that panicked has ended too
            Ok(())
        }
    })
    .await
}

pub(super) fn refused(why: impl std::error::Error) -> RogueError {
    RogueError::Refused(why.to_string())
}
