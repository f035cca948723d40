//! What one neighbor was told over one connection, and what it is to be told next.

use std::{
    collections::{BTreeMap, VecDeque},
    mem,
    sync::Arc,
};

use nekoproto::{
    List, NodeTag,
    limits::{CHANGE_BYTES_MAX, COVERED_MAX, SUMMARY_BYTES_MAX, SUMMARY_CHANGES_MAX, SUMMARY_KEYS_MAX},
    summary::{Change, Filter, SummaryNews, What},
};

use super::{OwnSummary, Position, Relayed, Source};

/// What one neighbor was told over one connection.
///
/// Changes are noted as told when they are added. Whoever cannot deliver a message, in order, has to
/// [`begin_anew`](Self::begin_anew).
#[derive(Debug, Default)]
pub struct Told {
    /// Of the last message with changes.
    number: u64,
    /// Our own summary.
    own: Option<ToldSummary>,
    /// Those that are passed on, by node.
    relayed: BTreeMap<NodeTag, ToldSummary>,
    /// A whole filter of another node was left for later.
    is_put_off: bool,
    /// What follows goes on from what it was told.
    goes_on: bool,
    /// What is to be told, in order.
    changes: VecDeque<Pending>,
}

/// What is to be told. Of a filter only the next part is copied, when it is sent.
#[derive(Debug)]
enum Pending {
    Change(Change),
    Whole {
        of: NodeTag,
        hops: u8,
        position: Position,
        neighbors: Arc<[NodeTag]>,
        filter: Filter,
        part: usize,
    },
}

#[derive(Debug)]
struct ToldSummary {
    position: Position,
    neighbors: Arc<[NodeTag]>,
    hops: u8,
    via: NodeTag,
}

impl Told {
    /// The neighbor may not have taken in what it was told: the next message replaces all of it.
    pub fn begin_anew(&mut self) {
        *self = Self { number: self.number, ..Self::default() };
    }

    /// The position of our own summary that it was told.
    #[must_use]
    pub fn position(&self) -> Option<Position> {
        self.own.as_ref().map(|own| own.position)
    }

    /// The number of the last message, if it was the last of what is told and nothing was added to our own names since.
    #[must_use]
    pub fn confirms(&self, own: Position) -> u64 {
        if self.changes.is_empty() && self.position() == Some(own) { self.number } else { 0 }
    }

    /// The neighbors of ours that it was told.
    #[must_use]
    pub fn neighbors(&self) -> Option<&Arc<[NodeTag]>> {
        self.own.as_ref().map(|own| &own.neighbors)
    }

    /// Whether all that was passed on to it still counts: whether those from whom it comes `are_trusted`.
    pub fn relays_hold(&self, mut is_trusted: impl FnMut(&NodeTag) -> bool) -> bool {
        let mut last = None;
        self.relayed.values().all(|relayed| {
            let via = Some(relayed.via);
            last == via || {
                last = via;
                is_trusted(&relayed.via)
            }
        })
    }

    /// Whether [`tell_others`](Self::tell_others) has something to do: what is passed on `is_changed`, whole filters
    /// are due after they were put off, or something is not trusted any more, which a message must not confirm.
    pub fn needs_others(
        &self,
        is_changed: bool,
        is_due: bool,
        is_trusted: impl FnMut(&NodeTag) -> bool,
    ) -> bool {
        is_changed || (is_due && self.is_put_off) || !self.relays_hold(is_trusted)
    }

    /// Adds what is new in our own summary. `neighbors` are sorted; `None` tells of them later.
    pub fn tell_own(&mut self, me: NodeTag, own: &OwnSummary, neighbors: Option<&Arc<[NodeTag]>>) {
        let before = self.own.take();
        let neighbors = neighbors.or_else(|| before.as_ref().map(|own| &own.neighbors));
        let neighbors = neighbors.map_or_else(|| Arc::new([]) as _, Arc::clone);
        self.tell(me, 0, own.source(), before, &neighbors);
        self.own = Some(ToldSummary { position: own.position(), neighbors, hops: 0, via: me });
    }

    /// Adds what is new in what is passed on: `relays`, and nothing else. Whole filters only if it `is_due`, so that
    /// a node that rebuilds its filter often cannot flood us. `is_early`: more is to be passed on soon.
    pub fn tell_others(&mut self, relays: &[Relayed], is_due: bool, is_early: bool) {
        let mut before = mem::take(&mut self.relayed);
        self.is_put_off = is_early;
        for Relayed { of, via, known } in relays {
            let told = before.get(of).filter(|told| known.source().added(told.position).is_some());
            if told.is_none() && !is_due {
                self.is_put_off = true; // meanwhile an older one is withdrawn
                continue;
            }
            let hops = known.hops() + 1;
            self.tell(*of, hops, known.source(), before.remove(of), known.neighbors());
            let neighbors = Arc::clone(known.neighbors());
            let told = ToldSummary { position: known.position(), neighbors, hops, via: *via };
            self.relayed.insert(*of, told);
        }
        let withdrawn = |of: &NodeTag| Pending::Change(Change { of: *of, hops: 1, what: What::Withdrawn });
        self.changes.extend(before.keys().map(withdrawn));
    }

    fn tell(
        &mut self,
        of: NodeTag,
        hops: u8,
        source: &Source,
        before: Option<ToldSummary>,
        neighbors: &Arc<[NodeTag]>,
    ) {
        let known = before.and_then(|before| Some((source.added(before.position)?, before)));
        let Some((added, before)) = known else {
            let (position, filter, neighbors) =
                (source.position, source.filter.clone(), Arc::clone(neighbors));
            self.changes.push_back(Pending::Whole { of, hops, position, neighbors, filter, part: 0 });
            return;
        };
        let mut change = |what| self.changes.push_back(Pending::Change(Change { of, hops, what }));
        let added: Vec<_> = added.copied().collect();
        for keys in added.chunks(SUMMARY_KEYS_MAX) {
            change(What::Added(List::first_of(keys.iter().copied())));
        }
        if before.hops != hops
            || (!Arc::ptr_eq(&before.neighbors, neighbors) && before.neighbors != *neighbors)
        {
            let lacks = |all: &[NodeTag], tag: &NodeTag| first(all).binary_search(tag).is_err();
            let new = first(neighbors).iter().filter(|tag| lacks(&before.neighbors, tag));
            let gone = first(&before.neighbors).iter().filter(|tag| lacks(neighbors, tag));
            let [added, removed] = [List::first_of(new.copied()), List::first_of(gone.copied())];
            change(What::Neighbors { added, removed });
        }
    }

    /// The next message with changes added so far, to be sent before any other; `None` if nothing is new.
    #[must_use]
    pub fn next_message(&mut self) -> Option<SummaryNews> {
        let (mut changes, mut bytes) = (Vec::new(), 0);
        while changes.len() < SUMMARY_CHANGES_MAX
            && bytes < SUMMARY_BYTES_MAX
            && let Some(change) = self.next_change()
        {
            bytes += bytes_max(&change);
            changes.push(change);
        }
        if changes.is_empty() {
            return None;
        }
        self.number += 1;
        let begins = !mem::replace(&mut self.goes_on, true);
        let (is_all, changes) = (self.changes.is_empty(), List::first_of(changes));
        Some(SummaryNews { begins, is_all, changes, ..self.heartbeat() })
    }

    fn next_change(&mut self) -> Option<Change> {
        let (of, hops, what) = match self.changes.pop_front()? {
            Pending::Change(change) => return Some(change),
            Pending::Whole { of, hops, position, neighbors, filter, part: n } => {
                let part = filter.part(n)?; // behind the last nothing is pending
                let Position { epoch, count } = position;
                let first = List::first_of(neighbors.iter().copied().filter(|_| n == 0));
                if part.at as usize + part.words.len() < filter.words() {
                    let part = n + 1;
                    self.changes.push_front(Pending::Whole { of, hops, position, neighbors, filter, part });
                }
                (of, hops, What::Whole { epoch, count, part, neighbors: first })
            }
        };
        Some(Change { of, hops, what })
    }

    /// The message that says that nothing is new.
    #[must_use]
    pub fn heartbeat(&self) -> SummaryNews {
        let changes = List::new();
        SummaryNews { echo_ms: 0, number: self.number, begins: false, is_all: true, changes }
    }
}

/// The neighbors that are told: the first of them.
fn first(neighbors: &[NodeTag]) -> &[NodeTag] {
    &neighbors[..neighbors.len().min(COVERED_MAX)]
}

fn bytes_max(change: &Change) -> usize {
    let items = match &change.what {
        What::Added(keys) => keys.len() * 16,
        What::Whole { part, neighbors, .. } => part.words.len() * 9 + neighbors.len() * 8,
        What::Neighbors { added, removed } => (added.len() + removed.len()) * 8,
        What::Withdrawn => 0,
    };
    CHANGE_BYTES_MAX + items
}
