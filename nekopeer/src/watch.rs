//! The consistency watch: one decision about news, two ways for news to come in.
//!
//! Push: an indexer or the origin sends the newer record. Pull: the origin is asked when the
//! bound of a copy is about to end. Either way the record itself is the proof, and [`learn`]
//! decides. A lost push is thereby made up for within the bound.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{StreamExt, stream};
use nekoproto::{
    FileName, Freshness, Held, List, NodeId, PeerServiceClient, Verdict, VerifiedRecord, limits::BATCH_MAX,
    limits::TTL_DEFAULT,
};
use tracing::debug;

use crate::{
    DownloadOptions, Event, Progress,
    calls::{CallError, call_peer},
    download,
    locate::{self, Scope},
    peer::Shared,
    publish,
    session::within,
    state::freshness::OnStale,
};

/// Origins asked at the same time.
const ASKED_AT_ONCE: usize = 16;
/// Time for an origin to be reached and to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);
/// The watch looks at least this often, whatever it expects.
const LOOK_EVERY: Duration = Duration::from_secs(30);

/// Asks origins whenever a copy's bound is about to end; for ever.
pub(crate) async fn run(shared: &Arc<Shared>) {
    loop {
        let now = Instant::now();
        let due = due_copies(shared, now);
        if !due.is_empty() {
            ask_origins(shared, due).await;
        }
        let next = shared.copies().values().filter_map(|copy| copy.ask_at()).min();
        let pause = next.map_or(LOOK_EVERY, |next| next.saturating_duration_since(Instant::now()));
        tokio::select! {
            () = tokio::time::sleep(pause.min(LOOK_EVERY)) => {}
            () = shared.watch_wake.notified() => {}
        }
    }
}

/// Asks the origins of all copies now, whenever they were due.
pub(crate) async fn ask_all(shared: &Arc<Shared>) {
    let all = {
        let copies = shared.copies();
        let current = copies.values().filter(|copy| copy.ask_at().is_some());
        current.map(|copy| copy.held().clone()).collect()
    };
    ask_origins(shared, all).await;
}

fn due_copies(shared: &Shared, now: Instant) -> Vec<VerifiedRecord> {
    let copies = shared.copies();
    let due = copies.values().filter(|copy| copy.ask_at().is_some_and(|at| at <= now));
    due.map(|copy| copy.held().clone()).collect()
}

async fn ask_origins(shared: &Arc<Shared>, copies: Vec<VerifiedRecord>) {
    let mut by_origin: HashMap<NodeId, Vec<VerifiedRecord>> = HashMap::new();
    for copy in copies {
        by_origin.entry(copy.origin).or_default().push(copy);
    }
    stream::iter(by_origin)
        .for_each_concurrent(ASKED_AT_ONCE, |(origin, copies)| async move {
            for batch in copies.chunks(BATCH_MAX) {
                ask_origin(shared, origin, batch).await;
            }
        })
        .await;
}

/// Asks one origin about some of its files.
async fn ask_origin(shared: &Arc<Shared>, origin: NodeId, copies: &[VerifiedRecord]) {
    let asked_at = Instant::now();
    let held =
        List::first_of(copies.iter().map(|copy| Held { name: copy.name.clone(), version: copy.version }));
    let verdicts = match confirm(shared, origin, &copies[0].name, held).await {
        Ok(verdicts) => verdicts.into_vec(),
        Err(error) => {
            debug!(origin = %origin.short(), %error, "the origin cannot be asked");
            Vec::new() // no word on any of them
        }
    };
    let mut news = Vec::new();
    let mut verdicts = verdicts.into_iter();
    for copy in copies {
        match verdicts.next() {
            Some(Verdict::Current) => note_confirmed(shared, copy, asked_at),
            Some(Verdict::Newer(record)) => match shared.verifier.verify(*record) {
                Ok(record) if record.replaces(copy) => news.push(record),
                _ => note_unconfirmed(shared, copy),
            },
            Some(Verdict::Unpublished) | None => note_unconfirmed(shared, copy),
        }
    }
    learn(shared, news).await;
}

/// Asks where the origin was last found, then where the indexers say that it is.
async fn confirm(
    shared: &Arc<Shared>,
    origin: NodeId,
    name: &FileName,
    held: List<Held, BATCH_MAX>,
) -> Result<List<Verdict, BATCH_MAX>, CallError> {
    let known = shared.catalogue.get(name).and_then(|entry| entry.origin_addr);
    let ask = |addr: SocketAddr, held: List<Held, BATCH_MAX>| {
        let call =
            |client: PeerServiceClient| async move { client.confirm(within(ANSWER_WITHIN), held).await };
        call_peer(shared, origin, addr, ANSWER_WITHIN, call)
    };
    let failed = match known {
        Some(addr) => match ask(addr, held.clone()).await {
            Ok(verdicts) => return Ok(verdicts),
            Err(error) => error,
        },
        None => CallError::TooLong,
    };
    let scope = Scope::Network { ttl_hops: TTL_DEFAULT };
    let answer = locate::ask(shared, name, scope).await.unwrap_or_default();
    let holders = answer.candidates.into_iter().flat_map(|candidate| candidate.holders);
    let found = holders.map(|holder| (holder.node, holder.addr)).find(|(node, _)| *node == origin);
    match found {
        Some((_, addr)) if Some(addr) != known => {
            let verdicts = ask(addr, held).await?;
            remember_origin(shared, name.clone(), addr).await;
            Ok(verdicts)
        }
        _ => Err(failed),
    }
}

async fn remember_origin(shared: &Arc<Shared>, name: FileName, addr: SocketAddr) {
    let stored = shared
        .blocking(move |shared| {
            shared.catalogue.update(&name, |entry| entry.origin_addr.replace(addr) != Some(addr))
        })
        .await;
    if let Err(error) = stored {
        tracing::warn!(%error, "cannot store where an origin is"); // it will be looked for again
    }
}

fn note_confirmed(shared: &Shared, record: &VerifiedRecord, asked_at: Instant) {
    if let Some(copy) = shared.copies().get_mut(&record.name).filter(|copy| copy.held() == record) {
        copy.confirmed(asked_at);
    }
}

fn note_unconfirmed(shared: &Shared, record: &VerifiedRecord) {
    let now = Instant::now();
    let went_away = {
        let mut copies = shared.copies();
        let Some(copy) = copies.get_mut(&record.name).filter(|copy| copy.held() == record) else { return };
        let was_reachable = copy.is_reachable();
        copy.not_confirmed(now);
        was_reachable && copy.freshness(now) != Freshness::Stale
    };
    if went_away {
        shared.tell(Event::OriginAway(record.name.clone()));
    }
}

/// Takes note of verified records, durably, and acts on what is news. Returns when all is noted;
/// what follows from it goes on in the background.
///
/// # Cancel safety
/// Safe: what has begun goes on, so that a caller who hangs up cannot leave news half noted.
pub(crate) async fn learn(shared: &Arc<Shared>, records: Vec<VerifiedRecord>) {
    if records.is_empty() {
        return;
    }
    let noting = {
        let shared = Arc::clone(shared);
        async move { note_all(&shared, records).await }
    };
    if let Err(error) = shared.tasks.spawn(noting).await {
        tracing::error!(%error, "noting newer versions failed");
    }
}

async fn note_all(shared: &Arc<Shared>, records: Vec<VerifiedRecord>) {
    let mut outdated = Vec::new();
    for record in records {
        if record.origin == shared.endpoint.node() {
            learn_own(shared, record);
        } else if learn_other(shared, &record).await {
            outdated.push(record);
        }
    }
    if !outdated.is_empty() && shared.is_serving() {
        shared.spawn_until_stop(|shared| async move { pass_on(&shared, &outdated).await });
    }
}

/// Whether `record` outdates a copy here that was not known to be outdated by it.
async fn learn_other(shared: &Arc<Shared>, record: &VerifiedRecord) -> bool {
    let is_news = shared.copies().get_mut(&record.name).is_some_and(|copy| copy.learn(record));
    if !is_news {
        return false;
    }
    let (name, newest) = (record.name.clone(), record.clone());
    let stored = shared
        .blocking(move |shared| {
            shared.catalogue.update(&name, |entry| {
                let newer = newest.replaces(entry.newest.as_ref().unwrap_or(&entry.record));
                if newer {
                    entry.newest = Some(newest);
                }
                newer
            })
        })
        .await;
    let why = match stored {
        Ok(Some(entry)) => {
            let (name, held) = (record.name.clone(), entry.record.version);
            // A download that ended meanwhile may have begun the copy's state anew.
            if let Some(copy) = shared.copies().get_mut(&name) {
                copy.learn(record);
            }
            shared.tell(Event::Invalidated { name: name.clone(), held, newest: record.version });
            act(shared, name);
            return true;
        }
        Ok(None) => return false, // replaced or removed meanwhile
        Err(error) => error.to_string(),
    };
    shared.tell(Event::Failed { name: record.name.clone(), why });
    true
}

/// Does what the reader wants done with an outdated copy, in the background.
fn act(shared: &Arc<Shared>, name: FileName) {
    match shared.config.on_stale {
        OnStale::Keep => {}
        OnStale::Refetch => shared.spawn_until_stop(|shared| async move { refetch(&shared, name).await }),
        OnStale::Drop => shared.spawn_until_stop(|shared| async move { drop_copy(&shared, name).await }),
    }
}

async fn refetch(shared: &Arc<Shared>, name: FileName) {
    let progress = Arc::new(Progress::default());
    // A copy that was downloaded to a place of its own stays there.
    let path = shared.catalogue.get(&name).map(|entry| entry.path.clone());
    let output = path.filter(|path| *path != shared.share.root().join(name.as_path()));
    let options = DownloadOptions { output, ..DownloadOptions::default() };
    let event = match download::download(shared, &name, options, &progress).await {
        Ok(done) => Event::Refreshed {
            name: name.clone(),
            version: done.record.version,
            bytes_moved: done.bytes_moved,
        },
        Err(error) => Event::Failed { name: name.clone(), why: error.to_string() },
    };
    shared.tell(event);
}

async fn drop_copy(shared: &Arc<Shared>, name: FileName) {
    let dropped = {
        let name = name.clone();
        shared
            .blocking(move |shared| {
                let entry = shared.catalogue.get(&name)?;
                // A file that somebody changed is somebody's work: it stays.
                let intact = crate::status::on_disk(&entry).is_none();
                (intact && std::fs::remove_file(&entry.path).is_ok()).then_some(())
            })
            .await
    };
    let gone = publish::deregister(shared, &name).await;
    shared.tell(match (dropped, gone) {
        (Some(()), Ok(())) => Event::Dropped(name),
        (None, _) => Event::Failed { name, why: "the outdated copy was changed and is kept".to_owned() },
        (_, Err(error)) => Event::Failed { name, why: error.to_string() },
    });
}

/// Tells the own indexers, which may not have heard, and so list the outdated copy.
async fn pass_on(shared: &Shared, records: &[VerifiedRecord]) {
    let telling = shared.sessions.iter().map(|session| session.pass_on(records));
    for error in futures::future::join_all(telling).await.into_iter().filter_map(Result::err) {
        debug!(%error, "an indexer could not be told of a newer version");
    }
}

/// A later version of an own file, with our signature: the counter was lost, perhaps with an old
/// copy of the data folder. The file is published again after that version.
fn learn_own(shared: &Arc<Shared>, record: VerifiedRecord) {
    let behind = shared.catalogue.get(&record.name).filter(|entry| record.replaces(&entry.record));
    let Some(entry) = behind else { return };
    let (name, seen) = (record.name.clone(), record.version);
    shared.spawn_until_stop(|shared| async move {
        let raised = {
            let name = name.clone();
            shared.blocking(move |shared| shared.catalogue.raise_version(&name, seen)).await
        };
        let again = match raised {
            Ok(()) => publish::publish_again(&shared, entry).await,
            Err(error) => Err(error.into()),
        };
        if let Err(error) = again {
            let why = format!("others know version {seen}, and it cannot be published again: {error}");
            shared.tell(Event::Failed { name, why });
        }
    });
}
