//! The control calls that a peer answers, from its indexers and from other peers.

use std::{
    net::SocketAddr,
    sync::{Arc, OnceLock},
    time::Instant,
};

use nekoproto::{
    Held, Holder, Label, List, Numbered, PeerService, Records, Refusal, SignedRecord, Verdict, Version,
    clock::unix_ms,
    limits::BATCH_MAX,
    transport::{Endpoint, Remote, rendezvous::Token, slots::SlotOwner},
};
use tarpc::context::Context;

use super::Uploads;
use crate::{
    failure::Failure,
    library::{Library, events::Event},
    state,
    util::clock,
};

#[derive(Clone)]
pub(crate) struct PeerControl {
    pub(crate) library: Arc<Library>,
    pub(crate) remote: Remote,
    /// What people call the other end, once it has said it.
    pub(crate) label: Arc<OnceLock<Label>>,
    /// How this peer connects to others, which it then serves, as the other end asks it to: it is one of its own indexers.
    pub(crate) for_indexer: Option<(Arc<Endpoint>, Option<Arc<Uploads>>)>,
}

impl PeerControl {
    /// For a node that is none of this peer's indexers.
    pub(crate) fn new(library: &Arc<Library>, remote: Remote) -> Self {
        Self { library: Arc::clone(library), remote, label: Arc::default(), for_indexer: None }
    }
}

impl PeerService for PeerControl {
    async fn invalidate(self, _: Context, records: Records) -> Result<(), Refusal> {
        let owner = SlotOwner::at(self.remote.addr.ip(), Some(self.remote.node));
        let verified = self.library.checks.check(owner, records.into_vec()).await?;
        let verified = verified.into_iter().collect::<Result<_, _>>().map_err(|_| Refusal::Forged)?;
        // If the write to the catalogue failed, the news is not acknowledged.
        if self.library.learn(verified).await { Ok(()) } else { Err(Refusal::Busy) }
    }

    async fn confirm(
        self,
        _: Context,
        held: List<Held, BATCH_MAX>,
    ) -> Result<List<Verdict, BATCH_MAX>, Refusal> {
        let Self { library, remote, label, .. } = self;
        let look_up = move |library: &Arc<Library>| {
            let (mut verdicts, mut news) = (Vec::with_capacity(held.len()), Vec::new());
            for held in held.iter() {
                let (verdict, is_news) =
                    confirm(library, &remote, label.get(), held).map_err(|_| Refusal::Busy)?;
                verdicts.push(verdict);
                news.extend(is_news.then_some(held));
            }
            tell_read(library, &remote, &news);
            Ok(List::first_of(verdicts))
        };
        library.blocking(look_up).await
    }

    async fn dial_back(self, _: Context, at: Option<SocketAddr>, token: Token) -> Result<(), Refusal> {
        let (endpoint, uploads) = self.for_indexer.ok_or(Refusal::WrongRole)?;
        let uploads = uploads.ok_or(Refusal::NotCalled)?;
        // Another machine that sees a reader at loopback has a forwarder: the reader is not here.
        if at.is_some_and(|at| at.ip().is_loopback()) && !self.remote.is_local() {
            return Err(Refusal::NotCalled);
        }
        uploads.dial_back(endpoint, at.unwrap_or(self.remote.addr), token).await
    }

    async fn reached(self, _: Context, at: SocketAddr, is_reached: bool) -> Result<(), Refusal> {
        if self.for_indexer.is_none() {
            return Err(Refusal::WrongRole);
        }
        if is_reached {
            self.library.unreached.lock().remove(&self.remote.node);
        } else {
            self.library.unreached.lock().insert(self.remote.node, at);
            self.library.tell(Event::NotReached { indexer: self.remote.addr, at });
        }
        Ok(())
    }

    async fn introduce(self, _: Context, label: Label) -> Result<(), Refusal> {
        drop(self.label.set(label)); // it has one name
        Ok(())
    }

    async fn lend(self, _: Context, wanted: Numbered) -> Result<Option<Box<SignedRecord>>, Refusal> {
        let lend = move |library: &Arc<Library>| library.lent.lend(&library.catalogue, &wanted);
        let lent = self.library.blocking(lend).await.map_err(|_| Refusal::Busy)?;
        Ok(lent.map(|record| Box::new(record.to_signed())))
    }
}

/// The verdict on what `remote` holds, and whether it is news that it holds the newest version; notes that it does, and
/// subscribes it to pushes. Without its catalogue a peer does not say that it publishes nothing. Blocking.
pub(super) fn confirm(
    library: &Library,
    remote: &Remote,
    label: Option<&Label>,
    held: &Held,
) -> Result<(Verdict, bool), Failure> {
    let mut verdict = verdict_now(library, held)?;
    let known = (&held.name, held.version);
    let is_new = match (&verdict, remote.listens_at) {
        (Verdict::Current | Verdict::Newer(_), Some(addr)) => {
            let holder = Holder::new(remote.node, addr);
            let told = match &verdict {
                Verdict::Newer(newest) => newest.unverified().version,
                _ => held.version,
            };
            subscribe(library, held, told, holder, clock::now());
            // Who tells the subscribers of a version that was published just now may not have found this one.
            if let later @ Verdict::Newer(_) = verdict_now(library, held)? {
                verdict = later;
            }
            library.readers.lock().heard(known, holder, label, unix_ms())
        }
        // A command that does not serve: its reader may be known.
        (Verdict::Current, None) => library.readers.lock().heard_again(known, remote.node, unix_ms()),
        _ => false,
    };
    let is_shared = || library.catalogue.get(&held.name).is_some();
    let is_news = is_new && verdict == Verdict::Current && is_shared();
    Ok((verdict, is_news))
}

/// Tells the user that `remote` has these versions now.
pub(super) fn tell_read(library: &Library, remote: &Remote, news: &[&Held]) {
    if let [first, more @ ..] = news {
        let (name, version, more, reader) = (first.name.clone(), first.version, more.len(), remote.node);
        let label = library.readers.lock().label(&reader);
        library.tell(Event::Read { name, version, more, reader, label });
    }
}

fn verdict_now(library: &Library, held: &Held) -> Result<Verdict, Failure> {
    let own = library.catalogue.stated(&held.name)?.filter(|entry| library.catalogue.is_own(entry));
    let own = own.as_ref().map(|entry| (&entry.record, entry.newest.as_ref()));
    Ok(state::verdict::verdict(own, held, |newest| library.hands_out(newest)))
}

/// Subscribes `holder`, which has just been `told` of that version.
fn subscribe(library: &Library, held: &Held, told: Version, holder: Holder, now: Instant) {
    library.subscribers.moved(holder);
    // Its copy may count as fresh until it hears of the newest version, and what it is told may not reach it.
    if held.version < told && library.subscribers.behind(&held.name, told, &holder.node, now).is_some() {
        return;
    }
    let Some(entry) = library.catalogue.get_stated(&held.name) else { return };
    if entry.record.policy.pushes() {
        let lease = entry.record.policy.bound();
        library.subscribers.subscribe(&held.name, told, held.version, holder, lease, now);
        library.counters.leases.inc();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use futures::{FutureExt, future::join_all};
    use nekoproto::{FileName, Identity, NodeId, Role};
    use tarpc::context;
    use testkit::values::{forged, identity};
    use tokio::{runtime, task::spawn_blocking};

    use super::*;
    use crate::{Config, Peer, PublishOptions, peer::KEY_FILE};

    /// Goal: who confirms a copy while a newer version is published is told of it in the answer, or is found by who tells the
    /// subscribers. Method: readers ask one after the other until one is told.
    #[tokio::test]
    async fn no_version_falls_between_the_answer_and_the_subscription() {
        const NAMES: usize = 20;
        const READERS: u16 = 900;
        let folder = tempfile::tempdir().unwrap();
        let config = Config::new(folder.path());
        let peer = Peer::spawn(config.clone()).await.unwrap();
        let key = Identity::load_or_create(&config.data_dir().join(KEY_FILE)).unwrap();
        let name = |n: usize| FileName::new(&n.to_string()).unwrap();
        let paths: Vec<_> = (0..NAMES).map(|n| folder.path().join(n.to_string())).collect();
        paths.iter().for_each(|path| std::fs::write(path, "one").unwrap());
        peer.publish(paths, PublishOptions::default(), &Arc::default()).await.unwrap();
        let reader = |seed: u16| {
            let (node, addr) = (identity(seed).id(), SocketAddr::from(([192, 0, 2, 1], seed)));
            let (role, here, listens_at, reaches_us_at) = (Role::Peer, addr.ip(), Some(addr), None);
            Remote { node, role, addr, listens_at, here, reaches_us_at, round_trip_ms: 0 }
        };
        let readers: Vec<Remote> = (1..=READERS).map(reader).collect();
        let (library, readers) = (&peer.library, &readers);
        for name in (0..NAMES).map(name) {
            let own = library.catalogue.get(&name).unwrap().record.clone();
            let held = Held { name: name.clone(), version: own.version, content: own.content };
            let later = nekoproto::Record { version: Version::new(2).unwrap(), ..(*own).clone() };
            let later = later.sign(&key).unwrap();
            let is_current =
                |reader: &&Remote| confirm(library, reader, None, &held).unwrap().0 == Verdict::Current;
            std::thread::scope(|scope| {
                let asking = scope.spawn(move || readers.iter().take_while(is_current).collect::<Vec<_>>());
                library.catalogue.note_newer(&[later]).unwrap();
                let found: Vec<NodeId> =
                    library.subscribers.of(&name, clock::now()).iter().map(|one| one.holder.node).collect();
                let answered = asking.join().unwrap();
                let missed = answered.iter().filter(|reader| !found.contains(&reader.node)).count();
                assert_eq!(missed, 0, "of {}", answered.len());
            });
        }
    }

    /// Goal: what a stranger says holds up no connection, and only so much of it waits. Method: one thread for all that
    /// blocks, and it is busy.
    #[test]
    fn signatures_of_a_stranger_are_checked_away_from_the_connections() {
        let case = async {
            let folder = tempfile::tempdir().unwrap();
            let peer = Peer::spawn(Config::new(folder.path())).await.unwrap();
            let (free, busy) = mpsc::channel::<()>();
            let blocking = spawn_blocking(move || busy.recv());
            let (node, addr) = (identity(9).id(), SocketAddr::from(([192, 0, 2, 1], 1000)));
            let (role, here) = (Role::Peer, addr.ip());
            let (listens_at, reaches_us_at, round_trip_ms) = Default::default();
            let remote = Remote { node, role, addr, listens_at, here, reaches_us_at, round_trip_ms };
            let call = |version| {
                let records = Records::first_of([forged(9, 1, "a", version)]);
                PeerControl::new(&peer.library, remote).invalidate(context::current(), records)
            };
            let mut calls: Vec<_> = (1..=40).map(|version| Box::pin(call(version))).collect();
            let mut ended = Vec::new();
            calls.retain_mut(|call| call.as_mut().now_or_never().map(|answer| ended.push(answer)).is_none());
            assert_eq!(ended, [const { Err(Refusal::Busy) }; 8]);
            drop(free);
            assert!(blocking.await.unwrap().is_err());
            assert!(join_all(calls).await.into_iter().all(|answer| answer == Err(Refusal::Forged)));
        };
        let mut runtime = runtime::Builder::new_current_thread();
        runtime.enable_all().max_blocking_threads(1).build().unwrap().block_on(case);
    }
}
