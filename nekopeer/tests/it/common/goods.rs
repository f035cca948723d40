//! Files made up for tests: bytes, manifest and signed record, for scripted holders.

use nekoproto::{
    Chunk, ChunkHash, ContentHash, DataRequest, Identity, Manifest, Policy, Record, SignedRecord,
    VerifiedRecord, Version, codec,
};

use super::{ScriptedReply, name};

/// Length of each chunk except the last, in bytes.
pub(crate) const CHUNK_BYTES: usize = 64 * 1024;

/// One version of a file that no peer published.
#[derive(Clone)]
pub(crate) struct Goods {
    pub(crate) bytes: Vec<u8>,
    pub(crate) manifest: Vec<u8>,
    pub(crate) record: VerifiedRecord,
}

impl Goods {
    /// Version `version` of `text`, signed by `origin`.
    pub(crate) fn new(origin: &Identity, text: &str, version: u64, bytes: Vec<u8>) -> Self {
        Self::with(origin, text, version, bytes, |_| {})
    }

    /// As [`new`](Self::new), with a change to the record before it is signed.
    pub(crate) fn with(
        origin: &Identity,
        text: &str,
        version: u64,
        bytes: Vec<u8>,
        change: impl FnOnce(&mut Record),
    ) -> Self {
        let hash = |bytes: &[u8]| ChunkHash::from_bytes(*blake3::hash(bytes).as_bytes());
        let chunk = |bytes: &[u8]| Chunk { len: u32::try_from(bytes.len()).unwrap(), hash: hash(bytes) };
        let manifest = Manifest::new(bytes.chunks(CHUNK_BYTES).map(chunk).collect()).unwrap();
        let (manifest, manifest_hash) = manifest.encode().unwrap();
        let mut record = Record {
            origin: origin.id(),
            name: name(text),
            version: Version::new(version).unwrap(),
            size: bytes.len() as u64,
            content: ContentHash::from_bytes(*blake3::hash(&bytes).as_bytes()),
            manifest: manifest_hash,
            policy: Policy::default(),
            published_ms: 1_795_000_000_000,
        };
        change(&mut record);
        Self { bytes, manifest, record: record.sign(origin).unwrap() }
    }

    /// The bytes that an honest holder sends for `request`.
    pub(crate) fn asked(&self, request: &DataRequest) -> Vec<u8> {
        asked(&self.bytes, &self.manifest, request)
    }

    /// The reply of an honest holder.
    pub(crate) fn honest(&self, request: &DataRequest) -> ScriptedReply {
        ScriptedReply::of(self.asked(request))
    }
}

/// The bytes requested of the file `bytes` with this encoded manifest.
pub(crate) fn asked(bytes: &[u8], manifest: &[u8], request: &DataRequest) -> Vec<u8> {
    let at = |offset: u64| usize::try_from(offset).unwrap();
    match request {
        DataRequest::Manifest(_) => manifest.to_vec(),
        DataRequest::Have(_) | DataRequest::Outboard(_) => Vec::new(), // all chunks, and no outboard
        DataRequest::Get { ranges, .. } => ranges
            .iter()
            .flat_map(|range| &bytes[at(range.offset)..at(range.offset + range.len)])
            .copied()
            .collect(),
    }
}

/// Version `version` of the file of `genuine`, with a record that is right except for the signature, which
/// is another node's.
pub(crate) fn forged(genuine: &Record, version: u64) -> SignedRecord {
    let forger = super::identity(99);
    let record = Record { origin: forger.id(), version: Version::new(version).unwrap(), ..genuine.clone() };
    let mut bytes = codec::encode(record.sign(&forger).unwrap().signed()).unwrap();
    bytes[1..33].copy_from_slice(genuine.origin.as_bytes()); // the origin is the first field, after its length
    let forged: SignedRecord = codec::decode(&bytes).unwrap();
    assert_eq!(forged.unverified().origin, genuine.origin);
    forged
}
