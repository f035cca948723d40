//! The indexers of this peer: registers what it offers with each, and searches all of them concurrently.

mod call_back;
mod find;
mod known;
mod search;
mod session;
mod trace;
pub(crate) mod via;

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::future::join_all;
use nekoproto::{
    FileName, MsgId, VerifiedRecord,
    limits::{BATCH_MAX, TTL_MAX},
    transport::{Connection, Endpoint},
};
use parking_lot::Mutex;
use serde::Serialize;
use tokio::time::{sleep, timeout};
use tracing::{debug, warn};
use utoipa::ToSchema;

pub(crate) use self::search::Wishes;
use self::{call_back::Callers, session::Session};
pub use self::{find::Found, search::Answer};
use crate::{
    config::Config,
    library::{
        Library,
        events::{Event, unreached},
    },
    serve::Uploads,
    state::registrations::Registrations,
    storage::remembered::Home,
};

const FAREWELL_WITHIN: Duration = Duration::from_secs(2);
/// Interval between looks at files on disk, and the number of files looked at each time: 10^5 files are looked
/// at in seven minutes, for less than a thousandth of a core.
const LOOK_EVERY: Duration = Duration::from_secs(2);
const LOOKED_AT: usize = 512;

/// Hops that news of versions published here travels from its own indexers: as far as that of a registration.
const SPREAD_HOPS: u8 = TTL_MAX - 1;

/// Connections to indexers that are open when a peer starts: what looked for them opened them.
pub(crate) type Dialed = HashMap<SocketAddr, Connection>;

/// How the peer stands with an indexer.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Link)]
pub(crate) struct IndexerLink {
    #[schema(value_type = String)]
    pub(crate) addr: SocketAddr,
    #[serde(rename = "connected")]
    pub(crate) is_connected: bool,
    /// Why it is not connected.
    pub(crate) why: Option<String>,
}

#[derive(Debug)]
pub(crate) struct Indexers {
    library: Arc<Library>,
    sessions: Vec<Arc<Session>>,
    registrations: Arc<Mutex<Registrations>>,
    query_deadline: Duration,
    endpoint: Arc<Endpoint>,
    began: Instant,
    pub(crate) home: Home,
    discovers: bool,
}

impl Indexers {
    /// Starts to connect to each indexer of `config` that is not `dialed` already, and keeps the offers registered there.
    /// `uploads` serve nodes that this peer connects to as an indexer asks it to.
    pub(crate) fn spawn(
        config: &Config,
        endpoint: &Arc<Endpoint>,
        library: &Arc<Library>,
        uploads: Option<Arc<Uploads>>,
        mut dialed: Dialed,
    ) -> Arc<Self> {
        let dialing = (Arc::clone(endpoint), uploads);
        let all: Arc<[SocketAddr]> = config.indexers.iter().map(|at| at.addr).collect();
        let registrations = Arc::new(Mutex::new(Registrations::new(all.len())));
        let at = |index: usize| (config.indexers[index].clone(), config.keys.get(&all[index]).copied());
        let session = |index: usize| {
            let dialed = dialed.remove(&all[index]);
            Session::spawn((index, at(index)), dialed, &all, &dialing, library, &registrations)
        };
        let indexers = Arc::new(Self {
            library: Arc::clone(library),
            sessions: (0..all.len()).map(session).collect(),
            registrations,
            query_deadline: config.query_deadline,
            endpoint: Arc::clone(endpoint),
            began: Instant::now(),
            home: config.home(),
            discovers: config.discovers,
        });
        endpoint.call_back_by(Box::new(Callers::new(&indexers)));
        if library.is_serving && !all.is_empty() {
            let looking = Arc::clone(&indexers);
            library.tasks.spawn_until_stop(async move { looking.look_at_files().await });
        }
        indexers
    }

    fn sessions(&self) -> impl Iterator<Item = &Session> {
        self.sessions.iter().map(|session| &**session)
    }

    /// Registers versions that this peer publishes or holds. Those published here that an indexer was not told
    /// before are announced; an indexer that does not answer is told as soon as it does.
    ///
    /// # Cancel safety
    /// Safe: the indexers are told in the background.
    pub(crate) async fn offer<'a>(&self, records: impl IntoIterator<Item = &'a VerifiedRecord>) {
        if !self.library.is_listed() {
            return;
        }
        let records: Vec<&VerifiedRecord> = records.into_iter().collect();
        self.registrations.lock().offer(records.iter().copied());
        let names: Vec<FileName> = records.into_iter().map(|record| record.name.clone()).collect();
        self.told(&names).await;
    }

    /// Returns the number of indexers that acknowledged all that is offered, `files` of it lately.
    pub(crate) async fn registered(&self, files: usize) -> usize {
        let telling = self.sessions().map(async |session| {
            let is_told = session.told_all().await;
            if is_told && files > 0 {
                self.library.tell(Event::Registered { indexer: session.addr(), files });
            }
            is_told
        });
        join_all(telling).await.into_iter().filter(|is_told| *is_told).count()
    }

    pub(crate) fn offer_soon(&self, records: &[VerifiedRecord]) {
        if self.library.is_listed() {
            self.registrations.lock().offer(records);
            self.sessions().for_each(Session::wake);
        }
    }

    /// Registers a version that is being downloaded, as a partial holder. It replaces the listing of an older
    /// copy until [`end_part`](Self::end_part), or until an [`offer`](Self::offer) of the complete version.
    ///
    /// # Cancel safety
    /// The version may be listed or not; call `end_part` either way.
    pub(crate) async fn offer_part(&self, record: &VerifiedRecord) {
        self.registrations.lock().offer_part(record);
        self.told(std::slice::from_ref(&record.name)).await;
    }

    /// Unless the downloaded version is offered by now, the version held before, if any, is registered again.
    pub(crate) async fn end_part(&self, name: &FileName) {
        let had_part = self.registrations.lock().end_part(name);
        if had_part {
            self.told(std::slice::from_ref(name)).await;
        }
    }

    /// Offers what can be served of these. A file that is being written is left alone.
    pub(crate) async fn look_at(&self, names: Vec<FileName>) {
        if !self.library.is_serving {
            return;
        }
        let look = move |library: &Arc<Library>| {
            let names: Vec<_> = names.into_iter().filter(|name| !library.is_in_use(name)).collect();
            library.look_at(&names)
        };
        let found = self.library.blocking(look).await;
        let is_changed = self.registrations.lock().refresh(&found);
        if is_changed {
            self.sessions().for_each(Session::wake);
        }
    }

    /// Looks at some files every now and then, so that one that changed is withdrawn.
    async fn look_at_files(&self) {
        let mut last = String::new();
        loop {
            sleep(LOOK_EVERY).await;
            let next = move |library: &Arc<Library>| library.catalogue.names_after(&last, LOOKED_AT);
            let names = self.library.blocking(next).await.unwrap_or_else(|error| {
                warn!(%error, "cannot look at the files");
                Vec::new()
            });
            last = names.last().map(FileName::to_string).unwrap_or_default();
            if !names.is_empty() {
                self.look_at(names).await;
            }
        }
    }

    /// Withdraws these names. At an unreachable indexer their lease expires.
    pub(crate) async fn withdraw(&self, names: &[FileName]) {
        self.registrations.lock().withdraw(names);
        self.told(names).await;
    }

    /// When the peer shuts down. At an indexer that does not answer in time the lease expires. What a peer that does not serve has
    /// listed ends with its connections.
    pub(crate) async fn withdraw_all(&self) {
        self.registrations.lock().close();
        if self.library.is_serving {
            let withdrawing = join_all(self.sessions().map(Session::withdraw_all));
            for error in
                timeout(FAREWELL_WITHIN, withdrawing).await.into_iter().flatten().filter_map(Result::err)
            {
                debug!(%error, "an indexer forgets the files when the lease ends");
            }
        }
    }

    /// Sends newer versions to all indexers, which may still list older ones.
    pub(crate) async fn pass_on(&self, records: &[VerifiedRecord]) {
        self.invalidate(records, 0).await;
    }

    /// Has the indexers tell each other of versions published here.
    pub(crate) async fn spread(&self, records: &[VerifiedRecord]) {
        self.invalidate(records, SPREAD_HOPS).await;
    }

    async fn invalidate(&self, records: &[VerifiedRecord], ttl_hops: u8) {
        // The same id for all indexers: the network carries each message once.
        let batches: Vec<_> = records.chunks(BATCH_MAX).map(|batch| (MsgId::random(), batch)).collect();
        let telling = self.sessions().map(|session| session.invalidate(&batches, ttl_hops));
        for error in join_all(telling).await.into_iter().filter_map(Result::err) {
            debug!(%error, "an indexer could not be told of a newer version");
        }
    }

    /// Connects once more to each, as this peer listens by now: what it downloads is listed over the new connections.
    pub(crate) fn connect_again(&self) {
        self.sessions().for_each(|session| session.link.dial_again());
    }

    /// That some are away now, and why, as it was told when they went.
    pub(crate) fn away(&self) -> Vec<Event> {
        self.sessions().filter_map(Session::away).collect()
    }

    pub(crate) fn links(&self) -> Vec<IndexerLink> {
        let link = |session: &Session| {
            let is_connected = session.is_connected();
            let why = match session.remote() {
                None => Some(session.why_away().text),
                Some(node) => self.library.unreached.lock().get(&node).map(|at| unreached(*at)),
            };
            IndexerLink { addr: session.addr(), is_connected, why }
        };
        self.sessions().map(link).collect()
    }

    /// Completes when an indexer refuses this peer because another process uses its key, and either that one was there
    /// before this one began, or no indexer lists this one; says why.
    pub(crate) async fn refused(&self) -> String {
        let mut refusals = self.library.key_in_use.subscribe();
        loop {
            let other = refusals.borrow_and_update().clone();
            let is_first = |since: Option<Instant>| since.is_none_or(|since| since < self.began);
            let is_listed = || self.sessions().any(Session::is_listing);
            if let Some(other) = other.filter(|other| is_first(other.since) || !is_listed()) {
                return other.why;
            }
            if refusals.changed().await.is_err() {
                std::future::pending::<()>().await; // the library lives as long as this
            }
        }
    }

    pub(crate) async fn tried(&self) {
        join_all(self.sessions().map(|session| session.link.tried())).await;
    }

    /// Waits until each indexer was told of these names, or cannot be told now or soon. A peer that does not serve tells
    /// them nothing.
    pub(crate) async fn told(&self, names: &[FileName]) {
        if self.library.is_listed() {
            join_all(self.sessions().map(|session| session.told(names))).await;
        }
    }
}

#[cfg(test)]
mod tests;
