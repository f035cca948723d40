//! What is registered, what is asked, and what must come out of it. Pure, and the same for the same seed and keys.

use nekoproto::{ContentHash, Record};

use crate::plan::{query::Query, topology::Graph};
use crate::prelude::*;

/// Names that nobody has; a miss asks for one of them.
const MISSING_NAMES: usize = 4096;

/// The files of a cluster, in the order of indexers and then of files.
#[derive(Debug)]
pub struct Workload {
    pub records: Vec<SignedRecord>,
    missing: Vec<FileName>,
    files: usize,
    indexers: usize,
    holders: usize,
}

/// What one query asks for: the n-th file of all, or the n-th name that nobody has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    File(usize),
    Missing(usize),
}

/// The record of a made-up file called `name`, which must be an allowed name.
#[expect(clippy::expect_used, reason = "a record signed by its own origin cannot be refused")]
pub fn sign_record(origin: &Identity, name: &str) -> VerifiedRecord {
    let size = name.len() as u64;
    let record = Record { size, ..testkit::values::file_of(origin, testkit::values::name(name), 1) };
    record.sign(origin).expect("signed by its origin")
}

#[expect(clippy::expect_used, reason = "as above, and there are more versions than anybody makes")]
pub(crate) fn sign_next(origin: &Identity, record: &VerifiedRecord) -> VerifiedRecord {
    let version = record.version.next().expect("one more");
    let content = ContentHash::from_bytes([2; 32]);
    Record { version, content, ..record.to_signed().unverified().clone() }
        .sign(origin)
        .expect("signed by its origin")
}

impl Workload {
    /// The files of `scenario`; those of indexer n are published by `origins[n]`.
    pub fn new(scenario: &Query, origins: &[Identity]) -> Self {
        let mut records = Vec::new();
        for (place, origin) in origins.iter().enumerate() {
            let name = |file| format!("indexer-{place}/file-{file}.bin");
            records.extend((0..scenario.load.files).map(|file| sign_record(origin, &name(file)).to_signed()));
        }
        let missing = (0..MISSING_NAMES).map(|n| testkit::values::name(&format!("nobody/file-{n}.bin")));
        Self {
            records,
            missing: missing.collect(),
            files: scenario.load.files,
            indexers: origins.len(),
            holders: scenario.holders,
        }
    }

    /// The indexers where file `index` is registered, each by its own peer: that of its origin and
    /// those that follow.
    pub fn held_at(&self, index: usize) -> impl Iterator<Item = usize> {
        let (place, indexers) = (index / self.files, self.indexers);
        (place..place + self.holders).map(move |at| at % indexers)
    }

    pub fn registered_at(&self, at: usize) -> Vec<SignedRecord> {
        let held = |index: &usize| self.held_at(*index).any(|holder| holder == at);
        (0..self.records.len()).filter(held).map(|index| self.records[index].clone()).collect()
    }

    pub(crate) fn name(&self, ask: Ask) -> &FileName {
        match ask {
            Ask::File(index) => &self.records[index].unverified().name,
            Ask::Missing(index) => &self.missing[index],
        }
    }
}

/// Draws what one client asks, one query after the other.
#[derive(Debug)]
pub struct Draw {
    rng: StdRng,
    miss: f64,
    files: usize,
}

impl Draw {
    pub fn new(scenario: &Query, client: usize) -> Self {
        let seed = scenario.load.seed.wrapping_mul(1_000_003).wrapping_add(client as u64);
        let files = scenario.load.files * scenario.indexers;
        Self { rng: StdRng::seed_from_u64(seed), miss: scenario.load.miss, files }
    }

    pub fn ask(&mut self) -> Ask {
        if self.rng.random_bool(self.miss) {
            return Ask::Missing(self.rng.random_range(0..MISSING_NAMES));
        }
        Ask::File(self.rng.random_range(0..self.files))
    }
}

/// What the clients of one indexer must find.
#[derive(Debug)]
pub struct Expected {
    pub(crate) workload: Arc<Workload>,
    /// For each file those of its holders that are in reach, in order.
    holders: Vec<Vec<Holder>>,
}

/// What an answer is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It has exactly the hits it must have.
    Right,
    /// It says itself that someone in reach did not answer.
    Incomplete,
    /// A hit or a holder in reach is not there.
    Missing,
    /// A hit or a holder is there that is nowhere in reach.
    Unexpected,
    /// A record is not the one that was registered.
    Altered,
}

impl Expected {
    /// What must be found by queries that begin at indexer `from` with `ttl_hops`; `holders[n]` is
    /// the peer of indexer n.
    pub fn new(
        workload: Arc<Workload>,
        graph: &Graph,
        from: usize,
        ttl_hops: u8,
        holders: &[Holder],
    ) -> Self {
        let reached = graph.reach(from, ttl_hops);
        let found = (0..workload.records.len()).map(|index| {
            let in_reach = workload.held_at(index).filter(|at| reached[*at]);
            in_order(in_reach.map(|at| holders[at]))
        });
        Self { holders: found.collect(), workload }
    }

    pub fn is_hit(&self, ask: Ask) -> bool {
        matches!(ask, Ask::File(index) if !self.holders[index].is_empty())
    }

    /// Judges the answer to `ask`: every hit, holder, address and byte of the record.
    pub fn judge(&self, ask: Ask, reply: &QueryReply) -> Verdict {
        let answer = match ask {
            Ask::File(index) if self.is_hit(ask) => {
                Some((&self.workload.records[index], &self.holders[index]))
            }
            Ask::File(_) | Ask::Missing(_) => None,
        };
        match (answer, &reply.hits[..]) {
            _ if !reply.complete => Verdict::Incomplete,
            (None, []) => Verdict::Right,
            (Some(_), []) => Verdict::Missing,
            (None, _) | (Some(_), [_, _, ..]) => Verdict::Unexpected,
            (Some((record, _)), [hit]) if hit.record != *record => Verdict::Altered,
            (Some((_, holders)), [hit]) => {
                let found = in_order(hit.at().into_iter());
                match found == *holders {
                    true => Verdict::Right,
                    false if found.iter().all(|holder| holders.contains(holder)) => Verdict::Missing,
                    false => Verdict::Unexpected,
                }
            }
        }
    }
}

fn in_order(holders: impl Iterator<Item = Holder>) -> Vec<Holder> {
    let mut holders: Vec<Holder> = holders.collect();
    holders.sort_unstable_by_key(|holder| (holder.node, holder.addr));
    holders
}
