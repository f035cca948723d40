//! [`Room`]: how many queries are answered over HTTP at once, and how many of them for one client.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Weak},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

/// Queries over HTTP that are answered at once. Peers have their own limits.
const QUERIES_MAX: usize = 64;
/// Those of one address: all programs of this host are one.
const QUERIES_OF_CLIENT_MAX: usize = QUERIES_MAX / 4;
/// Those that are answered or wait for their turn: few, so that no crowd of them takes all connections.
const QUERIES_TAKEN_MAX: usize = QUERIES_MAX * 4;
/// How long a further one waits for its turn before it is refused.
const WAITS_MAX: Duration = Duration::from_secs(1);

/// Places for queries over HTTP.
#[derive(Debug)]
pub(crate) struct Room {
    all: Arc<Semaphore>,
    taken: Arc<Semaphore>,
    clients: Mutex<HashMap<IpAddr, Weak<Semaphore>>>,
}

impl Default for Room {
    fn default() -> Self {
        let [all, taken] = [QUERIES_MAX, QUERIES_TAKEN_MAX].map(|max| Arc::new(Semaphore::new(max)));
        Self { all, taken, clients: Mutex::default() }
    }
}

impl Room {
    /// A place for a query of `client`, until dropped; `None` if others of it, or of all, took all the time.
    pub(super) async fn enter(&self, client: IpAddr) -> Option<[OwnedSemaphorePermit; 3]> {
        let taken = Arc::clone(&self.taken).try_acquire_owned().ok()?;
        let own = self.of(client.to_canonical());
        let entering = async { Some([taken, own.acquire_owned().await.ok()?, self.all().await?]) };
        timeout(WAITS_MAX, entering).await.ok().flatten()
    }

    async fn all(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.all).acquire_owned().await.ok() // it is never closed
    }

    /// Kept by the permits of the client, and by those that wait for one.
    fn of(&self, client: IpAddr) -> Arc<Semaphore> {
        let mut clients = self.clients.lock();
        if let Some(known) = clients.get(&client).and_then(Weak::upgrade) {
            return known;
        }
        clients.retain(|_, known| known.strong_count() > 0);
        let new = Arc::new(Semaphore::new(QUERIES_OF_CLIENT_MAX));
        clients.insert(client, Arc::downgrade(&new));
        new
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    /// Goal: one client leaves places to others, and its further queries wait for their turn.
    #[tokio::test(start_paused = true)]
    async fn one_client_has_its_share_of_the_places() {
        let (room, [one, other]) = (Room::default(), [1, 2].map(|n| IpAddr::from([192, 0, 2, n])));
        let mut places = Vec::new();
        while let Some(place) = room.enter(one).now_or_never() {
            places.push(place.unwrap());
        }
        assert_eq!(places.len(), QUERIES_OF_CLIENT_MAX);
        assert!(room.enter(other).await.is_some() && room.enter(one).await.is_none());
        let mut waits = Box::pin(room.enter(one));
        assert!(waits.as_mut().now_or_never().is_none());
        drop(places);
        assert!(waits.await.is_some());
        let _ = room.enter(other).await;
        assert_eq!(room.clients.lock().len(), 1, "who has left is forgotten");
    }
}
