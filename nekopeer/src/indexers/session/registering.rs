//! Registers offers with one indexer, renews the lease, and registers all again where the indexer lost it.

use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use futures::future::join;
use nekoproto::{
    IndexerServiceClient, LeaseReply, MsgId, Names, Records, Refusal, RegisterRequest, VerifiedRecord,
    limits::BATCH_MAX,
    transport::{LinkState, call_within},
};
use tarpc::client::RpcError;
use tokio::time::sleep_until;
use tracing::{debug, warn};

use super::{ANSWER_WITHIN, Session, SessionError};
use crate::{
    indexers::SPREAD_HOPS,
    library::{
        Library, OtherNode,
        events::{Event, key_in_use},
    },
    state::{
        liveness::Liveness,
        registrations::{Batch, Kind},
    },
    storage::catalogue::ENTRIES_AT_ONCE,
};

const RENEW_AT: u32 = 3;
/// Number of versions told that are stored at once: each time waits for the disk.
const NOTED_MAX: usize = 4096;
/// Number of versions, published shortly before the process began, that holders are told of again, or little more: of
/// others they learn when they ask.
const UNTOLD_MAX: usize = 4096;

impl Session {
    pub(super) async fn run(&self) {
        let mut state = self.link.watch();
        let mut told_away: Option<bool> = None; // whether the indexer was there, and refused this peer
        loop {
            let now = state.borrow_and_update().clone();
            match now {
                LinkState::Up { client, remote } => {
                    told_away = None;
                    self.liveness.send_replace(Liveness::over(remote.round_trip()));
                    self.library.unreached.lock().remove(&remote.node); // it tries anew
                    self.library.tell(Event::Connected(self.link.addr()));
                    self.library.wake.notify_one();
                    tokio::select! {
                        changed = state.changed() => {
                            self.registrations.lock().disconnected(self.index);
                            self.told.send_replace(());
                            match changed {
                                Ok(()) => continue, // reconnected
                                Err(_) => return, // the peer stops
                            }
                        }
                        _ = join(
                            self.keep_registered(&client, remote.reaches_us_at.is_some()),
                            self.ask_for_signs(&client),
                        ) => {}
                    }
                }
                LinkState::Down(why) if told_away.is_none_or(|refused| !refused && why.is_of_access()) => {
                    told_away = Some(why.is_of_access());
                    self.library.tell(Event::Away { indexer: self.link.addr(), why: (&*why).into() });
                }
                LinkState::Down(_) | LinkState::Greeting { .. } | LinkState::Connecting => {}
            }
            if state.changed().await.is_err() {
                return;
            }
        }
    }

    /// Registers everything, then each change, and renews the lease; registers everything again if the indexer lost it.
    /// Nothing, unless the indexer `is_reached` over an address where this peer listens.
    async fn keep_registered(&self, client: &IndexerServiceClient, is_reached: bool) {
        if !self.library.is_listed() {
            return;
        }
        self.is_unreachable.store(false, Ordering::Relaxed);
        // Who serves nothing but its downloads has no further names.
        let files = match self.library.is_serving {
            true => Some(self.library.blocking(|library| library.catalogue.len()).await.unwrap_or_default()),
            false => None,
        };
        self.registrations.lock().connected(self.index, files);
        loop {
            let (mut is_first, mut untold, mut renewed_at) = (true, Vec::new(), Instant::now());
            loop {
                let told = match is_reached {
                    true => self.tell_changes(client, &mut untold).await,
                    false => Err(Refusal::NotListening.into()),
                };
                let told = match told {
                    Ok(()) if is_first => {
                        self.all_registered(client, &untold).await.map(|()| is_first = false)
                    }
                    told => told,
                };
                match told {
                    Ok(()) => {}
                    Err(SessionError::Refused(Refusal::NotListening)) => {
                        return self.not_listed(Event::NotListed(self.link.addr()));
                    }
                    Err(SessionError::Refused(Refusal::KeyInUse { at, for_ms })) => {
                        let event =
                            Event::KeyInUse { indexer: self.link.addr(), at, for_secs: for_ms / 1000 };
                        self.not_listed(event);
                        let since = Instant::now().checked_sub(Duration::from_millis(for_ms));
                        let other = OtherNode { why: key_in_use(at, for_ms / 1000), since };
                        self.library.key_in_use.send_replace(Some(other));
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

    /// The indexer lists nothing of this peer over the current connection, and is told nothing more.
    fn not_listed(&self, why: Event) {
        self.is_unreachable.store(true, Ordering::Relaxed);
        self.registrations.lock().disconnected(self.index);
        self.told.send_replace(());
        self.library.tell(why);
    }

    /// Looks at the files of some names, those after `last`, and adds to `untold` what was published so shortly before this
    /// process began that it is not known who was told.
    async fn look_on(&self, last: String, untold: &mut Vec<VerifiedRecord>) {
        let look = move |library: &Arc<Library>| {
            let names = library.catalogue.names_after(&last, ENTRIES_AT_ONCE).unwrap_or_else(|error| {
                tracing::error!(%error, "not all files are listed");
                Vec::new()
            });
            let found = library.look_at(&names);
            let untold = library.untold(found.iter().map(|(record, _)| record));
            (names.into_iter().next_back(), found, untold)
        };
        let (last, found, more) = self.library.blocking(look).await;
        if untold.len() < UNTOLD_MAX {
            untold.extend(more);
        }
        let mut registrations = self.registrations.lock();
        registrations.refresh(&found);
        registrations.note_rest(self.index, last.as_ref());
    }

    async fn next(&self, untold: &mut Vec<VerifiedRecord>) -> Option<Batch> {
        loop {
            let names = self.registrations.lock().take(self.index, BATCH_MAX);
            if names.is_empty() {
                let last = self.registrations.lock().rest(self.index)?;
                self.look_on(last, untold).await;
                continue;
            }
            let addr = self.all[self.index];
            let read = move |library: &Arc<Library>| {
                let read = |name| match library.offered(name) {
                    (name, Some((record, Kind::Held))) if library.catalogue.is_news_to(addr, &record) => {
                        (name, Some((record, Kind::News)))
                    }
                    offered => offered,
                };
                names.into_iter().map(read).collect()
            };
            let found = self.library.blocking(read).await;
            let batch = self.registrations.lock().plan(self.index, found);
            if !batch.is_empty() {
                return Some(batch);
            }
            self.told.send_replace(());
        }
    }

    async fn tell_changes(
        &self,
        client: &IndexerServiceClient,
        untold: &mut Vec<VerifiedRecord>,
    ) -> Result<(), SessionError> {
        while let Some(batch) = self.next(untold).await {
            let told = self.tell(client, &batch).await;
            match told {
                Ok(()) => self.registrations.lock().done(self.index, &batch),
                Err(_) => self.registrations.lock().failed(self.index, &batch),
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
            warn!(%indexer, files, "the indexer does not list all names: it has too many of this peer, or too many origins of a name");
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

    async fn answer<T>(
        &self,
        call: impl Future<Output = Result<Result<T, Refusal>, RpcError>>,
    ) -> Result<T, SessionError> {
        *self.asked_at.lock() = Some(Instant::now());
        scopeguard::defer! { *self.asked_at.lock() = None }
        Ok(self.noted(call).await??)
    }

    async fn tell(&self, client: &IndexerServiceClient, batch: &Batch) -> Result<(), SessionError> {
        if !batch.withdraw.is_empty() {
            let names = Names::first_of(batch.withdraw.iter().cloned());
            self.answer(client.deregister(call_within(ANSWER_WITHIN), names)).await?;
            self.registrations.lock().withdrawn(self.index, &batch.withdraw);
        }
        let kinds = [(Kind::Held, &batch.held), (Kind::News, &batch.news), (Kind::Partial, &batch.partial)];
        for (kind, records) in kinds.into_iter().filter(|(_, records)| !records.is_empty()) {
            let is_news = kind == Kind::News;
            let announce = is_news && !records.iter().all(|record| self.library.tells_all(record));
            let request = RegisterRequest {
                records: Records::first_of(records.iter().map(VerifiedRecord::to_signed)),
                announce,
                partial: kind == Kind::Partial,
            };
            let reply = self.answer(client.register(call_within(ANSWER_WITHIN), request)).await?;
            self.note_lease(reply.lease);
            self.unlisted.fetch_add(reply.unlisted.len(), Ordering::Relaxed);
            let verifier = self.library.checks.verifier();
            let newer = reply.newer.into_iter().filter_map(|record| verifier.verify(record).ok());
            let newer: Vec<VerifiedRecord> = newer.collect();
            let listed =
                self.registrations.lock().registered(self.index, kind, records, &newer, &reply.unlisted);
            if kind != Kind::Partial {
                self.library.catalogue.note_told(self.all[self.index], &listed, &self.all);
            }
            if is_news && !announce {
                self.spread_left(client, &listed).await?;
            }
            self.library.learn(newer).await; // a failure was sent as an event
        }
        Ok(())
    }

    /// Has the indexer tell others of those versions whose publish has ended by now: it tells nobody.
    async fn spread_left(
        &self,
        client: &IndexerServiceClient,
        listed: &[VerifiedRecord],
    ) -> Result<(), SessionError> {
        let left = listed.iter().filter(|record| !self.library.is_settling(&record.name));
        let left: Vec<VerifiedRecord> = left.cloned().collect();
        self.spread(client, &left).await
    }

    /// Reports that everything is registered. If there was nothing to register, asks for the lease first.
    async fn all_registered(
        &self,
        client: &IndexerServiceClient,
        untold: &[VerifiedRecord],
    ) -> Result<(), SessionError> {
        let library = &self.library;
        library.is_registered.store(true, Ordering::Release);
        // The indexer may know that the number was used before.
        let stands = |record: &&VerifiedRecord| !library.catalogue.is_pending(record);
        let untold: Vec<VerifiedRecord> = untold.iter().filter(stands).cloned().collect();
        self.spread(client, &untold).await?;
        let files = self.registrations.lock().counted(self.index);
        if files == 0 {
            let lease = self.answer(client.renew(call_within(ANSWER_WITHIN))).await?;
            self.note_lease(lease);
        }
        self.library.tell(Event::Registered { indexer: self.link.addr(), files });
        Ok(())
    }

    /// Has the indexer and its neighbors tell holders of older versions.
    async fn spread(
        &self,
        client: &IndexerServiceClient,
        records: &[VerifiedRecord],
    ) -> Result<(), SessionError> {
        for batch in records.chunks(BATCH_MAX) {
            self.answer(self.invalidate_batch(client, MsgId::random(), batch, SPREAD_HOPS)).await?;
        }
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
