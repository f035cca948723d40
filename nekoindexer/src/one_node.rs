//! Refuses a peer whose key another process uses that is connected, and answers: one key has one running node.

use std::{sync::Arc, time::Duration};

use dashmap::Entry;
use nekoproto::{List, NodeId, Refusal, transport::call_within};
use tarpc::client::RpcError;
use tracing::{info, warn};

use crate::shared::{Running, Shared};

/// Time in which a node that runs answers. One that was killed has left already; one that has lost its network or its power,
/// or is stopped, gives way to the next after this time.
const ANSWERS_WITHIN: Duration = Duration::from_secs(1);

/// Time after which the connection of a node that was refused is ended: when it connects again, the other may have left.
pub(crate) const REFUSED_FOR: Duration = Duration::from_secs(10);

impl Running {
    /// Whether the process answers. What it answers is of no account.
    async fn answers(&self) -> bool {
        let answer = self.client.confirm(call_within(ANSWERS_WITHIN), List::new()).await;
        matches!(answer, Ok(_) | Err(RpcError::Server(_)))
    }

    fn refusal(&self) -> Refusal {
        let for_ms = u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        Refusal::KeyInUse { at: self.at, for_ms }
    }
}

/// Why the process `instance` with the key of `node` cannot register here: another one runs, and answers. One that does not
/// answer is ended here.
///
/// # Errors
/// [`Refusal::KeyInUse`].
pub(crate) async fn check(shared: &Shared, node: NodeId, instance: u64) -> Result<(), Refusal> {
    let other = shared.running.get(&node).filter(|one| one.instance != instance).map(|one| one.clone());
    let Some(other) = other else { return Ok(()) };
    // In a box, as few wait for it, and every connection would keep room for it.
    if Box::pin(other.answers()).await {
        warn!(node = %node.short(), at = %other.at, "a second node with a key whose node runs is refused");
        return Err(other.refusal());
    }
    info!(node = %node.short(), at = %other.at, "a node that does not answer gives way to another process with its key");
    other.ended.cancel();
    shared.running.remove_if(&node, |_, now| now.session == other.session);
    Ok(())
}

/// `one` runs from now on; false if another process with its key came in the same moment.
pub(crate) fn take(shared: &Arc<Shared>, node: NodeId, one: Running) -> bool {
    match shared.running.entry(node) {
        Entry::Vacant(free) => drop(free.insert(one)),
        Entry::Occupied(mut before) if before.get().instance == one.instance => drop(before.insert(one)),
        Entry::Occupied(_) => return false,
    }
    true
}
