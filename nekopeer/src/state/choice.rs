//! Chooses among hits: one record of one origin, and every holder of those bytes.

use std::cmp::Reverse;

use nekoproto::{Holder, NodeId, Record, VerifiedRecord};

/// A hit whose signature is verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The record signed by the origin.
    pub record: VerifiedRecord,
    /// Holders of exactly this version, complete or partial.
    pub holders: Vec<Holder>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub record: VerifiedRecord,
    /// Holders of these bytes, each at all of its addresses: the origin first, then other complete holders, then partial ones.
    pub sources: Vec<Holder>,
    /// Other origins of the same bytes, if nobody said which of them is meant: their next versions are others.
    pub others: Vec<NodeId>,
}

impl Target {
    /// Of the only origin.
    pub(crate) const fn new(record: VerifiedRecord, sources: Vec<Holder>) -> Self {
        Self { record, sources, others: Vec::new() }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoChoice {
    /// There is no hit (of that origin).
    NoHit,
    /// Several origins publish files under this name: different ones, or what follows goes on by itself.
    Ambiguous(Vec<VerifiedRecord>),
}

/// Chooses among `candidates`; with `origin`, only origins whose id begins with these digits count, and else, if some are
/// `listed` (the nodes that this one connects with), only those.
///
/// If several origins publish the same bytes, the record is that of the origin with the most complete holders, or of the
/// smallest id among equals, so that every node chooses the same; the sources are the holders of all of them. Anybody can
/// win that, and publish the next version: if what follows goes on by itself (`unattended`, or a set, whose folder does),
/// or the bytes differ, the user must choose. Where one origin's number stands for two files, every node chooses the one
/// that [outranks](Record::outranks) the other.
pub(crate) fn choose(
    candidates: Vec<Candidate>,
    origin: Option<&str>,
    listed: impl Fn(NodeId) -> bool,
    unattended: bool,
) -> Result<Target, NoChoice> {
    let outranks = |other: &Record, record: &Record| other.contradicts(record) && other.outranks(record);
    let is_outranked =
        |record: &Record| candidates.iter().any(|candidate| outranks(&candidate.record, record));
    let outranked: Vec<bool> = candidates.iter().map(|candidate| is_outranked(&candidate.record)).collect();
    let mut wanted: Vec<Candidate> = candidates
        .into_iter()
        .zip(outranked)
        .filter_map(|(candidate, is_outranked)| (!is_outranked).then_some(candidate))
        .filter(|candidate| {
            origin.is_none_or(|digits| candidate.record.origin.to_string().starts_with(digits))
        })
        .collect();
    if origin.is_none() && wanted.iter().any(|candidate| listed(candidate.record.origin)) {
        wanted.retain(|candidate| listed(candidate.record.origin));
    }
    let whole = |candidate: &Candidate| candidate.holders.iter().filter(|holder| !holder.partial).count();
    wanted.sort_by_key(|candidate| (Reverse(whole(candidate)), candidate.record.origin));
    let Some(best) = wanted.first().map(|candidate| candidate.record.clone()) else {
        return Err(NoChoice::NoHit);
    };
    let same_bytes = |record: &Record| record.content == best.content && record.manifest == best.manifest;
    let mut others: Vec<NodeId> = wanted.iter().map(|candidate| candidate.record.origin).collect();
    others.retain(|other| *other != best.origin);
    others.sort_unstable();
    others.dedup();
    let goes_on = unattended || wanted.iter().any(|candidate| candidate.record.policy.is_set());
    let is_open = goes_on && !others.is_empty();
    if is_open || !wanted.iter().all(|candidate| same_bytes(&candidate.record)) {
        return Err(NoChoice::Ambiguous(wanted.into_iter().map(|candidate| candidate.record).collect()));
    }
    let mut sources: Vec<Holder> = Vec::new();
    for holder in wanted.into_iter().flat_map(|candidate| candidate.holders) {
        add_holder(&mut sources, holder);
    }
    sources.sort_by_key(|holder| (holder.partial, holder.node != best.origin));
    Ok(Target { record: best, sources, others })
}

/// Adds a holder that is not there yet. A node that somebody says to hold all of the version does.
pub(crate) fn add_holder(holders: &mut Vec<Holder>, mut holder: Holder) {
    for known in holders.iter_mut().filter(|known| known.node == holder.node) {
        holder.partial &= known.partial;
        known.partial &= holder.partial;
    }
    if !holders.iter().any(|known| known.is_same_source(&holder)) {
        holders.push(holder);
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use testkit::{goods, values::identity};

    use super::*;

    fn candidate(origin: u16, content: u8, holders: &[u16]) -> Candidate {
        let record = goods::of_content(origin, "a", 1, content);
        let addr = |n: u16| SocketAddr::from(([127, 0, 0, 1], 1000 + n));
        let holder = |n: &u16| Holder::new(identity(*n).id(), addr(*n));
        Candidate { record, holders: holders.iter().map(holder).collect() }
    }

    /// As a user chooses who has no list of nodes.
    fn choose(hits: Vec<Candidate>, origin: Option<&str>) -> Result<Target, NoChoice> {
        super::choose(hits, origin, |_| true, false)
    }

    #[test]
    fn whoever_holds_all_comes_before_whoever_holds_a_part() {
        let mut hit = candidate(1, 7, &[5, 1, 3, 4]);
        let sources = |hit: &Candidate| {
            let target = choose(vec![hit.clone()], None).unwrap();
            target.sources.iter().map(|source| source.addr.port() - 1000).collect::<Vec<_>>()
        };
        hit.holders[0].partial = true;
        assert_eq!(sources(&hit), [1, 3, 4, 5]);
        hit.holders[1].partial = true; // the origin has lost its file
        assert_eq!(sources(&hit), [3, 4, 1, 5]);
    }

    #[test]
    fn who_holds_all_under_one_record_and_a_part_under_another_holds_all() {
        let mut part = candidate(1, 7, &[1, 2, 3]);
        part.holders.iter_mut().for_each(|holder| holder.partial = true);
        let whole = candidate(2, 7, &[3]);
        for hits in [vec![part.clone(), whole.clone()], vec![whole.clone(), part.clone()]] {
            let target = choose(hits, None).unwrap();
            assert_eq!(target.record, whole.record, "the one with most holders of all of it");
            assert_eq!(target.sources.len(), 3);
            assert_eq!(target.sources[0], whole.holders[0]);
        }
    }

    #[test]
    fn same_bytes_of_several_origins_are_one_target_for_a_user_and_none_for_what_goes_on_by_itself() {
        let hits = vec![candidate(1, 7, &[1]), candidate(2, 7, &[2, 3]), candidate(3, 7, &[3])];
        let [one, two, three] = [1, 2, 3].map(|n| identity(n).id());
        let whose = |chosen: Result<Target, NoChoice>| chosen.ok().map(|target| target.record.origin);
        for hits in [hits.clone(), hits.iter().rev().cloned().collect()] {
            let target = choose(hits.clone(), None).unwrap();
            assert_eq!(target.record.origin, two, "the one with most holders");
            assert!(target.sources.len() == 3 && target.others.len() == 2 && !target.others.contains(&two));
            let by_itself = |origin, listed: &[NodeId]| {
                whose(super::choose(hits.clone(), origin, |node| listed.contains(&node), true))
            };
            assert_eq!(by_itself(None, &[]), None);
            assert_eq!(by_itself(None, &[one, three]), None);
            assert_eq!(by_itself(None, &[three]), Some(three));
            assert_eq!(by_itself(Some(&one.short()), &[three]), Some(one));
        }
        let set = |n| goods::record(n, "a", 1, |record| record.policy = record.policy.of_set(true));
        let sets = [1, 2].map(|n| Candidate { record: set(n), holders: Vec::new() });
        assert_eq!(whose(choose(sets.into(), None)), None, "its folder changes by itself");
    }

    #[test]
    fn of_two_files_under_one_number_every_node_chooses_the_same() {
        let hits = [candidate(1, 7, &[1, 3]), candidate(1, 9, &[1]), candidate(1, 8, &[1, 3, 4])];
        for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2]] {
            let target = choose(order.map(|i: usize| hits[i].clone()).into(), None).unwrap();
            assert_eq!((target.record, target.sources.len()), (hits[1].record.clone(), 1));
        }
    }

    #[test]
    fn different_bytes_under_one_name_are_not_chosen_silently() {
        let hits = vec![candidate(1, 7, &[1]), candidate(2, 8, &[2])];
        assert!(matches!(choose(hits.clone(), None), Err(NoChoice::Ambiguous(all)) if all.len() == 2));
        let chosen = choose(hits.clone(), Some(&identity(2).id().short())).unwrap();
        assert_eq!(chosen.record, hits[1].record);
        assert_eq!(choose(hits, Some(&identity(9).id().short())), Err(NoChoice::NoHit));
    }
}
