//! Small made-up values for the tests of this room.

use nekoproto::{
    ContentHash, FileName, Identity, ListedRecord, ManifestHash, NodeTag, Policy, Record, Version,
};

/// The tag of the n-th made-up node.
pub(crate) fn tag(n: usize) -> NodeTag {
    let mut seed = [0; 32];
    seed[..8].copy_from_slice(&n.to_le_bytes());
    Identity::from_seed(&seed).id().tag()
}

/// A version of a file of a made-up origin.
pub(crate) fn record(origin: u8, name: &str, version: u64) -> ListedRecord {
    let origin = Identity::from_seed(&[origin; 32]);
    let record = Record {
        origin: origin.id(),
        name: FileName::new(name).unwrap(),
        version: Version::new(version).unwrap(),
        size: version,
        content: ContentHash::from_bytes([u8::try_from(version % 256).unwrap(); 32]),
        manifest: ManifestHash::from_bytes([0; 32]),
        policy: Policy::default(),
        published_ms: 1_795_000_000_000,
    };
    record.sign(&origin).unwrap().into()
}
