//! What one neighbor told us: of its own names, and of those behind it.

use std::{
    collections::{BTreeMap, HashSet},
    time::{Duration, Instant},
};

use nekoproto::{
    List, NodeTag,
    summary::{Assembly, NameKey, SummaryNews, SummaryUpdate},
};

use super::{About, RELAYED_HOPS, Relay, Source, TRUSTED_FOR, Tell, Told, relay};

/// Nodes behind one neighbor of whom summaries are kept; behind others it is asked.
pub(super) const BEHIND_MAX: usize = 64;
/// Words of all filters of nodes behind one neighbor: 2 MiB.
const BEHIND_WORDS_MAX: usize = 256 * 1024;
/// Names added to a neighbor's summary that are remembered, to be passed on.
const LOG_MAX: usize = 512;
/// A summary that nobody has confirmed for so long is dropped.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(30);

/// What one neighbor told us.
#[derive(Debug, Default)]
pub struct TheirSummary {
    own: Option<Known>,
    /// What it passed on, by whose it is.
    behind: BTreeMap<NodeTag, Known>,
    /// There was no room for somebody behind it: the whole filter of an unknown one is not asked for.
    is_full: bool,
    /// All its neighbors are ours too, or ourselves: it can ask nobody that we do not look after.
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
struct Known {
    source: Source,
    /// Hops from the neighbor to the node that this is of.
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
    /// Takes a message in. Within an epoch nothing that was known is forgotten, in whatever order
    /// messages come.
    pub fn take(&mut self, update: SummaryUpdate, now: Instant) -> Took {
        if update.hops > RELAYED_HOPS {
            return Took::Nothing; // further away than anybody asks for
        }
        let SummaryUpdate { of, hops, age_ms, epoch, from, to, news, neighbors } = update;
        let age = Duration::from_millis(age_ms.into());
        let Some(confirmed) = now.checked_sub(age).filter(|_| age < TRUSTED_FOR) else {
            return Took::Nothing; // too old to be of use to anybody
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
                let is_known = |known: &mut Known| known.source.epoch == epoch && known.source.count > to;
                if self.known_mut(of, hops).is_some_and(is_known) {
                    return Took::Nothing;
                }
                let source = Source::new(epoch, to, filter, LOG_MAX);
                self.keep(of, Known { source, hops, neighbors, confirmed }, now);
                Took::News
            }
        }
    }

    /// Notes whether all its neighbors are ours too, as `is_ours` says of each. To be called whenever one
    /// of the two changes: to find that out for each query takes the square of the number of neighbors.
    pub fn enclose(&mut self, is_ours: impl Fn(&NodeTag) -> bool) {
        self.is_enclosed = self.own.as_ref().is_some_and(|own| own.neighbors.iter().all(is_ours));
    }

    fn known_mut(&mut self, of: NodeTag, hops: u8) -> Option<&mut Known> {
        if hops == 0 { self.own.as_mut() } else { self.behind.get_mut(&of) }
    }

    fn forget(&mut self, of: NodeTag, hops: u8) {
        if hops == 0 {
            self.own = None;
        } else {
            self.behind.remove(&of);
        }
    }

    fn keep(&mut self, of: NodeTag, known: Known, now: Instant) {
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

    /// Whether the neighbor need not be asked for `key` at first: it does not have it, and neither has
    /// anybody that it could ask with `ttl_hops` left, but those whom `covers` says somebody else looks
    /// after.
    #[must_use]
    pub fn rules_out(
        &self,
        key: NameKey,
        ttl_hops: u8,
        covers: impl Fn(&NodeTag) -> bool,
        now: Instant,
    ) -> bool {
        let lacks = |known: &&Known| known.is_trusted(now) && !known.source.filter.may_contain(key);
        let Some(own) = self.own.as_ref().filter(lacks) else { return false };
        if ttl_hops == 0 || self.is_enclosed {
            return true;
        }
        let mut visited: Vec<NodeTag> = Vec::new();
        let mut at: Vec<&Known> = vec![own];
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

    /// The summaries that are known over this neighbor, `via`, and trusted: to be passed on to `to`.
    pub fn heard(&self, via: NodeTag, to: NodeTag, now: Instant) -> impl Iterator<Item = relay::Heard> {
        let own = self.own.iter().map(move |known| (via, known));
        let all = own.chain(self.behind.iter().map(|(tag, known)| (*tag, known)));
        all.filter(move |(_, known)| known.is_trusted(now)).map(move |(of, known)| relay::Heard {
            relay: Relay { of, via },
            hops: known.hops,
            is_near: known.neighbors.contains(&to),
        })
    }

    /// What somebody else who has come as far as `told` should hear next of a summary known over this
    /// neighbor, and whether that is new to it.
    #[must_use]
    pub fn pass_on(
        &self,
        Relay { of, via }: Relay,
        told: Option<Told>,
        now: Instant,
    ) -> Option<(Tell, About, bool)> {
        let known = if of == via { self.own.as_ref() } else { self.behind.get(&of) };
        let known = known.filter(|known| known.is_trusted(now))?;
        let about = About {
            of,
            hops: known.hops + 1,
            age: now.saturating_duration_since(known.confirmed),
            neighbors: List::first_of(known.neighbors.iter().copied()),
        };
        Some((known.source.tell(told), about, told != Some(known.source.position())))
    }
}

impl Known {
    fn is_trusted(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.confirmed) < TRUSTED_FOR
    }
}
