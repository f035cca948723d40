//! The session with one indexer: connect, register everything, renew, and begin again when it breaks.

mod partial;

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use nekoproto::{
    FileName, IndexerServiceClient, LeaseReply, List, Names, PeerService, Records, Refusal, RegisterReply,
    RegisterRequest, VerifiedRecord,
    limits::BATCH_MAX,
    transport::{Connection, Endpoint, Link, LinkState, control},
};
use tarpc::{client::RpcError, context};
use tokio::time::timeout;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{debug, warn};

use crate::{Config, Event, calls::PeerCalls, shared::Shared, status, watch};

/// Time for an indexer to answer a registration or a renewal.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// The lease is renewed when this share of it has passed.
const RENEW_AT: u32 = 3;

/// One indexer, and what it was told.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) link: Link<IndexerServiceClient>,
    told: Mutex<Told>,
    /// Milliseconds of lease that the indexer grants.
    lease_ms: AtomicU64,
}

#[derive(Debug, Default)]
struct Told {
    /// What is listed there over the current connection.
    listed: HashSet<FileName>,
    /// Names that it did not take, so that a renewal is not surprised.
    unlisted: usize,
    /// New versions that it has not heard of yet.
    unannounced: HashSet<FileName>,
    /// What is being downloaded, and offered as far as it is here: the catalogue does not have it.
    partial: HashMap<FileName, VerifiedRecord>,
    /// Something could not be told over this connection: everything is told again.
    behind: bool,
}

/// As what versions are registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Held, and to be announced.
    News,
    /// Held.
    Held,
    /// Held in part.
    Partial,
}

impl Told {
    fn has_part_of(&self, record: &VerifiedRecord) -> bool {
        self.partial.get(&record.name) == Some(record)
    }
}

/// Why an indexer was not told.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SessionError {
    #[error("not connected")]
    Away,
    #[error(transparent)]
    Rpc(#[from] RpcError),
    #[error(transparent)]
    Refused(#[from] Refusal),
}

impl Session {
    /// Begins to connect to each of the configured indexers.
    pub(crate) fn spawn_all(
        shared: &Weak<Shared>,
        config: &Config,
        endpoint: &Arc<Endpoint>,
        stop: &CancellationToken,
        tasks: &TaskTracker,
    ) -> Vec<Self> {
        let session = |addr: &std::net::SocketAddr| {
            let shared = Weak::clone(shared);
            let open = move |connection: Connection| {
                let calls = PeerCalls { shared: Weak::clone(&shared), remote: connection.remote };
                let (client, driver) =
                    control::open(connection.io, calls.serve(), IndexerServiceClient::from);
                (client, Box::pin(driver) as control::Driver)
            };
            let link = Link::spawn(Arc::clone(endpoint), *addr, stop.clone(), tasks, open);
            Self { link, told: Mutex::default(), lease_ms: AtomicU64::new(1000) }
        };
        config.indexers.iter().map(session).collect()
    }

    /// Keeps the session for as long as the peer lives.
    pub(crate) async fn keep(&self, shared: &Arc<Shared>) {
        let mut state = self.link.watch();
        let mut told_away = false;
        loop {
            let now = state.borrow_and_update().clone();
            match now {
                LinkState::Up { client, .. } => {
                    told_away = false;
                    shared.tell(Event::Connected(self.link.addr()));
                    shared.watch_wake.notify_one();
                    tokio::select! {
                        changed = state.changed() => match changed {
                            Ok(()) => continue, // the connection is another one now
                            Err(_) => return,   // the peer is ending
                        },
                        () = self.keep_registered(shared, &client) => {}
                    }
                }
                LinkState::Down(why) if !told_away => {
                    told_away = true;
                    shared.tell(Event::Away { indexer: self.link.addr(), why: why.to_string() });
                }
                LinkState::Down(_) | LinkState::Connecting => {}
            }
            if state.changed().await.is_err() {
                return;
            }
        }
    }

    /// Registers everything, then renews; begins again when the indexer lost track.
    async fn keep_registered(&self, shared: &Arc<Shared>, client: &IndexerServiceClient) {
        if !shared.is_serving() {
            return;
        }
        loop {
            if let Err(error) = self.register_all(shared, client).await {
                warn!(indexer = %self.link.addr(), %error, "cannot register");
            }
            while self.renew(client).await {}
        }
    }

    async fn register_all(
        &self,
        shared: &Arc<Shared>,
        client: &IndexerServiceClient,
    ) -> Result<(), SessionError> {
        {
            let mut told = self.told();
            told.listed.clear();
            told.unlisted = 0;
            told.behind = true; // until all of it is told
        }
        let mut offered = shared.blocking(status::offered).await;
        let (partial, unannounced) = {
            let mut told = self.told();
            for whole in &offered {
                if told.has_part_of(whole) {
                    told.partial.remove(&whole.name); // the download is done
                }
            }
            (told.partial.clone(), told.unannounced.clone())
        };
        offered.retain(|older| !partial.contains_key(&older.name));
        let (news, known): (Vec<_>, Vec<_>) =
            offered.into_iter().partition(|record| unannounced.contains(&record.name));
        self.register(shared, client, &known, Kind::Held).await?;
        self.register(shared, client, &news, Kind::News).await?;
        self.register_partial(shared, client, &partial.into_values().collect::<Vec<_>>()).await?;
        let files = {
            let mut told = self.told();
            told.behind = false;
            told.listed.len()
        };
        if files == 0 {
            let lease = client.renew(within(ANSWER_WITHIN)).await??; // learns how long a lease is
            self.note_lease(lease);
        }
        shared.tell(Event::Registered { indexer: self.link.addr(), files });
        Ok(())
    }

    /// Renews once the time has come; false when everything must be registered again.
    async fn renew(&self, client: &IndexerServiceClient) -> bool {
        tokio::time::sleep(Duration::from_millis(self.lease_ms.load(Ordering::Relaxed)) / RENEW_AT).await;
        match client.renew(within(ANSWER_WITHIN)).await {
            Ok(Ok(lease)) => {
                self.note_lease(lease);
                let told = self.told();
                !told.behind && lease.names as usize + told.unlisted >= told.listed.len()
            }
            Ok(Err(error)) => {
                debug!(%error, "renewal refused");
                false
            }
            Err(error) => {
                debug!(%error, "renewal failed");
                true // if the connection is broken, the link says so
            }
        }
    }

    /// Whatever is registered next under these names is to be announced.
    pub(crate) fn expect_news(&self, names: &[FileName]) {
        self.told().unannounced.extend(names.iter().cloned());
    }

    /// Tells this indexer of versions that this peer holds. With `announce`, those that it
    /// cannot be told now are announced when it is back.
    pub(crate) async fn offer(
        &self,
        shared: &Arc<Shared>,
        records: &[VerifiedRecord],
        announce: bool,
    ) -> Result<(), SessionError> {
        {
            let mut told = self.told();
            for record in records {
                if announce {
                    told.unannounced.insert(record.name.clone());
                }
                // A copy of an older version may be offered while the newer one is downloaded.
                if told.partial.get(&record.name).is_some_and(|newer| !newer.replaces(record)) {
                    told.partial.remove(&record.name);
                }
            }
        }
        let client = self.link.client().ok_or(SessionError::Away)?;
        let kind = if announce { Kind::News } else { Kind::Held };
        let told = self.register(shared, &client, records, kind).await;
        self.behind_unless(told)
    }

    /// What could not be told is told again with everything else when the lease is renewed.
    fn behind_unless(&self, told: Result<(), SessionError>) -> Result<(), SessionError> {
        if told.is_err() {
            self.told().behind = true;
        }
        told
    }

    async fn register(
        &self,
        shared: &Arc<Shared>,
        client: &IndexerServiceClient,
        records: &[VerifiedRecord],
        kind: Kind,
    ) -> Result<(), SessionError> {
        let (announce, partial) = (kind == Kind::News, kind == Kind::Partial);
        for batch in records.chunks(BATCH_MAX) {
            let records = Records::first_of(batch.iter().map(VerifiedRecord::to_signed));
            let request = RegisterRequest { records, announce, partial };
            let reply = client.register(within(ANSWER_WITHIN), request).await??;
            let newer = self.note_registered(shared, batch, kind, reply);
            if kind != Kind::Partial {
                self.withdraw_gone(shared, client, batch).await?;
            }
            watch::learn(shared, newer).await; // a failure has been told as an event
        }
        Ok(())
    }

    /// Takes note of the reply; returns the records that are news to us.
    fn note_registered(
        &self,
        shared: &Shared,
        batch: &[VerifiedRecord],
        kind: Kind,
        reply: RegisterReply,
    ) -> Vec<VerifiedRecord> {
        self.note_lease(reply.lease);
        let verified = reply.newer.into_iter().filter_map(|record| shared.verifier.verify(record).ok());
        let newer: Vec<VerifiedRecord> = verified.collect();
        if reply.unlisted > 0 {
            warn!(indexer = %self.link.addr(), files = reply.unlisted, "the indexer is full and lists not all");
        }
        let mut told = self.told();
        if kind == Kind::Partial && reply.unlisted > 0 {
            return newer; // nothing to count on: the same names come again when they are all here
        }
        told.unlisted += reply.unlisted as usize;
        for record in batch {
            if kind != Kind::Partial {
                told.unannounced.remove(&record.name);
            }
            if !newer.iter().any(|newer| newer.same_file(record)) {
                told.listed.insert(record.name.clone());
            }
        }
        newer
    }

    /// Withdraws what was deregistered here while it was being registered there.
    async fn withdraw_gone(
        &self,
        shared: &Shared,
        client: &IndexerServiceClient,
        batch: &[VerifiedRecord],
    ) -> Result<(), SessionError> {
        let gone = batch.iter().map(|record| &record.name);
        let gone = gone.filter(|name| shared.catalogue.get(name).is_none());
        let gone: Vec<FileName> = {
            let told = self.told();
            gone.filter(|name| !told.partial.contains_key(*name)).cloned().collect()
        };
        if !gone.is_empty() {
            self.forget(&gone);
            client.deregister(within(ANSWER_WITHIN), Names::first_of(gone)).await??;
        }
        Ok(())
    }

    fn forget(&self, names: &[FileName]) {
        let mut told = self.told();
        for name in names {
            told.listed.remove(name);
            told.unannounced.remove(name);
        }
    }

    /// Withdraws these names; an indexer that is away forgets them when the lease ends.
    pub(crate) async fn withdraw(&self, names: &[FileName]) -> Result<(), SessionError> {
        self.forget(names);
        {
            let mut told = self.told();
            names.iter().for_each(|name| drop(told.partial.remove(name)));
        }
        let client = self.link.client().ok_or(SessionError::Away)?;
        for batch in names.chunks(BATCH_MAX) {
            client.deregister(within(ANSWER_WITHIN), Names::first_of(batch.iter().cloned())).await??;
        }
        Ok(())
    }

    /// Withdraws everything; an indexer that is away forgets it when the lease ends.
    pub(crate) async fn withdraw_all(&self) -> Result<(), SessionError> {
        {
            let mut told = self.told();
            told.listed.clear();
            told.unannounced.clear();
            told.partial.clear();
        }
        let client = self.link.client().ok_or(SessionError::Away)?;
        Ok(client.deregister_all(within(ANSWER_WITHIN)).await??)
    }

    /// Carries word of newer versions to this indexer, for it alone.
    pub(crate) async fn pass_on(&self, records: &[VerifiedRecord]) -> Result<(), SessionError> {
        let client = self.link.client().ok_or(SessionError::Away)?;
        for batch in records.chunks(BATCH_MAX) {
            let request = nekoproto::InvalidateRequest {
                msg_id: nekoproto::MsgId::random(),
                records: Records::first_of(batch.iter().map(VerifiedRecord::to_signed)),
                ttl_hops: 0,
                covered: List::new(),
            };
            client.invalidate(within(ANSWER_WITHIN), request).await??;
        }
        Ok(())
    }

    /// Waits for the client of this indexer, at most `patience` if the first try is under way.
    pub(crate) async fn client_within(&self, patience: Duration) -> Option<IndexerServiceClient> {
        // Whether it was reached in time shows in the next line.
        drop(timeout(patience, self.link.tried()).await);
        self.link.client()
    }

    /// Why there is no connection, for people.
    pub(crate) fn why_away(&self) -> String {
        match &*self.link.watch().borrow() {
            LinkState::Down(why) => why.to_string(),
            LinkState::Connecting => "it does not answer".to_owned(),
            LinkState::Up { .. } => "it just came back".to_owned(),
        }
    }

    fn note_lease(&self, lease: LeaseReply) {
        self.lease_ms.store(u64::from(lease.lease_ms).max(1), Ordering::Relaxed);
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call's context with this deadline.
pub(crate) fn within(time: Duration) -> context::Context {
    let mut context = context::current();
    context.deadline = Instant::now() + time;
    context
}

#[cfg(test)]
mod tests;
