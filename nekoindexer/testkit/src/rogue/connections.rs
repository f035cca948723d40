//! Rogue control connections: their frames are unfinished, their answers unread, their calls much work, or they are
//! just many.

use crate::prelude::*;

use tokio::{io::ReadHalf, net::TcpListener};

use super::{
    Order, RogueError,
    indexer::refused,
    peer::{LONG_NAME_BYTES, Peer, made_up, made_up_records},
    raw::{AGAIN_AFTER, AT_ONCE, call as call_frame, connect, crowd, dial},
};
use crate::frames::discard;

const READS_EVERY: Duration = Duration::from_millis(400);
/// Bytes of the answers that are read at a time: one answer to a call for a batch of long names.
const READS_BYTES: usize = 160 << 10;
/// Bytes of calls that are sent together, at least.
const TOGETHER_BYTES: usize = 32 << 10;
/// Hops that their calls may travel.
const TTL_HOPS: u8 = 3;
const GLOBS: usize = 16;
/// The first bytes of a connection are no more than this.
const HELLO_BYTES: usize = 4096;
/// How long who began a handshake is silent before it begins another.
const SILENT_FOR: Duration = Duration::from_secs(1);

/// Sends calls over a connection of its own as fast as they go; `read` does with the answers what it wants.
async fn call_on<R: Future>(
    order: &Order,
    call: impl Fn() -> IndexerServiceRequest,
    read: impl FnOnce(ReadHalf<NodeIo>) -> R,
) -> Result<(), RogueError> {
    let connection = dial(&*order.endpoint(Role::Peer)?, order.indexer, Purpose::Control).await?;
    let (answers, mut calls) = tokio::io::split(connection.io);
    let write = async {
        let mut ids = 0..;
        loop {
            let mut frames = Vec::new();
            while frames.len() < TOGETHER_BYTES {
                frames.extend(call_frame(ids.next().unwrap_or_default(), call())?);
            }
            calls.write_all(&frames).await?;
            calls.flush().await?;
        }
    };
    tokio::select! {
        written = write => written,
        _ = read(answers) => Ok(()),
    }
}

async fn busy(
    order: &'static Order,
    count: usize,
    call: impl Fn() -> IndexerServiceRequest + Clone + Send + Sync + 'static,
) -> Result<(), RogueError> {
    crowd(count, AGAIN_AFTER, move |_| {
        let call = call.clone();
        async move { call_on(order, call, discard).await }
    })
    .await
}

pub(super) async fn ids(order: &'static Order) -> Result<(), RogueError> {
    let name = FileName::new("rogue/of-no-interest").map_err(refused)?;
    let request = move || QueryRequest::new(MsgId::random(), name.clone(), 1);
    busy(order, 1, move || IndexerServiceRequest::Query { request: request() }).await
}

pub(super) async fn work(order: &'static Order, count: usize) -> Result<(), RogueError> {
    let names: Names = List::first_of((0..BATCH_MAX).filter_map(|n| made_up("work", n, 0)));
    let request = move || QueryAllRequest::new(names.clone(), TTL_HOPS);
    busy(order, count, move || IndexerServiceRequest::QueryAll { request: request() }).await
}

pub(super) async fn finds(order: &'static Order, count: usize) -> Result<(), RogueError> {
    let glob = |n| Term::new(&format!("*{}*a*e*i*o*{n}*", "?".repeat(100))).map_err(refused);
    let terms = (0..GLOBS).map(glob).collect::<Result<Vec<_>, _>>()?;
    let search = Search { terms: List::first_of(terms), ..Search::default() };
    let request = move || FindRequest::new(search.clone(), TTL_HOPS);
    busy(order, count, move || IndexerServiceRequest::Find { request: request() }).await
}

pub(super) async fn probes(order: &'static Order, count: usize) -> Result<(), RogueError> {
    let request = || ProbeRequest::new(MsgId::random(), PROBE_HOPS_MAX);
    busy(order, count, move || IndexerServiceRequest::Probe { request: request() }).await
}

/// Sends calls for many long names, which are registered, and reads an answer now and then, so that the connection
/// is not idle.
pub(super) async fn unread(order: &'static Order, count: usize) -> Result<(), RogueError> {
    let registered = Peer::connect(order).await?;
    let (origin, all) = (registered.endpoint.identity(), 0..BATCH_MAX);
    registered.register(made_up_records(origin, "unread", all.clone(), LONG_NAME_BYTES)?).await?;
    let names: Names = List::first_of(all.filter_map(|n| made_up("unread", n, LONG_NAME_BYTES)));
    let request = QueryAllRequest::new(names, 0);
    crowd(count, AGAIN_AFTER, move |_| {
        let request = request.clone();
        let read = async |mut answers: ReadHalf<NodeIo>| {
            let mut some = vec![0; READS_BYTES];
            while answers.read_exact(&mut some).await.is_ok() {
                sleep(READS_EVERY).await;
            }
        };
        async move { call_on(order, || IndexerServiceRequest::QueryAll { request: request.clone() }, read).await }
    })
    .await
}

pub(super) async fn unfinished(order: &'static Order, count: usize) -> Result<(), RogueError> {
    let len = u32::try_from(FRAME_BYTES_MAX).map_err(std::io::Error::other)?;
    let part: Arc<[u8]> = [&len.to_be_bytes()[..], &vec![0; FRAME_BYTES_MAX - 1]].concat().into();
    crowd(count, AGAIN_AFTER, move |_| {
        let part = Arc::clone(&part);
        async move {
            let connection = dial(&*order.endpoint(Role::Peer)?, order.indexer, Purpose::Control).await?;
            let mut io = connection.io;
            io.write_all(&part).await?;
            io.flush().await?;
            discard(io).await;
            Ok(())
        }
    })
    .await
}

pub(super) async fn flood(addr: SocketAddr, count: usize) -> Result<(), RogueError> {
    crowd(count, AT_ONCE, move |_| silent(addr, &[])).await
}

pub(super) async fn hellos(order: &'static Order, count: usize) -> Result<(), RogueError> {
    // Who dials this listener is heard out, and not answered.
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await?;
    let (addr, endpoint) = (listener.local_addr()?, order.endpoint(Role::Peer)?);
    let mut hello = vec![0; HELLO_BYTES];
    let heard = async {
        let (mut stream, _) = listener.accept().await?;
        stream.read(&mut hello).await
    };
    let len = tokio::select! {
        len = heard => len?,
        dialed = endpoint.dial(addr, Purpose::Control, None) => return dialed.map(drop).map_err(Into::into),
    };
    hello.truncate(len);
    let (hello, addr): (Arc<[u8]>, _) = (hello.into(), order.indexer);
    crowd(count, AT_ONCE, move |_| {
        let hello = Arc::clone(&hello);
        async move { timeout(SILENT_FOR, silent(addr, &hello)).await.unwrap_or(Ok(())) }
    })
    .await
}

/// Says this, and then nothing until the other end closes.
async fn silent(addr: SocketAddr, says: &[u8]) -> Result<(), RogueError> {
    let mut stream = connect(addr).await?;
    stream.write_all(says).await?;
    // No buffer: there are many.
    while stream.read(&mut [0; 64]).await? > 0 {}
    Ok(())
}
