//! Calls to other peers, with a time limit: each over a connection of its own, or over one that is kept.

mod origins;

pub(crate) use self::origins::{ORIGINS_AT_ONCE, held};

use std::{io, sync::Arc, time::Duration};

use nekoproto::{
    Holder, Numbered, PeerService, PeerServiceClient, Purpose, Records, Refusal, VerifiedRecord,
    limits::BATCH_MAX,
    transport::{ConnectError, Endpoint, EndpointError, call_within, control},
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

/// Calls other peers.
#[derive(Clone, Debug)]
pub(crate) struct Peers {
    endpoint: Arc<Endpoint>,
    library: Arc<Library>,
    indexers: Arc<Indexers>,
    /// The last connection, where it is kept for the next call.
    kept: Option<Arc<Mutex<Option<Arc<Link>>>>>,
}

/// A connection to a peer, until it is dropped.
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
    ) -> Arc<Self> {
        let (endpoint, library, indexers) = (Arc::clone(endpoint), Arc::clone(library), Arc::clone(indexers));
        Arc::new(Self { endpoint, library, indexers, kept: None })
    }

    /// The same, keeping a connection from call to call, for who asks one peer again and again.
    pub(crate) fn keeping(&self) -> Arc<Self> {
        Arc::new(Self { kept: Some(Arc::default()), ..self.clone() })
    }

    /// The same of a node that does not say where it listens: who is asked by it notes no reader.
    pub(crate) fn unlisted(&self) -> Result<Self, EndpointError> {
        Ok(Self { endpoint: self.endpoint.unlisted()?, ..self.clone() })
    }

    /// Sends newer versions to `peer`. Returns once it has acknowledged all of them.
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
        self.call(peer, patience, tell).await
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
        let Some(record) = self.call(peer, ANSWER_WITHIN, ask).await? else { return Ok(None) };
        let record = self.library.checks.verifier().verify(*record).map_err(|_| Refusal::Forged)?;
        let Numbered { origin, name, version } = wanted;
        let is_wanted = record.origin == *origin && record.name == *name && record.version == *version;
        if is_wanted && !record.is_withdrawal() { Ok(Some(record)) } else { Err(Refusal::Forged.into()) }
    }

    /// Connects to `peer`, unless a connection is kept, and makes one call, within `patience`.
    async fn call<T, F: Future<Output = Result<Result<T, Refusal>, RpcError>>>(
        &self,
        peer: Holder,
        patience: Duration,
        call: impl FnOnce(PeerServiceClient) -> F,
    ) -> Result<T, CallError> {
        let calling = async {
            let link = self.link(peer).await?;
            let answer = call(link.client.clone()).await;
            Ok(answer??)
        };
        let answer = timeout(patience, calling).await.unwrap_or(Err(CallError::TooLong));
        if let (Some(kept), Err(_)) = (&self.kept, &answer) {
            kept.lock().take();
        }
        answer
    }

    async fn link(&self, peer: Holder) -> Result<Arc<Link>, CallError> {
        let kept = self.kept.as_ref().and_then(|kept| kept.lock().clone());
        if let Some(link) = kept.filter(|link| link.peer == peer && !link.task.is_finished()) {
            return Ok(link);
        }
        let dialing = self.endpoint.dial_node(peer.addr, Purpose::Control, peer.node);
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
