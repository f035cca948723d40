//! The answering end: control calls of other peers, and the data stream.

use std::{fs::File, io, os::unix::fs::FileExt, sync::Arc, time::Duration};

use nekoproto::{
    ByteRange, ContentHash, DataReply, DataRequest, FetchRefusal, Freshness, Grant, ManifestHash,
    PeerService, PeerServiceClient, Purpose,
    transport::{Connection, DataError, DataStream, control},
};
use tracing::debug;

use crate::{
    calls::PeerCalls,
    catalogue::Entry,
    shared::{Shared, blocking},
    stamp::Stamp,
    status,
};

/// Requests for file bytes or manifests served at once; further ones are answered `busy`.
pub(crate) const UPLOADS_MAX: usize = 32;
/// Bytes read from disk at once. Two such pieces are in memory for each upload.
const PIECE_BYTES: usize = 512 * 1024;
/// How long a data stream may stay open without a request.
const IDLE_MAX: Duration = Duration::from_secs(60);

/// Serves one connection until it ends.
pub(crate) async fn serve(shared: Arc<Shared>, connection: Connection) {
    match connection.purpose {
        Purpose::Control => {
            let calls = PeerCalls { shared: Arc::downgrade(&shared), remote: connection.remote };
            let (_client, driver) = control::open(connection.io, calls.serve(), PeerServiceClient::from);
            driver.await;
        }
        Purpose::Data => {
            let mut stream = DataStream::new(connection.io);
            if let Err(error) = serve_data(&shared, &mut stream).await {
                debug!(peer = %connection.remote.node.short(), %error, "data stream ended");
            }
        }
    }
}

async fn serve_data(shared: &Arc<Shared>, stream: &mut DataStream) -> Result<(), DataError> {
    loop {
        match stream.receive(IDLE_MAX).await? {
            DataRequest::Manifest(hash) => send_manifest(shared, stream, hash).await?,
            DataRequest::Get { content, ranges } => {
                send_ranges(shared, stream, content, ranges.into_vec()).await?;
            }
        }
    }
}

async fn send_manifest(
    shared: &Arc<Shared>,
    stream: &mut DataStream,
    hash: ManifestHash,
) -> Result<(), DataError> {
    let Ok(_slot) = shared.uploads.try_acquire() else {
        return stream.send::<DataReply>(&Err(FetchRefusal::Busy)).await;
    };
    let found = shared
        .blocking(move |shared| {
            let entries = shared.catalogue.with_manifest(&hash);
            let freshness = best(shared, &entries)?;
            match shared.catalogue.manifest(&hash) {
                Ok(Some(bytes)) => Ok((bytes, freshness)),
                Ok(None) => Err(FetchRefusal::NotShared),
                Err(error) => {
                    tracing::warn!(%error, "cannot serve a manifest");
                    Err(FetchRefusal::Unreadable)
                }
            }
        })
        .await;
    match found {
        Ok((bytes, freshness)) => {
            stream.send::<DataReply>(&Ok(Grant { len: bytes.len() as u64, freshness })).await?;
            stream.send_bytes(&bytes).await?;
            stream.flush().await
        }
        Err(refusal) => stream.send::<DataReply>(&Err(refusal)).await,
    }
}

async fn send_ranges(
    shared: &Arc<Shared>,
    stream: &mut DataStream,
    content: ContentHash,
    ranges: Vec<ByteRange>,
) -> Result<(), DataError> {
    let Ok(_slot) = shared.uploads.try_acquire() else {
        return stream.send::<DataReply>(&Err(FetchRefusal::Busy)).await;
    };
    let opened = shared
        .blocking(move |shared| {
            let (file, size, freshness) = open(shared, &content)?;
            let len = total(&ranges, size).ok_or(FetchRefusal::BadRange)?;
            Ok((file, ranges, Grant { len, freshness }))
        })
        .await;
    let (file, ranges, grant) = match opened {
        Ok(opened) => opened,
        Err(refusal) => return stream.send::<DataReply>(&Err(refusal)).await,
    };
    stream.send::<DataReply>(&Ok(grant)).await?;
    send_pieces(stream, Arc::new(file), ranges).await?;
    stream.flush().await
}

/// Reads the next piece from disk while the one before is on its way.
async fn send_pieces(
    stream: &mut DataStream,
    file: Arc<File>,
    ranges: Vec<ByteRange>,
) -> Result<(), DataError> {
    let mut pieces = ranges.into_iter().flat_map(pieces_of);
    let Some(first) = pieces.next() else { return Ok(()) };
    let mut ready = read_piece(&file, first, Vec::new()).await?;
    let mut spare = Vec::new();
    for piece in pieces {
        let (next, sent) = tokio::join!(read_piece(&file, piece, spare), stream.send_bytes(&ready));
        sent?;
        spare = std::mem::replace(&mut ready, next?);
    }
    stream.send_bytes(&ready).await
}

fn pieces_of(range: ByteRange) -> impl Iterator<Item = ByteRange> {
    let step = PIECE_BYTES as u64;
    (0..range.len.div_ceil(step))
        .map(move |n| ByteRange { offset: range.offset + n * step, len: step.min(range.len - n * step) })
}

async fn read_piece(file: &Arc<File>, piece: ByteRange, mut buffer: Vec<u8>) -> io::Result<Vec<u8>> {
    let file = Arc::clone(file);
    blocking(move || {
        buffer.resize(usize::try_from(piece.len).unwrap_or(PIECE_BYTES), 0);
        file.read_exact_at(&mut buffer, piece.offset)?;
        Ok(buffer)
    })
    .await
}

/// The sum of all ranges; `None` if one is empty or reaches past the end.
fn total(ranges: &[ByteRange], size: u64) -> Option<u64> {
    let mut sum = 0u64;
    for range in ranges {
        let end = range.offset.checked_add(range.len)?;
        if range.len == 0 || end > size {
            return None;
        }
        sum = sum.checked_add(range.len)?;
    }
    (sum > 0).then_some(sum)
}

/// Opens a file with this content that is still the one that was hashed. Blocking.
fn open(shared: &Arc<Shared>, content: &ContentHash) -> Result<(File, u64, Freshness), FetchRefusal> {
    let entries = shared.catalogue.with_content(content);
    let freshness = best(shared, &entries)?;
    let mut refusal = FetchRefusal::NotShared;
    for entry in &entries {
        match open_entry(entry) {
            Ok(file) => return Ok((file, entry.record.size, freshness)),
            Err(why) => refusal = why,
        }
    }
    Err(refusal)
}

fn open_entry(entry: &Entry) -> Result<File, FetchRefusal> {
    let file = File::open(&entry.path).map_err(|_| FetchRefusal::Unreadable)?;
    let metadata = file.metadata().map_err(|_| FetchRefusal::Unreadable)?;
    if Stamp::of(&metadata) == entry.stamp { Ok(file) } else { Err(FetchRefusal::Changed) }
}

/// The best freshness among entries with the same bytes, or why their policies forbid serving.
fn best(shared: &Shared, entries: &[Arc<Entry>]) -> Result<Freshness, FetchRefusal> {
    let mut best = Err(FetchRefusal::NotShared);
    for entry in entries {
        let found = match status::freshness(shared, entry) {
            Freshness::Fresh => return Ok(Freshness::Fresh),
            aged if entry.record.policy.serve_stale() => Ok(aged),
            Freshness::Stale => {
                let newest = entry.newest.as_ref().map_or(entry.record.version, |newest| newest.version);
                Err(FetchRefusal::Outdated(newest))
            }
            Freshness::Unverified => Err(FetchRefusal::Unverified),
        };
        if matches!((&best, &found), (Err(_), _) | (Ok(Freshness::Stale), Ok(Freshness::Unverified))) {
            best = found;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(offset: u64, len: u64) -> ByteRange {
        ByteRange { offset, len }
    }

    #[test]
    fn ranges_outside_the_file_are_refused_without_overflow() {
        assert_eq!(total(&[range(0, 10), range(5, 5)], 10), Some(15));
        for bad in [range(0, 0), range(0, 11), range(10, 1), range(u64::MAX, 2), range(1, u64::MAX)] {
            assert_eq!(total(&[bad], 10), None, "{bad:?}");
        }
        assert_eq!(total(&[], 10), None);
    }

    #[test]
    fn pieces_cover_the_range() {
        let step = PIECE_BYTES as u64;
        for len in [1, step - 1, step, step + 1, 5 * step + 3] {
            let pieces: Vec<_> = pieces_of(range(7, len)).collect();
            let mut at = 7;
            for piece in &pieces {
                assert_eq!(piece.offset, at);
                assert!((1..=step).contains(&piece.len));
                at += piece.len;
            }
            assert_eq!(at, 7 + len);
        }
    }
}
