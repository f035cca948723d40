//! What a rogue neighbor says of names, as the stream of messages that an indexer takes.

use crate::prelude::*;

use super::{RogueError, indexer::refused, peer::made_up};

/// How often neighbors say that nothing has changed.
const CONFIRMS_EVERY: Duration = Duration::from_secs(1);
/// Names that leave no bit of the smallest filter unset.
const FULL_KEYS: usize = 40_000;

/// The first epoch of a summary, later than any that an honest node has.
const EPOCHS: u64 = u64::MAX / 2;

/// A filter that rules out no name.
pub(super) fn full() -> Result<Filter, RogueError> {
    let filter = Filter::for_keys(1);
    for n in 0..FULL_KEYS {
        filter.insert(NameKey::of(&made_up("full", n, 0).ok_or(RogueError::Lacks("a name"))?));
    }
    Ok(filter)
}

#[derive(Debug)]
pub(super) struct Teller {
    client: IndexerServiceClient,
    /// Messages with changes so far.
    number: u64,
    /// The neighbor's clock, as it said last.
    clock_ms: u64,
}

impl Teller {
    pub(super) const fn new(client: IndexerServiceClient) -> Self {
        Self { client, number: 0, clock_ms: 0 }
    }

    /// The one place that makes a message: a change, or a heartbeat; the neighbor forgets the rest if it `begins`.
    async fn tell(&mut self, begins: bool, is_all: bool, change: Option<Change>) -> Result<(), RogueError> {
        self.number += u64::from(change.is_some());
        let changes = List::first_of(change);
        let news = SummaryNews { echo_ms: self.clock_ms, number: self.number, begins, is_all, changes };
        let reply = self.client.summarize(context::current(), news).await.map_err(refused)?;
        let SummaryReply { clock_ms, is_taken, .. } = reply.map_err(refused)?;
        self.clock_ms = clock_ms;
        if is_taken { Ok(()) } else { Err(RogueError::Refused("a summary".to_owned())) }
    }

    /// All its names; the receiver forgets what it was told before.
    pub(super) async fn names(&mut self, filter: &Filter) -> Result<(), RogueError> {
        let (epoch, parts) = (EPOCHS + self.number, filter.parts().count());
        for (n, part) in (1..).zip(filter.parts()) {
            self.tell(n == 1, n == parts, Some(Change::Filter { epoch, count: 1, part })).await?;
        }
        Ok(())
    }

    pub(super) async fn neighbors(&mut self, tags: &[NodeTag]) -> Result<(), RogueError> {
        self.tell(false, true, Some(Change::Neighbors(List::first_of(tags.iter().copied())))).await
    }

    /// Confirms all of it until the connection ends, whether or not that is taken.
    pub(super) async fn stays(mut self) -> Result<(), RogueError> {
        let mut ticks = interval(CONFIRMS_EVERY);
        loop {
            ticks.tick().await;
            drop(self.tell(false, true, None).await); // who has no place yet may get one
        }
    }
}
