//! Folds answers into one: the newest version of each origin, no holder twice, within the limits.

use nekoproto::{
    Hit, Holder, List, QueryReply, VerifiedRecord,
    limits::{HITS_MAX, HOLDERS_MAX},
};

/// A hit whose record is verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The origin's statement.
    pub record: VerifiedRecord,
    /// Nodes that hold exactly this version.
    pub holders: Vec<Holder>,
}

/// An answer in the making.
///
/// Invariants: one entry for each origin; it is the newest version absorbed so far; at most
/// [`HITS_MAX`] entries of at most [`HOLDERS_MAX`] holders, none twice.
#[derive(Debug)]
pub struct Merge {
    found: Vec<Found>,
    complete: bool,
    messages: u32,
}

impl Merge {
    /// Begins with what this indexer itself found.
    #[must_use]
    pub fn new(local: Vec<Found>) -> Self {
        let mut merge = Self { found: Vec::new(), complete: true, messages: 0 };
        local.into_iter().for_each(|found| merge.absorb(found));
        merge
    }

    /// Adds one hit.
    pub fn absorb(&mut self, found: Found) {
        let room = self.found.len() < HITS_MAX;
        let known = self.found.iter_mut().find(|known| known.record.same_file(&found.record));
        match known {
            Some(known) if found.record.version > known.record.version => {
                *known = Found { record: found.record, holders: distinct(Vec::new(), found.holders) };
            }
            // An origin that signs one version twice is answered by what came first.
            Some(known) if found.record == known.record => {
                known.holders = distinct(std::mem::take(&mut known.holders), found.holders);
            }
            Some(_) => {}
            None if room => {
                self.found.push(Found { record: found.record, holders: distinct(Vec::new(), found.holders) });
            }
            None => self.complete = false,
        }
    }

    /// Whether nothing was found yet.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Counts query messages sent for this answer.
    pub const fn count_messages(&mut self, messages: u32) {
        self.messages = self.messages.saturating_add(messages);
    }

    /// Someone in reach did not answer, or not fully: the answer is not complete.
    pub const fn lacks_something(&mut self) {
        self.complete = false;
    }

    /// The answer.
    #[must_use]
    pub fn finish(self) -> QueryReply {
        let hits = self
            .found
            .into_iter()
            .map(|found| Hit { record: found.record.into_signed(), holders: List::first_of(found.holders) });
        QueryReply { hits: List::first_of(hits), complete: self.complete, messages: self.messages }
    }
}

fn distinct(mut holders: Vec<Holder>, more: Vec<Holder>) -> Vec<Holder> {
    for holder in more {
        if holders.len() < HOLDERS_MAX && !holders.contains(&holder) {
            holders.push(holder);
        }
    }
    holders
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;
    use crate::state::testing::record;

    fn holder(n: u16) -> Holder {
        let node = nekoproto::Identity::from_seed(&[u8::try_from(n % 256).unwrap(); 32]).id();
        Holder { node, addr: SocketAddr::from(([127, 0, 0, 1], n + 1)) }
    }

    fn found(origin: u8, version: u64, holders: &[u16]) -> Found {
        Found { record: record(origin, "a", version), holders: holders.iter().map(|n| holder(*n)).collect() }
    }

    #[test]
    fn newest_version_wins_in_any_order() {
        let all = [found(1, 1, &[1]), found(1, 3, &[3]), found(1, 2, &[2])];
        for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2], [1, 2, 0]] {
            let mut merge = Merge::new(Vec::new());
            order.iter().for_each(|i| merge.absorb(all[*i].clone()));
            let reply = merge.finish();
            assert_eq!(reply.hits.len(), 1);
            assert_eq!(reply.hits[0].record.unverified().version.get(), 3);
            assert_eq!(reply.hits[0].holders.to_vec(), [holder(3)]);
        }
    }

    #[test]
    fn holders_of_one_version_come_together_without_repeats() {
        let mut merge = Merge::new(vec![found(1, 1, &[1, 2])]);
        merge.absorb(found(1, 1, &[2, 3]));
        assert_eq!(merge.finish().hits[0].holders.to_vec(), [holder(1), holder(2), holder(3)]);
    }

    #[test]
    fn origins_are_kept_apart_and_cut_off_with_notice() {
        let mut merge = Merge::new(Vec::new());
        let origins = u8::try_from(HITS_MAX).unwrap();
        (0..origins).for_each(|origin| merge.absorb(found(origin, 1, &[1])));
        assert!(merge.complete);
        merge.absorb(found(origins, 1, &[1]));
        let reply = merge.finish();
        assert_eq!((reply.hits.len(), reply.complete), (HITS_MAX, false));
    }

    #[test]
    fn holders_are_bounded() {
        let mut merge = Merge::new(vec![found(1, 1, &(0..50).collect::<Vec<_>>())]);
        merge.absorb(found(1, 1, &(50..99).collect::<Vec<_>>()));
        assert_eq!(merge.finish().hits[0].holders.len(), HOLDERS_MAX);
    }
}
