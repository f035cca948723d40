//! Records of nobody's files, each signed as it must be.

use crate::prelude::*;

use super::peer::record;

/// Where nobody is: the addresses that RFC 5737 keeps for documentation.
const NOWHERE: [u8; 4] = [192, 0, 2, 1];

/// Origins with made-up holders, as many of both as an answer holds.
#[derive(Debug)]
pub struct Junk {
    origins: Vec<(Identity, List<ListedHolder, HOLDERS_MAX>)>,
    answers: AtomicU64,
}

impl Junk {
    pub(super) fn new() -> Self {
        let at = SocketAddr::from((NOWHERE, 9));
        let holder = |_| ListedHolder::new(NodeAddrs::new(Identity::generate().id(), [at]));
        let origin = |_| (Identity::generate(), List::first_of((0..HOLDERS_MAX).map(holder)));
        Self { origins: (0..HITS_MAX).map(origin).collect(), answers: AtomicU64::new(0) }
    }

    /// An answer whose records nobody has checked before.
    pub(super) fn reply(&self, name: &FileName) -> QueryReply {
        let published_ms = self.answers.fetch_add(1, Ordering::Relaxed);
        let hit = |(origin, holders): &(Identity, List<ListedHolder, HOLDERS_MAX>)| {
            let (content, manifest) = (ContentHash::from_bytes([3; 32]), ManifestHash::from_bytes([4; 32]));
            let record = record(origin, name.clone(), published_ms + 1, content, manifest).ok()?;
            Some(Hit { record, holders: holders.clone() })
        };
        let hits = List::first_of(self.origins.iter().filter_map(hit));
        QueryReply { hits, complete: true, ..QueryReply::default() }
    }
}
