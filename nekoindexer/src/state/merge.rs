//! Folds answers into one: the newest version of each origin, no holder twice, within the limits, and
//! holders of all of a version before holders of a part.

use std::{cmp::Ordering, net::IpAddr};

use nekoproto::{
    Hit, Holder, List, ListedRecord, QueryReply,
    budget::site_of,
    limits::{HITS_MAX, HOLDERS_MAX},
};

use super::holders::{Listed, add_holders, distinct, sent};

/// Hits of one guest that are looked at: more than a name has origins in most networks, and few signatures to check.
pub const GUEST_HITS_MAX: usize = HITS_MAX / 4;

/// A hit whose record is verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The origin's statement.
    pub record: ListedRecord,
    /// Nodes that hold exactly this version; first those that hold all of it, guests' last.
    pub holders: Vec<Listed>,
}

impl Found {
    /// Its holders, at each of their addresses.
    #[must_use]
    pub fn at(&self) -> Vec<Holder> {
        self.holders.iter().flat_map(Listed::holders).collect()
    }

    /// Where its first holder is.
    fn site(&self) -> Option<IpAddr> {
        self.holders.first()?.at.addrs().first().map(|addr| site_of(addr.ip()))
    }

    /// As it is sent.
    #[must_use]
    pub fn into_hit(self) -> Hit {
        Hit { record: self.record.into_signed(), holders: sent(self.holders) }
    }
}

/// An answer that is being put together.
///
/// Invariants: one entry for each origin, or two if its newest number stands for several files (those of the
/// highest rank); it is the newest version absorbed so far; at most [`HITS_MAX`] entries of at most
/// [`HOLDERS_MAX`] holders, none twice, those of a part behind, and behind
/// all of them those that guests name.
#[derive(Debug)]
pub struct Merge {
    found: Vec<Found>,
    complete: bool,
    guests_unheard: bool,
    messages: u32,
}

impl Merge {
    /// Begins with what this indexer itself found.
    #[must_use]
    pub fn new(local: Vec<Found>) -> Self {
        let mut merge = Self { found: Vec::new(), complete: true, guests_unheard: false, messages: 0 };
        if let [Found { holders, .. }] = local.as_slice()
            && holders.len() == 1
        {
            merge.found = local; // as nearly always: there is nothing to merge
        } else {
            local.into_iter().for_each(|found| merge.absorb(found));
        }
        merge
    }

    /// Adds one hit.
    pub fn absorb(&mut self, found: Found) {
        let known = self.found.iter().position(|known| known.record.same_file(&found.record));
        let Some(place) = known else { return self.add(found) };
        let known = &mut self.found[place];
        match found.record.version.cmp(&known.record.version) {
            Ordering::Less => {}
            Ordering::Equal if !found.record.contradicts(&known.record) => {
                add_holders(&mut known.holders, found.holders)
            }
            Ordering::Equal => self.contest(place, found),
            Ordering::Greater => {
                self.found.retain(|known| !known.record.same_file(&found.record));
                self.add(found);
            }
        }
    }

    fn add(&mut self, found: Found) {
        if self.found.len() >= HITS_MAX {
            self.complete = false;
            let Some(place) = self.gives_way_to(&found) else { return };
            self.found.remove(place);
        }
        self.found.push(Found { holders: distinct(Vec::new(), found.holders), ..found });
    }

    /// Which hit is left out for this one: the last of the site that has most, if its own has fewer. Many keys at one
    /// address hide nobody at another.
    fn gives_way_to(&self, found: &Found) -> Option<usize> {
        let own = found.site()?;
        let sites: Vec<_> = self.found.iter().map(Found::site).collect();
        let count = |site: &Option<IpAddr>| sites.iter().filter(|other| *other == site).count();
        let busiest = sites.iter().flatten().copied().max_by_key(|site| count(&Some(*site)))?;
        let is_more = count(&Some(busiest)) > count(&Some(own)) + 1;
        is_more.then(|| sites.iter().rposition(|site| *site == Some(busiest)))?
    }

    /// Adds a hit that contradicts the one at `place`, the first of its file. The two that rank first stay:
    /// whoever asks sees that the number stands for two files, and prefers the same one as all others.
    fn contest(&mut self, place: usize, found: Found) {
        let others = &self.found[place + 1..];
        let Some(second) = others.iter().position(|other| other.record.same_file(&found.record)) else {
            return self.add(found);
        };
        let second = place + 1 + second;
        if !self.found[second].record.contradicts(&found.record) {
            return add_holders(&mut self.found[second].holders, found.holders);
        }
        let is_last = self.found[place].record.outranks(&self.found[second].record);
        let last = &mut self.found[if is_last { second } else { place }];
        if found.record.outranks(&last.record) {
            *last = Found { holders: distinct(Vec::new(), found.holders), ..found };
        }
    }

    /// Adds what each of the `guests` found, behind all else: their holders take free places only, in turns, and what
    /// has no room for them is no less complete. A later version that its origin signed counts, whoever shows it.
    pub fn absorb_guests(&mut self, guests: &[Vec<Found>]) {
        let complete = self.complete;
        for found in guests.iter().flatten() {
            self.absorb(Found { record: found.record.clone(), holders: Vec::new() });
        }
        for turn in 0..HOLDERS_MAX {
            for found in guests.iter().flatten() {
                if let Some(holder) = found.holders.get(turn) {
                    self.fill(&found.record, holder);
                }
            }
        }
        self.complete = complete;
    }

    /// Adds a holder where a place is free, without changing what is known of others.
    fn fill(&mut self, record: &ListedRecord, holder: &Listed) {
        let is_same = |known: &Found| {
            known.record.same_file(record)
                && known.record.version == record.version
                && !known.record.contradicts(record)
        };
        let Some(known) = self.found.iter_mut().find(|known| is_same(known)) else { return };
        let holders = &mut known.holders;
        if holders.len() < HOLDERS_MAX && !holders.iter().any(|known| known.is_same_source(holder)) {
            holders.push(holder.clone()); // behind those of others, also behind their parts: whoever takes a few takes those
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

    /// Some guest was not asked, or not waited for.
    pub const fn guests_are_unheard(&mut self) {
        self.guests_unheard = true;
    }

    /// The answer.
    #[must_use]
    pub fn finish(self) -> QueryReply {
        let hits = self.found.into_iter().map(Found::into_hit);
        QueryReply {
            hits: List::first_of(hits),
            complete: self.complete,
            guests_unheard: self.guests_unheard,
            messages: self.messages,
            trace: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nekoproto::{NodeAddrs, Via};

    use crate::state::testing::{SENDER, holder, listed, record, signed};

    fn found(origin: u8, version: u64, holders: &[u8]) -> Found {
        Found { record: record(origin, "a", version), holders: holders.iter().map(|n| listed(*n)).collect() }
    }

    fn merged(found: impl IntoIterator<Item = Found>) -> QueryReply {
        let mut merge = Merge::new(Vec::new());
        found.into_iter().for_each(|found| merge.absorb(found));
        merge.finish()
    }

    #[test]
    fn many_origins_of_one_site_leave_room_for_another() {
        let crowd = || (1..=u8::try_from(HITS_MAX).unwrap()).map(|origin| found(origin, 1, &[origin]));
        let elsewhere = |last: u8| {
            let at = NodeAddrs::new(holder(last).node, [([192, 0, 2, last], 1).into()]);
            Found { holders: vec![Listed::here(at, Via::Nobody, false, false)], ..found(last, 1, &[]) }
        };
        let reply = merged(crowd().chain([elsewhere(200), found(100, 1, &[100]), elsewhere(201)]));
        let has = |origin: u8| reply.hits.iter().any(|hit| hit.record == record(origin, "a", 1).to_signed());
        assert_eq!((reply.hits.len(), reply.complete), (HITS_MAX, false));
        assert_eq!([200, 201, 1, 100].map(has), [true, true, true, false]);
    }

    fn holders(nodes: impl IntoIterator<Item = u8>) -> Vec<Holder> {
        nodes.into_iter().map(holder).collect()
    }

    /// Whoever is asked, in whatever order the answers come: the same two of three, and each with its holders.
    #[test]
    fn number_that_stands_for_several_files_is_shown_by_the_two_that_rank_first() {
        let contents = [1, 2, 3].map(|content| {
            let content = nekoproto::ContentHash::from_bytes([content; 32]);
            signed(1, nekoproto::Record { content, ..nekoproto::Record::clone(&record(1, "a", 2)) })
        });
        let hit = |n: usize, at: u8| Found { record: contents[n].clone(), holders: vec![listed(at)] };
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let mut merge = Merge::new(vec![found(1, 1, &[9])]);
            order.iter().for_each(|n| merge.absorb(hit(*n, 1)));
            order.iter().for_each(|n| merge.absorb(hit(*n, 2)));
            let mut hits = merge.finish().hits.into_vec();
            hits.sort_by_key(|hit| hit.record.unverified().content);
            let records: Vec<_> = hits.iter().map(|hit| hit.record.clone()).collect();
            assert_eq!(records, [contents[1].to_signed(), contents[2].to_signed()], "{order:?}");
            assert!(hits.iter().all(|hit| hit.at() == [holder(1), holder(2)]), "{order:?}");
        }
        let mut merge = Merge::new(vec![hit(0, 1), hit(1, 1)]);
        merge.absorb(found(1, 3, &[3]));
        assert_eq!(merge.finish().hits.len(), 1, "a later version ends it");
    }

    #[test]
    fn holders_of_one_version_come_together_without_repeats_and_are_bounded() {
        let reply = merged([found(1, 1, &[1, 2]), found(1, 1, &[2, 3])]);
        assert_eq!(reply.hits[0].at(), holders(1..4));
        let many = [0..50, 50..99].map(|nodes| found(1, 1, &nodes.collect::<Vec<_>>()));
        assert_eq!(merged(many).hits[0].holders.len(), HOLDERS_MAX);
        for order in [[partial(1), listed(1)], [listed(1), partial(1)]] {
            let answers = order.map(|holder| Found { record: record(1, "a", 1), holders: vec![holder] });
            let hit = &merged(answers).hits[0];
            assert_eq!(hit.at(), holders([1]), "one word that a node holds all is enough");
        }
    }

    #[test]
    fn origins_are_kept_apart_and_cut_off_with_notice() {
        let origins = u8::try_from(HITS_MAX).unwrap();
        for (count, is_complete) in [(origins, true), (origins + 1, false)] {
            let reply = merged((0..count).map(|origin| found(origin, 1, &[1])));
            assert_eq!((reply.hits.len(), reply.complete), (HITS_MAX, is_complete));
        }
    }

    /// Whoever answers first: a guest that replays a record with made-up holders pushes nobody out.
    #[test]
    fn holders_that_guests_name_take_the_places_that_are_left_in_turns() {
        let made_up: Vec<u8> = (100..120).collect();
        let guests = [vec![found(1, 1, &made_up)], vec![found(1, 1, &[50, 51])]];
        let mut merge = Merge::new(vec![found(1, 1, &(0..12).collect::<Vec<_>>())]);
        merge.absorb_guests(&guests);
        assert_eq!(merge.finish().hits[0].at(), holders((0..12).chain([100, 50, 101, 51])));
        let mut full = Merge::new(vec![found(1, 1, &(0..16).collect::<Vec<_>>())]);
        full.absorb_guests(&guests);
        assert_eq!(full.finish().hits[0].at(), holders(0..16));
    }

    /// The next indexer takes the first of them only: none that a guest names comes before one of others, be that of a part
    /// or the last that a neighbor named.
    #[test]
    fn holders_that_guests_name_come_last() {
        let heard = |n| heard_at(n, n);
        let mut merge = Merge::new(Vec::new());
        let holders = vec![heard(1), heard(2), heard(3), partial(4)];
        merge.absorb(Found { record: record(1, "a", 1), holders });
        let guest = Found { record: record(1, "a", 1), holders: vec![heard_at(50, 1), heard_at(51, 2)] };
        merge.absorb_guests(&[vec![guest]]);
        let expected = [holder(1), holder(2), holder(3), part(4), holder(50), holder(51)];
        assert_eq!(merge.finish().hits[0].at(), expected);
    }

    fn heard_at(n: u8, rank: u8) -> Listed {
        let place = usize::from(rank) - 1;
        let sent = (0..=place).map(|_| listed(n).into_sent());
        super::super::holders::heard(sent, HOLDERS_MAX, &[], SENDER).swap_remove(place)
    }

    #[test]
    fn hits_of_guests_push_no_hit_out_and_make_no_answer_incomplete() {
        let spam = |from| [found(from, 1, &[1])].into_iter().chain((200..=255).map(|n| found(n, 1, &[2])));
        let mut merge = Merge::new((0..30).map(|origin| found(origin, 2, &[3])).collect());
        merge.absorb_guests(&[spam(5).collect(), vec![found(100, 1, &[4])]]);
        let reply = merge.finish();
        assert_eq!((reply.hits.len(), reply.complete), (HITS_MAX, true));
        assert!(reply.hits.iter().take(30).all(|hit| hit.at() == [holder(3)]));
    }

    fn partial(n: u8) -> Listed {
        Listed::here(listed(n).at, Via::Nobody, false, true)
    }

    fn part(n: u8) -> Holder {
        Holder { partial: true, ..holder(n) }
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
            let holders = parts.chain((0..whole).map(listed)).collect();
            let kept = distinct(Vec::new(), holders);
            let whole = kept.iter().filter(|holder| !holder.partial).count();
            assert_eq!((whole, kept.len() - whole), left);
            assert!(kept.is_sorted_by_key(|holder| holder.partial));
        }
    }
}
