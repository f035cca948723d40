//! What a peer answers: the calls of its indexers and of other peers.

use std::{
    net::SocketAddr,
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use nekoproto::{
    Held, Holder, List, NodeId, PeerService, PeerServiceClient, Purpose, Records, Refusal, Verdict,
    VerifiedRecord,
    limits::BATCH_MAX,
    transport::{ConnectError, Remote, control},
};
use tarpc::{client::RpcError, context::Context};
use tokio::time::timeout;

use crate::{clock, shared::Shared, watch};

/// The peer as one connection sees it.
#[derive(Clone)]
pub(crate) struct PeerCalls {
    /// Weak, because the links that serve these calls belong to what is pointed to.
    pub(crate) shared: Weak<Shared>,
    pub(crate) remote: Remote,
}

impl PeerCalls {
    fn shared(&self) -> Result<Arc<Shared>, Refusal> {
        self.shared.upgrade().ok_or(Refusal::Busy) // starting or ending
    }
}

impl PeerService for PeerCalls {
    async fn invalidate(self, _: Context, records: Records) -> Result<(), Refusal> {
        let shared = self.shared()?;
        let verified = records.into_iter().map(|record| shared.verifier.verify(record));
        let verified: Vec<VerifiedRecord> =
            verified.collect::<Result<_, _>>().map_err(|_| Refusal::Forged)?;
        // A note that the disk did not take is not acknowledged.
        if watch::learn(&shared, verified).await { Ok(()) } else { Err(Refusal::Busy) }
    }

    async fn confirm(
        self,
        _: Context,
        held: List<Held, BATCH_MAX>,
    ) -> Result<List<Verdict, BATCH_MAX>, Refusal> {
        let shared = self.shared()?;
        let now = clock::now();
        let verdicts = held.iter().map(|held| {
            let verdict = verdict(&shared, held);
            if let (Verdict::Current, Some(addr)) = (&verdict, self.remote.listens_at) {
                subscribe(&shared, held, Holder::new(self.remote.node, addr), now);
            }
            verdict
        });
        Ok(List::first_of(verdicts))
    }
}

fn verdict(shared: &Shared, held: &Held) -> Verdict {
    let own = shared.catalogue.get(&held.name).filter(|entry| shared.catalogue.is_own(entry));
    match own {
        Some(entry) if entry.record.version == held.version && entry.record.content == held.content => {
            Verdict::Current
        }
        Some(entry) if entry.record.version > held.version => {
            Verdict::Newer(Box::new(entry.record.to_signed()))
        }
        _ => Verdict::Unpublished,
    }
}

fn subscribe(shared: &Shared, held: &Held, holder: Holder, now: Instant) {
    let Some(entry) = shared.catalogue.get(&held.name) else { return };
    if entry.record.policy.pushes() {
        shared.subscribers.subscribe(&held.name, holder, entry.record.policy.bound(), now);
    }
}

/// Why another peer could not be called.
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

/// Connects to the peer `node` at `addr`, makes one call, and closes. All within `patience`.
pub(crate) async fn call_peer<T, F: Future<Output = Result<Result<T, Refusal>, RpcError>>>(
    shared: &Arc<Shared>,
    node: NodeId,
    addr: SocketAddr,
    patience: Duration,
    call: impl FnOnce(PeerServiceClient) -> F,
) -> Result<T, CallError> {
    let calling = async {
        let connection = shared.endpoint.dial(addr, Purpose::Control, Some(node)).await?;
        let calls = PeerCalls { shared: Arc::downgrade(shared), remote: connection.remote };
        let (client, driver) = control::open(connection.io, calls.serve(), PeerServiceClient::from);
        tokio::select! {
            answer = call(client) => Ok(answer??),
            () = driver => Err(RpcError::Shutdown.into()),
        }
    };
    timeout(patience, calling).await.unwrap_or(Err(CallError::TooLong))
}
