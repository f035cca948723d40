//! Publishing: chunk and hash, commit the next version durably, then register it: its number stands once an
//! indexer lists it.

mod asking;
mod contest;
mod error;
mod from_pipe;
mod listing;
mod policy;
mod read_files;

use std::{collections::HashMap, path::PathBuf, sync::Arc};

use futures::{StreamExt, stream};
use nekoproto::{FileName, Policy, VerifiedRecord};
use tracing::debug;

use self::{asking::Asking, contest::Contested, read_files::Stored};
pub use self::{error::PublishError, policy::PolicyChange};
use crate::{
    indexers::Indexers,
    library::Library,
    peers::Peers,
    util::{clock, progress::Progress, tasks::finished},
};

/// Maximum number of subscribers told concurrently.
const TOLD_AT_ONCE: usize = 64;

/// How files are published.
#[derive(Clone, Debug, Default)]
pub struct PublishOptions {
    /// The name of a single file; `None`: derived from its path.
    pub name: Option<FileName>,
    /// What is said of the policy. The rest is that of the version before, or the peer's default.
    pub policy: PolicyChange,
}

/// The outcome of a publish.
#[derive(Debug, Default)]
pub struct PublishOutcome {
    /// New versions, with their final numbers if `is_confirmed`.
    pub published: Vec<VerifiedRecord>,
    /// Files whose bytes and policy equal a version already published.
    pub unchanged: Vec<VerifiedRecord>,
    /// Copies of other origins' files in a published folder; they are not published.
    pub copies: Vec<FileName>,
    /// Files that cannot be published, and why.
    pub failed: Vec<(PathBuf, PublishError)>,
    /// Number of indexers that acknowledged; the others are told when they are connected again, or answer.
    pub indexers_told: usize,
    /// Whether each new version is listed by an indexer. Until then its number may change; an
    /// [event](crate::Event::Renumbered) says so.
    pub is_confirmed: bool,
}

/// Publishes for one peer.
#[derive(Debug)]
pub(crate) struct Publisher {
    library: Arc<Library>,
    indexers: Arc<Indexers>,
    peers: Arc<Peers>,
    /// The default policy.
    policy: Policy,
    contested: Contested,
}

impl Publisher {
    pub(crate) fn new(
        library: &Arc<Library>,
        indexers: &Arc<Indexers>,
        peers: &Arc<Peers>,
        policy: Policy,
    ) -> Arc<Self> {
        let (library, indexers, peers) = (Arc::clone(library), Arc::clone(indexers), Arc::clone(peers));
        Arc::new(Self { library, indexers, peers, policy, contested: Contested::default() })
    }

    /// See [`PeerHandle::publish`](crate::PeerHandle::publish).
    pub(crate) async fn publish(
        self: &Arc<Self>,
        paths: Vec<PathBuf>,
        options: PublishOptions,
        progress: &Arc<Progress>,
    ) -> Result<PublishOutcome, PublishError> {
        let (publisher, progress) = (Arc::clone(self), Arc::clone(progress));
        let stop = self.library.tasks.stop.child_token();
        // Dropping this future ends the reading; what was stored by then is announced.
        let _stop_reading = stop.clone().drop_guard();
        let publishing = async move {
            let (asking, policy) = (Asking::new(&publisher.indexers), publisher.policy);
            let read = move |library: &Arc<Library>| {
                read_files::read_and_store(library, &asking, paths, &options, policy, &progress, &stop)
            };
            let Stored { mut outcome, newer, settling } = publisher.library.blocking(read).await?;
            if publisher.library.is_serving {
                publisher.settle(&mut outcome, settling).await;
                publisher.tell_subscribers(&outcome.published);
                publisher.library.learn(newer).await; // what was published elsewhere since
            }
            Ok(outcome)
        };
        finished(self.library.tasks.tracker.spawn(publishing)).await
    }

    /// Tells subscribers directly, in the background. If a message is lost, their lease bounds the delay.
    fn tell_subscribers(&self, news: &[VerifiedRecord]) {
        let now = clock::now();
        let mut by_holder: HashMap<_, Vec<VerifiedRecord>> = HashMap::new();
        for record in news {
            for holder in self.library.subscribers.of(&record.name, now) {
                by_holder.entry(holder).or_default().push(record.clone());
            }
        }
        if by_holder.is_empty() {
            return;
        }
        let peers = Arc::clone(&self.peers);
        self.library.tasks.spawn_until_stop(async move {
            let tell = async |(holder, records): (nekoproto::Holder, Vec<VerifiedRecord>)| {
                if let Err(error) = peers.invalidate(holder, &records).await {
                    debug!(holder = %holder.node.short(), %error, "a subscriber did not acknowledge");
                }
            };
            stream::iter(by_holder).for_each_concurrent(TOLD_AT_ONCE, tell).await;
        });
    }

    /// See [`PeerHandle::deregister`](crate::PeerHandle::deregister).
    pub(crate) async fn deregister(&self, name: &FileName) -> Result<(), PublishError> {
        let removed = {
            let name = name.clone();
            self.library.blocking(move |library| library.catalogue.remove(&name)).await?
        };
        if !removed {
            return Err(PublishError::NotRegistered(name.clone()));
        }
        self.library.forget([name]);
        self.indexers.withdraw(std::slice::from_ref(name)).await;
        Ok(())
    }
}
