//! What is registered and what is asked. Pure, and the same for the same seed and keys.

use nekoproto::{
    ContentHash, FileName, Identity, ManifestHash, Policy, Record, SignedRecord, VerifiedRecord, Version,
};
use rand::{RngExt, SeedableRng, rngs::StdRng};

use crate::plan::query::Query;

/// Names that nobody has; a miss asks for one of them.
const MISSING_NAMES: usize = 4096;

/// The files of a cluster, in the order of indexers and then of files.
#[derive(Debug)]
pub struct Workload {
    records: Vec<SignedRecord>,
    missing: Vec<FileName>,
    files: usize,
    indexers: usize,
    holders: usize,
}

/// What one query asks for: the n-th file of all, or the n-th name that nobody has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// A file that is registered somewhere.
    File(usize),
    /// A name that is registered nowhere.
    Missing(usize),
}

/// The record of a made-up file called `name`, which must be an allowed name.
#[expect(clippy::expect_used, reason = "a record signed by its own origin cannot be refused")]
pub fn sign_record(origin: &Identity, name: &str) -> VerifiedRecord {
    let record = Record {
        origin: origin.id(),
        name: testkit::values::name(name),
        version: Version::FIRST,
        size: name.len() as u64,
        content: ContentHash::from_bytes([1; 32]),
        manifest: ManifestHash::from_bytes([2; 32]),
        policy: Policy::default(),
        published_ms: 1_795_000_000_000,
    };
    record.sign(origin).expect("signed by its origin")
}

/// The next version of the same file.
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

    /// The records of all files.
    pub fn records(&self) -> &[SignedRecord] {
        &self.records
    }

    /// The indexers where file `index` is registered, each by its own peer: that of its origin and
    /// those that follow.
    pub fn held_at(&self, index: usize) -> impl Iterator<Item = usize> {
        let (place, indexers) = (index / self.files, self.indexers);
        (place..place + self.holders).map(move |at| at % indexers)
    }

    /// What the peer of indexer `at` registers there.
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
    /// The draw of the n-th client.
    pub fn new(scenario: &Query, client: usize) -> Self {
        let seed = scenario.load.seed.wrapping_mul(1_000_003).wrapping_add(client as u64);
        let files = scenario.load.files * scenario.indexers;
        Self { rng: StdRng::seed_from_u64(seed), miss: scenario.load.miss, files }
    }

    /// What is asked next.
    pub fn ask(&mut self) -> Ask {
        if self.rng.random_bool(self.miss) {
            return Ask::Missing(self.rng.random_range(0..MISSING_NAMES));
        }
        Ask::File(self.rng.random_range(0..self.files))
    }
}
