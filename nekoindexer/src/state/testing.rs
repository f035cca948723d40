//! Small made-up values for the tests of this room.

use std::{
    hash::BuildHasher,
    net::SocketAddr,
    sync::{Arc, LazyLock},
    time::{Duration, Instant},
};

use nekoproto::{
    ContentHash, FileName, Holder, Identity, ListedRecord, ManifestHash, NodeTag, Policy, Record,
    VerifiedReach, Version,
};

use super::{
    holders::Listed,
    index::{Index, Session},
};

/// What the n-th made-up holder says; signing takes longer than most tests.
static REACHES: LazyLock<Vec<VerifiedReach>> = LazyLock::new(|| {
    let addr = |n: u8| SocketAddr::from(([127, 0, 0, 1], 1000 + u16::from(n)));
    (0..=u8::MAX).map(|n| Identity::from_seed(&[n; 32]).fresh_reach([addr(n)])).collect()
});

/// A made-up holder.
pub(crate) fn holder(n: u8) -> Holder {
    let reach = &REACHES[usize::from(n)];
    Holder::new(reach.node, reach.addrs[0])
}

/// A made-up holder as the own index lists it.
pub(crate) fn listed(n: u8) -> Listed {
    Listed::here(REACHES[usize::from(n)].clone(), 1, false)
}

/// A session of a made-up holder.
pub(crate) fn session<S: BuildHasher>(
    index: &Index<S>,
    n: u8,
    lease: Duration,
    now: Instant,
) -> Arc<Session> {
    let reach = REACHES[usize::from(n)].clone();
    let session = index.open_session(reach.node, lease, now);
    session.introduce(reach, 1);
    session
}

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
