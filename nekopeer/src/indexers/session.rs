//! The session with one indexer: connects and reconnects, and tells whether it answers. What is registered there is for
//! [`registering`].

mod registering;

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use nekoindexer::state::holders::Sender;
use nekoproto::{
    Cause, FileName, IndexerAddr, IndexerServiceClient, InvalidateRequest, List, MsgId, NodeId, PeerService,
    Records, Refusal, Remedy, VerifiedRecord,
    transport::{
        ConnectError, Connection, Endpoint, HostAddr, Link, LinkState, Remote, call_within, control, shown,
    },
};
use parking_lot::Mutex;
use tarpc::client::RpcError;
use tokio::{
    sync::{Notify, watch},
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::{
    failure::{Failure, FailureKind, Reason},
    library::{Library, events::Event},
    serve::{Uploads, control::PeerControl},
    state::{
        liveness::{Liveness, SILENT_MAX},
        registrations::{IndexerIndex, Registrations},
    },
};

const ANSWER_WITHIN: Duration = Duration::from_secs(5);
const LEASE_FIRST: Duration = Duration::from_secs(1);
/// Parts of a [`silence`].
const SILENCE_PARTS: u32 = 4;

/// One task registers this peer's offers with the indexer, so that changes arrive in order.
#[derive(Debug)]
pub(super) struct Session {
    index: IndexerIndex,
    all: Arc<[SocketAddr]>,
    library: Arc<Library>,
    pub(super) link: Link<IndexerServiceClient>,
    registrations: Arc<Mutex<Registrations>>,
    changed: Notify,
    /// Sends when a change was acknowledged, or failed.
    told: watch::Sender<()>,
    asked_at: Mutex<Option<Instant>>,
    lease_ms: AtomicU64,
    /// The indexer cannot list this peer over the current connection, as others could not reach it.
    is_unreachable: AtomicBool,
    liveness: watch::Sender<Liveness>,
    /// Notified when a search waits for a sign of life.
    sign_wanted: Notify,
    /// Names for which the indexer had no room, and of which was not told yet.
    unlisted: AtomicUsize,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum SessionError {
    #[error("not connected")]
    Away,
    #[error(transparent)]
    Rpc(#[from] RpcError),
    #[error(transparent)]
    Refused(#[from] Refusal),
}

/// Why a search failed: who is not found now may be later.
pub(super) fn failed(kind: FailureKind, message: String, remedy: Option<Remedy>) -> Failure {
    Failure { remedy, ..Failure::with(kind, message).passing().because(Reason::NotThere) }
}

pub(super) fn unreachable(indexer: SocketAddr, why: &Cause) -> Failure {
    let message = format!("indexer {} cannot be asked: {why}", shown(indexer));
    failed(FailureKind::Away, message, why.remedy.or(Some(Remedy::Indexer)))
}

impl Session {
    /// Starts to connect to the indexer `all[index]`, which is `at` a host or an address, unless it is `dialed` already, and
    /// keeps the offers registered there. With a key, no other node is used there.
    pub(super) fn spawn(
        (index, at): (IndexerIndex, (HostAddr, Option<NodeId>)),
        dialed: Option<Connection>,
        all: &Arc<[SocketAddr]>,
        dialing: &(Arc<Endpoint>, Option<Arc<Uploads>>),
        library: &Arc<Library>,
        registrations: &Arc<Mutex<Registrations>>,
    ) -> Arc<Self> {
        let tasks = &library.tasks;
        let (serving, connecting) = (Arc::clone(library), dialing.clone());
        let open = move |connection: Connection| {
            let (library, for_indexer) = (Arc::clone(&serving), Some(connecting.clone()));
            let control =
                PeerControl { library, remote: connection.remote, label: Arc::default(), for_indexer };
            let (client, driver) = control::open(connection.io, control.serve(), IndexerServiceClient::from);
            (client, Box::pin(driver) as control::Driver)
        };
        let session = Arc::new(Self {
            index,
            all: Arc::clone(all),
            library: Arc::clone(library),
            link: Link::spawn(Arc::clone(&dialing.0), at, dialed, tasks.stop.clone(), &tasks.tracker, open),
            registrations: Arc::clone(registrations),
            changed: Notify::new(),
            told: watch::Sender::default(),
            asked_at: Mutex::new(None),
            lease_ms: AtomicU64::new(u64::try_from(LEASE_FIRST.as_millis()).unwrap_or(u64::MAX)),
            is_unreachable: AtomicBool::new(false),
            liveness: watch::Sender::default(),
            sign_wanted: Notify::new(),
            unlisted: AtomicUsize::new(0),
        });
        let working = Arc::clone(&session);
        tasks.spawn_until_stop(async move { working.run().await });
        session
    }

    /// The indexer's address; of a host, the one that was found first.
    pub(super) fn addr(&self) -> SocketAddr {
        self.link.addr()
    }

    pub(super) fn wake(&self) {
        self.changed.notify_one();
    }

    fn connected(&self) -> Option<Remote> {
        match &*self.link.watch().borrow() {
            LinkState::Up { remote, .. } => Some(*remote),
            LinkState::Connecting | LinkState::Greeting { .. } | LinkState::Down(_) => None,
        }
    }

    pub(super) fn remote(&self) -> Option<NodeId> {
        Some(self.connected()?.node)
    }

    pub(super) fn sender(&self) -> Option<Sender> {
        Some(sender(&self.connected()?))
    }

    pub(super) fn is_connected(&self) -> bool {
        self.link.client().is_some()
    }

    pub(super) fn is_listing(&self) -> bool {
        self.is_connected() && !self.is_unreachable.load(Ordering::Relaxed)
    }

    /// Waits until the indexer has acknowledged all that is offered, as [`told`](Self::told).
    pub(super) async fn told_all(&self) -> bool {
        let names = self.registrations.lock().dirty(self.index);
        self.told(&names).await
    }

    /// Waits until the indexer has acknowledged what is offered under these names (true), or cannot be told now
    /// or soon (false): it is told when it is connected again, or answers.
    pub(super) async fn told(&self, names: &[FileName]) -> bool {
        let (mut told, mut left) = (self.told.subscribe(), names);
        let failures = self.registrations.lock().failures(self.index);
        self.changed.notify_one();
        let telling = async {
            loop {
                if self.link.client().is_none() || self.is_unreachable.load(Ordering::Relaxed) {
                    return false;
                }
                {
                    let registrations = self.registrations.lock();
                    match registrations.left(self.index, left) {
                        None => return true,
                        Some(_) if registrations.failures(self.index) > failures => return false,
                        Some(names) => left = names,
                    }
                }
                let asked_at = *self.asked_at.lock();
                let (_, limit) = self.liveness.borrow().limits();
                let silent_at = asked_at.unwrap_or_else(Instant::now) + limit.max(SILENT_MAX);
                tokio::select! {
                    _ = told.changed() => {} // the sender lives as long as the session
                    () = silence(silent_at.saturating_duration_since(Instant::now())) => {
                        if asked_at.is_some() && *self.asked_at.lock() == asked_at {
                            return false;
                        }
                    }
                }
            }
        };
        self.library.tasks.stop.run_until_cancelled(telling).await.unwrap_or(false)
    }

    pub(super) async fn withdraw_all(&self) -> Result<(), SessionError> {
        let client = self.link.client().ok_or(SessionError::Away)?;
        Ok(client.deregister_all(call_within(ANSWER_WITHIN)).await??)
    }

    pub(super) async fn invalidate(
        &self,
        batches: &[(MsgId, &[VerifiedRecord])],
        ttl_hops: u8,
    ) -> Result<(), SessionError> {
        let client = self.link.client().ok_or(SessionError::Away)?;
        for (msg_id, batch) in batches {
            self.invalidate_batch(&client, *msg_id, batch, ttl_hops).await??;
        }
        Ok(())
    }

    /// What asks this indexer, and who that is; waits for the first attempt to connect, at most `patience`.
    /// It may still refuse this node: then what it is asked fails.
    pub(super) async fn asked_within(&self, patience: Duration) -> Option<(IndexerServiceClient, Remote)> {
        // A timeout shows as a missing client below.
        drop(timeout(patience, self.link.tried_early()).await);
        self.link.early_client()
    }

    /// The answer that is `asked` for, which is noted in `answered`; `None` if the indexer is unresponsive after another one
    /// has. Until then all may be far away.
    ///
    /// # Cancel safety
    /// That of `asked`.
    pub(super) async fn while_alive<T, E>(
        &self,
        answered: &CancellationToken,
        asked: impl Future<Output = Result<T, E>>,
    ) -> Option<Result<T, E>> {
        let silent = async {
            answered.cancelled().await;
            self.until_unresponsive().await;
        };
        tokio::select! {
            biased;
            answer = self.noted(asked) => Some(answer.inspect(|_| answered.cancel())),
            () = silent => None,
        }
    }

    /// Completes when the indexer, which was asked something before, answers neither that nor anything else in time. One
    /// that only takes long for its answer is waited for.
    async fn until_unresponsive(&self) {
        if self.asked_within(SILENT_MAX).await.is_none() {
            return; // it does not even take connections
        }
        let (asked_at, liveness) = (Instant::now(), &self.liveness);
        let (sign_after, silent_max) = liveness.borrow().limits();
        sleep(sign_after).await;
        self.sign_wanted.notify_one();
        let mut signs = liveness.subscribe();
        let heard = async { drop(signs.wait_for(|liveness| liveness.was_heard_since(asked_at)).await) };
        tokio::select! {
            () = heard => std::future::pending().await,
            () = silence(silent_max - sign_after) => {}
        }
        liveness.send_modify(|liveness| liveness.silent(asked_at));
    }

    /// What `told` makes of why there is no connection to the indexer, if that is known.
    fn down<T>(&self, told: impl FnOnce(&ConnectError) -> Option<T>) -> Option<T> {
        match &*self.link.watch().borrow() {
            LinkState::Down(why) => told(why),
            _ => None,
        }
    }

    /// That there is no connection to the indexer, and why.
    pub(super) fn away(&self) -> Option<Event> {
        self.down(|why| Some(Event::Away { indexer: self.addr(), why: why.into() }))
    }

    /// Why the indexer lets this node in no connection, if that is a matter of secrets or lists.
    pub(super) fn refusal(&self) -> Option<Failure> {
        self.down(|why| why.is_of_access().then(|| unreachable(self.addr(), &why.into())))
    }

    /// Why the indexer, with which there was a connection, let this node not in. Where a call failed, that may not be noted yet.
    pub(super) async fn refused(&self) -> Option<Cause> {
        drop(timeout(ANSWER_WITHIN, self.link.tried()).await);
        self.down(|why| (!matches!(why, ConnectError::Unreachable { .. })).then(|| why.into()))
    }

    pub(super) fn why_away(&self) -> Cause {
        match &*self.link.watch().borrow() {
            LinkState::Down(why) => (&**why).into(),
            LinkState::Connecting | LinkState::Greeting { .. } => "it does not answer".into(),
            LinkState::Up { .. } => "it just came back".into(),
        }
    }
}

pub(super) fn sender(remote: &Remote) -> Sender {
    Sender { at: IndexerAddr { addr: remote.addr, node: remote.node }, is_local: remote.is_local() }
}

impl Session {
    /// Waits for what the indexer was `asked`; an answer is a sign of life.
    async fn noted<T, E>(&self, asked: impl Future<Output = Result<T, E>>) -> Result<T, E> {
        let asked_at = Instant::now();
        let answer = asked.await?;
        self.liveness.send_modify(|liveness| liveness.heard(asked_at, Instant::now()));
        Ok(answer)
    }

    /// Asks for a sign of life whenever a search waits for one. One that comes too late for that search counts for the next.
    async fn ask_for_signs(&self, client: &IndexerServiceClient) {
        loop {
            self.sign_wanted.notified().await;
            let asked_at = Instant::now();
            if client.renew(call_within(ANSWER_WITHIN)).await.is_ok() {
                self.liveness.send_modify(|liveness| liveness.measured(asked_at, Instant::now()));
            }
        }
    }

    /// Sends newer versions, at most a batch, which travel so many hops.
    fn invalidate_batch(
        &self,
        client: &IndexerServiceClient,
        msg_id: MsgId,
        records: &[VerifiedRecord],
        ttl_hops: u8,
    ) -> impl Future<Output = Result<Result<(), Refusal>, RpcError>> {
        let records = Records::first_of(records.iter().map(VerifiedRecord::to_signed));
        let request =
            InvalidateRequest { msg_id, records, ttl_hops, covered: List::new(), from_guest: false };
        self.noted(client.invalidate(call_within(ANSWER_WITHIN), request))
    }
}

/// Completes after `time`. Where this process, or its machine, stood still, what came meanwhile is read first: no other node
/// was silent then.
async fn silence(time: Duration) {
    for _ in 0..SILENCE_PARTS {
        sleep(time / SILENCE_PARTS).await;
    }
}

#[cfg(test)]
mod tests {
    use std::{io::Write as _, os::unix::net::UnixStream, thread};

    use super::*;

    #[tokio::test]
    async fn what_came_while_this_process_stood_still_was_no_silence() {
        for _ in 0..16 {
            let (mut far, near) = UnixStream::pair().unwrap();
            near.set_nonblocking(true).unwrap();
            let near = tokio::net::UnixStream::from_std(near).unwrap();
            let standing_still = async {
                far.write_all(b"an answer").unwrap();
                thread::sleep(Duration::from_millis(40));
                std::future::pending::<()>().await;
            };
            tokio::select! {
                () = standing_still => {}
                came = near.readable() => came.unwrap(),
                () = silence(Duration::from_millis(20)) => panic!("it was there before"),
            }
        }
    }
}
