//! The indexers of this peer: registers what it offers with each, and searches all of them concurrently.

mod search;
mod session;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use futures::future::join_all;
use nekoproto::{FileName, VerifiedRecord, transport::Endpoint};
use parking_lot::Mutex;
use tokio::time::timeout;
use tracing::debug;

pub(crate) use self::search::Scope;
pub use self::search::{Answer, SearchError};
use self::session::Session;
use crate::{
    library::{Library, events::Event},
    state::registrations::{Generation, Registrations},
};

/// Time limit for withdrawing everything when the peer shuts down.
const FAREWELL_WITHIN: Duration = Duration::from_secs(2);

/// The indexers of this peer.
#[derive(Debug)]
pub(crate) struct Indexers {
    library: Arc<Library>,
    sessions: Vec<Session>,
    registrations: Arc<Mutex<Registrations>>,
    query_deadline: Duration,
}

impl Indexers {
    /// Starts to connect to each of `addrs`, and keeps the offers registered there.
    pub(crate) fn spawn(
        addrs: &[SocketAddr],
        query_deadline: Duration,
        endpoint: &Arc<Endpoint>,
        library: &Arc<Library>,
    ) -> Arc<Self> {
        let registrations = Arc::new(Mutex::new(Registrations::new(addrs.len())));
        let session = |(index, addr)| Session::spawn(index, addr, endpoint, library, &registrations);
        let sessions = addrs.iter().copied().enumerate().map(session).collect();
        Arc::new(Self { library: Arc::clone(library), sessions, registrations, query_deadline })
    }

    /// Announces the next versions registered under these names. Call this before they are in the catalogue:
    /// a session that registers everything in between would register them as held, not as news.
    pub(crate) fn expect_news<'a>(&self, names: impl Iterator<Item = &'a FileName> + Clone) {
        self.registrations.lock().expect_news(names);
    }

    /// Registers new versions, which are announced, and `held` versions, which are not. Returns the number of
    /// indexers that acknowledged; the others are told when they are connected again.
    ///
    /// # Cancel safety
    /// Safe: the indexers are told in the background.
    pub(crate) async fn announce(&self, news: &[VerifiedRecord], held: &[VerifiedRecord]) -> usize {
        if !self.library.is_serving {
            return 0;
        }
        let generation = {
            let mut registrations = self.registrations.lock();
            registrations.expect_news(news.iter().map(|record| &record.name));
            registrations.offer(news);
            registrations.offer(held)
        };
        let files = news.len() + held.len();
        let telling = self.sessions.iter().map(async |session| {
            let is_told = session.told(generation).await;
            if is_told && files > 0 {
                self.library.tell(Event::Registered { indexer: session.addr(), files });
            }
            is_told
        });
        join_all(telling).await.into_iter().filter(|is_told| *is_told).count()
    }

    /// Registers versions that this peer now holds. See [`announce`](Self::announce).
    pub(crate) async fn offer(&self, records: &[VerifiedRecord]) {
        let generation = self.registrations.lock().offer(records);
        self.told(generation).await;
    }

    /// Registers a version that is being downloaded, as a partial holder. It replaces the listing of an older
    /// copy until [`end_part`](Self::end_part), or until an [`offer`](Self::offer) of the complete version.
    ///
    /// # Cancel safety
    /// The version may be listed or not; call `end_part` either way.
    pub(crate) async fn offer_part(&self, record: &VerifiedRecord) {
        let generation = self.registrations.lock().offer_part(record);
        self.told(generation).await;
    }

    /// Ends the partial offer under `name`. Unless the downloaded version is offered by now, the version held
    /// before, if any, is registered again.
    pub(crate) async fn end_part(&self, name: &FileName) {
        if !self.registrations.lock().has_part(name) {
            return;
        }
        let generation = {
            let (name, registrations) = (name.clone(), Arc::clone(&self.registrations));
            let end = move |library: &Arc<Library>| {
                let whole = library.offered_as(&name);
                registrations.lock().end_part(&name, whole)
            };
            self.library.blocking(end).await
        };
        self.told(generation).await;
    }

    /// Withdraws these names. At an unreachable indexer their lease expires.
    pub(crate) async fn withdraw(&self, names: &[FileName]) {
        let generation = self.registrations.lock().withdraw(names);
        self.told(generation).await;
    }

    /// Withdraws everything, when the peer shuts down. At an indexer that does not answer in time the lease
    /// expires.
    pub(crate) async fn withdraw_all(&self) {
        self.registrations.lock().close();
        if self.library.is_serving {
            let withdrawing = join_all(self.sessions.iter().map(Session::withdraw_all));
            for error in
                timeout(FAREWELL_WITHIN, withdrawing).await.into_iter().flatten().filter_map(Result::err)
            {
                debug!(%error, "an indexer forgets the files when the lease ends");
            }
        }
    }

    /// Sends newer versions to all indexers, which may still list older ones.
    pub(crate) async fn pass_on(&self, records: &[VerifiedRecord]) {
        let telling = self.sessions.iter().map(|session| session.pass_on(records));
        for error in join_all(telling).await.into_iter().filter_map(Result::err) {
            debug!(%error, "an indexer could not be told of a newer version");
        }
    }

    /// Waits until the first attempt to connect to each indexer has ended.
    pub(crate) async fn tried(&self) {
        join_all(self.sessions.iter().map(Session::tried)).await;
    }

    /// Waits until each indexer was told the changes up to `generation`, or cannot be told now. A peer that
    /// does not serve tells them nothing.
    async fn told(&self, generation: Generation) {
        if self.library.is_serving {
            join_all(self.sessions.iter().map(|session| session.told(generation))).await;
        }
    }
}

#[cfg(test)]
mod tests;
