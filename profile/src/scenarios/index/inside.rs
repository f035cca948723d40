//! The same index without a network: what the work itself costs.

use nekoindexer::{state::State, state::index::Session, state::merge::Merge};

use crate::scenarios::prelude::*;

/// Longer than any measurement.
const LEASE: Duration = Duration::from_secs(24 * 3600);

/// An index in this process.
#[derive(Debug)]
pub(crate) struct Inside {
    pub(crate) state: State,
    session: Arc<Session>,
    /// How long registering took so far.
    pub(crate) registering: Duration,
    registered: usize,
}

/// What the work itself costs, in microseconds for each name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Costs {
    /// Finding a name that is there, and making the answer.
    pub(crate) hit_us: f64,
    pub(crate) miss_us: f64,
    pub(crate) verify_us: f64,
    /// Listing a verified record.
    pub(crate) register_us: f64,
}

impl Inside {
    /// An empty index, to be called within a runtime, with the only peer `at` these addresses.
    pub(crate) fn new(at: NodeAddrs) -> Self {
        let now = Instant::now();
        let state = State::new(now);
        let session = state.index.open_session(at, LEASE, now);
        Self { state, session, registering: Duration::ZERO, registered: 0 }
    }

    /// Registers `records`, and times that.
    pub(crate) fn register(&mut self, records: &[VerifiedRecord]) {
        let records: Vec<_> = records.iter().cloned().map(Into::into).collect();
        self.registered += records.len();
        let began = Instant::now();
        black_box(self.state.on_register(&self.session, records, false));
        self.registering += began.elapsed();
    }

    /// What an indexer with these names answers.
    pub(crate) fn search(&self, name: &FileName) -> QueryReply {
        Merge::new(self.state.index.lookup(name, Instant::now())).finish()
    }

    /// What the work costs with the names that are registered now: for some that are (`records`) and
    /// some that are not.
    pub(crate) fn costs(&self, records: &[SignedRecord], missing: &[FileName]) -> Costs {
        let names = records.iter().map(|record| &record.unverified().name);
        Costs {
            hit_us: us_each(names, |name| drop(black_box(self.search(name)))),
            miss_us: us_each(missing.iter(), |name| drop(black_box(self.search(name)))),
            verify_us: us_each(records.iter(), |record| drop(black_box(record.clone().verify()))),
            register_us: per(self.registering, self.registered),
        }
    }
}

fn us_each<T>(items: impl ExactSizeIterator<Item = T>, work: impl FnMut(T)) -> f64 {
    let (all, began) = (items.len(), Instant::now());
    items.for_each(work);
    per(began.elapsed(), all)
}

fn per(took: Duration, items: usize) -> f64 {
    took.as_secs_f64() * 1e6 / count(items.max(1))
}
