//! Upload turns: who sends now, who waits, and who gives way when there are too many.
//!
//! A turn is sending, waiting to send, or blocked: its reader takes no bytes at the moment. Only those that send are
//! few; a blocked one needs neither a thread nor a slot. The next to send is of the address, then of the reader, that
//! sends least.

use std::{collections::HashMap, net::IpAddr};

use nekoproto::transport::slots::SlotOwner;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) sending: usize,
    pub(crate) all: usize,
    pub(crate) each: usize,
}

pub(crate) type TurnId = u64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Waiting,
    Sending,
    Blocked,
}

#[derive(Debug)]
struct Turn {
    id: TurnId,
    reader: SlotOwner,
    phase: Phase,
    /// When its phase began: a count of changes.
    since: u64,
}

#[derive(Debug)]
pub(crate) struct UploadTurns {
    limits: Limits,
    turns: Vec<Turn>,
    changes: u64,
}

impl UploadTurns {
    pub(crate) const fn new(limits: Limits) -> Self {
        Self { limits, turns: Vec::new(), changes: 0 }
    }

    /// A new turn, which waits. If there are too many, one of the address and reader with the most gives way: one that
    /// is blocked, the longest first, or else one that waits, the last first. `None` if the reader has too many, or
    /// nobody has more.
    pub(crate) fn ask(&mut self, reader: SlotOwner) -> Option<TurnId> {
        if self.turns.iter().filter(|turn| turn.reader.node == reader.node).count() >= self.limits.each {
            return None;
        }
        if self.turns.len() >= self.limits.all {
            let place = self.least_worthy(reader)?;
            self.turns.swap_remove(place);
        }
        self.changes += 1;
        let id = self.changes;
        self.turns.push(Turn { id, reader, phase: Phase::Waiting, since: id });
        Some(id)
    }

    /// Lets the next one send, if another may.
    pub(crate) fn next(&mut self) -> Option<TurnId> {
        if self.count(Phase::Sending) >= self.limits.sending || self.count(Phase::Waiting) == 0 {
            return None;
        }
        let sending = self.shares(|turn| turn.phase == Phase::Sending);
        let waiting = self.turns.iter().enumerate().filter(|(_, turn)| turn.phase == Phase::Waiting);
        let (place, _) = waiting.min_by_key(|(_, turn)| (sending.of(turn.reader), turn.since))?;
        self.turns[place].phase = Phase::Sending;
        Some(self.turns[place].id)
    }

    /// `id` waits again, or is blocked.
    pub(crate) fn becomes(&mut self, id: TurnId, phase: Phase) {
        self.changes += 1;
        let since = self.changes;
        if let Some(turn) = self.turns.iter_mut().find(|turn| turn.id == id) {
            (turn.phase, turn.since) = (phase, since);
        }
    }

    /// What `id` does; `None` if it had to give way.
    pub(crate) fn phase(&self, id: TurnId) -> Option<Phase> {
        self.turns.iter().find(|turn| turn.id == id).map(|turn| turn.phase)
    }

    pub(crate) fn end(&mut self, id: TurnId) {
        self.turns.retain(|turn| turn.id != id);
    }

    pub(crate) const fn len(&self) -> usize {
        self.turns.len()
    }

    pub(crate) fn count(&self, phase: Phase) -> usize {
        self.turns.iter().filter(|turn| turn.phase == phase).count()
    }

    fn least_worthy(&self, newcomer: SlotOwner) -> Option<usize> {
        let shares = self.shares(|_| true);
        let turns = || self.turns.iter().enumerate();
        let blocked = turns().filter(|(_, turn)| turn.phase == Phase::Blocked);
        let (of_site, of_node) = shares.of(newcomer);
        let has_more = |turn: &Turn| match shares.of(turn.reader) {
            (_, theirs) if turn.reader.site == newcomer.site => theirs > of_node + 1,
            (theirs, _) => theirs > of_site + 1,
        };
        let waiting = turns().filter(|(_, turn)| turn.phase == Phase::Waiting && has_more(turn));
        let blocked = blocked.max_by_key(|(_, turn)| (shares.of(turn.reader), u64::MAX - turn.since));
        let found = blocked.or_else(|| waiting.max_by_key(|(_, turn)| (shares.of(turn.reader), turn.since)));
        found.map(|(place, _)| place)
    }

    fn shares(&self, counts: impl Fn(&Turn) -> bool) -> Shares {
        let mut shares = Shares::default();
        for turn in self.turns.iter().filter(|turn| counts(turn)) {
            *shares.of_node.entry(turn.reader).or_default() += 1;
            *shares.of_site.entry(turn.reader.site).or_default() += 1;
        }
        shares
    }
}

/// How many turns each has.
#[derive(Default)]
struct Shares {
    of_site: HashMap<IpAddr, usize>,
    of_node: HashMap<SlotOwner, usize>,
}

impl Shares {
    /// Those of the reader's address, and its own.
    fn of(&self, reader: SlotOwner) -> (usize, usize) {
        let of_site = self.of_site.get(&reader.site).copied().unwrap_or(0);
        (of_site, self.of_node.get(&reader).copied().unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use nekoproto::NodeId;

    use super::*;

    const LIMITS: Limits = Limits { sending: 2, all: 6, each: 3 };

    fn reader(node: u8, ip: [u8; 4]) -> SlotOwner {
        SlotOwner::at(ip.into(), Some(NodeId::from_bytes([node; 32])))
    }

    fn here(node: u8) -> SlotOwner {
        reader(node, [127, 0, 0, 1])
    }

    #[test]
    fn the_next_is_of_the_address_and_of_the_reader_that_sends_least() {
        let mut turns = UploadTurns::new(Limits { sending: 3, all: 9, each: 9 });
        let many: Vec<_> = (1..5).map(|node| turns.ask(reader(node, [192, 0, 2, 1])).unwrap()).collect();
        let other = turns.ask(reader(9, [192, 0, 2, 2])).unwrap();
        assert_eq!([turns.next(), turns.next()], [Some(many[0]), Some(other)], "however many keys it has");
        let mut turns = UploadTurns::new(Limits { sending: 3, all: 9, each: 9 });
        let many: Vec<_> = (0..3).map(|_| turns.ask(here(1)).unwrap()).collect();
        let other = turns.ask(here(2)).unwrap();
        assert_eq!([(); 4].map(|()| turns.next()), [Some(many[0]), Some(other), Some(many[1]), None]);
        turns.end(other);
        assert_eq!(turns.next(), Some(many[2]));
    }

    #[test]
    fn blocked_ones_let_others_send_and_come_back_behind_them() {
        let mut turns = UploadTurns::new(LIMITS);
        let ids: Vec<_> = (0..3).map(|node| turns.ask(here(node)).unwrap()).collect();
        assert_eq!((turns.next(), turns.next(), turns.next()), (Some(ids[0]), Some(ids[1]), None));
        turns.becomes(ids[0], Phase::Blocked);
        assert_eq!((turns.next(), turns.next()), (Some(ids[2]), None));
        turns.becomes(ids[0], Phase::Waiting);
        turns.becomes(ids[1], Phase::Waiting);
        assert_eq!((turns.next(), turns.phase(ids[1])), (Some(ids[0]), Some(Phase::Waiting)));
    }

    #[test]
    fn a_newcomer_replaces_the_longest_blocked_of_whoever_has_most() {
        let mut turns = UploadTurns::new(LIMITS);
        let ids: Vec<_> = [1, 1, 2, 3, 4, 5].map(|node| turns.ask(here(node)).unwrap()).to_vec();
        for id in [ids[5], ids[2], ids[1], ids[0]] {
            turns.becomes(id, Phase::Blocked);
        }
        let newcomer = turns.ask(here(6)).unwrap();
        assert_eq!((turns.phase(ids[1]), turns.phase(ids[0])), (None, Some(Phase::Blocked)));
        turns.ask(here(7)).unwrap();
        assert_eq!(turns.phase(ids[5]), None, "now each has one");
        assert!(turns.phase(newcomer).is_some() && turns.phase(ids[3]).is_some());
    }

    #[test]
    fn without_a_blocked_one_whoever_has_more_gives_way_and_nobody_else() {
        let mut turns = UploadTurns::new(LIMITS);
        let ids: Vec<_> = [1, 1, 1, 2, 3, 4].map(|node| turns.ask(here(node)).unwrap()).to_vec();
        assert_eq!(turns.ask(here(1)), None, "it has its share");
        turns.ask(here(5)).unwrap();
        assert_eq!(turns.phase(ids[2]), None);
        turns.ask(here(6)).unwrap();
        assert_eq!(turns.phase(ids[1]), None);
        assert_eq!((turns.ask(here(7)), turns.phase(ids[0])), (None, Some(Phase::Waiting)), "each has one");
    }
}
