//! Frames and messages by hand, connections from the one address of all that is hostile, and many at once.

use std::{
    future::Future,
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::Duration,
};

use serde::Serialize;
use tokio::{
    net::{TcpSocket, TcpStream},
    task::JoinSet,
    time::{sleep, timeout},
};

use super::RogueError;
use crate::frames::{frame, prefixed};
use nekoproto::{
    Purpose, codec,
    indexer::IndexerServiceRequest,
    limits::{DATA_MESSAGE_BYTES_MAX, HANDSHAKE_TIMEOUT},
    transport::{ConnectError, Connection, Endpoint, Envelope},
};

/// Where all that is hostile comes from, a free port; honest nodes are at 127.0.0.1.
pub(crate) const ATTACKER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2)), 0);

/// Pause before what failed or was ended is tried again.
const AGAIN_AFTER: Duration = Duration::from_millis(500);
/// The same for those whose number counts: no task keeps a thread from others.
const AT_ONCE: Duration = Duration::from_millis(1);

/// A connection to `addr` from the attacker's address.
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

/// A call as a control frame.
pub(super) fn call(id: u64, call: IndexerServiceRequest) -> Result<Vec<u8>, RogueError> {
    Ok(frame(&Envelope::<_, ()>::Request { id, deadline_ms: 2000, call })?)
}

/// A message of a data stream.
pub(super) fn message<T: Serialize>(value: &T) -> Result<Vec<u8>, RogueError> {
    let mut bytes = Vec::new();
    codec::encode_into(&mut bytes, value, DATA_MESSAGE_BYTES_MAX as u64)?;
    Ok(prefixed(&bytes))
}

/// Runs `one` this many times at once; each begins again some time after its end.
pub(super) async fn crowd<F, O>(count: usize, one: F) -> Result<(), RogueError>
where
    F: Fn(usize) -> O + Clone + Send + 'static,
    O: Future<Output = Result<(), RogueError>> + Send,
{
    again_and_again(count, AGAIN_AFTER, one).await
}

/// Runs `one` this many times at once; each begins again as soon as it ends.
pub(super) async fn flood<F, O>(count: usize, one: F) -> Result<(), RogueError>
where
    F: Fn(usize) -> O + Clone + Send + 'static,
    O: Future<Output = Result<(), RogueError>> + Send,
{
    again_and_again(count, AT_ONCE, one).await
}

async fn again_and_again<F, O>(count: usize, after: Duration, one: F) -> Result<(), RogueError>
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
