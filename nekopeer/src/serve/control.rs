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
    let verdict = verdict(library, held)?;
    let known = (&held.name, held.version);
    let is_new = match (&verdict, remote.listens_at) {
        (Verdict::Current | Verdict::Newer(_), Some(addr)) => {
            let holder = Holder::new(remote.node, addr);
            let told = match &verdict {
                Verdict::Newer(newest) => newest.unverified().version,
                _ => held.version,
            };
            subscribe(library, held, told, holder, clock::now());
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

fn verdict(library: &Library, held: &Held) -> Result<Verdict, Failure> {
    let own = library.catalogue.stated(&held.name)?.filter(|entry| library.catalogue.is_own(entry));
    let own = own.as_ref().map(|entry| (&entry.record, entry.newest.as_ref()));
    Ok(state::verdict::verdict(own, held, |newest| library.hands_out(newest)))
}

/// Subscribes `holder`, which has just been `told` of that version.
fn subscribe(library: &Library, held: &Held, told: Version, holder: Holder, now: Instant) {
    // Its copy may count as fresh until it hears of the newest version, and what it is told may not reach it.
    if library.subscribers.is_behind(&held.name, told, &holder.node, now) && held.version < told {
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
    use nekoproto::Role;
    use tarpc::context;
    use testkit::values::{forged, identity};
    use tokio::{runtime, task::spawn_blocking};

    use super::*;
    use crate::{Config, Peer};

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
            let remote = Remote { node, role, addr, listens_at: None, here, reaches_us_at: None };
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
