//! The indexers of this peer: what it offers is kept registered with each, and all are asked at once.

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

/// Time for the farewell to the indexers when the peer ends.
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
    /// Begins to connect to each of `addrs`, and keeps what is offered registered there.
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

    /// Whatever is registered next under these names is to be announced. Due before the catalogue has the
    /// news: an indexer that is told everything right after it would take it for old otherwise.
    pub(crate) fn expect_news<'a>(&self, names: impl Iterator<Item = &'a FileName> + Clone) {
        self.registrations.lock().expect_news(names);
    }

    /// Registers new versions, which are announced, and versions that are `held` as before. Returns how
    /// many indexers know of them by now; the others are told when they are back.
    ///
    /// # Cancel safety
    /// Safe: the indexers are told all the same.
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
        let told = self.told(generation).await;
        for session in told.iter().filter(|_| files > 0) {
            self.library.tell(Event::Registered { indexer: session.addr(), files });
        }
        told.len()
    }

    /// Registers versions that this peer holds by now. See [`announce`](Self::announce).
    pub(crate) async fn offer(&self, records: &[VerifiedRecord]) {
        if self.library.is_serving {
            let generation = self.registrations.lock().offer(records);
            self.told(generation).await;
        }
    }

    /// Registers a version that this peer is downloading: it serves what it has of it, and is listed so
    /// in place of an older copy, until [`end_part`](Self::end_part), or an [`offer`](Self::offer) of the
    /// version when all of it is here.
    ///
    /// # Cancel safety
    /// The version may be listed or not; `end_part` is due either way.
    pub(crate) async fn offer_part(&self, record: &VerifiedRecord) {
        let generation = self.registrations.lock().offer_part(record);
        self.told(generation).await;
    }

    /// The download under `name` has ended. Unless what it brought is offered by now, what this peer had
    /// before is listed again, if anything.
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

    /// Withdraws these names; an indexer that is away forgets them when the lease ends.
    pub(crate) async fn withdraw(&self, names: &[FileName]) {
        let generation = self.registrations.lock().withdraw(names);
        self.told(generation).await;
    }

    /// Withdraws everything, for a peer that ends. An indexer that does not answer in time forgets the files
    /// when the lease ends.
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

    /// Carries news of newer versions to all of them: they may not have heard, and list older copies.
    pub(crate) async fn pass_on(&self, records: &[VerifiedRecord]) {
        let telling = self.sessions.iter().map(|session| session.pass_on(records));
        for error in join_all(telling).await.into_iter().filter_map(Result::err) {
            debug!(%error, "an indexer could not be told of a newer version");
        }
    }

    /// Waits until each was tried once, whether it is there or not.
    pub(crate) async fn tried(&self) {
        join_all(self.sessions.iter().map(Session::tried)).await;
    }

    /// Waits until each indexer was told the changes up to `generation`, or cannot be told now; those that
    /// were told.
    async fn told(&self, generation: Generation) -> Vec<&Session> {
        let telling = self.sessions.iter().map(async |session| (session, session.told(generation).await));
        join_all(telling).await.into_iter().filter(|(_, told)| *told).map(|(session, _)| session).collect()
    }
}

#[cfg(test)]
mod tests;
