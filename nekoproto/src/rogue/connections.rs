//! Rogue control connections: their frames are unfinished, their answers unread, or they are just many.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::sleep,
};

use super::{
    Order, RogueError,
    peer::{Peer, long_name, long_records},
    raw::{crowd, discard, frame},
};
use crate::{
    indexer::IndexerServiceRequest,
    limits::{BATCH_MAX, FRAME_BYTES_MAX},
    messages::{Names, Purpose, QueryRequest, Role},
    values::{FileName, List, MsgId},
};

/// How often an answer is read.
const READS_EVERY: Duration = Duration::from_millis(400);
/// Bytes of the answers that are read at a time: one answer to a call for a batch of long names.
const READS_BYTES: usize = 160 << 10;
/// Queries that are sent together.
const TOGETHER: u64 = 512;

/// Sends calls for many long names, which are registered, and reads an answer now and then, so that the connection
/// is not idle.
pub(super) async fn unread(order: &Order, count: usize) -> Result<(), RogueError> {
    let order = order.clone();
    let registered = Peer::connect(&order).await?;
    registered.register(long_records(registered.endpoint.identity(), "unread", 0..BATCH_MAX)?).await?;
    let names: Names = List::first_of((0..BATCH_MAX).filter_map(|n| long_name("unread", n)));
    crowd(count, move |_| {
        let (order, names) = (order.clone(), names.clone());
        async move {
            let connection = order.endpoint(Role::Peer)?.dial(order.indexer, Purpose::Control, None).await?;
            let (mut answers, mut calls) = tokio::io::split(connection.io);
            let write = async {
                for id in 0.. {
                    let call = IndexerServiceRequest::SearchAll { names: names.clone() };
                    calls.write_all(&frame(id, call)?).await?;
                    calls.flush().await?;
                }
                Ok::<(), RogueError>(())
            };
            let read = async {
                let mut some = vec![0; READS_BYTES];
                loop {
                    answers.read_exact(&mut some).await?;
                    sleep(READS_EVERY).await;
                }
            };
            tokio::select! {
                written = write => written,
                read = read => read,
            }
        }
    })
    .await
}

/// Each sends all of a frame of the largest size but its last byte.
pub(super) async fn unfinished(order: &Order, count: usize) -> Result<(), RogueError> {
    let order = order.clone();
    let len = u32::try_from(FRAME_BYTES_MAX).map_err(std::io::Error::other)?;
    let part: Arc<[u8]> = [&len.to_be_bytes()[..], &vec![0; FRAME_BYTES_MAX - 1]].concat().into();
    crowd(count, move |_| {
        let (order, part) = (order.clone(), Arc::clone(&part));
        async move {
            let connection = order.endpoint(Role::Peer)?.dial(order.indexer, Purpose::Control, None).await?;
            let mut io = connection.io;
            io.write_all(&part).await?;
            io.flush().await?;
            discard(io).await;
            Ok(())
        }
    })
    .await
}

/// Each connects and says nothing.
pub(super) async fn flood(addr: SocketAddr, count: usize) -> Result<(), RogueError> {
    crowd(count, move |_| async move {
        let mut stream = TcpStream::connect(addr).await?;
        // No buffer: there are many.
        while stream.read(&mut [0; 64]).await? > 0 {}
        Ok(())
    })
    .await
}

/// Queries with an id of its own each, as fast as they go.
pub(super) async fn ids(order: &Order) -> Result<(), RogueError> {
    let name = FileName::new("rogue/of-no-interest").map_err(|_| RogueError::Lacks("a name"))?;
    let order = order.clone();
    crowd(1, move |_| {
        let (order, name) = (order.clone(), name.clone());
        async move {
            let connection = order.endpoint(Role::Peer)?.dial(order.indexer, Purpose::Control, None).await?;
            let (answers, mut calls) = tokio::io::split(connection.io);
            let write = async {
                for first in (0..).step_by(512) {
                    let mut frames = Vec::new();
                    for id in first..first + TOGETHER {
                        let request = QueryRequest::new(MsgId::random(), name.clone(), 1);
                        frames.extend(frame(id, IndexerServiceRequest::Query { request })?);
                    }
                    calls.write_all(&frames).await?;
                    calls.flush().await?;
                }
                Ok::<(), RogueError>(())
            };
            tokio::select! {
                written = write => written,
                () = discard(answers) => Ok(()),
            }
        }
    })
    .await
}
