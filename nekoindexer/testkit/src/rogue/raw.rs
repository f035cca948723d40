//! Frames and messages by hand, and many connections at once.

use std::{future::Future, io, time::Duration};

use serde::Serialize;
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    task::JoinSet,
    time::sleep,
};

use super::RogueError;
use nekoproto::{codec, indexer::IndexerServiceRequest, limits::DATA_MESSAGE_BYTES_MAX, transport::Envelope};

/// Pause before what failed or was ended is tried again.
const AGAIN_AFTER: Duration = Duration::from_millis(500);
/// The same for those whose number counts: no task keeps a thread from others.
const AT_ONCE: Duration = Duration::from_millis(1);

/// A call as a control frame, its length prefix included.
pub(super) fn frame(id: u64, call: IndexerServiceRequest) -> Result<Vec<u8>, RogueError> {
    let envelope = Envelope::<_, ()>::Request { id, deadline_ms: 2000, call };
    prefixed(codec::encode(&envelope)?)
}

/// A message of a data stream, its length prefix included.
pub(super) fn message<T: Serialize>(value: &T) -> Result<Vec<u8>, RogueError> {
    let mut bytes = Vec::new();
    codec::encode_into(&mut bytes, value, DATA_MESSAGE_BYTES_MAX as u64)?;
    prefixed(bytes)
}

fn prefixed(body: Vec<u8>) -> Result<Vec<u8>, RogueError> {
    let len = u32::try_from(body.len()).map_err(io::Error::other)?;
    Ok([&len.to_be_bytes(), &body[..]].concat())
}

/// Reads and forgets, until the other end closes.
pub(super) async fn discard(mut from: impl AsyncRead + Unpin) {
    let mut buffer = vec![0; 64 << 10];
    while from.read(&mut buffer).await.is_ok_and(|read| read > 0) {}
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
