//! The session with one indexer: connects, registers offers, renews the lease, and reconnects.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use nekoproto::{
    FileName, IndexerAddr, IndexerServiceClient, InvalidateRequest, LeaseReply, List, MsgId, Names, NodeId,
    PeerService, Records, Refusal, RegisterRequest, VerifiedRecord,
    limits::BATCH_MAX,
    transport::{Connection, Endpoint, Link, LinkState, call_within, control},
};
use parking_lot::Mutex;
use tarpc::client::RpcError;
use tokio::{
    sync::{Notify, watch},
    time::{sleep, sleep_until, timeout},
};
use tracing::{debug, warn};

use super::{SearchError, introduction::Introduction, refresh};
use crate::{
    library::{Library, events::Event},
    serve::control::PeerControl,
    state::registrations::{Batch, Generation, IndexerIndex, Kind, Registrations},
    storage::catalogue::{CatalogueError, PageStart},
};

/// Time limit for a reply to a registration or a renewal.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// Time without an answer after which nobody waits for an indexer: it is told when it answers again.
const HANGS_AFTER: Duration = Duration::from_secs(1);
/// The same for one that did not answer in that time before, and has not answered since.
const STILL_HANGS_AFTER: Duration = Duration::from_millis(100);
/// Time without an answer to a search after which an indexer is asked for a sign of life.
const ASKED_AGAIN_AFTER: Duration = Duration::from_millis(50);
/// The lease is renewed after 1/`RENEW_AT` of it.
const RENEW_AT: u32 = 3;
/// Number of versions told that are stored at once: each time waits for the disk.
const NOTED_MAX: usize = 4096;
/// Assumed lease until the indexer grants one.
const LEASE_FIRST: Duration = Duration::from_secs(1);

/// One indexer.
#[derive(Debug)]
pub(super) struct Session {
    worker: Arc<Worker>,
    stop: tokio_util::sync::CancellationToken,
}

/// Registers this peer's offers with one indexer. A single task, so that changes arrive in order.
#[derive(Debug)]
struct Worker {
    index: IndexerIndex,
    /// The addresses of all indexers of this peer.
    all: Arc<[SocketAddr]>,
    library: Arc<Library>,
    link: Link<IndexerServiceClient>,
    endpoint: Arc<Endpoint>,
    registrations: Arc<Mutex<Registrations>>,
    /// Notified when there are changes to register.
    changed: Notify,
    /// Sends when a change was acknowledged, or failed.
    told: watch::Sender<()>,
    /// Since when the indexer is waited for.
    asked_at: Mutex<Option<Instant>>,
    /// The lease that the indexer grants, in milliseconds.
    lease_ms: AtomicU64,
    /// The indexer cannot list this peer over the current connection, as others could not reach it.
    is_unreachable: AtomicBool,
    /// It gave no sign of life when it was last asked for one.
    hangs: AtomicBool,
    /// Names for which the indexer had no room, and of which was not told yet.
    unlisted: AtomicUsize,
}

/// Why a call to an indexer failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum SessionError {
    #[error("not connected")]
    Away,
    #[error(transparent)]
    Rpc(#[from] RpcError),
    #[error(transparent)]
    Refused(#[from] Refusal),
}

impl Session {
    /// Starts to connect to the indexer `all[index]`, and keeps the offers registered there. With `key`, no other
    /// node at that address is used.
    pub(super) fn spawn(
        (index, key): (IndexerIndex, Option<NodeId>),
        all: &Arc<[SocketAddr]>,
        endpoint: &Arc<Endpoint>,
        library: &Arc<Library>,
        registrations: &Arc<Mutex<Registrations>>,
    ) -> Self {
        let tasks = &library.tasks;
        let serving = Arc::clone(library);
        let open = move |connection: Connection| {
            let control = PeerControl { library: Arc::clone(&serving), remote: connection.remote };
            let (client, driver) = control::open(connection.io, control.serve(), IndexerServiceClient::from);
            (client, Box::pin(driver) as control::Driver)
        };
        let at = (all[index], key);
        let worker = Arc::new(Worker {
            index,
            all: Arc::clone(all),
            library: Arc::clone(library),
            link: Link::spawn(Arc::clone(endpoint), at, tasks.stop.clone(), &tasks.tracker, open),
            endpoint: Arc::clone(endpoint),
            registrations: Arc::clone(registrations),
            changed: Notify::new(),
            told: watch::Sender::default(),
            asked_at: Mutex::new(None),
            lease_ms: AtomicU64::new(u64::try_from(LEASE_FIRST.as_millis()).unwrap_or(u64::MAX)),
            is_unreachable: AtomicBool::new(false),
            hangs: AtomicBool::new(false),
            unlisted: AtomicUsize::new(0),
        });
        let working = Arc::clone(&worker);
        tasks.spawn_until_stop(async move { working.run().await });
        Self { worker, stop: tasks.stop.clone() }
    }

    /// The indexer's address.
    pub(super) fn addr(&self) -> SocketAddr {
        self.worker.link.addr()
    }

    /// Waits until the first attempt to connect has ended.
    pub(super) async fn tried(&self) {
        self.worker.link.tried().await;
    }

    /// Wakes the session: there are changes to register.
    pub(super) fn wake(&self) {
        self.worker.changed.notify_one();
    }

    /// The indexer's id, while it is connected.
    pub(super) fn remote(&self) -> Option<NodeId> {
        match &*self.worker.link.watch().borrow() {
            LinkState::Up { remote, .. } => Some(remote.node),
            LinkState::Connecting | LinkState::Down(_) => None,
        }
    }

    /// Its address and id, while it is connected.
    pub(super) fn at(&self) -> Option<IndexerAddr> {
        Some(IndexerAddr { addr: self.addr(), node: self.remote()? })
    }

    /// Whether it is connected.
    pub(super) fn is_connected(&self) -> bool {
        self.worker.link.client().is_some()
    }

    /// Waits until the indexer has acknowledged all changes up to `generation` (true), or cannot be told now
    /// or soon (false): it is told when it is connected again, or answers.
    pub(super) async fn told(&self, generation: Generation) -> bool {
        let worker = &*self.worker;
        let mut told = worker.told.subscribe();
        worker.changed.notify_one();
        let telling = async {
            loop {
                if worker.link.client().is_none() || worker.is_unreachable.load(Ordering::Relaxed) {
                    return false;
                }
                let outcome = worker.registrations.lock().is_told(worker.index, generation);
                if let Some(outcome) = outcome {
                    return outcome;
                }
                let asked_at = *worker.asked_at.lock();
                let hangs_at = asked_at.unwrap_or_else(Instant::now) + HANGS_AFTER;
                tokio::select! {
                    _ = told.changed() => {} // the sender lives as long as the session
                    () = sleep_until(hangs_at.into()) => {
                        if asked_at.is_some() && *worker.asked_at.lock() == asked_at {
                            return false;
                        }
                    }
                }
            }
        };
        self.stop.run_until_cancelled(telling).await.unwrap_or(false)
    }

    /// Withdraws everything.
    pub(super) async fn withdraw_all(&self) -> Result<(), SessionError> {
        let client = self.worker.link.client().ok_or(SessionError::Away)?;
        Ok(client.deregister_all(call_within(ANSWER_WITHIN)).await??)
    }

    /// Sends newer versions to this indexer.
    pub(super) async fn pass_on(&self, records: &[VerifiedRecord]) -> Result<(), SessionError> {
        let client = self.worker.link.client().ok_or(SessionError::Away)?;
        for batch in records.chunks(BATCH_MAX) {
            let request = InvalidateRequest {
                msg_id: MsgId::random(),
                records: Records::first_of(batch.iter().map(VerifiedRecord::to_signed)),
                ttl_hops: 0,
                covered: List::new(),
            };
            client.invalidate(call_within(ANSWER_WITHIN), request).await??;
        }
        Ok(())
    }

    /// The client of this indexer; waits for the first attempt to connect, at most `patience`.
    pub(super) async fn client_within(&self, patience: Duration) -> Option<IndexerServiceClient> {
        // A timeout shows as a missing client below.
        drop(timeout(patience, self.worker.link.tried()).await);
        self.worker.link.client()
    }

    /// The answer that is `asked` for; if there are others to ask, `None` as soon as the indexer gives no sign of life.
    ///
    /// # Cancel safety
    /// That of `asked`.
    pub(super) async fn while_alive<T>(&self, has_others: bool, asked: impl Future<Output = T>) -> Option<T> {
        let hangs = async {
            // Without a client it does not even take connections.
            if let Some(client) = self.client_within(HANGS_AFTER).await {
                self.hangs(&client).await;
            }
        };
        tokio::select! {
            biased;
            answer = asked => Some(answer),
            () = hangs, if has_others => None,
        }
    }

    /// Completes when the indexer, which was asked something just now, gives no sign of life for [`HANGS_AFTER`]. One that
    /// only takes long for its answer is waited for.
    async fn hangs(&self, client: &IndexerServiceClient) {
        let hangs = &self.worker.hangs;
        let limit = if hangs.load(Ordering::Relaxed) { STILL_HANGS_AFTER } else { HANGS_AFTER };
        sleep(ASKED_AGAIN_AFTER).await;
        let sign = client.renew(call_within(limit - ASKED_AGAIN_AFTER)).await;
        let is_silent = matches!(sign, Err(RpcError::DeadlineExceeded));
        hangs.store(is_silent, Ordering::Relaxed);
        if !is_silent {
            std::future::pending().await
        }
    }

    /// Why the indexer lets this node in no connection, if that is a matter of secrets or lists.
    pub(super) fn refusal(&self) -> Option<SearchError> {
        match &*self.worker.link.watch().borrow() {
            LinkState::Down(why) if why.is_of_access() => {
                Some(SearchError::Unreachable { indexer: self.addr(), why: why.to_string() })
            }
            _ => None,
        }
    }

    /// Why there is no connection, as text for the user.
    pub(super) fn why_away(&self) -> String {
        match &*self.worker.link.watch().borrow() {
            LinkState::Down(why) => why.to_string(),
            LinkState::Connecting => "it does not answer".to_owned(),
            LinkState::Up { .. } => "it just came back".to_owned(),
        }
    }
}

impl Worker {
    /// Runs the session until the peer stops.
    async fn run(&self) {
        let mut state = self.link.watch();
        let mut told_away = false;
        loop {
            let now = state.borrow_and_update().clone();
            match now {
                LinkState::Up { client, remote } => {
                    told_away = false;
                    self.library.tell(Event::Connected(self.link.addr()));
                    self.library.wake();
                    tokio::select! {
                        changed = state.changed() => {
                            self.registrations.lock().disconnected(self.index);
                            self.told.send_replace(());
                            match changed {
                                Ok(()) => continue, // reconnected
                                Err(_) => return, // the peer stops
                            }
                        }
                        () = self.keep_registered(&client, remote.reaches_us_at) => {}
                    }
                }
                LinkState::Down(why) if !told_away => {
                    told_away = true;
                    self.library.tell(Event::Away { indexer: self.link.addr(), why: why.to_string() });
                }
                LinkState::Down(_) | LinkState::Connecting => {}
            }
            if state.changed().await.is_err() {
                return;
            }
        }
    }

    /// Registers everything, then each change, and renews the lease; registers everything again if the
    /// indexer lost it.
    async fn keep_registered(&self, client: &IndexerServiceClient, at: Option<SocketAddr>) {
        if !self.library.is_serving {
            return;
        }
        self.is_unreachable.store(false, Ordering::Relaxed);
        self.registrations.lock().connected(self.index);
        let (mut introduction, mut are_clocks_apart) = (Introduction::new(&self.endpoint, at), false);
        loop {
            self.look_at_files().await;
            let (mut is_first, mut renewed_at) = (true, Instant::now());
            loop {
                let told = match self.introduced(client, &mut introduction).await {
                    Ok(()) => self.tell_changes(client).await,
                    refused => refused,
                };
                let told = match told {
                    Ok(()) if is_first => self.all_registered(client).await.map(|()| is_first = false),
                    told => told,
                };
                match told {
                    Ok(()) => are_clocks_apart = false,
                    Err(SessionError::Refused(why @ Refusal::ClocksApart)) => {
                        if !std::mem::replace(&mut are_clocks_apart, true) {
                            self.is_unreachable.store(true, Ordering::Relaxed);
                            self.told.send_replace(());
                            warn!(indexer = %self.link.addr(), %why, "the indexer lists nothing of this peer");
                            self.library
                                .tell(Event::Away { indexer: self.link.addr(), why: why.to_string() });
                        }
                    }
                    Err(SessionError::Refused(Refusal::NotListening)) => {
                        self.is_unreachable.store(true, Ordering::Relaxed);
                        self.registrations.lock().disconnected(self.index); // it is told nothing more
                        self.told.send_replace(());
                        self.library.tell(Event::NotListed(self.link.addr()));
                        return;
                    }
                    Err(error) if is_first => {
                        warn!(indexer = %self.link.addr(), %error, "cannot register");
                    }
                    Err(error) => debug!(indexer = %self.link.addr(), %error, "an indexer is told later"),
                }
                let lease = Duration::from_millis(self.lease_ms.load(Ordering::Relaxed));
                tokio::select! {
                    () = self.changed.notified() => {}
                    () = sleep_until((renewed_at + lease / RENEW_AT).into()) => {
                        if !self.renew(client).await {
                            self.registrations.lock().lost_track(self.index);
                            break;
                        }
                        renewed_at = Instant::now();
                    }
                }
            }
        }
    }

    /// States where this peer can be reached, when the session begins and before the last statement expires.
    async fn introduced(
        &self,
        client: &IndexerServiceClient,
        introduction: &mut Introduction,
    ) -> Result<(), SessionError> {
        while let Some(reach) = introduction.due() {
            let call = client.introduce(call_within(ANSWER_WITHIN), reach.into_signed());
            let taken = self.answer(call).await?;
            introduction.taken(taken)?;
            self.is_unreachable.store(false, Ordering::Relaxed);
        }
        introduction.check()?;
        Ok(())
    }

    /// Updates the offers from the files on disk.
    async fn look_at_files(&self) {
        let registrations = Arc::clone(&self.registrations);
        let look = move |library: &Arc<Library>| {
            let files = library.catalogue.len()?;
            registrations.lock().reserve(files);
            let mut start = Some(PageStart::default());
            while let Some(from) = start {
                let (found, next) = library.offered(&from)?;
                refresh(library, &registrations, found);
                start = next;
            }
            Ok::<(), CatalogueError>(())
        };
        if let Err(error) = self.library.blocking(look).await {
            tracing::error!(%error, "not all files are offered");
        }
    }

    /// Registers all changes that the indexer has not acknowledged.
    async fn tell_changes(&self, client: &IndexerServiceClient) -> Result<(), SessionError> {
        loop {
            let (registrations, index, addr) =
                (Arc::clone(&self.registrations), self.index, self.link.addr());
            let next = move |library: &Arc<Library>| {
                let held = |name: &FileName| Some(library.catalogue.get(name)?.record.clone());
                let is_news = |record: &VerifiedRecord| library.catalogue.is_news_to(addr, record);
                registrations.lock().next(index, BATCH_MAX, held, is_news)
            };
            let Some(batch) = self.library.blocking(next).await else { break };
            let told = self.tell(client, &batch).await;
            match told {
                Ok(()) => self.registrations.lock().done(self.index),
                Err(_) => self.registrations.lock().failed(self.index, batch),
            }
            self.told.send_replace(());
            if self.library.catalogue.unsaved() >= NOTED_MAX {
                self.save_told().await;
            }
            told?;
        }
        self.told.send_replace(());
        self.save_told().await;
        let files = self.unlisted.swap(0, Ordering::Relaxed);
        if files > 0 {
            let indexer = self.link.addr();
            warn!(%indexer, files, "the indexer has no room for all names: it needs a larger --memory");
            self.library.tell(Event::Full { indexer, files });
        }
        Ok(())
    }

    async fn save_told(&self) {
        if self.library.catalogue.unsaved() == 0 {
            return;
        }
        if let Err(error) = self.library.blocking(|library| library.catalogue.save_told()).await {
            warn!(%error, "cannot store what an indexer was told"); // it is told once more after a restart
        }
    }

    /// Waits for the answer to a call of the indexer.
    async fn answer<T>(
        &self,
        call: impl Future<Output = Result<Result<T, Refusal>, RpcError>>,
    ) -> Result<T, SessionError> {
        *self.asked_at.lock() = Some(Instant::now());
        scopeguard::defer! { *self.asked_at.lock() = None }
        Ok(call.await??)
    }

    async fn tell(&self, client: &IndexerServiceClient, batch: &Batch) -> Result<(), SessionError> {
        if !batch.withdraw.is_empty() {
            let names = Names::first_of(batch.withdraw.iter().cloned());
            self.answer(client.deregister(call_within(ANSWER_WITHIN), names)).await?;
            self.registrations.lock().withdrawn(self.index, &batch.withdraw);
        }
        let kinds = [(Kind::Held, &batch.held), (Kind::News, &batch.news), (Kind::Partial, &batch.partial)];
        for (kind, records) in kinds.into_iter().filter(|(_, records)| !records.is_empty()) {
            let request = RegisterRequest {
                records: Records::first_of(records.iter().map(VerifiedRecord::to_signed)),
                announce: kind == Kind::News,
                partial: kind == Kind::Partial,
            };
            let reply = self.answer(client.register(call_within(ANSWER_WITHIN), request)).await?;
            self.note_lease(reply.lease);
            let indexer = self.link.addr();
            self.unlisted.fetch_add(reply.unlisted.len(), Ordering::Relaxed);
            let verifier = &self.library.verifier;
            let newer = reply.newer.into_iter().filter_map(|record| verifier.verify(record).ok());
            let newer: Vec<VerifiedRecord> = newer.collect();
            let listed =
                self.registrations.lock().registered(self.index, kind, records, &newer, &reply.unlisted);
            if kind != Kind::Partial {
                self.library.note_listed(indexer, &listed, &self.all);
            }
            self.library.learn(newer).await; // a failure was sent as an event
        }
        Ok(())
    }

    /// Reports that everything is registered. If there was nothing to register, asks for the lease first.
    async fn all_registered(&self, client: &IndexerServiceClient) -> Result<(), SessionError> {
        let files = self.registrations.lock().counted(self.index);
        if files == 0 {
            let lease = self.answer(client.renew(call_within(ANSWER_WITHIN))).await?;
            self.note_lease(lease);
        }
        self.library.tell(Event::Registered { indexer: self.link.addr(), files });
        Ok(())
    }

    /// Renews the lease; false if everything must be registered again.
    async fn renew(&self, client: &IndexerServiceClient) -> bool {
        match self.answer(client.renew(call_within(ANSWER_WITHIN))).await {
            Ok(lease) => {
                self.note_lease(lease);
                self.registrations.lock().is_all(self.index, lease.names as usize)
            }
            Err(SessionError::Refused(error)) => {
                debug!(%error, "renewal refused");
                false
            }
            Err(error) => {
                debug!(%error, "renewal failed");
                true // a broken connection shows at the link
            }
        }
    }

    fn note_lease(&self, lease: LeaseReply) {
        self.lease_ms.store(u64::from(lease.lease_ms).max(1), Ordering::Relaxed);
    }
}
