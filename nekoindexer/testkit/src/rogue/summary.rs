//! What a rogue neighbor says of names, as the stream of messages that an indexer takes.

use std::time::Duration;

use tarpc::context;
use tokio::time::interval;

use super::{RogueError, indexer::refused, peer::made_up};
use nekoproto::{
    IndexerServiceClient, List, NodeTag,
    summary::{Change, Filter, NameKey, SummaryNews, SummaryReply, What},
};

/// How often neighbors say that nothing has changed.
const HEARTBEAT_EVERY: Duration = Duration::from_secs(1);
/// Names that leave no bit of the smallest filter unset.
const FULL_KEYS: usize = 40_000;

/// The first epoch of a summary, later than any that an honest node has.
const EPOCHS: u64 = u64::MAX / 2;

/// Whose summary it is: a node, so many hops behind the sender.
pub(super) type Of = (NodeTag, u8);

/// A filter that rules out no name.
pub(super) fn full() -> Result<Filter, RogueError> {
    let filter = Filter::for_keys(1);
    for n in 0..FULL_KEYS {
        filter.insert(NameKey::of(&made_up("full", n, 0).ok_or(RogueError::Lacks("a name"))?));
    }
    Ok(filter)
}

/// Tells a neighbor over one connection.
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
    async fn tell(&mut self, begins: bool, is_all: bool, what: Option<(Of, What)>) -> Result<(), RogueError> {
        self.number += u64::from(what.is_some());
        let changes = List::first_of(what.map(|((of, hops), what)| Change { of, hops, what }));
        let news = SummaryNews { echo_ms: self.clock_ms, number: self.number, begins, is_all, changes };
        let reply = self.client.summarize(context::current(), news).await.map_err(refused)?;
        let SummaryReply { clock_ms, is_taken, .. } = reply.map_err(refused)?;
        self.clock_ms = clock_ms;
        if is_taken { Ok(()) } else { Err(RogueError::Refused("a summary".to_owned())) }
    }

    /// All names of a node, and its neighbors; the receiver forgets what it was told before if it `begins`.
    pub(super) async fn whole(
        &mut self,
        begins: bool,
        of: Of,
        filter: &Filter,
        neighbors: &[NodeTag],
    ) -> Result<(), RogueError> {
        let (epoch, parts) = (EPOCHS + self.number, filter.parts().count());
        for (n, part) in (1..).zip(filter.parts()) {
            let neighbors =
                List::first_of(neighbors.iter().take(if n == 1 { usize::MAX } else { 0 }).copied());
            let what = What::Whole { epoch, count: 1, part, neighbors };
            self.tell(begins && n == 1, n == parts, Some((of, what))).await?;
        }
        Ok(())
    }

    /// Other neighbors than before of the node itself.
    pub(super) async fn neighbors(
        &mut self,
        of: Of,
        added: &[NodeTag],
        removed: &[NodeTag],
    ) -> Result<(), RogueError> {
        let [added, removed] = [added, removed].map(|tags| List::first_of(tags.iter().copied()));
        self.tell(false, true, Some((of, What::Neighbors { added, removed }))).await
    }

    /// Confirms all of it until the connection ends, whether or not that is taken.
    pub(super) async fn stays(mut self) -> Result<(), RogueError> {
        let mut ticks = interval(HEARTBEAT_EVERY);
        loop {
            ticks.tick().await;
            drop(self.tell(false, true, None).await); // who has no place yet may get one
        }
    }
}
