//! Publishing: chunk and hash, version + 1 made durable, then the announcement.

use std::{
    collections::HashMap,
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use futures::{StreamExt, stream};
use nekoproto::{FileName, NameError, Policy, Records, VerifiedRecord, limits::BATCH_MAX};
use tracing::debug;
use walkdir::WalkDir;

use crate::{
    Event, Progress,
    calls::call_peer,
    catalogue::{CatalogueError, Draft, Entry, Published},
    chunker::{ChunkError, chunk_file},
    clock,
    session::SessionError,
    shared::Shared,
    stamp::Stamp,
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
        shared.blocking(move |shared| read_and_store(shared, paths, options, &progress)).await?;
    outcome.indexers_told = announce(shared, &outcome.published, &outcome.unchanged).await;
    Ok(outcome)
}

fn read_and_store(
    shared: &Shared,
    paths: Vec<PathBuf>,
    options: PublishOptions,
    progress: &Progress,
) -> Result<PublishOutcome, PublishError> {
    let mut outcome = PublishOutcome::default();
    let policy = options.policy.unwrap_or(shared.config.policy);
    let files = list_files(shared, paths, options.name, &mut outcome)?;
    progress.set_total(files.iter().map(|(_, _, stamp)| stamp.size()).sum());
    let mut drafts = Vec::new();
    for (name, path, stamp) in files {
        match known_as(shared, &name, &path, &stamp, policy) {
            Known::Unchanged(record) => {
                progress.add_done(stamp.size());
                outcome.unchanged.push(record);
                continue;
            }
            Known::Copy => {
                outcome.copies.push(name);
                continue;
            }
            Known::Not => {}
        }
        match chunk_file(&path, progress.counter(), &shared.stop) {
            Ok(chunked) => drafts.push(Draft { name, path, chunked, policy }),
            Err(error) => outcome.failed.push((path, error.into())),
        }
        if drafts.len() >= BATCH_MAX {
            store(shared, std::mem::take(&mut drafts), &mut outcome)?;
        }
    }
    store(shared, drafts, &mut outcome)?;
    Ok(outcome)
}

enum Known {
    /// Published before, and its stamp proves that nothing changed.
    Unchanged(VerifiedRecord),
    /// The unchanged copy of another origin's file.
    Copy,
    Not,
}

fn known_as(shared: &Shared, name: &FileName, path: &Path, stamp: &Stamp, policy: Policy) -> Known {
    match shared.catalogue.get(name) {
        Some(entry) if entry.path != path || entry.stamp != *stamp => Known::Not,
        Some(entry) if !shared.catalogue.is_own(&entry) => Known::Copy,
        Some(entry) if stamp.is_settled(entry.hashed_at_ns) && entry.record.policy == policy => {
            Known::Unchanged(entry.record.clone())
        }
        _ => Known::Not,
    }
}

fn store(shared: &Shared, drafts: Vec<Draft>, outcome: &mut PublishOutcome) -> Result<(), PublishError> {
    let (drafts, foreign): (Vec<_>, Vec<_>) = drafts.into_iter().partition(|draft| {
        shared.catalogue.get(&draft.name).is_none_or(|entry| shared.catalogue.is_own(&entry))
    });
    for draft in foreign {
        // Let the catalogue say it in its words.
        let path = draft.path.clone();
        if let Err(error) = shared.catalogue.publish(vec![draft]) {
            outcome.failed.push((path, error.into()));
        }
    }
    if drafts.is_empty() {
        return Ok(());
    }
    // Before the commit: a session that registers everything right after it must know that this is
    // news, or the indexer would never announce it.
    let names: Vec<FileName> = drafts.iter().map(|draft| draft.name.clone()).collect();
    shared.sessions.iter().for_each(|session| session.expect_news(&names));
    for published in shared.catalogue.publish(drafts)? {
        match published {
            Published::New(record) => outcome.published.push(record),
            Published::Unchanged(record) => outcome.unchanged.push(record),
        }
    }
    Ok(())
}

type NamedFile = (FileName, PathBuf, Stamp);

fn list_files(
    shared: &Shared,
    paths: Vec<PathBuf>,
    name: Option<FileName>,
    outcome: &mut PublishOutcome,
) -> Result<Vec<NamedFile>, PublishError> {
    let mut files = Vec::new();
    for path in paths {
        let unreadable = |source| PublishError::Unreadable { path: path.clone(), source };
        let metadata = std::fs::metadata(&path).map_err(unreadable)?;
        let absolute = path.canonicalize().map_err(unreadable)?;
        if absolute.starts_with(&shared.data_dir) {
            return Err(PublishError::OwnData(path));
        }
        match (&name, metadata.is_dir()) {
            (Some(_), true) => return Err(PublishError::NameForFolder(path)),
            (None, true) => list_folder(&absolute, &shared.data_dir, &mut files, outcome),
            (Some(name), false) => files.push((name.clone(), absolute, Stamp::of(&metadata))),
            (None, false) => {
                let relative = absolute.strip_prefix(shared.share.root()).ok().map(Path::to_owned);
                let relative = relative.or_else(|| path.file_name().map(PathBuf::from));
                let name = FileName::from_path(&relative.unwrap_or_default())
                    .map_err(|source| PublishError::Name { path: path.clone(), source })?;
                files.push((name, absolute, Stamp::of(&metadata)));
            }
        }
    }
    let mut seen: HashMap<FileName, PathBuf> = HashMap::new();
    for (name, path, _) in &files {
        if let Some(first) = seen.insert(name.clone(), path.clone()).filter(|first| first != path) {
            return Err(PublishError::SameName { name: name.clone(), first, second: path.clone() });
        }
    }
    Ok(files)
}

/// Every regular file below `folder`; links are not followed, our own files are left out.
fn list_folder(folder: &Path, data_dir: &Path, files: &mut Vec<NamedFile>, outcome: &mut PublishOutcome) {
    let is_ours = |name: &std::ffi::OsStr| {
        name.as_encoded_bytes().starts_with(nekoproto::name::RESERVED_PREFIX.as_bytes())
    };
    let walk = WalkDir::new(folder).sort_by_file_name().into_iter();
    for found in walk
        .filter_entry(|entry| entry.depth() == 0 || !(is_ours(entry.file_name()) || entry.path() == data_dir))
    {
        let failed =
            |path: PathBuf, source: io::Error| (path.clone(), PublishError::Unreadable { path, source });
        let (path, metadata) = match found.and_then(|entry| Ok((entry.path().to_owned(), entry.metadata()?)))
        {
            Ok(found) => found,
            Err(error) => {
                let path = error.path().unwrap_or(folder).to_owned();
                outcome.failed.push(failed(path, error.into()));
                continue;
            }
        };
        if !metadata.is_file() {
            continue;
        }
        let relative = path.strip_prefix(folder).unwrap_or(&path);
        match FileName::from_path(relative) {
            Ok(name) => files.push((name, path, Stamp::of(&metadata))),
            Err(source) => outcome.failed.push((path.clone(), PublishError::Name { path, source })),
        }
    }
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
            let chunked = chunk_file(&entry.path, progress.counter(), &shared.stop)?;
            let (name, path) = (entry.record.name.clone(), entry.path.clone());
            let draft = Draft { name, path, chunked, policy: entry.record.policy };
            shared.catalogue.publish(vec![draft]).map_err(PublishError::from)
        })
        .await?;
    let news: Vec<VerifiedRecord> = published
        .into_iter()
        .map(|published| match published {
            Published::New(record) | Published::Unchanged(record) => record,
        })
        .collect();
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
