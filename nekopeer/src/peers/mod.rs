//! Calls to other peers, with a time limit: each over a connection of its own, or over one that is kept.

mod origins;

pub(crate) use self::origins::{ORIGINS_AT_ONCE, held};

use std::{
    collections::HashMap,
    io,
    sync::Arc,
    time::{Duration, Instant},
};

use nekoproto::{
    Holder, Label, NodeId, Numbered, PeerService, PeerServiceClient, Purpose, Records, Refusal,
    VerifiedRecord,
    limits::BATCH_MAX,
    transport::{ConnectError, Connection, Endpoint, EndpointError, call_within, control},
};
use parking_lot::Mutex;
use tarpc::client::RpcError;
use tokio::{task::JoinHandle, time::timeout};
use tokio_util::sync::DropGuard;

use crate::{indexers::Indexers, library::Library, serve::control::PeerControl};

/// Time limit for connecting to a peer and its answer.
pub(crate) const ANSWER_WITHIN: Duration = Duration::from_secs(3);
/// Time for a connection, by whatever way: five round trips of 300 ms.
const CONNECTED_WITHIN: Duration = Duration::from_millis(1500);

/// How long an origin counts as told what people call this peer: it may have lost that.
const INTRODUCED_FOR: Duration = Duration::from_secs(3600);
/// Origins of which that is known.
const INTRODUCED_MAX: usize = 4096;

#[derive(Clone, Debug)]
pub(crate) struct Peers {
    endpoint: Arc<Endpoint>,
    library: Arc<Library>,
    indexers: Arc<Indexers>,
    /// The last connection, where it is kept for the next call.
    kept: Option<Arc<Mutex<Option<Arc<Link>>>>>,
    /// What people call this peer, if it serves.
    label: Option<Label>,
    /// The origins that were told that, and when.
    introduced: Arc<Mutex<HashMap<NodeId, Instant>>>,
}

#[derive(Debug)]
struct Link {
    peer: Holder,
    client: PeerServiceClient,
    task: JoinHandle<Option<()>>,
    _close: DropGuard,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Rpc(#[from] RpcError),
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error("it took too long")]
    TooLong,
}

impl CallError {
    /// Whether no process listens where the peer was.
    pub(crate) fn is_of_nobody(&self) -> bool {
        let Self::Connect(ConnectError::Unreachable { source, .. }) = self else { return false };
        source.kind() == io::ErrorKind::ConnectionRefused
    }
}

impl Peers {
    pub(crate) fn new(
        endpoint: &Arc<Endpoint>,
        library: &Arc<Library>,
        indexers: &Arc<Indexers>,
        label: Option<Label>,
    ) -> Arc<Self> {
        let label = label.filter(|_| library.is_serving); // no other reader is listed
        let (endpoint, library, indexers) = (Arc::clone(endpoint), Arc::clone(library), Arc::clone(indexers));
        Arc::new(Self { endpoint, library, indexers, kept: None, label, introduced: Arc::default() })
    }

    /// The same, keeping a connection from call to call, for who asks one peer again and again.
    pub(crate) fn keeping(&self) -> Arc<Self> {
        Arc::new(Self { kept: Some(Arc::default()), ..self.clone() })
    }

    /// The same of a node that does not say where it listens: who is asked by it notes no reader.
    pub(crate) fn unlisted(&self) -> Result<Self, EndpointError> {
        let (label, introduced) = Default::default(); // nor is it told a label
        Ok(Self { endpoint: self.endpoint.unlisted()?, label, introduced, ..self.clone() })
    }

    /// What downloads ask with. A peer that serves nothing but these is no reader that is told of later versions.
    pub(crate) fn of_downloads(self: &Arc<Self>, serves_these_only: bool) -> Arc<Self> {
        let unlisted = serves_these_only.then(|| self.unlisted().ok()).flatten(); // the key is fine: others use it
        unlisted.map_or_else(|| Arc::clone(self), Arc::new)
    }

    /// Sends newer versions to `peer`, which said itself where it listens. Returns once it has acknowledged all of them.
    pub(crate) async fn invalidate(&self, peer: Holder, records: &[VerifiedRecord]) -> Result<(), CallError> {
        let batches = u32::try_from(records.len().div_ceil(BATCH_MAX)).unwrap_or(u32::MAX);
        let patience = ANSWER_WITHIN.saturating_mul(batches);
        let tell = |client: PeerServiceClient| async move {
            for batch in records.chunks(BATCH_MAX) {
                let batch = Records::first_of(batch.iter().map(VerifiedRecord::to_signed));
                if let Err(refusal) = client.invalidate(call_within(ANSWER_WITHIN), batch).await? {
                    return Ok(Err(refusal));
                }
            }
            Ok(Ok(()))
        };
        self.call(self.link_of_subscriber(peer), patience, tell).await
    }

    /// Asks `peer` for one version by its number; its record, if the peer holds or keeps it, and sends its bytes for a
    /// while.
    pub(crate) async fn lend(
        &self,
        peer: Holder,
        wanted: &Numbered,
    ) -> Result<Option<VerifiedRecord>, CallError> {
        let ask = |client: PeerServiceClient| {
            let wanted = wanted.clone();
            async move { client.lend(call_within(ANSWER_WITHIN), wanted).await }
        };
        let Some(record) = self.call(self.link(peer), ANSWER_WITHIN, ask).await? else { return Ok(None) };
        let record = self.library.checks.verifier().verify(*record).map_err(|_| Refusal::Forged)?;
        let Numbered { origin, name, version } = wanted;
        let is_wanted = record.origin == *origin && record.name == *name && record.version == *version;
        if is_wanted && !record.is_withdrawal() { Ok(Some(record)) } else { Err(Refusal::Forged.into()) }
    }

    /// As [`call`](Self::call), of an origin, which is told before what people call this peer.
    async fn call_origin<T, F: Future<Output = Result<Result<T, Refusal>, RpcError>>>(
        &self,
        origin: Holder,
        patience: Duration,
        call: impl FnOnce(PeerServiceClient) -> F,
    ) -> Result<T, CallError> {
        let is_told = self.is_introduced(&origin.node);
        let answer = self.call(self.introduced(origin), patience, call).await;
        // From its answer on it knows the caller by that.
        if !is_told && answer.is_ok() {
            let mut introduced = self.introduced.lock();
            if introduced.len() >= INTRODUCED_MAX {
                introduced.clear();
            }
            introduced.insert(origin.node, Instant::now());
        }
        answer
    }

    /// Makes one call over `link` once that is there, all within `patience`.
    async fn call<T, F: Future<Output = Result<Result<T, Refusal>, RpcError>>>(
        &self,
        link: impl Future<Output = Result<Arc<Link>, CallError>>,
        patience: Duration,
        call: impl FnOnce(PeerServiceClient) -> F,
    ) -> Result<T, CallError> {
        let calling = async {
            let link = link.await?;
            let answer = call(link.client.clone()).await;
            Ok(answer??)
        };
        let answer = timeout(patience, calling).await.unwrap_or(Err(CallError::TooLong));
        if let (Some(kept), Err(_)) = (&self.kept, &answer) {
            kept.lock().take();
        }
        answer
    }

    /// Whether `origin` was told what people call this peer, if there is something to tell.
    pub(crate) fn is_introduced(&self, origin: &NodeId) -> bool {
        let told_at = self.introduced.lock().get(origin).copied();
        self.label.is_none() || told_at.is_some_and(|at| at.elapsed() < INTRODUCED_FOR)
    }

    /// A connection to an origin that was told what people call this peer.
    async fn introduced(&self, origin: Holder) -> Result<Arc<Link>, CallError> {
        let link = self.link(origin).await?;
        let Some(label) = self.label.clone().filter(|_| !self.is_introduced(&origin.node)) else {
            return Ok(link);
        };
        if link.client.introduce(call_within(ANSWER_WITHIN), label).await.is_ok() {
            return Ok(link);
        }
        // A program that does not know this call ended the connection.
        self.kept.iter().for_each(|kept| drop(kept.lock().take()));
        self.link(origin).await
    }

    async fn link(&self, peer: Holder) -> Result<Arc<Link>, CallError> {
        let kept = self.kept.as_ref().and_then(|kept| kept.lock().clone());
        if let Some(link) = kept.filter(|link| link.peer == peer && !link.task.is_finished()) {
            return Ok(link);
        }
        self.open(peer, self.endpoint.dial_node(peer.addr, Purpose::Control, peer.node)).await
    }

    /// The same, however often that failed: `peer` is at the address that it connected from, and nobody else is bothered.
    async fn link_of_subscriber(&self, peer: Holder) -> Result<Arc<Link>, CallError> {
        if self.endpoint.knows_another_way(peer.node, peer.addr) {
            return self.link(peer).await;
        }
        self.open(peer, self.endpoint.dial(peer.addr, Purpose::Control, Some(peer.node))).await
    }

    async fn open(
        &self,
        peer: Holder,
        dialing: impl Future<Output = Result<Connection, ConnectError>>,
    ) -> Result<Arc<Link>, CallError> {
        let connection = timeout(CONNECTED_WITHIN, dialing).await.map_err(|_| CallError::TooLong)??;
        let control = PeerControl::new(&self.library, connection.remote);
        let (client, driver) = control::open(connection.io, control.serve(), PeerServiceClient::from);
        let stop = self.library.tasks.stop.child_token();
        let task = self.library.tasks.tracker.spawn(stop.clone().run_until_cancelled_owned(driver));
        let link = Arc::new(Link { peer, client, task, _close: stop.drop_guard() });
        if let Some(kept) = &self.kept {
            *kept.lock() = Some(Arc::clone(&link));
        }
        Ok(link)
    }
}

#[cfg(test)]
mod tests {
    use testkit::{goods, values::identity};

    use super::*;
    use crate::{Config, Peer};

    /// Goal: a subscriber whose process stands still is told again as soon as it goes on. Method: it takes connections, and proves
    /// no key.
    #[tokio::test]
    async fn subscriber_that_stands_still_is_not_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let peer = Peer::spawn(Config::new(folder.path())).await.unwrap();
        let stopped = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let holder = Holder::new(identity(9).id(), stopped.local_addr().unwrap());
        let news = [goods::record(1, "a", 1, |_| {})];
        for attempt in 1..=3 {
            let told = peer.peers.invalidate(holder, &news).await;
            assert!(matches!(told, Err(CallError::TooLong)), "attempt {attempt}: {told:?}");
        }
    }
}
