//! Rogue readers: they hold a peer's turns and sockets.

use crate::prelude::*;

use super::{
    Order, RogueError,
    peer::Peer,
    raw::{AGAIN_AFTER, AT_ONCE, crowd, dial, message},
};

const REQUEST_BYTES: u64 = 32 << 20;
/// Bytes that are read each second.
const READ_BYTES: usize = 4000;
/// Keys of those that ask for nothing.
const IDLE_KEYS: usize = 64;

pub(super) async fn slow_readers(order: &'static Order, count: usize) -> Result<(), RogueError> {
    let first = Order { names: order.names.iter().take(1).cloned().collect(), ..order.clone() };
    let hits = Peer::connect(order).await?.hits(&first).await?;
    let record = hits.into_iter().next().ok_or(RogueError::Lacks("a file"))?.record.unverified().clone();
    let ranges = List::first_of([ByteRange { offset: 0, len: REQUEST_BYTES.min(record.size) }]);
    let request = message(&DataRequest::Get { content: record.content, ranges })?;
    let addr = order.peer()?;
    crowd(count, AGAIN_AFTER, move |_| {
        let request = request.clone();
        async move {
            let mut io = dial(&*order.endpoint(Role::Peer)?, addr, Purpose::Data).await?.io;
            io.write_all(&request).await?;
            io.flush().await?;
            let mut some = vec![0; READ_BYTES];
            while io.read(&mut some).await? > 0 {
                sleep(Duration::from_secs(1)).await;
            }
            Ok(())
        }
    })
    .await
}

pub(super) async fn idle(order: &'static Order, count: usize) -> Result<(), RogueError> {
    let addr = order.peer()?;
    let endpoints = (0..IDLE_KEYS).map(|_| order.endpoint(Role::Peer)).collect::<Result<Vec<_>, _>>()?;
    crowd(count, AT_ONCE, move |n| {
        let endpoint = Arc::clone(&endpoints[n % IDLE_KEYS]);
        async move {
            let mut io = dial(&endpoint, addr, Purpose::Data).await?.io;
            while io.read(&mut [0; 64]).await? > 0 {}
            Ok(())
        }
    })
    .await
}
