//! What one neighbor advertises to us over one connection: its own names, and those of nodes behind it.

use std::{collections::BTreeMap, sync::Arc, time::Instant};

use nekoproto::{
    NodeTag,
    limits::COVERED_MAX,
    summary::{Assembly, Change, Filter, FilterPart, NameKey, SummaryNews, What},
};

use super::{
    super::tab::Tab,
    Position, RELAYED_HOPS, Source, TRUSTED_FOR,
    relay::{RELAYED_MAX, RELAYED_WORDS_MAX, Relayed},
};

/// Latest names of a neighbor's summary that are remembered, to be passed on.
const LOG_MAX: usize = 512;

/// What one neighbor advertises to us over one connection.
#[derive(Debug, Default)]
pub struct TheirSummary {
    /// Number of the last message with changes.
    taken: u64,
    /// A moment at which all of it was up to date.
    confirmed: Option<Instant>,
    own: Option<Arc<KnownSummary>>,
    /// The summaries that it passes on, by node.
    behind: BTreeMap<NodeTag, Arc<KnownSummary>>,
    /// Its neighbors that are neither ours nor this node: whom it can ask and we do not.
    beyond: Vec<NodeTag>,
    /// Something of it is to be passed on to another neighbor of ours.
    is_passed_on: bool,
    /// A filter that arrives in parts.
    arriving: Option<Arriving>,
    /// What all of it takes.
    tab: Tab,
}

#[derive(Debug)]
struct Arriving {
    of: NodeTag,
    position: Position,
    neighbors: Arc<[NodeTag]>,
    assembly: Assembly,
}

/// The summary of one node.
#[derive(Clone, Debug)]
pub struct KnownSummary {
    source: Source,
    /// Hops from the neighbor that advertises it to its node.
    hops: u8,
    /// The neighbors of its node, sorted.
    neighbors: Arc<[NodeTag]>,
}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Took {
    /// It was taken in, and says something new.
    News,
    /// It was taken in, and adds names: nothing else is new.
    Names,
    /// It was taken in.
    Nothing,
    /// It does not follow on what was taken in: the sender has to begin anew.
    Gap,
    /// There is no room for it: all is forgotten, so that the sender is asked for everything.
    NoRoom,
}

impl TheirSummary {
    /// Nothing was advertised yet; what is will be kept on `tab`.
    #[must_use]
    pub fn new(tab: Tab) -> Self {
        Self { tab, ..Self::default() }
    }

    /// Forgets all but the number of the last message, and that something has to be withdrawn.
    fn begin_anew(&mut self, taken: u64) {
        let tab = std::mem::take(&mut self.tab);
        *self = Self { is_passed_on: self.is_passed_on, taken, tab, ..Self::default() };
    }

    /// Takes in a message of the neighbor `from` to `me`. `dated`: a moment before it was sent.
    pub fn take(&mut self, news: SummaryNews, from: NodeTag, me: NodeTag, dated: Option<Instant>) -> Took {
        let next = self.taken.saturating_add(u64::from(!news.changes.is_empty()));
        if news.begins && news.number > self.taken {
            self.begin_anew(news.number);
        } else if news.number == next && !news.begins {
            self.taken = next;
        } else {
            return Took::Gap; // late, or something before it is missing
        }
        let is_heartbeat = news.changes.is_empty();
        let is_names =
            !news.begins && news.changes.iter().all(|change| matches!(change.what, What::Added(_)));
        for change in news.changes {
            let is_of_interest = change.hops == 0 || (change.of != from && change.of != me);
            let is_applied = !is_of_interest || self.change(change, from);
            // After each change: a message may bring more filters than there is room for.
            let has_room = self.tab.set(self.bytes()).is_ok();
            if !is_applied || !has_room {
                self.begin_anew(self.taken);
                let _ = self.tab.set(0); // less than before
                return if has_room { Took::Gap } else { Took::NoRoom };
            }
        }
        if let (true, Some(dated)) = (news.is_all, dated) {
            self.confirm(news.number, dated);
        }
        match (is_heartbeat, is_names) {
            (true, _) => Took::Nothing,
            (false, true) => Took::Names,
            (false, false) => Took::News,
        }
    }

    /// All up to message `number` was up to date at `at`, says the neighbor; 0 says nothing.
    pub fn confirm(&mut self, number: u64, at: Instant) {
        if number != 0 && number == self.taken {
            self.confirmed = self.confirmed.max(Some(at));
        }
    }

    /// Bytes of all of it.
    fn bytes(&self) -> usize {
        let known: usize = self.own.iter().chain(self.behind.values()).map(|known| known.bytes()).sum();
        known + self.arriving.as_ref().map_or(0, Arriving::bytes)
    }

    /// Until when it may be relied on; `None`: not at all.
    #[must_use]
    pub fn trusted_until(&self) -> Option<Instant> {
        self.confirmed.map(|confirmed| confirmed + TRUSTED_FOR)
    }

    /// Whether it may be relied on.
    #[must_use]
    pub fn is_trusted(&self, now: Instant) -> bool {
        self.trusted_until().is_some_and(|until| now < until)
    }

    /// The names of the neighbor itself.
    #[must_use]
    pub fn names(&self) -> Option<&Filter> {
        self.own.as_ref().map(|own| &own.source.filter)
    }

    /// False if it cannot be applied. What concerns an unknown node behind the neighbor is left out: as no message is
    /// missing, there was no room for its filter.
    fn change(&mut self, Change { of, hops, what }: Change, from: NodeTag) -> bool {
        if hops > RELAYED_HOPS {
            return true; // further away than any query goes
        }
        let of = if hops == 0 { from } else { of };
        match what {
            What::Whole { epoch, count, part, neighbors } => {
                let arriving = (of, Position { epoch, count });
                return self.arrive(arriving, hops, &part, neighbors.into_vec());
            }
            What::Withdrawn => {
                self.behind.remove(&of);
            }
            What::Added(keys) => {
                let Some(known) = self.known_mut(of, hops) else { return hops > 0 };
                keys.iter().for_each(|key| known.source.add(*key));
            }
            What::Neighbors { added, removed } => {
                let Some(known) = self.known_mut(of, hops) else { return hops > 0 };
                let removed = sorted(removed.into_vec());
                let kept = known.neighbors.iter().filter(|tag| removed.binary_search(tag).is_err());
                known.neighbors = sorted(kept.chain(added.iter()).copied().collect());
                known.hops = hops;
            }
        }
        true
    }

    fn arrive(
        &mut self,
        (of, position): (NodeTag, Position),
        hops: u8,
        part: &FilterPart,
        neighbors: Vec<NodeTag>,
    ) -> bool {
        if part.at == 0 {
            let neighbors = sorted(neighbors);
            let begin = |assembly| Arriving { of, position, neighbors, assembly };
            self.arriving = Assembly::begin(part).map(begin);
        }
        let Some(mut arriving) = self.arriving.take() else { return false };
        if (arriving.of, arriving.position) != (of, position) || !arriving.assembly.add(part) {
            return false;
        }
        match arriving.assembly.finish() {
            Ok(filter) => {
                let (source, neighbors) = (Source::new(position, filter, LOG_MAX), arriving.neighbors);
                self.keep(of, KnownSummary { source, hops, neighbors });
            }
            Err(assembly) => self.arriving = Some(Arriving { assembly, ..arriving }),
        }
        true
    }

    fn known_mut(&mut self, of: NodeTag, hops: u8) -> Option<&mut KnownSummary> {
        let known = if hops == 0 { self.own.as_mut() } else { self.behind.get_mut(&of) };
        known.map(Arc::make_mut)
    }

    fn keep(&mut self, of: NodeTag, known: KnownSummary) {
        if known.hops == 0 {
            self.own = Some(Arc::new(known));
            return;
        }
        self.behind.remove(&of);
        let words: usize = self.behind.values().map(|known| known.source.filter.words()).sum();
        if self.behind.len() < RELAYED_MAX && words + known.source.filter.words() <= RELAYED_WORDS_MAX {
            self.behind.insert(of, Arc::new(known));
        }
    }

    /// Notes what the neighbors of `me`, which are `mine`, sorted, mean to the summaries of the neighbor `from`.
    /// Called whenever its or our neighbors change: finding it out for each query takes the square of the number of
    /// neighbors. Returns whether something of it is, or was, to be passed on.
    pub fn compare(&mut self, from: NodeTag, me: NodeTag, mine: &[NodeTag]) -> bool {
        let is_ours = |other: &NodeTag| *other == me || mine.binary_search(other).is_ok();
        let theirs = self.own.iter().flat_map(|own| &*own.neighbors);
        self.beyond = theirs.filter(|other| !is_ours(other)).copied().collect();
        let is_unheard_by_some = |(of, known): (&NodeTag, &Arc<KnownSummary>)| {
            known.hops < RELAYED_HOPS
                && mine.iter().any(|other| *other != from && other != of && !known.has_neighbor(other))
        };
        let own = self.own.iter().map(|own| (&from, own));
        let is_passed_on = own.chain(&self.behind).any(is_unheard_by_some);
        std::mem::replace(&mut self.is_passed_on, is_passed_on) || is_passed_on
    }

    /// Whether it can ask nobody whom we do not ask.
    #[must_use]
    pub const fn is_enclosed(&self) -> bool {
        self.own.is_some() && self.beyond.is_empty()
    }

    /// Whether something of it is to be passed on.
    #[must_use]
    pub const fn is_passed_on(&self) -> bool {
        self.is_passed_on
    }

    /// Whether the neighbor itself has `other` as a neighbor.
    #[must_use]
    pub fn has_neighbor(&self, other: &NodeTag) -> bool {
        self.own.as_ref().is_some_and(|own| own.has_neighbor(other))
    }

    /// Whether the neighbor need not be asked for `key` at first: it does not have it, and neither has any
    /// node that it could ask with `ttl_hops` left, except nodes that others ask, which `covers` tells.
    #[must_use]
    pub fn rules_out(
        &self,
        key: NameKey,
        ttl_hops: u8,
        covers: impl Fn(&NodeTag) -> bool,
        now: Instant,
    ) -> bool {
        if !self.is_trusted(now) {
            return false;
        }
        let lacks = |known: &&Arc<KnownSummary>| !known.source.filter.may_contain(key);
        if self.own.as_ref().filter(lacks).is_none() {
            return false;
        }
        let mut visited: Vec<NodeTag> = Vec::new();
        let mut at: Vec<&[NodeTag]> = vec![&self.beyond];
        for _ in 0..ttl_hops {
            let mut further: Vec<&[NodeTag]> = Vec::new();
            for tag in at.into_iter().flatten() {
                if covers(tag) || visited.contains(tag) {
                    continue;
                }
                let Some(known) = self.behind.get(tag).filter(lacks) else { return false };
                visited.push(*tag);
                further.push(&known.neighbors);
            }
            if further.is_empty() {
                break;
            }
            at = further;
        }
        true
    }

    /// The summaries that this neighbor, `via`, advertises, as candidates to be passed on; none if they are not
    /// trusted.
    pub fn advertised(&self, via: NodeTag, now: Instant) -> impl Iterator<Item = Relayed> {
        let own = self.own.iter().map(move |known| (via, known));
        let all = own.chain(self.behind.iter().map(|(of, known)| (*of, known)));
        all.filter(move |_| self.is_trusted(now)).map(move |(of, known)| Relayed {
            of,
            via,
            known: Arc::clone(known),
        })
    }
}

impl Arriving {
    /// When all of it has arrived, which is twice its words: they are copied once.
    fn bytes(&self) -> usize {
        2 * size_of::<u64>() * self.assembly.words() + size_of::<NodeTag>() * self.neighbors.len()
    }
}

impl KnownSummary {
    fn bytes(&self) -> usize {
        let log = size_of::<NameKey>() * LOG_MAX;
        size_of::<u64>() * self.source.filter.words() + size_of::<NodeTag>() * self.neighbors.len() + log
    }

    pub(super) const fn source(&self) -> &Source {
        &self.source
    }

    /// Where it is in its history.
    #[must_use]
    pub const fn position(&self) -> Position {
        self.source.position
    }

    /// Hops from the neighbor that advertises it to its node.
    #[must_use]
    pub const fn hops(&self) -> u8 {
        self.hops
    }

    /// The neighbors of its node, sorted.
    #[must_use]
    pub const fn neighbors(&self) -> &Arc<[NodeTag]> {
        &self.neighbors
    }

    /// Whether `other` is one of them.
    #[must_use]
    pub fn has_neighbor(&self, other: &NodeTag) -> bool {
        self.neighbors.binary_search(other).is_ok()
    }
}

fn sorted(mut tags: Vec<NodeTag>) -> Arc<[NodeTag]> {
    tags.sort_unstable();
    tags.dedup();
    tags.truncate(COVERED_MAX);
    tags.into()
}
