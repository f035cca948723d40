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
    FileName, Freshness, Held, List, NodeId, PeerServiceClient, Verdict, VerifiedRecord,
    limits::{BATCH_MAX, TTL_DEFAULT},
    transport::Backoff,
};
use tracing::debug;

use crate::{
    DownloadError, DownloadOptions, Downloaded, Event, Progress,
    calls::{CallError, call_peer},
    catalogue::Entry,
    clock,
    download::{self, Running},
    locate::{self, Scope},
    publish,
    session::within,
    shared::Shared,
    state::freshness::{CopyState, OnStale},
};

/// Origins asked at the same time.
const ASKED_AT_ONCE: usize = 16;
/// Addresses at which an origin is tried before the indexers are asked for another.
const ADDRESSES_TRIED: usize = 2;
/// Names by which the indexers are asked for it.
const NAMES_TRIED: usize = 2;
/// Time for an origin to be reached and to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);
/// Outdated copies downloaded anew at the same time.
pub(crate) const REFETCHES_MAX: usize = 4;
/// First and longest pause before a newer version that could not be had is tried again.
const REFETCH_PAUSE: Duration = Duration::from_millis(500);
const REFETCH_PAUSE_MAX: Duration = Duration::from_secs(30);
/// Pause before an outdated copy that is being downloaded is looked at again.
const DROP_PAUSE: Duration = Duration::from_millis(200);
/// The watch looks at least this often, whatever it expects.
const LOOK_EVERY: Duration = Duration::from_secs(30);

/// Asks origins whenever a copy's bound is about to end; for ever.
pub(crate) async fn run(shared: &Arc<Shared>) {
    let outdated: Vec<FileName> = {
        let copies = shared.copies();
        copies.iter().filter(|(_, copy)| copy.newest().is_some()).map(|(name, _)| name.clone()).collect()
    };
    outdated.into_iter().for_each(|name| act(shared, name)); // what the last run did not get to
    loop {
        let now = clock::now();
        let due = due_copies(shared, now);
        if !due.is_empty() {
            ask_origins(shared, due).await;
        }
        let next = shared.copies().values().filter_map(|copy| copy.ask_at()).min();
        let pause = next.map_or(LOOK_EVERY, |next| next.saturating_duration_since(clock::now()));
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

/// Asks the origin about one copy now.
pub(crate) async fn ask_about(shared: &Arc<Shared>, record: &VerifiedRecord) {
    ask_origin(shared, record.origin, std::slice::from_ref(record)).await;
}

fn due_copies(shared: &Shared, now: Instant) -> Vec<VerifiedRecord> {
    let copies = shared.copies();
    let due = copies.values().filter(|copy| copy.ask_at().is_some_and(|at| at <= now));
    due.map(|copy| copy.held().clone()).collect()
}

/// Asks the origins of `copies`, many in a call.
pub(crate) async fn ask_origins(shared: &Arc<Shared>, copies: Vec<VerifiedRecord>) {
    let mut by_origin: HashMap<NodeId, Vec<VerifiedRecord>> = HashMap::new();
    for copy in copies {
        by_origin.entry(copy.origin).or_default().push(copy);
    }
    stream::iter(by_origin)
        .for_each_concurrent(ASKED_AT_ONCE, |(origin, copies)| async move {
            let mut batches = copies.chunks(BATCH_MAX);
            while let Some(batch) = batches.next() {
                if !ask_origin(shared, origin, batch).await {
                    // An origin that is away for one batch is away for the others.
                    batches.by_ref().flatten().for_each(|copy| note_unconfirmed(shared, copy));
                }
            }
        })
        .await;
}

/// Asks one origin about some of its files; whether it answered.
async fn ask_origin(shared: &Arc<Shared>, origin: NodeId, copies: &[VerifiedRecord]) -> bool {
    let asked_at = clock::now();
    let held = List::first_of(copies.iter().map(|copy| Held {
        name: copy.name.clone(),
        version: copy.version,
        content: copy.content,
    }));
    let confirmed = confirm(shared, origin, copies, held).await;
    if let Err(error) = &confirmed {
        debug!(origin = %origin.short(), %error, "the origin cannot be asked");
    }
    let answered = confirmed.is_ok();
    let verdicts = confirmed.unwrap_or_default(); // no word on any of them
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
    answered
}

/// Asks where the origin was last found, then where the indexers say that it is.
async fn confirm(
    shared: &Arc<Shared>,
    origin: NodeId,
    copies: &[VerifiedRecord],
    held: List<Held, BATCH_MAX>,
) -> Result<List<Verdict, BATCH_MAX>, CallError> {
    let ask = |addr: SocketAddr, held: List<Held, BATCH_MAX>| {
        let call =
            |client: PeerServiceClient| async move { client.confirm(within(ANSWER_WITHIN), held).await };
        call_peer(shared, origin, addr, ANSWER_WITHIN, call)
    };
    let mut tried: Vec<SocketAddr> = Vec::new();
    let mut failed = CallError::TooLong;
    let known = copies.iter().filter_map(|copy| shared.catalogue.get(&copy.name)?.origin_addr);
    for addr in known {
        if !tried.contains(&addr) && tried.len() < ADDRESSES_TRIED {
            tried.push(addr);
            match ask(addr, held.clone()).await {
                Ok(verdicts) => return Ok(verdicts),
                Err(error) => failed = error,
            }
        }
    }
    // One of the names may have been withdrawn, so more than one is looked for.
    for copy in copies.iter().take(NAMES_TRIED) {
        let scope = Scope::Network { ttl_hops: TTL_DEFAULT };
        let answer = locate::ask(shared, &copy.name, scope).await.unwrap_or_default();
        let mut holders = answer.candidates.into_iter().flat_map(|candidate| candidate.holders);
        let found = holders.find(|holder| holder.node == origin).map(|holder| holder.addr);
        if let Some(addr) = found.filter(|addr| !tried.contains(addr)) {
            let verdicts = ask(addr, held).await?;
            remember_origin(shared, copy.name.clone(), addr).await;
            return Ok(verdicts);
        }
    }
    Err(failed)
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
    let now = clock::now();
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
/// what follows from it goes on in the background. False if the disk did not take the note.
///
/// # Cancel safety
/// Safe: what has begun goes on, so that a caller who hangs up cannot leave news half noted.
pub(crate) async fn learn(shared: &Arc<Shared>, records: Vec<VerifiedRecord>) -> bool {
    if records.is_empty() {
        return true;
    }
    let noting = {
        let shared = Arc::clone(shared);
        async move { note_all(&shared, records).await }
    };
    shared.tasks.spawn(noting).await.unwrap_or_else(|error| {
        tracing::error!(%error, "noting newer versions failed");
        false
    })
}

async fn note_all(shared: &Arc<Shared>, records: Vec<VerifiedRecord>) -> bool {
    let own = |record: &VerifiedRecord| record.origin == shared.endpoint.node();
    let (own, others): (Vec<_>, Vec<_>) = records.into_iter().partition(own);
    own.into_iter().for_each(|record| learn_own(shared, record));
    let news: Vec<VerifiedRecord> = {
        let copies = shared.copies();
        let newer =
            |record: &VerifiedRecord, copy: &CopyState| record.replaces(copy.newest().unwrap_or(copy.held()));
        let news = others.into_iter();
        news.filter(|record| copies.get(&record.name).is_some_and(|copy| newer(record, copy))).collect()
    };
    if news.is_empty() {
        return true;
    }
    let stored = {
        let news = news.clone();
        shared.blocking(move |shared| shared.catalogue.note_newer(&news)).await
    };
    {
        // Only now, so that nobody takes for noted what is not on disk yet.
        let mut copies = shared.copies();
        for record in &news {
            if let Some(copy) = copies.get_mut(&record.name) {
                copy.learn(record);
            }
        }
    }
    let noted = stored.is_ok();
    match stored {
        Ok(outdated) => outdated.iter().for_each(|entry| tell_outdated(shared, entry)),
        Err(error) => {
            for record in &news {
                shared.tell(Event::Failed { name: record.name.clone(), why: error.to_string() });
            }
        }
    }
    if shared.is_serving() {
        shared.spawn_until_stop(|shared| async move { pass_on(&shared, &news).await });
    }
    noted
}

fn tell_outdated(shared: &Arc<Shared>, entry: &Entry) {
    let Some(newest) = &entry.newest else { return };
    let (name, held) = (entry.record.name.clone(), entry.record.version);
    shared.tell(Event::Invalidated { name: name.clone(), held, newest: newest.version });
    act(shared, name);
}

/// Does what the reader wants done with an outdated copy, in the background.
fn act(shared: &Arc<Shared>, name: FileName) {
    match shared.config.on_stale {
        OnStale::Keep => {}
        OnStale::Refetch => shared.spawn_until_stop(|shared| async move { refetch(&shared, name).await }),
        OnStale::Drop => shared.spawn_until_stop(|shared| async move { drop_copy(&shared, name).await }),
    }
}

fn is_outdated(shared: &Shared, name: &FileName) -> bool {
    shared.copies().get(name).is_some_and(|copy| copy.newest().is_some())
}

/// When its turn has come, downloads the newest version, again and again until it is here: word of it may come before any
/// indexer lists it.
async fn refetch(shared: &Arc<Shared>, name: FileName) {
    let Ok(_turn) = shared.refetches.acquire().await else { return };
    let (mut backoff, mut told) = (Backoff::new(REFETCH_PAUSE, REFETCH_PAUSE_MAX), false);
    while is_outdated(shared, &name) {
        let held = shared.catalogue.get(&name).map(|entry| entry.record.version);
        let (why, last) = match refetch_once(shared, &name).await {
            Ok(done) if Some(done.record.version) > held => {
                let (version, bytes_moved) = (done.record.version, done.bytes_moved);
                shared.tell(Event::Refreshed { name: name.clone(), version, bytes_moved });
                continue;
            }
            Ok(done) => (format!("only version {} can be found", done.record.version), false),
            Err(DownloadError::AlreadyRunning(_)) => (String::new(), false),
            Err(error) => (error.to_string(), !error.may_pass()),
        };
        if !told && !why.is_empty() {
            told = true;
            shared.tell(Event::Failed { name: name.clone(), why });
        }
        if last {
            return;
        }
        tokio::time::sleep(backoff.pause(rand::random())).await;
    }
}

async fn refetch_once(shared: &Arc<Shared>, name: &FileName) -> Result<Downloaded, DownloadError> {
    let progress = Arc::new(Progress::default());
    // A copy that was downloaded to a place of its own stays there.
    let path = shared.catalogue.get(name).map(|entry| entry.path.clone());
    let output = path.filter(|path| *path != shared.share.root().join(name.as_path()));
    let options = DownloadOptions { output, ..DownloadOptions::default() };
    download::download(shared, name, options, &progress).await
}

async fn drop_copy(shared: &Arc<Shared>, name: FileName) {
    // A download under way may be of the newer version: what it puts there is not to be dropped.
    let _running = loop {
        match Running::begin(shared, &name) {
            Ok(running) => break running,
            Err(_) => tokio::time::sleep(DROP_PAUSE).await,
        }
    };
    if !is_outdated(shared, &name) {
        return;
    }
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

/// A later version of an own file, or other bytes under the same number, with our signature: the
/// counter was lost, perhaps with the data folder or to an old copy of it. The file is published again after that version.
fn learn_own(shared: &Arc<Shared>, record: VerifiedRecord) {
    let behind = shared
        .catalogue
        .get(&record.name)
        .filter(|entry| record.replaces(&entry.record) || record.contradicts(&entry.record));
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
