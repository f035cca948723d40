//! Which of the hits to download: one record of one origin, and every holder of those bytes.

use std::cmp::Reverse;

use nekoproto::{Holder, Record, VerifiedRecord};

/// A verified hit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The origin's statement.
    pub record: VerifiedRecord,
    /// Who holds exactly this version.
    pub holders: Vec<Holder>,
}

/// What to download, and from whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The record agreed on.
    pub record: VerifiedRecord,
    /// Holders of these bytes, the origin first.
    pub sources: Vec<Holder>,
}

/// Why none of the hits was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoChoice {
    /// There is none (of that origin).
    NoHit,
    /// Several origins publish different files under this name.
    Ambiguous(Vec<VerifiedRecord>),
}

/// Chooses among `candidates`; with `origin`, only origins whose id begins with these digits count.
///
/// Several origins that publish the same bytes are as good as one: the record of the one with
/// most holders is taken (then the smallest id, so that every node chooses alike), and the
/// holders of all are sources. Different bytes under one name are for the user to choose from.
///
/// # Errors
/// See [`NoChoice`].
pub fn choose(candidates: Vec<Candidate>, origin: Option<&str>) -> Result<Target, NoChoice> {
    let mut wanted: Vec<Candidate> = candidates
        .into_iter()
        .filter(|candidate| {
            origin.is_none_or(|digits| candidate.record.origin.to_string().starts_with(digits))
        })
        .collect();
    wanted.sort_by_key(|candidate| (Reverse(candidate.holders.len()), candidate.record.origin));
    let Some(best) = wanted.first().map(|candidate| candidate.record.clone()) else {
        return Err(NoChoice::NoHit);
    };
    let same_bytes = |record: &Record| record.content == best.content && record.manifest == best.manifest;
    if !wanted.iter().all(|candidate| same_bytes(&candidate.record)) {
        return Err(NoChoice::Ambiguous(wanted.into_iter().map(|candidate| candidate.record).collect()));
    }
    let mut sources: Vec<Holder> = Vec::new();
    for holder in wanted.into_iter().flat_map(|candidate| candidate.holders) {
        if !sources.iter().any(|known| known.node == holder.node) {
            sources.push(holder);
        }
    }
    sources.sort_by_key(|holder| holder.node != best.origin);
    Ok(Target { record: best, sources })
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
        };
        let holder = |n: &u8| Holder {
            node: identity(*n).id(),
            addr: SocketAddr::from(([127, 0, 0, 1], 1000 + u16::from(*n))),
        };
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
    fn same_bytes_of_several_origins_are_one_target_with_all_holders() {
        let hits = [candidate(1, 7, &[1]), candidate(2, 7, &[2, 3]), candidate(3, 7, &[3])];
        for order in [[0, 1, 2], [2, 1, 0]] {
            let target = choose(order.map(|i: usize| hits[i].clone()).into(), None).unwrap();
            assert_eq!(target.record.origin, identity(2).id(), "the one with most holders");
            assert_eq!(target.sources.len(), 3);
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
