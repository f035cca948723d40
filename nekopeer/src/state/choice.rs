//! Chooses among hits: one record of one origin, and every holder of those bytes.

use std::cmp::Reverse;

use nekoproto::{Holder, Record, VerifiedRecord};

/// A hit whose signature is verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The record signed by the origin.
    pub record: VerifiedRecord,
    /// Holders of exactly this version, complete or partial.
    pub holders: Vec<Holder>,
}

/// What to download, and from which sources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// The chosen record.
    pub record: VerifiedRecord,
    /// Holders of these bytes, each at all of its addresses: the origin first, then other complete holders, then partial ones.
    pub sources: Vec<Holder>,
}

/// Why no hit was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoChoice {
    /// There is no hit (of that origin).
    NoHit,
    /// Several origins publish different files under this name.
    Ambiguous(Vec<VerifiedRecord>),
}

/// Chooses among `candidates`; with `origin`, only origins whose id begins with these digits count.
///
/// Origins that publish the same bytes count as one: the record is that of the origin with the most
/// complete holders, or of the smallest id among equals, so that every node chooses the same; the sources
/// are the holders of all of them. If the bytes differ, the user must choose. Where one origin's number stands for
/// two files, every node chooses the one that [outranks](Record::outranks) the other.
pub(crate) fn choose(candidates: Vec<Candidate>, origin: Option<&str>) -> Result<Target, NoChoice> {
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
    let whole = |candidate: &Candidate| candidate.holders.iter().filter(|holder| !holder.partial).count();
    wanted.sort_by_key(|candidate| (Reverse(whole(candidate)), candidate.record.origin));
    let Some(best) = wanted.first().map(|candidate| candidate.record.clone()) else {
        return Err(NoChoice::NoHit);
    };
    let same_bytes = |record: &Record| record.content == best.content && record.manifest == best.manifest;
    if !wanted.iter().all(|candidate| same_bytes(&candidate.record)) {
        return Err(NoChoice::Ambiguous(wanted.into_iter().map(|candidate| candidate.record).collect()));
    }
    let mut sources: Vec<Holder> = Vec::new();
    for holder in wanted.into_iter().flat_map(|candidate| candidate.holders) {
        add_holder(&mut sources, holder);
    }
    sources.sort_by_key(|holder| (holder.partial, holder.node != best.origin));
    Ok(Target { record: best, sources })
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

    use nekoproto::{ContentHash, FileName, Identity, ManifestHash, Policy, Version};

    use super::*;

    fn identity(n: u8) -> Identity {
        Identity::from_seed(&[n; 32])
    }

    fn candidate(origin: u8, content: u8, holders: &[u8]) -> Candidate {
        let record = Record {
            origin: identity(origin).id(),
            name: FileName::new("a").unwrap(),
            version: Version::FIRST,
            size: 1,
            content: ContentHash::from_bytes([content; 32]),
            manifest: ManifestHash::from_bytes([content; 32]),
            policy: Policy::default(),
            published_ms: 1_795_000_000_000,
        };
        let addr = |n: u8| SocketAddr::from(([127, 0, 0, 1], 1000 + u16::from(n)));
        let holder = |n: &u8| Holder::new(identity(*n).id(), addr(*n));
        Candidate {
            record: record.sign(&identity(origin)).unwrap(),
            holders: holders.iter().map(holder).collect(),
        }
    }

    #[test]
    fn origin_comes_first_among_the_sources() {
        let target = choose(vec![candidate(1, 7, &[5, 3, 1])], None).unwrap();
        assert_eq!(target.sources[0].node, identity(1).id());
        assert_eq!(target.sources.len(), 3);
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
    fn same_bytes_of_several_origins_are_one_target_with_all_holders() {
        let hits = [candidate(1, 7, &[1]), candidate(2, 7, &[2, 3]), candidate(3, 7, &[3])];
        for order in [[0, 1, 2], [2, 1, 0]] {
            let target = choose(order.map(|i: usize| hits[i].clone()).into(), None).unwrap();
            assert_eq!(target.record.origin, identity(2).id(), "the one with most holders");
            assert_eq!(target.sources.len(), 3);
        }
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
