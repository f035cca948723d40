//! Rogue holders: what readers get from them never ends.

use crate::prelude::*;

use super::{
    Order, RogueError,
    indexer::refused,
    peer::{Peer, record},
    script::{self, ScriptedReply},
};

const PIECE_BYTES: usize = 64 << 10;

pub(super) async fn drip(order: &Order) -> Result<(), RogueError> {
    let chunk_len = u32::try_from(CHUNK_AVERAGE_MIN).map_err(std::io::Error::other)?;
    serve(order, chunk_len, 64, Some(Duration::from_secs(1))).await
}

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
    let manifest = Arc::new(encoded);
    let Peer { listener, client: _client, driver: _driver, .. } = peer;
    let serve = move |connection| {
        let manifest = Arc::clone(&manifest);
        script::serve(connection, move |request| {
            let reply = reply(request, &manifest);
            if let Some(pause) = pause { reply.trickling(pause) } else { reply }
        })
    };
    listener.run(CancellationToken::new(), TaskTracker::new(), serve).await;
    Ok(())
}

fn reply(request: &DataRequest, manifest: &[u8]) -> ScriptedReply {
    match request {
        DataRequest::Manifest(_) => ScriptedReply::of(manifest.to_vec()),
        DataRequest::Have(_) => ScriptedReply::of(Vec::new()), // all of it
        DataRequest::Outboard(_) | DataRequest::Confirm(_) | DataRequest::Packed { .. } => {
            ScriptedReply::refusal(FetchRefusal::NotShared)
        }
        DataRequest::Get { ranges, .. } => {
            let len = ranges.iter().map(|range| range.len).sum();
            let zeros =
                |len: u64| vec![0; usize::try_from(len).map_or(PIECE_BYTES, |len| len.min(PIECE_BYTES))];
            let mut left = len;
            let pieces = iter::from_fn(move || {
                let piece = Some(zeros(left)).filter(|piece| !piece.is_empty())?;
                left -= piece.len() as u64;
                Some(Ok(piece))
            });
            ScriptedReply::in_pieces(len, pieces)
        }
    }
}
