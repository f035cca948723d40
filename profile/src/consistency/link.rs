//! Virtual time: what happens when, and how long a message takes over a link, if it arrives at all.

use std::{collections::BTreeMap, time::Duration};

use rand::{RngExt, rngs::StdRng};

/// A kind of link, by its ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// A reader and the origin.
    Peers,
    /// The origin and its indexer.
    OriginIndexer,
    /// A reader and its indexer.
    ReaderIndexer,
    /// Two indexers.
    Indexers,
}

impl Link {
    /// Every kind, and how it is called.
    pub const ALL: [(Self, &'static str); 4] = [
        (Self::Peers, "reader - origin"),
        (Self::OriginIndexer, "origin - indexer"),
        (Self::ReaderIndexer, "reader - indexer"),
        (Self::Indexers, "indexer - indexer"),
    ];
}

/// Links that carry nothing for some time. Nobody is told: calls over them time out.
#[derive(Clone, Copy, Debug)]
pub struct Cut {
    /// Which kind; `None`: all.
    pub link: Option<Link>,
    /// When it begins and ends.
    pub from: Duration,
    /// The same.
    pub until: Duration,
}

/// How links behave.
#[derive(Clone, Copy, Debug)]
pub struct Weather {
    /// The shortest and the longest delay of a message. Delays are uniform in between, and independent: messages overtake
    /// each other.
    pub delay: (Duration, Duration),
    /// Share of messages that are lost.
    pub loss: f64,
    /// Share of invalidations that arrive twice.
    pub doubled: f64,
    /// Links that carry nothing for some time.
    pub cut: Option<Cut>,
}

impl Weather {
    /// Whether a message sent over such a link at `now` arrives.
    pub(crate) fn carries(&self, link: Link, now: Duration, rng: &mut StdRng) -> bool {
        let is_cut = self
            .cut
            .is_some_and(|cut| cut.link.is_none_or(|of| of == link) && (cut.from..cut.until).contains(&now));
        let is_lost = self.loss > 0.0 && rng.random_bool(self.loss);
        !(is_cut || is_lost)
    }

    pub(crate) fn delay(&self, rng: &mut StdRng) -> Duration {
        rng.random_range(self.delay.0..=self.delay.1)
    }
}

/// The time between two events of a Poisson process.
pub(crate) fn exponential(mean: Duration, rng: &mut StdRng) -> Duration {
    mean.mul_f64(-(1.0 - rng.random::<f64>()).ln())
}

/// What will happen, in order.
#[derive(Debug)]
pub(crate) struct Queue<E> {
    now: Duration,
    added: u64,
    due: BTreeMap<(Duration, u64), E>,
}

impl<E> Queue<E> {
    pub(crate) const fn new() -> Self {
        Self { now: Duration::ZERO, added: 0, due: BTreeMap::new() }
    }

    /// Since the simulation began.
    pub(crate) const fn now(&self) -> Duration {
        self.now
    }

    /// `event` happens at this time, or now if that has passed.
    pub(crate) fn add(&mut self, at: Duration, event: E) {
        self.due.insert((at.max(self.now), self.added), event);
        self.added += 1;
    }

    /// `event` happens after this time.
    pub(crate) fn after(&mut self, pause: Duration, event: E) {
        self.add(self.now + pause, event);
    }

    /// The next event, unless it happens later than `end`.
    pub(crate) fn next(&mut self, end: Duration) -> Option<E> {
        let first = self.due.first_entry().filter(|first| first.key().0 <= end)?;
        let ((at, _), event) = first.remove_entry();
        self.now = at;
        Some(event)
    }
}
