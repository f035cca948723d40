//! Two files under one version number: whoever sees both signed records is a witness, and tells both folders that
//! published them. They agree on one version above: see [`contest`](super::contest).

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use nekoproto::{FileName, Holder, NodeId, Record, VerifiedRecord, Version};

use super::choice::Candidate;

/// Contests that are remembered; all are forgotten when there are more, and noted again when they are seen.
const CONTESTS_MAX: usize = 1024;
/// Pause after which the folders of one contest are told again.
const TOLD_EVERY: Duration = Duration::from_secs(10);
/// Folders that are told of one other record. More addresses of one origin are hardly true.
const FOLDERS_MAX: usize = 2;

/// The contests seen lately.
#[derive(Debug, Default)]
pub(crate) struct Contests(HashMap<FileName, Contest>);

#[derive(Debug)]
struct Contest {
    origin: NodeId,
    version: Version,
    told_at: Instant,
}

impl Contests {
    /// Whether the number of `record` was seen to stand for another file too. A later version ends that.
    pub(crate) fn has(&self, record: &Record) -> bool {
        let contest = self.0.get(&record.name);
        contest.is_some_and(|contest| (contest.origin, contest.version) == (record.origin, record.version))
    }

    /// Notes the contests among `candidates`, what was found under one name; returns whom to tell of which record.
    pub(crate) fn note(&mut self, candidates: &[Candidate], now: Instant) -> Vec<(Holder, VerifiedRecord)> {
        let mut telling = Vec::new();
        let mut due: HashMap<NodeId, bool> = HashMap::new();
        for Candidate { record, holders } in candidates {
            let others = candidates.iter().map(|other| &other.record);
            let Some(other) = others.filter(|other| other.contradicts(record)).reduce(first) else {
                continue;
            };
            let is_due = *due.entry(record.origin).or_insert_with(|| self.is_due(record, now));
            let folders = holders.iter().filter(|holder| is_due && holder.node == record.origin);
            telling.extend(folders.take(FOLDERS_MAX).map(|folder| (*folder, other.clone())));
        }
        telling
    }

    /// Whether the folders are to be told now; they count as told.
    fn is_due(&mut self, record: &Record, now: Instant) -> bool {
        if self.has(record) && now.saturating_duration_since(self.0[&record.name].told_at) < TOLD_EVERY {
            return false;
        }
        if self.0.len() >= CONTESTS_MAX && !self.0.contains_key(&record.name) {
            self.0.clear();
        }
        let contest = Contest { origin: record.origin, version: record.version, told_at: now };
        self.0.insert(record.name.clone(), contest);
        true
    }
}

/// Which of two records ranks first.
fn first<'a>(one: &'a VerifiedRecord, other: &'a VerifiedRecord) -> &'a VerifiedRecord {
    if other.outranks(one) { other } else { one }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use nekoproto::{ContentHash, Identity, ManifestHash, Policy};

    use super::*;

    fn folder(port: u16) -> Holder {
        Holder::new(Identity::from_seed(&[1; 32]).id(), SocketAddr::from(([127, 0, 0, 1], port)))
    }

    fn candidate(name: &str, version: u64, content: u8, holders: &[Holder]) -> Candidate {
        let origin = Identity::from_seed(&[1; 32]);
        let record = Record {
            origin: origin.id(),
            name: FileName::new(name).unwrap(),
            version: Version::new(version).unwrap(),
            size: 1,
            content: ContentHash::from_bytes([content; 32]),
            manifest: ManifestHash::from_bytes([content; 32]),
            policy: Policy::default(),
            published_ms: 1_795_000_000_000,
        };
        Candidate { record: record.sign(&origin).unwrap(), holders: holders.to_vec() }
    }

    #[test]
    fn each_folder_is_told_of_the_other_record_once_in_a_while() {
        let (mut contests, now) = (Contests::default(), Instant::now());
        let reader = Holder::new(Identity::from_seed(&[9; 32]).id(), folder(9).addr);
        let (a, b) = (candidate("a", 2, 1, &[reader, folder(1)]), candidate("a", 2, 2, &[folder(2)]));
        assert!(contests.note(std::slice::from_ref(&a), now).is_empty() && !contests.has(&a.record));
        let expected = [(folder(1), b.record.clone()), (folder(2), a.record.clone())];
        let both = [a.clone(), b.clone()];
        assert_eq!(contests.note(&both, now), expected);
        assert!(contests.has(&a.record) && contests.has(&b.record));
        assert!(contests.note(&both, now + TOLD_EVERY / 2).is_empty(), "they know");
        assert_eq!(contests.note(&both, now + TOLD_EVERY), expected, "a message may be lost");
        assert!(!contests.has(&candidate("a", 3, 2, &[]).record), "a later version ends it");
    }

    #[test]
    fn what_a_hostile_origin_signs_costs_a_few_calls_and_little_memory() {
        let (mut contests, now) = (Contests::default(), Instant::now());
        let everywhere: Vec<Holder> = (1..50).map(folder).collect();
        let many: Vec<_> = (0..20).map(|content| candidate("a", 2, content, &everywhere)).collect();
        assert_eq!(contests.note(&many, now).len(), 20 * FOLDERS_MAX);
        for n in 0..2 * CONTESTS_MAX {
            contests.note(&[1, 2].map(|content| candidate(&n.to_string(), 1, content, &[])), now);
        }
        assert!(contests.0.len() <= CONTESTS_MAX);
    }
}
