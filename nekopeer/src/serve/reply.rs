//! The reply to one data request: which bytes, and how fresh they are.

use std::{
    collections::HashMap,
    fs::File,
    sync::{Arc, Weak},
};

use nekoproto::{
    ByteRange, ContentHash, DataRequest, FetchRefusal, Freshness, Manifest, ManifestHash, codec,
    limits::UNPACKED_BYTES_MAX, transport::Remote,
};
use parking_lot::Mutex;

use super::{
    control,
    packing::Packer,
    partial_files::{PartialFile, PartialFiles},
};
use crate::{
    content::{bitfield, whole::read_parts},
    library::{Library, opened, status::Condition},
    storage::catalogue::Entry,
    util::clock,
};

/// Maximum file bytes of one request. This program's readers request at most 8 MiB and a chunk.
const GET_BYTES_MAX: u64 = 32 * 1024 * 1024;
/// A reply up to this length is read into memory and sent in one write with its header.
pub(super) const SHORT_BYTES: u64 = 64 * 1024;

pub(super) struct Reply {
    pub(super) freshness: Freshness,
    pub(super) body: Body,
}

impl Reply {
    /// Of a version that was asked for by its number.
    const fn earlier(body: Body) -> Self {
        Self { freshness: Freshness::Stale, body }
    }
}

pub(super) enum Body {
    Bytes(Arc<[u8]>),
    /// Ranges of files, one after the other.
    Parts {
        parts: Vec<(Arc<File>, ByteRange)>,
        len: u64,
    },
}

impl Body {
    pub(super) fn len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Parts { len, .. } => *len,
        }
    }
}

/// Manifests and outboards that are being sent. However many readers there are, and however slow, one is in memory
/// once; one is read at a time.
#[derive(Debug, Default)]
pub(super) struct InMemory(Mutex<BytesBeingSent>);

type BytesBeingSent = HashMap<(Kind, ManifestHash), Weak<[u8]>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Manifest,
    Outboard,
}

impl InMemory {
    fn get<E>(
        &self,
        key: (Kind, ManifestHash),
        read: impl FnOnce() -> Result<Option<Vec<u8>>, E>,
    ) -> Result<Option<Arc<[u8]>>, E> {
        let mut held = self.0.lock();
        if let Some(bytes) = held.get(&key).and_then(Weak::upgrade) {
            return Ok(Some(bytes));
        }
        let Some(bytes) = read()?.map(Arc::from) else { return Ok(None) };
        held.retain(|_, bytes| bytes.strong_count() > 0);
        held.insert(key, Arc::downgrade(&bytes));
        Ok(Some(bytes))
    }
}

/// The reply to the `request` of `reader`, or the refusal. Blocking.
pub(super) fn reply(
    library: &Library,
    partial_files: &PartialFiles,
    in_memory: &InMemory,
    packer: &Packer,
    reader: &Remote,
    request: DataRequest,
) -> Result<Reply, FetchRefusal> {
    match request {
        DataRequest::Manifest(hash) => manifest(library, partial_files, in_memory, hash),
        DataRequest::Get { content, ranges } => ranges_of(library, partial_files, content, ranges.into_vec()),
        DataRequest::Have(content) => have(library, partial_files, content),
        DataRequest::Outboard(hash) => outboard(library, partial_files, in_memory, hash),
        DataRequest::Packed { content, range, bases } => {
            packed(library, partial_files, packer, content, range, &bases)
        }
        DataRequest::Confirm(held) => {
            let (verdict, is_news) =
                control::confirm(library, reader, None, &held).map_err(|_| FetchRefusal::Unreadable)?;
            control::tell_read(library, reader, is_news.then_some(&held).as_slice());
            let bytes = codec::encode(&verdict).map_err(|_| FetchRefusal::Unreadable)?;
            Ok(Reply { freshness: Freshness::Fresh, body: Body::Bytes(bytes.into()) })
        }
    }
}

fn manifest(
    library: &Library,
    partial_files: &PartialFiles,
    in_memory: &InMemory,
    hash: ManifestHash,
) -> Result<Reply, FetchRefusal> {
    if let Some(partial) = partial_files.with_manifest(&hash) {
        let freshness = of_partial(&partial)?;
        return Ok(Reply { freshness, body: Body::Bytes(Arc::clone(&partial.encoded)) });
    }
    let entries = library.catalogue.with_manifest(&hash);
    let freshness = match best(library, &entries) {
        Ok(freshness) => freshness,
        Err(refusal) => {
            let lent = library.lent.find(|record| record.manifest == hash, clock::now()).ok_or(refusal)?;
            return Ok(Reply::earlier(Body::Bytes(Arc::clone(&lent.encoded))));
        }
    };
    let Some(entry) = entries.first() else { return Err(FetchRefusal::NotShared) };
    match in_memory.get((Kind::Manifest, hash), || library.catalogue.manifest_of(entry)) {
        Ok(Some(bytes)) => Ok(Reply { freshness, body: Body::Bytes(bytes) }),
        Ok(None) => Err(FetchRefusal::NotShared),
        Err(error) => {
            tracing::warn!(%error, "cannot serve a manifest");
            Err(FetchRefusal::Unreadable)
        }
    }
}

fn outboard(
    library: &Library,
    partial_files: &PartialFiles,
    in_memory: &InMemory,
    hash: ManifestHash,
) -> Result<Reply, FetchRefusal> {
    let key = (Kind::Outboard, hash);
    if let Some(partial) = partial_files.with_manifest(&hash) {
        let freshness = of_partial(&partial)?;
        let read = || Ok(partial.outboard.as_ref().map(|outboard| outboard.to_outboard()));
        let bytes = in_memory.get(key, read)?.ok_or(FetchRefusal::NotShared)?;
        return Ok(Reply { freshness, body: Body::Bytes(bytes) });
    }
    let freshness = best(library, &library.catalogue.with_manifest(&hash))?;
    match in_memory.get(key, || library.catalogue.outboard(&hash)) {
        Ok(Some(bytes)) => Ok(Reply { freshness, body: Body::Bytes(bytes) }),
        Ok(None) => Err(FetchRefusal::NotShared),
        Err(_) => Err(FetchRefusal::Unreadable), // logged with the manifest
    }
}

fn ranges_of(
    library: &Library,
    partial_files: &PartialFiles,
    content: ContentHash,
    ranges: Vec<ByteRange>,
) -> Result<Reply, FetchRefusal> {
    let len_in =
        |size| total(&ranges, size).filter(|len| *len <= GET_BYTES_MAX).ok_or(FetchRefusal::BadRange);
    let (file, len, freshness) = match (open(library, &content), partial_files.with_content(&content)) {
        (Ok((file, size, freshness)), _) => (Arc::new(file), len_in(size)?, freshness),
        (Err(_), Some(partial)) => {
            let freshness = of_partial(&partial)?;
            let len = len_in(partial.record.size)?;
            if !partial.has_all_of(&ranges) {
                return Err(FetchRefusal::NotYet);
            }
            (Arc::clone(&partial.file), len, freshness)
        }
        (Err(refusal), None) => {
            let lent = library.lent.find(|record| record.content == content, clock::now()).ok_or(refusal)?;
            let len = len_in(lent.entry.record.size)?;
            return Ok(Reply::earlier(body(lent.parts(&ranges), len)?));
        }
    };
    let parts = ranges.into_iter().map(|range| (Arc::clone(&file), range)).collect();
    Ok(Reply { freshness, body: body(parts, len)? })
}

fn packed(
    library: &Library,
    partial_files: &PartialFiles,
    packer: &Packer,
    content: ContentHash,
    range: ByteRange,
    bases: &[ContentHash],
) -> Result<Reply, FetchRefusal> {
    if range.len > UNPACKED_BYTES_MAX {
        return Err(FetchRefusal::BadRange);
    }
    let Reply { freshness, body } = ranges_of(library, partial_files, content, vec![range])?;
    let run: Arc<[u8]> = match body {
        Body::Bytes(bytes) => bytes,
        Body::Parts { parts, .. } => read_parts(&parts).map_err(|_| FetchRefusal::Changed)?.into(),
    };
    let named = || match partial_files.with_content(&content) {
        Some(partial) => Some((partial.record.name.clone(), Arc::clone(&partial.manifest))),
        None => {
            let entry = library.catalogue.with_content(&content).into_iter().next()?;
            let encoded = library.catalogue.manifest_of(&entry).ok()??;
            Some((entry.record.name.clone(), Arc::new(Manifest::decode(&encoded).ok()?)))
        }
    };
    let bytes = packer.packed(library, content, named, range, &run, bases);
    let bytes = bytes.map_err(|_| FetchRefusal::Unreadable)?;
    Ok(Reply { freshness, body: Body::Bytes(bytes.into()) })
}

/// A short body is read at once.
fn body(parts: Vec<(Arc<File>, ByteRange)>, len: u64) -> Result<Body, FetchRefusal> {
    if len > SHORT_BYTES {
        return Ok(Body::Parts { parts, len });
    }
    let bytes = read_parts(&parts).map_err(|_| FetchRefusal::Changed)?;
    Ok(Body::Bytes(bytes.into()))
}

fn have(
    library: &Library,
    partial_files: &PartialFiles,
    content: ContentHash,
) -> Result<Reply, FetchRefusal> {
    let refusal = match open(library, &content) {
        Ok((_, _, freshness)) => return Ok(Reply { freshness, body: Body::Bytes(Arc::default()) }),
        Err(refusal) => refusal,
    };
    let Some(partial) = partial_files.with_content(&content) else {
        let has_all = library.lent.find(|record| record.content == content, clock::now()).is_some();
        let all = || Reply::earlier(Body::Bytes(Arc::default()));
        return has_all.then(all).ok_or(refusal);
    };
    let freshness = of_partial(&partial)?;
    Ok(Reply { freshness, body: Body::Bytes(bitfield::to_bytes(&partial.have.snapshot()).into()) })
}

/// The freshness of a file that is being downloaded, or why it is refused.
fn of_partial(partial: &PartialFile) -> Result<Freshness, FetchRefusal> {
    let policy = &partial.record.policy;
    if clock::now().saturating_duration_since(partial.since) < policy.bound() {
        Ok(Freshness::Fresh)
    } else if policy.serves_stale() {
        Ok(Freshness::Unverified)
    } else {
        Err(FetchRefusal::Unverified)
    }
}

/// The sum of all range lengths; `None` if there is none, one is empty, or one is outside the file.
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

/// Opens a file with this content whose stamp is unchanged since it was hashed. Blocking.
fn open(library: &Library, content: &ContentHash) -> Result<(File, u64, Freshness), FetchRefusal> {
    let entries = library.catalogue.with_content(content);
    let freshness = best(library, &entries)?;
    let mut refusal = FetchRefusal::NotShared;
    for entry in &entries {
        match opened::open_unchanged(entry) {
            Ok(file) => {
                library.reads.note(&entry.record.name);
                return Ok((file, entry.record.size, freshness));
            }
            Err(damage) => {
                library.note_changed(&entry.record.name);
                let is_missing = damage == Condition::Missing && refusal != FetchRefusal::Changed;
                refusal = if is_missing { FetchRefusal::Unreadable } else { FetchRefusal::Changed };
            }
        }
    }
    Err(refusal)
}

/// The best freshness among entries with the same bytes, or why their policies forbid serving.
fn best(library: &Library, entries: &[Arc<Entry>]) -> Result<Freshness, FetchRefusal> {
    let mut best = Err(FetchRefusal::NotShared);
    for entry in entries {
        let found = match library.freshness_of(entry) {
            Freshness::Fresh => return Ok(Freshness::Fresh),
            aged if entry.record.policy.serves_stale() => Ok(aged),
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
