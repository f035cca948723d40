//! Files made up for tests: bytes, manifest and signed record, for scripted holders.

use crate::prelude::*;

use crate::{
    rogue::ScriptedReply,
    values::{file, identity, name},
};

pub const MIB: usize = 1024 * 1024;
/// Length of each chunk except the last, in bytes.
pub const CHUNK_BYTES: usize = 64 * 1024;

/// Bytes that do not repeat; equal for equal seeds.
pub fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut bytes);
    bytes
}

pub fn record(origin: u16, text: &str, version: u64, change: impl FnOnce(&mut Record)) -> VerifiedRecord {
    let mut record = Record { size: 1, ..file(origin, name(text), version) };
    change(&mut record);
    record.sign(&identity(origin)).unwrap()
}

/// A version whose content and manifest are made of one byte.
pub fn of_content(origin: u16, text: &str, version: u64, content: u8) -> VerifiedRecord {
    record(origin, text, version, |record| {
        record.content = ContentHash::from_bytes([content; 32]);
        record.manifest = ManifestHash::from_bytes([content; 32]);
    })
}

/// One version of a file that no peer published.
#[derive(Clone)]
pub struct Goods {
    pub bytes: Vec<u8>,
    pub manifest: Vec<u8>,
    pub record: VerifiedRecord,
}

impl Goods {
    pub fn new(origin: u16, text: &str, version: u64, bytes: Vec<u8>) -> Self {
        Self::with(origin, text, version, bytes, |_| {})
    }

    pub fn with(
        origin: u16,
        text: &str,
        version: u64,
        bytes: Vec<u8>,
        change: impl FnOnce(&mut Record),
    ) -> Self {
        let hash = |bytes: &[u8]| ChunkHash::from_bytes(*blake3::hash(bytes).as_bytes());
        let chunk = |bytes: &[u8]| Chunk { len: u32::try_from(bytes.len()).unwrap(), hash: hash(bytes) };
        let manifest = Manifest::new(bytes.chunks(CHUNK_BYTES).map(chunk).collect()).unwrap();
        let (manifest, manifest_hash) = manifest.encode().unwrap();
        let record = record(origin, text, version, |record| {
            record.size = bytes.len() as u64;
            record.content = ContentHash::from_bytes(*blake3::hash(&bytes).as_bytes());
            record.manifest = manifest_hash;
            change(record);
        });
        Self { bytes, manifest, record }
    }

    pub fn asked(&self, request: &DataRequest) -> Vec<u8> {
        let at = |offset: u64| usize::try_from(offset).unwrap();
        match request {
            DataRequest::Manifest(_) => self.manifest.clone(),
            // All chunks, no outboard, and no verdict; what is asked for packed is shown as what it stands for.
            DataRequest::Have(_)
            | DataRequest::Outboard(_)
            | DataRequest::Confirm(_)
            | DataRequest::Packed { .. } => Vec::new(),
            DataRequest::Get { ranges, .. } => ranges
                .iter()
                .flat_map(|range| &self.bytes[at(range.offset)..at(range.offset + range.len)])
                .copied()
                .collect(),
        }
    }

    pub fn honest(&self, request: &DataRequest) -> ScriptedReply {
        ScriptedReply::of(self.asked(request))
    }
}
