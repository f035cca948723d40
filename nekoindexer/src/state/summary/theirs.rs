//! What one neighbor advertises to us: its own names, and those of nodes behind it.

use std::{
    collections::{BTreeMap, HashSet},
    time::{Duration, Instant},
};

use nekoproto::{
    List, NodeTag,
    summary::{Assembly, NameKey, SummaryNews, SummaryUpdate},
};

use super::{
    About, Advertisement, Position, RELAYED_HOPS, Relay, Source, TRUSTED_FOR,
    relay::{AdvertisedSummary, BEHIND_MAX},
};

/// Words of all filters of nodes behind one neighbor: 2 MiB.
const BEHIND_WORDS_MAX: usize = 256 * 1024;
/// Changes of a neighbor's summary that are remembered, to be passed on.
const LOG_MAX: usize = 512;
/// A summary that has not been confirmed for this long is dropped.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(30);

/// What one neighbor advertises to us.
#[derive(Debug, Default)]
pub struct TheirSummary {
    own: Option<KnownSummary>,
    /// The summaries that it passes on, by node.
    behind: BTreeMap<NodeTag, KnownSummary>,
    /// There was no room for a node behind it: the whole filter of an unknown node is not asked for.
    is_full: bool,
    /// All its neighbors are ours too, or this node: it can ask nobody whom we do not ask.
    is_enclosed: bool,
    /// A filter of its own that is arriving, and one that it passes on.
    arriving: [Option<Arriving>; 2],
}

/// A filter that arrives in parts.
#[derive(Debug)]
struct Arriving {
    of: NodeTag,
    epoch: u64,
    count: u64,
    assembly: Assembly,
}

#[derive(Debug)]
struct KnownSummary {
    source: Source,
    /// Hops from the neighbor to the node whose summary this is.
    hops: u8,
    neighbors: HashSet<NodeTag>,
    confirmed: Instant,
}

/// What became of an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Took {
    /// It was taken in, and says something new.
    News,
    /// It was taken in, or was known already.
    Nothing,
    /// A step is missing before it, and the whole filter is needed.
    Gap,
}

impl TheirSummary {
    /// Applies an update. Within an epoch nothing that was known is forgotten, in whatever order updates
    /// arrive.
    pub fn take(&mut self, update: SummaryUpdate, now: Instant) -> Took {
        if update.hops > RELAYED_HOPS {
            return Took::Nothing; // further away than any query goes
        }
        let SummaryUpdate { of, hops, age_ms, epoch, from, to, news, neighbors } = update;
        let age = Duration::from_millis(age_ms.into());
        let Some(confirmed) = now.checked_sub(age).filter(|_| age < TRUSTED_FOR) else {
            return Took::Nothing; // too old to be trusted
        };
        let neighbors: HashSet<NodeTag> = neighbors.iter().copied().collect();
        match news {
            SummaryNews::Added(keys) => {
                let is_full = self.is_full && hops > 0;
                let Some(known) = self.known_mut(of, hops) else {
                    return if is_full { Took::Nothing } else { Took::Gap };
                };
                if known.source.epoch != epoch || from > known.source.count {
                    self.forget(of, hops); // it cannot be trusted any more
                    return Took::Gap;
                }
                if to < known.source.count {
                    return Took::Nothing;
                }
                let is_news = to > known.source.count || known.neighbors != neighbors;
                known.source.extend(&keys, from, to);
                known.neighbors = neighbors;
                known.confirmed = known.confirmed.max(confirmed);
                known.hops = hops;
                if is_news { Took::News } else { Took::Nothing }
            }
            SummaryNews::Part(part) => {
                let place = &mut self.arriving[usize::from(hops > 0)];
                if part.at == 0 {
                    let begin = |assembly| Arriving { of, epoch, count: to, assembly };
                    *place = Assembly::begin(&part).map(begin);
                }
                let Some(arriving) = place else { return Took::Gap };
                let is_next = (arriving.of, arriving.epoch, arriving.count) == (of, epoch, to);
                if !is_next || !arriving.assembly.add(&part) {
                    *place = None;
                    return Took::Gap;
                }
                let Some(filter) = arriving.assembly.finish() else { return Took::Nothing };
                *place = None;
                let is_known =
                    |known: &mut KnownSummary| known.source.epoch == epoch && known.source.count > to;
                if self.known_mut(of, hops).is_some_and(is_known) {
                    return Took::Nothing;
                }
                let source = Source::new(epoch, to, filter, LOG_MAX);
                self.keep(of, KnownSummary { source, hops, neighbors, confirmed }, now);
                Took::News
            }
        }
    }

    /// Notes whether all its neighbors are ours too, which `is_ours` tells. Called whenever its or our
    /// neighbors change: finding it out for each query takes the square of the number of neighbors.
    pub fn enclose(&mut self, is_ours: impl Fn(&NodeTag) -> bool) {
        self.is_enclosed = self.own.as_ref().is_some_and(|own| own.neighbors.iter().all(is_ours));
    }

    fn known_mut(&mut self, of: NodeTag, hops: u8) -> Option<&mut KnownSummary> {
        if hops == 0 { self.own.as_mut() } else { self.behind.get_mut(&of) }
    }

    fn forget(&mut self, of: NodeTag, hops: u8) {
        if hops == 0 {
            self.own = None;
        } else {
            self.behind.remove(&of);
        }
    }

    fn keep(&mut self, of: NodeTag, known: KnownSummary, now: Instant) {
        if known.hops == 0 {
            self.own = Some(known);
            return;
        }
        self.behind.retain(|_, known| now.saturating_duration_since(known.confirmed) < FORGOTTEN_AFTER);
        self.behind.remove(&of);
        let words: usize = self.behind.values().map(|known| known.source.filter.words()).sum();
        self.is_full =
            self.behind.len() >= BEHIND_MAX || words + known.source.filter.words() > BEHIND_WORDS_MAX;
        if !self.is_full {
            self.behind.insert(of, known);
        }
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
        let lacks = |known: &&KnownSummary| known.is_trusted(now) && !known.source.filter.may_contain(key);
        let Some(own) = self.own.as_ref().filter(lacks) else { return false };
        if ttl_hops == 0 || self.is_enclosed {
            return true;
        }
        let mut visited: Vec<NodeTag> = Vec::new();
        let mut at: Vec<&KnownSummary> = vec![own];
        for _ in 0..ttl_hops {
            let mut further = Vec::new();
            for tag in at.iter().flat_map(|known| &known.neighbors) {
                if covers(tag) || visited.contains(tag) {
                    continue;
                }
                let Some(known) = self.behind.get(tag).filter(lacks) else { return false };
                visited.push(*tag);
                further.push(known);
            }
            if further.is_empty() {
                break;
            }
            at = further;
        }
        true
    }

    /// The trusted summaries that this neighbor, `via`, advertises, as candidates to be passed on to `to`.
    pub fn advertised(
        &self,
        via: NodeTag,
        to: NodeTag,
        now: Instant,
    ) -> impl Iterator<Item = AdvertisedSummary> {
        let own = self.own.iter().map(move |known| (via, known));
        let all = own.chain(self.behind.iter().map(|(tag, known)| (*tag, known)));
        all.filter(move |(_, known)| known.is_trusted(now)).map(move |(of, known)| AdvertisedSummary {
            relay: Relay { of, via },
            hops: known.hops,
            is_near: known.neighbors.contains(&to),
        })
    }

    /// What is passed on next of a summary that this neighbor advertises, to a neighbor that has acknowledged
    /// `since`, and whether that is new to it.
    #[must_use]
    pub fn pass_on(
        &self,
        Relay { of, via }: Relay,
        since: Option<Position>,
        now: Instant,
    ) -> Option<(Advertisement, About, bool)> {
        let known = if of == via { self.own.as_ref() } else { self.behind.get(&of) };
        let known = known.filter(|known| known.is_trusted(now))?;
        let about = About {
            of,
            hops: known.hops + 1,
            age: now.saturating_duration_since(known.confirmed),
            neighbors: List::first_of(known.neighbors.iter().copied()),
        };
        Some((known.source.advertise(since), about, since != Some(known.source.position())))
    }
}

impl KnownSummary {
    fn is_trusted(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.confirmed) < TRUSTED_FOR
    }
}
