//! Frees what has expired: leases, neighbors that left, names in our own summary.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::task::spawn_blocking;
use tracing::warn;

use crate::{shared::Shared, state::summary::Fresh};

/// How often expired leases are looked for. Lookups never list them; this frees their memory.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// Sweeps every [`SWEEP_EVERY`] until dropped.
pub(crate) async fn run(shared: &Arc<Shared>) {
    let mut ticks = tokio::time::interval(SWEEP_EVERY);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = shared.budget.eviction() => {
                end_sessions(shared, Instant::now()).await; // who needs the room waits for it
                continue;
            }
        }
        let now = Instant::now();
        end_sessions(shared, now).await;
        shared.neighbors.links.forget_missed(now);
        shared.state.index.forget_departed(now);
        renew_own_summary(shared).await;
        let renewing = Arc::clone(shared);
        // On a blocking thread: a million names take some hundred milliseconds. The node ends after it, and its timer too.
        let renew = move || {
            renewing.state.seen.forget_expired(now);
            renewing.state.index.renew_log();
        };
        drop(shared.tasks.spawn_blocking(renew).await);
    }
}

/// Ends the sessions whose lease has expired or whose account was evicted.
async fn end_sessions(shared: &Arc<Shared>, now: Instant) {
    let ended = shared.state.index.ended(now);
    if ended.is_empty() {
        return;
    }
    let shared = Arc::clone(shared);
    // On a blocking thread: a session with a hundred thousand names takes some ten milliseconds.
    let ending = move || ended.iter().for_each(|session| shared.state.index.end(session, Instant::now()));
    if let Err(error) = spawn_blocking(ending).await {
        warn!(%error, "not all expired sessions were removed");
    }
}

/// Rebuilds the filter of our names when it has too many, or too many that are gone.
async fn renew_own_summary(shared: &Arc<Shared>) {
    {
        let mut own = shared.state.own_summary();
        own.remove(shared.state.index.take_removed());
        if !own.is_worn() {
            return;
        }
        own.begin_rebuild();
    }
    let making = {
        let shared = Arc::clone(shared);
        // On a blocking thread: a million names take some hundred milliseconds.
        spawn_blocking(move || Fresh::of(&shared.state.index.keys())).await
    };
    match making {
        Ok(fresh) => {
            shared.state.own_summary().renew(fresh);
            shared.neighbors.own_changed();
        }
        Err(error) => warn!(%error, "the summary of our names was not rebuilt"),
    }
}
