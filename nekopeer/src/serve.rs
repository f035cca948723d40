//! The answering end: control calls of other peers, and the data stream.
//!
//! A data stream waits for its next request without a thread. Then it waits for its turn, and a
//! thread answers what is there, a bounded number of bytes, before the next stream has its turn.

use std::{
    fs::File,
    os::unix::fs::FileExt,
    sync::Arc,
    time::{Duration, Instant},
};

use nekoproto::{
    ByteRange, ContentHash, DataReply, DataRequest, FetchRefusal, Freshness, Grant, ManifestHash, NodeId,
    PeerService, PeerServiceClient, Purpose,
    transport::{Connection, DataError, DataStream, control},
};
use tracing::debug;

use crate::{
    calls::PeerCalls, catalogue::Entry, clock, partials::PartialFile, rate, shared::Shared, stamp::Stamp,
    status,
};

/// How long a data stream may stay open without a request.
const IDLE_MAX: Duration = Duration::from_secs(60);
/// File bytes of one turn, beyond the request that reaches it.
const TURN_BYTES: u64 = 16 * 1024 * 1024;
/// File bytes of one request; a reader of ours asks for at most 8 MiB and a chunk.
const GET_BYTES_MAX: u64 = 32 * 1024 * 1024;
/// Time for a request to come, once it has begun and has its turn.
const REQUEST_WITHIN: Duration = Duration::from_secs(2);
/// Bytes a second below which a reader is not waited for any longer: it holds a turn.
const SLOWEST_READER: u64 = 32 * 1024;
/// What a request counts for in a turn beside its bytes.
const REQUEST_COUNTS_AS: u64 = 16 * 1024;
/// A reply this short is one write together with its header.
const SHORT_BYTES: u64 = 64 * 1024;

/// Serves one connection until it ends.
pub(crate) async fn serve(shared: Arc<Shared>, connection: Connection) {
    match connection.purpose {
        Purpose::Control => {
            let calls = PeerCalls { shared: Arc::downgrade(&shared), remote: connection.remote };
            let (_client, driver) = control::open(connection.io, calls.serve(), PeerServiceClient::from);
            driver.await;
        }
        Purpose::Data => {
            let node = connection.remote.node;
            let served = match DataStream::new(connection.io) {
                Ok(stream) => serve_data(&shared, stream, node).await,
                Err(error) => Err(error.into()),
            };
            if let Err(error) = served {
                debug!(peer = %node.short(), %error, "data stream ended");
            }
        }
    }
}

async fn serve_data(shared: &Arc<Shared>, mut stream: DataStream, node: NodeId) -> Result<(), DataError> {
    let _ends_with_this = stream.hang_up().on_drop();
    loop {
        stream.message_begins(IDLE_MAX).await?;
        stream = match shared.uploads.turn(node).await {
            Some(turn) => {
                let answered = shared.blocking(move |shared| {
                    let answered = answer(shared, stream);
                    drop(turn);
                    answered
                });
                answered.await?
            }
            None => {
                // So many threads and no more: whoever finds none free is hung up on.
                let Ok(_place) = shared.uploads.refusals().try_acquire() else { return Ok(()) };
                shared.blocking(move |_| refuse(stream)).await?
            }
        };
    }
}

fn refuse(mut stream: DataStream) -> Result<DataStream, DataError> {
    stream.end_at(Some(Instant::now() + REQUEST_WITHIN));
    stream.receive::<DataRequest>(REQUEST_WITHIN)?;
    stream.send::<DataReply>(&Err(FetchRefusal::Busy))?;
    Ok(stream)
}

/// Answers what was asked, and what is asked meanwhile, for one turn.
fn answer(shared: &Arc<Shared>, mut stream: DataStream) -> Result<DataStream, DataError> {
    let mut sent = 0;
    loop {
        stream.end_at(Some(Instant::now() + REQUEST_WITHIN));
        let answer = match stream.receive(REQUEST_WITHIN)? {
            DataRequest::Manifest(hash) => manifest(shared, hash),
            DataRequest::Get { content, ranges } => ranges_of(shared, content, ranges.into_vec()),
            DataRequest::Have(content) => have(shared, content),
            DataRequest::Outline(hash) => outline(shared, hash),
        };
        sent += REQUEST_COUNTS_AS + send(shared, &mut stream, answer)?;
        stream.end_at(None);
        if sent >= TURN_BYTES || !stream.has_bytes() {
            return Ok(stream);
        }
    }
}

/// What a request is answered with.
struct Answer {
    freshness: Freshness,
    body: Body,
}

enum Body {
    Bytes(Vec<u8>),
    Ranges { file: Arc<File>, ranges: Vec<ByteRange>, len: u64 },
}

/// Sends the reply and its bytes, as fast as the limit allows; how many bytes they are.
fn send(
    shared: &Arc<Shared>,
    stream: &mut DataStream,
    answer: Result<Answer, FetchRefusal>,
) -> Result<u64, DataError> {
    let Answer { freshness, body } = match answer {
        Ok(answer) => answer,
        Err(refusal) => {
            stream.send::<DataReply>(&Err(refusal))?;
            return Ok(0);
        }
    };
    let up = shared.limit_up.as_ref();
    // With a limit of our own it is not the reader's fault if it takes long.
    let len = match &body {
        Body::Bytes(bytes) => bytes.len() as u64,
        Body::Ranges { len, .. } => *len,
    };
    let within = Duration::from_secs(30) + Duration::from_secs(len / SLOWEST_READER);
    stream.end_at(if up.is_none() { Some(Instant::now() + within) } else { None });
    let piece = up.map_or(u64::MAX, rate::Rate::piece);
    match body {
        Body::Bytes(bytes) => {
            let first = bytes.len().min(usize::try_from(piece).unwrap_or(usize::MAX));
            let (first, rest) = bytes.split_at(first);
            rate::wait_for(up, first.len() as u64);
            stream.send_with::<DataReply>(&Ok(Grant { len, freshness }), first)?;
            for part in rest.chunks(usize::try_from(piece).unwrap_or(usize::MAX)) {
                rate::wait_for(up, part.len() as u64);
                stream.send_bytes(part)?;
            }
            Ok(len)
        }
        Body::Ranges { file, ranges, .. } => {
            stream.send::<DataReply>(&Ok(Grant { len, freshness }))?;
            for range in ranges {
                let (mut at, end) = (range.offset, range.offset + range.len);
                while at < end {
                    let len = piece.min(end - at);
                    rate::wait_for(up, len);
                    stream.send_file(&file, at..at + len)?;
                    at += len;
                }
            }
            Ok(len)
        }
    }
}

fn manifest(shared: &Arc<Shared>, hash: ManifestHash) -> Result<Answer, FetchRefusal> {
    if let Some(partial) = shared.partials.with_manifest(&hash) {
        let freshness = of_partial(&partial)?;
        return Ok(Answer { freshness, body: Body::Bytes(partial.encoded.to_vec()) });
    }
    let freshness = best(shared, &shared.catalogue.with_manifest(&hash))?;
    match shared.catalogue.manifest(&hash) {
        Ok(Some(bytes)) => Ok(Answer { freshness, body: Body::Bytes(bytes) }),
        Ok(None) => Err(FetchRefusal::NotShared),
        Err(error) => {
            tracing::warn!(%error, "cannot serve a manifest");
            Err(FetchRefusal::Unreadable)
        }
    }
}

fn outline(shared: &Arc<Shared>, hash: ManifestHash) -> Result<Answer, FetchRefusal> {
    if let Some(partial) = shared.partials.with_manifest(&hash) {
        let bytes = partial.outline.as_ref().ok_or(FetchRefusal::NotShared)?.to_outline();
        return Ok(Answer { freshness: of_partial(&partial)?, body: Body::Bytes(bytes) });
    }
    let freshness = best(shared, &shared.catalogue.with_manifest(&hash))?;
    match shared.catalogue.outline(&hash) {
        Ok(Some(bytes)) => Ok(Answer { freshness, body: Body::Bytes(bytes) }),
        Ok(None) => Err(FetchRefusal::NotShared),
        Err(_) => Err(FetchRefusal::Unreadable), // it was told when the manifest was asked for
    }
}

fn ranges_of(
    shared: &Arc<Shared>,
    content: ContentHash,
    ranges: Vec<ByteRange>,
) -> Result<Answer, FetchRefusal> {
    let (file, size, freshness) = match (open(shared, &content), shared.partials.with_content(&content)) {
        (Ok((file, size, freshness)), _) => (Arc::new(file), size, freshness),
        (Err(_), Some(partial)) => {
            let freshness = of_partial(&partial)?;
            total(&ranges, partial.record.size).ok_or(FetchRefusal::BadRange)?;
            if !partial.has_all_of(&ranges) {
                return Err(FetchRefusal::NotYet);
            }
            (Arc::clone(&partial.file), partial.record.size, freshness)
        }
        (Err(refusal), None) => return Err(refusal),
    };
    let len = total(&ranges, size).filter(|len| *len <= GET_BYTES_MAX).ok_or(FetchRefusal::BadRange)?;
    if len > SHORT_BYTES {
        return Ok(Answer { freshness, body: Body::Ranges { file, ranges, len } });
    }
    let mut bytes = vec![0; usize::try_from(len).unwrap_or(usize::MAX)];
    let mut rest = bytes.as_mut_slice();
    for range in ranges {
        let (now, later) = rest.split_at_mut(usize::try_from(range.len).unwrap_or(usize::MAX));
        file.read_exact_at(now, range.offset).map_err(|_| FetchRefusal::Changed)?;
        rest = later;
    }
    Ok(Answer { freshness, body: Body::Bytes(bytes) })
}

fn have(shared: &Arc<Shared>, content: ContentHash) -> Result<Answer, FetchRefusal> {
    if let Ok((_, _, freshness)) = open(shared, &content) {
        return Ok(Answer { freshness, body: Body::Bytes(Vec::new()) });
    }
    let partial = shared.partials.with_content(&content).ok_or(FetchRefusal::NotShared)?;
    let freshness = of_partial(&partial)?;
    Ok(Answer { freshness, body: Body::Bytes(partial.have.snapshot().to_bytes()) })
}

/// How fresh a file may be called that is still being downloaded, or why it is not handed out.
fn of_partial(partial: &PartialFile) -> Result<Freshness, FetchRefusal> {
    let policy = &partial.record.policy;
    if clock::now().saturating_duration_since(partial.since) < policy.bound() {
        Ok(Freshness::Fresh)
    } else if policy.serve_stale() {
        Ok(Freshness::Unverified)
    } else {
        Err(FetchRefusal::Unverified)
    }
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
}
