//! Rogue readers of an HTTP door: they hold its connections, and read nothing or without an end.

use crate::prelude::*;

use tokio::net::TcpStream;

use super::{
    Order, RogueError,
    raw::{self, connect, crowd},
};

/// Pause before a connection that was ended is opened again: what counts is how many are open.
const AGAIN_AFTER: Duration = Duration::from_secs(5);

pub(super) async fn streams(order: &Order, events: usize, unread: usize) -> Result<(), RogueError> {
    let door = order.http.ok_or(RogueError::Lacks("an HTTP door"))?;
    let reads = crowd(events, raw::AGAIN_AFTER, move |_| {
        hold(door, "/api/v1/events", async |mut stream: TcpStream, request| {
            stream.write_all(&request).await?;
            while stream.read(&mut [0; 64]).await? > 0 {}
            Ok(())
        })
    });
    let asks = crowd(unread, raw::AGAIN_AFTER, move |_| {
        hold(door, "/api/v1/openapi.json", async |mut stream: TcpStream, request| {
            loop {
                stream.write_all(&request).await?; // until nothing fits the buffers of both ends any more
            }
        })
    });
    try_join(reads, asks).await.map(drop)
}

async fn hold(
    door: SocketAddr,
    path: &str,
    holds: impl AsyncFnOnce(TcpStream, Vec<u8>) -> Result<(), RogueError>,
) -> Result<(), RogueError> {
    let request = format!("GET {path} HTTP/1.1\r\nhost: {door}\r\n\r\n").into_bytes();
    let held = async { holds(connect(door).await?, request).await };
    drop(held.await); // a refusal is what the attacked node is measured for
    sleep(AGAIN_AFTER).await;
    Ok(())
}
