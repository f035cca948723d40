//! What a reader is told of newer versions: noted as it comes, said when asked.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use nekopeer::{Event, PeerHandle};
use nekoproto::{FileName, NameError};
use serde::{Deserialize, Serialize};
use tokio::sync::broadcast::{Receiver, error::RecvError};
use tokio::time::sleep;
use tokio_util::task::AbortOnDropHandle;

use super::{locked, usage::now_s};

/// What came.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Arrivals {
    /// Names, versions and when each came, by [`now_s`].
    pub(crate) arrived: Vec<(String, u64, f64)>,
    /// Messages that this reader was too slow for.
    pub(crate) missed: u64,
}

/// Which versions of a name a reader has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Versions {
    /// That of the bytes in their place.
    pub(crate) held: u64,
    /// The newest that it knows of.
    pub(crate) known: u64,
}

/// Notes what comes until it is dropped.
pub(crate) struct Follower {
    seen: Arc<Mutex<Arrivals>>,
    _following: AbortOnDropHandle<()>,
}

impl Follower {
    /// Notes the newer versions that the reader is told of; each message takes `pause`.
    pub(crate) fn start(events: Receiver<Event>, pause: Duration) -> Self {
        let seen = Arc::<Mutex<Arrivals>>::default();
        let following = tokio::spawn(follow(events, pause, Arc::clone(&seen)));
        Self { seen, _following: AbortOnDropHandle::new(following) }
    }

    /// What came since this was called last.
    pub(crate) fn take(&self) -> Arrivals {
        std::mem::take(&mut locked(&self.seen))
    }
}

async fn follow(mut events: Receiver<Event>, pause: Duration, seen: Arc<Mutex<Arrivals>>) {
    loop {
        let (name, version) = match events.recv().await {
            Ok(Event::Invalidated { name, newest, .. }) => (name, newest),
            Ok(_) => continue,
            Err(RecvError::Lagged(missed)) => {
                locked(&seen).missed += missed;
                continue;
            }
            Err(RecvError::Closed) => return,
        };
        locked(&seen).arrived.push((name.to_string(), version.get(), now_s()));
        if !pause.is_zero() {
            sleep(pause).await;
        }
    }
}

/// Which versions of `names` the peer has.
pub(crate) async fn held(peer: &PeerHandle, names: &[String]) -> Result<Vec<Versions>, NameError> {
    let names: Vec<FileName> = names.iter().map(|name| FileName::new(name)).collect::<Result<_, _>>()?;
    let all = peer.held(names).await.into_iter().map(|status| {
        let Some(status) = status else { return Versions::default() };
        let held = status.record.version.get();
        Versions { held, known: status.newest.map_or(held, |newest| newest.get().max(held)) }
    });
    Ok(all.collect())
}
