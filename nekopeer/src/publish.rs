//! Publishing: chunk and hash, version + 1 made durable, then the announcement.

mod listing;
mod reading;

use std::{collections::HashMap, io, path::PathBuf, sync::Arc, time::Duration};

use futures::{StreamExt, stream};
use nekoproto::{FileName, NameError, Policy, Records, VerifiedRecord, limits::BATCH_MAX};
use tracing::debug;

use crate::{
    Event, Progress,
    calls::call_peer,
    catalogue::{CatalogueError, Draft, Entry},
    chunker::{ChunkError, chunk_file},
    clock,
    session::SessionError,
    shared::Shared,
};

/// Subscribers told at the same time.
const TOLD_AT_ONCE: usize = 64;
/// Time for one subscriber to acknowledge.
const ACKNOWLEDGE_WITHIN: Duration = Duration::from_secs(3);
/// Time for the farewell to the indexers when the peer ends.
const FAREWELL_WITHIN: Duration = Duration::from_secs(2);

/// How files are published.
#[derive(Clone, Debug, Default)]
pub struct PublishOptions {
    /// The name of a single file; by its path unless told otherwise.
    pub name: Option<FileName>,
    /// The policy; the peer's own unless told otherwise.
    pub policy: Option<Policy>,
}

/// What became of a publish.
#[derive(Debug, Default)]
pub struct PublishOutcome {
    /// New versions.
    pub published: Vec<VerifiedRecord>,
    /// Files whose bytes are those of the version already published.
    pub unchanged: Vec<VerifiedRecord>,
    /// Copies of other origins' files in a published folder: they stay copies.
    pub copies: Vec<FileName>,
    /// Files that cannot be published, and why.
    pub failed: Vec<(PathBuf, PublishError)>,
    /// How many of the indexers know of it by now; the others are told when they are back.
    pub indexers_told: usize,
}

/// Why something cannot be published.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// There is nothing at the path, or it cannot be looked at.
    #[error("cannot read {path}: {source}")]
    Unreadable {
        /// The path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The path makes no allowed name.
    #[error("{path} cannot be shared: {source}")]
    Name {
        /// The path.
        path: PathBuf,
        /// The rule that it breaks.
        source: NameError,
    },
    /// A folder was to be published under one name.
    #[error("{0} is a folder: its files are named by their paths, a name cannot be given")]
    NameForFolder(PathBuf),
    /// Two of the files would have the same name.
    #[error("{first} and {second} would both be shared as {name}")]
    SameName {
        /// The name.
        name: FileName,
        /// One file.
        first: PathBuf,
        /// The other.
        second: PathBuf,
    },
    /// The path lies in the data folder, beside the private key.
    #[error("{0} lies in the data folder of this peer, which is never shared")]
    OwnData(PathBuf),
    /// There is no such name to withdraw.
    #[error("{0} is not registered here")]
    NotRegistered(FileName),
    /// The file cannot be read as one version.
    #[error(transparent)]
    Chunk(#[from] ChunkError),
    /// The catalogue cannot store it.
    #[error(transparent)]
    Catalogue(#[from] CatalogueError),
}

/// See [`PeerHandle::publish`](crate::PeerHandle::publish).
pub(crate) async fn publish(
    shared: &Arc<Shared>,
    paths: Vec<PathBuf>,
    options: PublishOptions,
    progress: &Arc<Progress>,
) -> Result<PublishOutcome, PublishError> {
    let progress = Arc::clone(progress);
    let mut outcome =
        shared.blocking(move |shared| reading::read_and_store(shared, paths, options, &progress)).await?;
    outcome.indexers_told = announce(shared, &outcome.published, &outcome.unchanged).await;
    Ok(outcome)
}

/// Tells the indexers, and the subscribers of new versions; how many indexers know by now.
async fn announce(shared: &Arc<Shared>, news: &[VerifiedRecord], unchanged: &[VerifiedRecord]) -> usize {
    if !shared.is_serving() {
        return 0;
    }
    tell_subscribers(shared, news.to_vec());
    let telling = shared.sessions.iter().map(|session| async move {
        session.offer(shared, news, true).await?;
        session.offer(shared, unchanged, false).await?;
        let files = news.len() + unchanged.len();
        if files > 0 {
            shared.tell(Event::Registered { indexer: session.link.addr(), files });
        }
        Ok::<(), SessionError>(())
    });
    let told = futures::future::join_all(telling).await;
    told.into_iter()
        .filter(|told| {
            if let Err(error) = told {
                debug!(%error, "an indexer is told later");
            }
            told.is_ok()
        })
        .count()
}

/// Tells subscribers directly, in the background; a lost word is made up for by their lease.
fn tell_subscribers(shared: &Arc<Shared>, news: Vec<VerifiedRecord>) {
    let now = clock::now();
    let mut by_holder: HashMap<_, Vec<VerifiedRecord>> = HashMap::new();
    for record in news {
        for holder in shared.subscribers.of(&record.name, now) {
            by_holder.entry(holder).or_default().push(record.clone());
        }
    }
    if by_holder.is_empty() {
        return;
    }
    shared.spawn_until_stop(|shared| async move {
        let telling = by_holder.into_iter().map(|(holder, records)| (Arc::clone(&shared), holder, records));
        stream::iter(telling)
            .for_each_concurrent(TOLD_AT_ONCE, |(shared, holder, records)| async move {
                let batches = u32::try_from(records.len().div_ceil(BATCH_MAX)).unwrap_or(u32::MAX);
                let patience = ACKNOWLEDGE_WITHIN.saturating_mul(batches);
                let tell = |client: nekoproto::PeerServiceClient| async move {
                    for batch in records.chunks(BATCH_MAX) {
                        let batch = Records::first_of(batch.iter().map(VerifiedRecord::to_signed));
                        if let Err(refusal) =
                            client.invalidate(crate::session::within(ACKNOWLEDGE_WITHIN), batch).await?
                        {
                            return Ok(Err(refusal));
                        }
                    }
                    Ok(Ok(()))
                };
                let told = call_peer(&shared, holder.node, holder.addr, patience, tell).await;
                if let Err(error) = told {
                    debug!(holder = %holder.node.short(), %error, "a subscriber did not acknowledge");
                }
            })
            .await;
    });
}

/// Publishes `name` anew: its counter turned out to be behind what others have seen.
pub(crate) async fn publish_again(shared: &Arc<Shared>, entry: Arc<Entry>) -> Result<(), PublishError> {
    let published = shared
        .blocking(move |shared| {
            let progress = Progress::default();
            let (name, path) = (entry.record.name.clone(), entry.path.clone());
            let last_average = shared.catalogue.last_average(&name)?;
            let chunked = chunk_file(&path, last_average, progress.counter(), &shared.stop)?;
            let draft = Draft { name, path, chunked, policy: entry.record.policy };
            shared.catalogue.publish(vec![draft]).map_err(PublishError::from)
        })
        .await?;
    let news: Vec<VerifiedRecord> = published.iter().map(|published| published.record().clone()).collect();
    announce(shared, &news, &[]).await;
    Ok(())
}

/// See [`PeerHandle::deregister`](crate::PeerHandle::deregister).
pub(crate) async fn deregister(shared: &Arc<Shared>, name: &FileName) -> Result<(), PublishError> {
    let removed = {
        let name = name.clone();
        shared.blocking(move |shared| shared.catalogue.remove(&name)).await?
    };
    if removed.is_none() {
        return Err(PublishError::NotRegistered(name.clone()));
    }
    shared.copies().remove(name);
    withdraw(shared, std::slice::from_ref(name)).await;
    Ok(())
}

pub(crate) async fn withdraw(shared: &Shared, names: &[FileName]) {
    tell_all(shared.sessions.iter().map(|session| session.withdraw(names))).await;
}

async fn tell_all(telling: impl Iterator<Item = impl Future<Output = Result<(), SessionError>>>) {
    for error in futures::future::join_all(telling).await.into_iter().filter_map(Result::err) {
        debug!(%error, "an indexer forgets the files when the lease ends");
    }
}

/// Withdraws everything, for a peer that ends.
pub(crate) async fn withdraw_all(shared: &Shared) {
    if shared.is_serving() {
        let telling = tell_all(shared.sessions.iter().map(|session| session.withdraw_all()));
        // An indexer that does not answer in time forgets the files when the lease ends.
        drop(tokio::time::timeout(FAREWELL_WITHIN, telling).await);
    }
}
