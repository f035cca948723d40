//! What one neighbor advertises to us over one connection: its own names, and the neighbors that it trusts.

use std::time::Instant;

use nekoproto::{
    NodeTag,
    budget::Reservation,
    summary::{Assembly, Change, Filter, FilterPart, SummaryNews},
};

use super::{CURRENT_FOR, Position};

/// What one neighbor advertises to us over one connection.
#[derive(Debug, Default)]
pub struct TheirSummary {
    /// Number of the last message with changes.
    taken: u64,
    /// A moment at which all of it was up to date.
    confirmed: Option<Instant>,
    names: Option<Filter>,
    /// The neighbors that it trusts; `None`: not known, or too many.
    neighbors: Option<Vec<NodeTag>>,
    /// A filter that arrives in parts.
    arriving: Option<(Position, Assembly)>,
    reserved: Reservation,
}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Took {
    /// It was taken in.
    All,
    /// It does not follow on what was taken in: the sender has to begin anew.
    Gap,
    /// There is no room for it: all is forgotten, so that the sender is asked for everything.
    NoRoom,
}

impl TheirSummary {
    /// Nothing was advertised yet; what is will be taken of `reserved`.
    #[must_use]
    pub fn new(reserved: Reservation) -> Self {
        Self { reserved, ..Self::default() }
    }

    /// Forgets all but the number of the last message.
    fn begin_anew(&mut self, taken: u64) {
        let reserved = std::mem::take(&mut self.reserved);
        *self = Self { taken, reserved, ..Self::default() };
    }

    /// Takes in a message. `dated`: a moment before it was sent.
    pub fn take(&mut self, news: SummaryNews, dated: Option<Instant>) -> Took {
        let next = self.taken.saturating_add(u64::from(!news.changes.is_empty()));
        if news.begins && news.number > self.taken {
            self.begin_anew(news.number);
        } else if news.number == next && !news.begins {
            self.taken = next;
        } else {
            return Took::Gap; // late, or something before it is missing
        }
        for change in news.changes {
            let is_applied = self.change(change);
            // After each change: a message may bring more filters than there is room for.
            let has_room = self.reserved.set(self.bytes()).is_ok();
            if !is_applied || !has_room {
                self.begin_anew(self.taken);
                let _ = self.reserved.set(0); // less than before
                return if has_room { Took::Gap } else { Took::NoRoom };
            }
        }
        if let (true, Some(dated)) = (news.is_all, dated) {
            self.confirm(news.number, dated);
        }
        Took::All
    }

    /// All up to message `number` was up to date at `at`, says the neighbor; 0 says nothing.
    pub fn confirm(&mut self, number: u64, at: Instant) {
        if number != 0 && number == self.taken {
            self.confirmed = self.confirmed.max(Some(at));
        }
    }

    /// Bytes of all of it; a filter that arrives takes twice its words when all of it is there, as they are copied once.
    fn bytes(&self) -> usize {
        let words = self.names.as_ref().map_or(0, Filter::words);
        let arriving = self.arriving.as_ref().map_or(0, |(_, assembly)| 2 * assembly.words());
        let tags = self.neighbors.as_ref().map_or(0, Vec::len);
        size_of::<u64>() * (words + arriving) + size_of::<NodeTag>() * tags
    }

    /// Until when it may be relied on; `None`: not at all.
    #[must_use]
    pub fn current_until(&self) -> Option<Instant> {
        self.confirmed.map(|confirmed| confirmed + CURRENT_FOR)
    }

    /// Whether it may be relied on.
    #[must_use]
    pub fn is_current(&self, now: Instant) -> bool {
        self.current_until().is_some_and(|until| now < until)
    }

    /// Its names.
    #[must_use]
    pub const fn names(&self) -> Option<&Filter> {
        self.names.as_ref()
    }

    /// Whom it trusts, but not the node `me`, whose neighbors are `mine`, sorted; `None` if it may ask anybody.
    #[must_use]
    pub fn beyond(&self, me: NodeTag, mine: &[NodeTag]) -> Option<Vec<NodeTag>> {
        let is_ours = |tag: &NodeTag| *tag == me || mine.binary_search(tag).is_ok();
        Some(self.neighbors.as_ref()?.iter().filter(|tag| !is_ours(tag)).copied().collect())
    }

    /// False if it cannot be applied.
    fn change(&mut self, change: Change) -> bool {
        match change {
            Change::Filter { epoch, count, part } => return self.arrive(Position { epoch, count }, &part),
            Change::Added(keys) => {
                let Some(names) = &self.names else { return false };
                keys.iter().for_each(|key| names.insert(*key));
            }
            Change::Neighbors(tags) => self.neighbors = Some(tags.into_vec()),
            Change::ManyNeighbors => self.neighbors = None,
        }
        true
    }

    fn arrive(&mut self, position: Position, part: &FilterPart) -> bool {
        if part.at == 0 {
            self.arriving = Assembly::begin(part).map(|assembly| (position, assembly));
        }
        let Some((of, mut assembly)) = self.arriving.take() else { return false };
        if of != position || !assembly.add(part) {
            return false;
        }
        match assembly.finish() {
            Ok(filter) => self.names = Some(filter),
            Err(assembly) => self.arriving = Some((position, assembly)),
        }
        true
    }
}
