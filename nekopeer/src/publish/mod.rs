//! Publishing: chunk and hash, commit the next version durably, then announce it.

mod error;
mod from_pipe;
mod listing;
mod policy_change;
mod read_files;

use std::{collections::HashMap, path::PathBuf, sync::Arc};

use futures::{StreamExt, stream};
use nekoproto::{FileName, Policy, VerifiedRecord};
use tracing::debug;

use self::read_files::Terms;
pub use self::{error::PublishError, policy_change::PolicyChange};
use crate::{
    content::chunker::chunk_file,
    indexers::Indexers,
    library::Library,
    peers::Peers,
    storage::catalogue::Draft,
    util::{clock, progress::Progress, tasks::finished},
};

/// Maximum number of subscribers told concurrently.
const TOLD_AT_ONCE: usize = 64;

/// How files are published.
#[derive(Clone, Debug, Default)]
pub struct PublishOptions {
    /// The name of a single file; `None`: derived from its path.
    pub name: Option<FileName>,
    /// What was said about the policy; about what was not said, a file keeps its previous policy, and a new
    /// one gets the peer's default.
    pub policy: Option<PolicyChange>,
}

/// The outcome of a publish.
#[derive(Debug, Default)]
pub struct PublishOutcome {
    /// New versions.
    pub published: Vec<VerifiedRecord>,
    /// Files whose bytes and policy equal the version already published.
    pub unchanged: Vec<VerifiedRecord>,
    /// Copies of other origins' files in a published folder; they are not published.
    pub copies: Vec<FileName>,
    /// Files that cannot be published, and why.
    pub failed: Vec<(PathBuf, PublishError)>,
    /// Number of indexers that acknowledged; the others are told when they are connected again.
    pub indexers_told: usize,
}

/// Publishes for one peer.
#[derive(Debug)]
pub(crate) struct Publisher {
    library: Arc<Library>,
    indexers: Arc<Indexers>,
    peers: Arc<Peers>,
    /// The default policy.
    policy: Policy,
}

impl Publisher {
    pub(crate) fn new(
        library: &Arc<Library>,
        indexers: &Arc<Indexers>,
        peers: &Arc<Peers>,
        policy: Policy,
    ) -> Arc<Self> {
        let (library, indexers, peers) = (Arc::clone(library), Arc::clone(indexers), Arc::clone(peers));
        Arc::new(Self { library, indexers, peers, policy })
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
        // Dropping this future ends the reading; what was stored by then is announced all the same.
        let _stop_reading = stop.clone().drop_guard();
        let said = options.policy.unwrap_or_default();
        let terms = Terms { said, default: self.policy, stop };
        let publishing = async move {
            let indexers = Arc::clone(&publisher.indexers);
            let read = move |library: &Arc<Library>| {
                read_files::read_and_store(library, &indexers, paths, options.name, &terms, &progress)
            };
            let mut outcome = publisher.library.blocking(read).await?;
            outcome.indexers_told = publisher.announce(&outcome.published, &outcome.unchanged).await;
            Ok(outcome)
        };
        finished(self.library.tasks.tracker.spawn(publishing)).await
    }

    /// Announces new versions to the indexers and subscribers; returns how many indexers acknowledged.
    async fn announce(&self, news: &[VerifiedRecord], unchanged: &[VerifiedRecord]) -> usize {
        if !self.library.is_serving {
            return 0;
        }
        self.tell_subscribers(news);
        self.indexers.announce(news, unchanged).await
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

    /// Republishes `name` above version `seen`, when its counter is behind what others have seen.
    pub(crate) async fn publish_above(&self, seen: &VerifiedRecord) -> Result<(), PublishError> {
        let seen = seen.clone();
        let publish = move |library: &Arc<Library>| {
            let catalogue = &library.catalogue;
            let Some(entry) = catalogue.get(&seen.name) else { return Ok(Vec::new()) };
            catalogue.raise_version(&seen.name, seen.version)?;
            let last_average = catalogue.last_average(&seen.name)?;
            let progress = Progress::default();
            let stop = &library.tasks.stop;
            let chunked = chunk_file(&entry.path, last_average, progress.counter(), stop)?;
            let (name, path, policy) = (seen.name.clone(), entry.path.clone(), entry.record.policy);
            catalogue.publish(vec![Draft { name, path, chunked, policy }]).map_err(PublishError::from)
        };
        let published = self.library.blocking(publish).await?;
        let news: Vec<_> = published.iter().map(|published| published.record().clone()).collect();
        self.announce(&news, &[]).await;
        Ok(())
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
