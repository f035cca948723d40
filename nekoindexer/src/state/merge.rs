//! Folds answers into one: the newest version of each origin, no holder twice, within the limits, and
//! holders of all of a version before holders of a part.

use nekoproto::{
    Hit, Holder, List, ListedRecord, QueryReply,
    limits::{HITS_MAX, HOLDERS_MAX, HOLDERS_WHOLE_MIN},
};

/// A hit whose record is verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The origin's statement.
    pub record: ListedRecord,
    /// Nodes that hold exactly this version; first those that hold all of it.
    pub holders: Vec<Holder>,
}

/// An answer that is being put together.
///
/// Invariants: one entry for each origin; it is the newest version absorbed so far; at most
/// [`HITS_MAX`] entries of at most [`HOLDERS_MAX`] holders, none twice, those of a part behind.
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

/// Both, in order and within the limit. A node that somebody says to hold all of the version does.
fn distinct(mut holders: Vec<Holder>, more: Vec<Holder>) -> Vec<Holder> {
    let mut has_parts = holders.last().is_some_and(|last| last.partial);
    for holder in more {
        match holders.iter_mut().find(|known| known.is_same_source(&holder)) {
            Some(known) => known.partial &= holder.partial,
            None => {
                has_parts |= holder.partial;
                holders.push(holder);
            }
        }
    }
    if has_parts {
        order(&mut holders);
    }
    holders.truncate(HOLDERS_MAX);
    holders
}

/// Puts those that hold all of the version before the others, and leaves at most [`HOLDERS_MAX`]. Where
/// there are too many of both, the others relieve them: down to [`HOLDERS_WHOLE_MIN`] they make room.
#[inline(never)] // it is seldom needed, and large
pub(super) fn order(holders: &mut Vec<Holder>) {
    holders.sort_by_key(|holder| holder.partial);
    let whole = holders.partition_point(|holder| !holder.partial);
    let too_many = holders.len().saturating_sub(HOLDERS_MAX);
    let kept = whole - too_many.min(whole.saturating_sub(HOLDERS_WHOLE_MIN));
    holders.drain(kept..whole);
    holders.truncate(HOLDERS_MAX);
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;
    use crate::state::testing::record;

    fn holder(n: u16) -> Holder {
        let node = nekoproto::Identity::from_seed(&[u8::try_from(n % 256).unwrap(); 32]).id();
        Holder::new(node, SocketAddr::from(([127, 0, 0, 1], n + 1)))
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

    fn partial(n: u16) -> Holder {
        Holder { partial: true, ..holder(n) }
    }

    #[test]
    fn whoever_holds_all_comes_before_whoever_holds_a_part() {
        let mut merge = Merge::new(vec![Found {
            record: record(1, "a", 1),
            holders: vec![partial(1), partial(2), holder(3)],
        }]);
        merge.absorb(Found { record: record(1, "a", 1), holders: vec![partial(4), holder(5)] });
        let expected = [holder(3), holder(5), partial(1), partial(2), partial(4)];
        assert_eq!(merge.finish().hits[0].holders.to_vec(), expected);
    }

    #[test]
    fn one_word_that_a_node_holds_all_is_enough() {
        for order in [[partial(1), holder(1)], [holder(1), partial(1)]] {
            let answers = order.map(|holder| Found { record: record(1, "a", 1), holders: vec![holder] });
            let mut merge = Merge::new(Vec::new());
            answers.into_iter().for_each(|found| merge.absorb(found));
            assert_eq!(merge.finish().hits[0].holders.to_vec(), [holder(1)]);
        }
    }

    #[test]
    fn holders_of_parts_leave_a_quarter_of_the_places_to_others() {
        // Of the whole and of parts: given and left.
        let cases = [
            ((20, 20), (4, 12)),
            ((20, 3), (13, 3)),
            ((2, 40), (2, 14)),
            ((0, 40), (0, 16)),
            ((9, 9), (7, 9)),
        ];
        for ((whole, parts), left) in cases {
            let parts = (100..100 + parts).map(partial);
            let holders = parts.chain((0..whole).map(holder)).collect();
            let kept = distinct(Vec::new(), holders);
            let whole = kept.iter().filter(|holder| !holder.partial).count();
            assert_eq!((whole, kept.len() - whole), left);
            assert!(kept.is_sorted_by_key(|holder| holder.partial));
        }
    }
}
