//! Tells a registered holder to connect to a reader that cannot connect to it, or relays between the two.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use nekoproto::{
    CallBack, PeerServiceClient, Purpose, Refusal, Role,
    limits::HANDSHAKE_TIMEOUT,
    transport::{Remote, call_within},
};
use tokio::time::{sleep, timeout};
use tracing::debug;

use crate::{
    shared::Shared,
    state::{caller::Caller, index::Session},
};

/// Time in which a peer has to be connected to, after which it counts as one that cannot be: then it is had to connect to
/// others at once. It is told so only when [`HANDSHAKE_TIMEOUT`] was not enough either: its link may be slow.
const REACHED_WITHIN: Duration = Duration::from_secs(1);
/// How often one that cannot be connected to is tried again.
const CHECKED_EVERY: Duration = Duration::from_secs(60);
/// Time in which a holder connects.
const CONNECTS_WITHIN: Duration = Duration::from_secs(3);
/// Time in which the other half of a pair comes.
const PAIR_WITHIN: Duration = Duration::from_secs(5);

/// Answers `request` of the peer `from`. A holder is told no other address than that at which this node sees the peer.
pub(crate) async fn answer(
    shared: &Arc<Shared>,
    from: (&Caller, Remote),
    request: CallBack,
) -> Result<(), Refusal> {
    let (caller, remote) = from;
    if remote.role != Role::Peer {
        return Err(Refusal::WrongRole);
    }
    let place = Arc::clone(&caller.call_backs).try_acquire_owned().map_err(|_| Refusal::Busy)?;
    let CallBack { holder, port, token } = request;
    let client = shared.running.get(&holder).map(|one| one.client.clone()).ok_or(Refusal::NotCalled)?;
    let at = match port {
        Some(0) => return Err(Refusal::NotCalled),
        Some(port) => Some(SocketAddr::new(remote.addr.ip(), port)),
        None if !shared.endpoint.relay().has_room() => return Err(Refusal::NotCalled),
        None => None,
    };
    let pair = match at {
        None => Some(shared.endpoint.rendezvous().expect_pair(token).ok_or(Refusal::Busy)?),
        Some(_) => None,
    };
    let called = client.dial_back(call_within(CONNECTS_WITHIN), at, token).await;
    called.map_err(|_| Refusal::NotCalled)??;
    if let Some(pair) = pair {
        shared.spawn_until_stop(|_| async move {
            sleep(PAIR_WITHIN).await;
            drop((pair, place));
        });
    }
    Ok(())
}

/// Connects to a peer of another machine where it says that it listens. If that fails, it is told so, and whoever looks for
/// it, until a later attempt succeeds.
pub(crate) fn check(shared: &Arc<Shared>, session: &Arc<Session>, remote: Remote, client: PeerServiceClient) {
    let Some(at) = remote.listens_at.filter(|_| !remote.is_local()) else { return };
    let session = Arc::clone(session);
    shared.spawn_until_stop(|shared| async move {
        let (mut was_told, mut patience) = (true, REACHED_WITHIN);
        loop {
            let dialing = shared.endpoint.dial_node_at(at, Purpose::Control, remote.node);
            let is_reached = matches!(timeout(patience, dialing).await, Ok(Ok(_)));
            debug!(peer = %remote.node.short(), is_reached, "whether a peer can be connected to");
            session.note_reached(is_reached);
            if !is_reached && patience < HANDSHAKE_TIMEOUT {
                patience = HANDSHAKE_TIMEOUT;
                continue;
            }
            if is_reached != was_told {
                was_told = is_reached;
                if client.reached(call_within(CONNECTS_WITHIN), at, is_reached).await.is_err() {
                    return; // it is gone
                }
            }
            if is_reached {
                return;
            }
            sleep(CHECKED_EVERY).await;
            if !session.is_connected() {
                return;
            }
        }
    });
}
