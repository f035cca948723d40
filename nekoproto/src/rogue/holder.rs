//! Rogue holders: what readers get from them never ends.

use std::{sync::Arc, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::sleep,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    Order, RogueError,
    indexer::refused,
    peer::{Peer, Silent, record},
    raw::message,
};
use crate::{
    PeerServiceClient, codec,
    limits::{BATCH_MAX, CHUNK_AVERAGE_MIN, CHUNKS_MAX, FILE_BYTES_MAX},
    messages::{DataReply, DataRequest, FetchRefusal, Freshness, Grant, Purpose},
    peer::PeerService,
    transport::{Connection, NodeIo, control},
    values::{Chunk, ChunkHash, ContentHash, FileName, Manifest, SignedRecord},
};

/// Zeros that are sent at a time.
const PIECE_BYTES: usize = 64 << 10;

/// Claims to hold the files of the order, and one of its own, and sends a byte each second.
pub(super) async fn drip(order: &Order) -> Result<(), RogueError> {
    let chunk_len = u32::try_from(CHUNK_AVERAGE_MIN).map_err(std::io::Error::other)?;
    serve(order, chunk_len, 64, Some(Duration::from_secs(1))).await
}

/// Holds a file of the largest size, all zeros.
pub(super) async fn zeros(order: &Order) -> Result<(), RogueError> {
    let chunk_len = u32::try_from(FILE_BYTES_MAX / CHUNKS_MAX).map_err(std::io::Error::other)?;
    serve(&Order { names: Vec::new(), ..order.clone() }, chunk_len, CHUNKS_MAX, None).await
}

/// Registers, and serves all that is asked for: `pause` between two bytes, or zeros as fast as they go.
async fn serve(
    order: &Order,
    chunk_len: u32,
    chunks: u64,
    pause: Option<Duration>,
) -> Result<(), RogueError> {
    let peer = Peer::connect(order).await?;
    let hits = peer.hits(order).await?;
    let len = usize::try_from(chunk_len).map_err(std::io::Error::other)?;
    let hash = ChunkHash::from_bytes(*blake3::hash(&vec![0; len]).as_bytes());
    let chunks = usize::try_from(chunks).map_err(std::io::Error::other)?;
    let manifest = Manifest::new(vec![Chunk { len: chunk_len, hash }; chunks]).map_err(refused)?;
    let (encoded, manifest_hash) = manifest.encode()?;
    let name = FileName::new(&order.bait).map_err(refused)?;
    let content = ContentHash::from_bytes([7; 32]);
    let own = record(peer.endpoint.identity(), name, manifest.size(), content, manifest_hash)?;
    let records: Vec<SignedRecord> = hits.into_iter().map(|hit| hit.record).chain([own]).collect();
    for batch in records.chunks(BATCH_MAX) {
        peer.register(batch.to_vec()).await?;
    }
    let goods = Arc::new(Goods { manifest: encoded, pause });
    let Peer { listener, client: _client, driver: _driver, .. } = peer;
    let serve = move |connection| answer(Arc::clone(&goods), connection);
    listener.run(CancellationToken::new(), TaskTracker::new(), serve).await;
    Ok(())
}

struct Goods {
    manifest: Vec<u8>,
    pause: Option<Duration>,
}

async fn answer(goods: Arc<Goods>, connection: Connection) {
    if connection.purpose == Purpose::Control {
        let (_client, driver) = control::open(connection.io, Silent.serve(), PeerServiceClient::from);
        return driver.await;
    }
    drop(goods.answer_all(connection.io).await); // a reader that goes away is no failure
}

impl Goods {
    async fn answer_all(&self, mut io: NodeIo) -> Result<(), RogueError> {
        let grant = |len| Ok(Grant { len, freshness: Freshness::Fresh });
        loop {
            let mut request = vec![0; io.read_u32().await? as usize];
            io.read_exact(&mut request).await?;
            let (reply, raw): (DataReply, _) = match codec::decode(&request)? {
                DataRequest::Manifest(_) => (grant(self.manifest.len() as u64), Some(&self.manifest)),
                DataRequest::Have(_) => (grant(0), None), // all of it
                DataRequest::Outboard(_) => (Err(FetchRefusal::NotShared), None),
                DataRequest::Get { ranges, .. } => (grant(ranges.iter().map(|range| range.len).sum()), None),
            };
            io.write_all(&message(&reply)?).await?;
            io.flush().await?;
            match (raw, reply) {
                (Some(manifest), _) => self.send(&mut io, manifest.len() as u64, |at| &manifest[at]).await?,
                (None, Ok(grant)) => self.send(&mut io, grant.len, |_| &[0; PIECE_BYTES]).await?,
                (None, Err(_)) => {}
            }
        }
    }

    /// Sends `len` bytes in pieces: those that begin with a place are `piece` of it.
    async fn send<'a>(
        &self,
        io: &mut NodeIo,
        len: u64,
        piece: impl Fn(std::ops::RangeFrom<usize>) -> &'a [u8],
    ) -> Result<(), RogueError> {
        let mut sent = 0;
        while sent < len {
            let most = if self.pause.is_some() { 1 } else { PIECE_BYTES };
            let piece = piece(usize::try_from(sent).map_err(std::io::Error::other)?..);
            let most = most.min(piece.len()).min(usize::try_from(len - sent).unwrap_or(most));
            io.write_all(&piece[..most]).await?;
            io.flush().await?;
            sent += most as u64;
            if let Some(pause) = self.pause {
                sleep(pause).await;
            }
        }
        Ok(())
    }
}
