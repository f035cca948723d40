//! Frames and messages by hand, connections from the one address of all that is hostile, and many at once.

use crate::prelude::*;

use tokio::net::{TcpSocket, TcpStream};

use super::RogueError;
use crate::frames::{frame, prefixed};

/// Where all that is hostile comes from, a free port; honest nodes are at 127.0.0.1.
pub(crate) const ATTACKER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2)), 0);

/// Pause before what failed or was ended is tried again.
pub(super) const AGAIN_AFTER: Duration = Duration::from_millis(500);
/// The same for those whose number counts: no task keeps a thread from others.
pub(super) const AT_ONCE: Duration = Duration::from_millis(1);

pub(super) async fn connect(addr: SocketAddr) -> io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?; // there are few ports for those that come and go
    socket.bind(ATTACKER)?;
    socket.connect(addr).await
}

/// The same with the handshake of a node.
pub(crate) async fn dial(
    endpoint: &Endpoint,
    addr: SocketAddr,
    purpose: Purpose,
) -> Result<Connection, RogueError> {
    let greeting = async { Ok(endpoint.greet(connect(addr).await?, addr, purpose).await?) };
    timeout(HANDSHAKE_TIMEOUT, greeting).await.unwrap_or(Err(ConnectError::Timeout(addr).into()))
}

pub(super) fn call(id: u64, call: IndexerServiceRequest) -> Result<Vec<u8>, RogueError> {
    Ok(frame(&Envelope::<_, ()>::Request { id, deadline_ms: 2000, call })?)
}

pub(super) fn message<T: Serialize>(value: &T) -> Result<Vec<u8>, RogueError> {
    let mut bytes = Vec::new();
    codec::encode_into(&mut bytes, value, DATA_MESSAGE_BYTES_MAX as u64)?;
    Ok(prefixed(&bytes))
}

/// Runs `one` this many times at once; each begins again this time after its end.
pub(super) async fn crowd<F, O>(count: usize, after: Duration, one: F) -> Result<(), RogueError>
where
    F: Fn(usize) -> O + Clone + Send + 'static,
    O: Future<Output = Result<(), RogueError>> + Send,
{
    let mut tasks = JoinSet::new();
    for n in 0..count {
        let one = one.clone();
        tasks.spawn(async move {
            loop {
                drop(one(n).await); // a refusal is what the attacked node is measured for
                sleep(after).await;
            }
        });
    }
    while tasks.join_next().await.is_some() {}
    Ok(())
}
