//! Summaries of names: what we tell our neighbors of ours, and what they told us of theirs.
//!
//! The rule: **what was registered before a query began is found by it.** Two things see to that.
//! A registration is answered when each neighbor has acknowledged the news, or cannot trust our summary
//! any more because it has not heard of us for [`TRUSTED_FOR`]. And a summary only says whom to ask
//! first: if nobody has anything, everybody is asked after all, so that news may be late, lost or out
//! of order without an answer being lost.

use std::{
    collections::{HashSet, VecDeque},
    time::{Duration, Instant},
};

use nekoproto::{
    List, NodeTag,
    limits::SUMMARY_KEYS_MAX,
    summary::{Assembly, Filter, NameKey, SummaryNews, SummaryUpdate},
};

/// How long a summary is used after its sender last confirmed it.
pub const TRUSTED_FOR: Duration = Duration::from_secs(2);
/// Names added that are remembered for neighbors that have not heard of them yet; to whoever is
/// further behind the whole filter is sent.
const LOG_MAX: usize = 64 * 1024;
/// Names removed, as a share of those in the filter, after which it is made anew: one in so many.
const STALE_SHARE: usize = 4;
/// Fewer removed names than this are not worth a new filter.
const STALE_MIN: usize = 1024;

/// How far a neighbor has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Told {
    epoch: u64,
    count: u64,
}

/// What a neighbor should be told next.
#[derive(Clone, Debug)]
pub enum Tell {
    /// One message, after which it has come so far.
    News(SummaryNews, Told),
    /// The whole filter, after which it has come so far.
    Whole(Filter, Told),
}

/// A filter of all names that are listed, with room for as many more. Made without a lock.
#[derive(Debug)]
pub struct Fresh {
    filter: Filter,
    keys: usize,
}

impl Fresh {
    /// A filter of `keys`.
    #[must_use]
    pub fn of(keys: &[NameKey]) -> Self {
        let mut filter = Filter::for_keys(keys.len() * 2);
        keys.iter().for_each(|key| filter.insert(*key));
        Self { filter, keys: keys.len() }
    }
}

/// Our own summary.
///
/// Invariants: each name listed was added to `filter`, or to `meanwhile` while a new filter is made;
/// `log` has the latest of the `count` changes in this epoch.
#[derive(Debug)]
pub struct OwnSummary {
    epoch: u64,
    filter: Filter,
    /// `None`: it was not a name that changed, but our neighbors.
    log: VecDeque<Option<NameKey>>,
    count: u64,
    keys: usize,
    removed: usize,
    /// Names added since a new filter was begun.
    meanwhile: Option<Vec<NameKey>>,
}

impl OwnSummary {
    /// Of no names; `epoch` must be another in each life of the node.
    #[must_use]
    pub fn new(epoch: u64) -> Self {
        Self {
            epoch,
            filter: Filter::for_keys(0),
            log: VecDeque::new(),
            count: 0,
            keys: 0,
            removed: 0,
            meanwhile: None,
        }
    }

    /// A name is listed; whether that is news to neighbors.
    pub fn add(&mut self, key: NameKey) -> bool {
        if let Some(meanwhile) = &mut self.meanwhile {
            meanwhile.push(key);
        }
        if self.filter.may_contain(key) {
            return false; // nothing would change, here or there
        }
        self.filter.insert(key);
        self.keys += 1;
        self.step(Some(key));
        true
    }

    /// Our neighbors are others than before: ours should know, as whom they rule out depends on it.
    pub fn neighbors_changed(&mut self) {
        self.step(None);
    }

    fn step(&mut self, change: Option<NameKey>) {
        self.count += 1;
        self.log.push_back(change);
        if self.log.len() > LOG_MAX {
            self.log.pop_front();
        }
    }

    /// How far a neighbor has come that has heard all.
    #[must_use]
    pub const fn position(&self) -> Told {
        Told { epoch: self.epoch, count: self.count }
    }

    /// So many names are listed no more. The filter still has them.
    pub const fn remove(&mut self, names: usize) {
        self.removed += names;
    }

    /// Whether the filter has too many names, or too many that are gone. Then it should be made anew:
    /// [`begin_anew`](Self::begin_anew), a [`Fresh`] filter of all listed names, [`renew`](Self::renew).
    #[must_use]
    pub fn is_worn(&self) -> bool {
        let is_full = self.keys > self.filter.made_for()
            && Filter::for_keys(self.keys * 2).made_for() > self.filter.made_for();
        let is_stale = self.removed > STALE_MIN && self.removed > self.keys / STALE_SHARE;
        self.meanwhile.is_none() && (is_full || is_stale)
    }

    /// A new filter is being made: names added from now on will be in it.
    pub fn begin_anew(&mut self) {
        self.meanwhile = Some(Vec::new());
        self.removed = 0;
    }

    /// Takes a new filter, and adds to it what was added meanwhile.
    pub fn renew(&mut self, Fresh { mut filter, keys }: Fresh) {
        let meanwhile = self.meanwhile.take().unwrap_or_default();
        meanwhile.iter().for_each(|key| filter.insert(*key));
        self.keys = keys + meanwhile.len();
        self.filter = filter;
        self.log.clear();
        self.count = 0;
        self.epoch = self.epoch.wrapping_add(1);
    }

    /// What a neighbor that has come as far as `told` should hear next; an empty addition if nothing
    /// is new. `None`: it has heard nothing yet.
    #[must_use]
    pub fn tell(&self, told: Option<Told>) -> Tell {
        let now = self.position();
        let missed = told.filter(|told| told.epoch == self.epoch).map(|told| self.count - told.count);
        match missed
            .and_then(|missed| usize::try_from(missed).ok())
            .filter(|missed| *missed <= self.log.len())
        {
            None => Tell::Whole(self.filter.clone(), now),
            Some(missed) => {
                let rest = missed.saturating_sub(SUMMARY_KEYS_MAX) as u64;
                let keys = self.log.range(self.log.len() - missed..).take(SUMMARY_KEYS_MAX).flatten();
                let until = Told { count: self.count - rest, ..now };
                Tell::News(SummaryNews::Added(List::first_of(keys.copied())), until)
            }
        }
    }

    /// Whether a neighbor that has come as far as `told` has heard all.
    #[must_use]
    pub fn is_all(&self, told: Option<Told>) -> bool {
        told == Some(self.position())
    }
}

impl Told {
    /// Whether this is as far as `needed`, or further.
    #[must_use]
    pub const fn reaches(self, needed: Self) -> bool {
        match self.epoch.wrapping_sub(needed.epoch) {
            0 => self.count >= needed.count,
            later => later < u64::MAX / 2, // an epoch has all names of those before it
        }
    }

    /// The message that brings a neighbor from `from` (of the same epoch) to here.
    #[must_use]
    pub fn update(
        self,
        from: Option<Self>,
        news: SummaryNews,
        neighbors: List<NodeTag, { nekoproto::limits::COVERED_MAX }>,
    ) -> SummaryUpdate {
        let from = from.filter(|from| from.epoch == self.epoch).map_or(0, |from| from.count);
        SummaryUpdate { epoch: self.epoch, from, to: self.count, news, neighbors }
    }
}

/// What one neighbor told us.
#[derive(Debug, Default)]
pub struct TheirSummary {
    known: Option<Known>,
    /// A filter that is arriving: its epoch, its count, and what is here of it.
    arriving: Option<(u64, u64, Assembly)>,
}

#[derive(Debug)]
struct Known {
    epoch: u64,
    count: u64,
    filter: Filter,
    neighbors: HashSet<NodeTag>,
    confirmed: Instant,
}

impl TheirSummary {
    /// Takes a message in; false if a step is missing before it, and the whole filter is needed.
    /// Within an epoch nothing that was known is forgotten, in whatever order messages come.
    pub fn take(&mut self, update: SummaryUpdate, now: Instant) -> bool {
        match update.news {
            SummaryNews::Added(keys) => {
                let fits = |known: &&mut Known| known.epoch == update.epoch && update.from <= known.count;
                let Some(known) = self.known.as_mut().filter(fits) else {
                    self.known = None; // it cannot be trusted any more
                    return false;
                };
                if update.to >= known.count {
                    keys.iter().for_each(|key| known.filter.insert(*key));
                    known.count = update.to;
                    known.neighbors = update.neighbors.iter().copied().collect();
                    known.confirmed = now;
                }
                true
            }
            SummaryNews::Part(part) => {
                if part.at == 0 {
                    self.arriving = Assembly::begin(&part).map(|begun| (update.epoch, update.to, begun));
                }
                let Some((epoch, count, assembly)) = self.arriving.as_mut() else { return false };
                if (*epoch, *count) != (update.epoch, update.to) || !assembly.add(&part) {
                    self.arriving = None;
                    return false;
                }
                let Some(filter) = assembly.finish() else { return true };
                self.arriving = None;
                let is_known = |known: &Known| known.epoch == update.epoch && known.count > update.to;
                if !self.known.as_ref().is_some_and(is_known) {
                    let neighbors = update.neighbors.iter().copied().collect();
                    let (epoch, count) = (update.epoch, update.to);
                    self.known = Some(Known { epoch, count, filter, neighbors, confirmed: now });
                }
                true
            }
        }
    }

    /// Whether the neighbor need not be asked for `key` at first: it does not have it, and with
    /// `ttl_hops` left it could ask nobody but those whom `covers` says somebody else looks after.
    #[must_use]
    pub fn rules_out(
        &self,
        key: NameKey,
        ttl_hops: u8,
        covers: impl Fn(&NodeTag) -> bool,
        now: Instant,
    ) -> bool {
        let trusted = |known: &&Known| now.saturating_duration_since(known.confirmed) < TRUSTED_FOR;
        self.known.as_ref().filter(trusted).is_some_and(|known| {
            !known.filter.may_contain(key) && (ttl_hops == 0 || known.neighbors.iter().all(covers))
        })
    }
}

#[cfg(test)]
mod tests {
    use nekoproto::FileName;

    use super::*;

    fn key(n: usize) -> NameKey {
        NameKey::of(&FileName::new(&format!("file-{n}")).unwrap())
    }

    /// Brings `theirs` up to date with `own`, and says in how many messages.
    fn catch_up(own: &OwnSummary, theirs: &mut TheirSummary, told: &mut Option<Told>, now: Instant) -> usize {
        let mut messages = 0;
        while !own.is_all(*told) {
            match own.tell(*told) {
                Tell::News(news, until) => {
                    assert!(theirs.take(until.update(*told, news, List::new()), now));
                    *told = Some(until);
                    messages += 1;
                }
                Tell::Whole(filter, until) => {
                    for part in filter.parts() {
                        assert!(theirs.take(until.update(None, SummaryNews::Part(part), List::new()), now));
                        messages += 1;
                    }
                    *told = Some(until);
                }
            }
        }
        messages
    }

    fn rules_out(theirs: &TheirSummary, n: usize, now: Instant) -> bool {
        theirs.rules_out(key(n), 0, |_| false, now)
    }

    #[test]
    fn what_was_told_rules_out_all_else() {
        let now = Instant::now();
        let (mut own, mut theirs, mut told) = (OwnSummary::new(1), TheirSummary::default(), None);
        assert!(!rules_out(&theirs, 1, now), "nothing was told yet");
        own.add(key(1));
        assert_eq!(catch_up(&own, &mut theirs, &mut told, now), 1);
        assert!(!rules_out(&theirs, 1, now) && rules_out(&theirs, 2, now));
        assert!(own.add(key(2)) && !own.add(key(2)));
        assert_eq!(catch_up(&own, &mut theirs, &mut told, now), 1);
        assert!(!rules_out(&theirs, 2, now) && rules_out(&theirs, 3, now));
        assert!(!rules_out(&theirs, 3, now + TRUSTED_FOR), "not confirmed for too long");
    }

    #[test]
    fn a_neighbor_with_others_behind_it_is_asked_unless_they_are_covered() {
        let now = Instant::now();
        let tag = nekoproto::Identity::from_seed(&[1; 32]).id().tag();
        let (own, mut theirs) = (OwnSummary::new(1), TheirSummary::default());
        let Tell::Whole(filter, until) = own.tell(None) else { panic!() };
        let part = filter.parts().next().unwrap();
        assert!(theirs.take(until.update(None, SummaryNews::Part(part), List::first_of([tag])), now));
        assert!(theirs.rules_out(key(1), 0, |_| false, now));
        assert!(!theirs.rules_out(key(1), 1, |_| false, now));
        assert!(theirs.rules_out(key(1), 1, |covered| *covered == tag, now));
    }

    #[test]
    fn a_step_that_is_missing_is_noticed() {
        let now = Instant::now();
        let (mut own, mut theirs, mut told) = (OwnSummary::new(1), TheirSummary::default(), None);
        catch_up(&own, &mut theirs, &mut told, now);
        own.add(key(1));
        let Tell::News(_, lost) = own.tell(told) else { panic!() };
        own.add(key(2));
        let Tell::News(news, until) = own.tell(Some(lost)) else { panic!() };
        assert!(!theirs.take(until.update(Some(lost), news, List::new()), now));
        assert!(!rules_out(&theirs, 1, now), "a summary with a gap is not used");
        told = None;
        catch_up(&own, &mut theirs, &mut told, now);
        assert!(!rules_out(&theirs, 1, now) && !rules_out(&theirs, 2, now) && rules_out(&theirs, 3, now));
    }

    #[test]
    fn a_worn_filter_is_made_anew_without_losing_a_name() {
        let now = Instant::now();
        let (mut own, mut theirs, mut told) = (OwnSummary::new(1), TheirSummary::default(), None);
        for n in 0..3000 {
            own.add(key(n));
        }
        assert!(own.is_worn(), "more names than it was made for");
        own.begin_anew();
        assert!(!own.is_worn());
        own.add(key(3001)); // while the keys are collected
        own.add(key(5)); // known to the old filter, and not among the keys collected
        let keys: Vec<_> = (100..3000).map(key).collect();
        own.renew(Fresh::of(&keys));
        catch_up(&own, &mut theirs, &mut told, now);
        assert!((100..3000).chain([3001, 5]).all(|n| !rules_out(&theirs, n, now)));
        assert!((0..100).filter(|n| rules_out(&theirs, *n, now)).count() > 80, "removed names are gone");
        assert!(!own.is_worn());
        own.remove(2000);
        assert!(own.is_worn(), "many names are gone");
    }
}
