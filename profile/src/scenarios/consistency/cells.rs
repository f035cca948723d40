//! What is simulated: how many nodes, on which links, for how long, and what goes wrong; and so for each line of a table.

use nekoproto::{Mode, Policy, Staleness};

use crate::plan::topology::Topology;
use crate::scenarios::prelude::*;

/// A kind of link, by its ends: readers, the origin, indexers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    ReaderOrigin,
    OriginIndexer,
    ReaderIndexer,
    Indexers,
}

#[derive(Clone, Debug)]
pub struct Setting {
    pub(crate) indexers: usize,
    pub(crate) topology: Topology,
    pub(crate) readers: usize,
    pub(crate) policy: Policy,
    /// Mean time between updates.
    pub(crate) update_every: Duration,
    /// Mean time between reads of one copy.
    pub(crate) read_every: Duration,
    pub lasts: Duration,
    /// Of a message. Delays are uniform, and independent: messages overtake each other.
    pub(crate) delay: RangeInclusive<Duration>,
    pub(crate) loss: f64,
    /// Share of invalidations that arrive twice.
    pub(crate) doubled: f64,
    /// Which links, `None`: all, carry nothing and when. Nobody is told: calls over them time out.
    pub(crate) cut: Option<(Option<Link>, Range<Duration>)>,
    /// Mean time that a peer is there; `None`: always.
    pub(crate) session: Option<Duration>,
    pub(crate) mishaps: Option<Mishaps>,
    /// Readers also ask the indexers for the file, each time that they read it.
    pub(crate) queries: bool,
}

/// What goes wrong on top of links and sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mishaps {
    /// Older and forged versions are sent to anybody.
    Messages,
    Restarts,
    /// The folder starts again with an older backup of itself.
    Backups,
}

/// One line of a table.
pub struct Cell {
    pub about: Row,
    pub setting: Setting,
}

/// The delay of a message, but for those of C5.
pub(super) const DELAY: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(20));
const HOUR: Duration = Duration::from_secs(3600);

/// The share of stale reads of a copy that is refreshed every `x` mean update intervals.
pub fn theory(x: f64) -> f64 {
    1.0 - (1.0 - (-x).exp()) / x
}

/// Messages of an invalidation that every indexer of degree 4 sends to all neighbors but the one from which it came, and to
/// the `readers` that hold the file.
fn flood(indexers: usize, readers: usize) -> f64 {
    count(3 * indexers + 1 + readers)
}

fn policy(mode: Mode, lease_s: u32, ttr_s: u32) -> Policy {
    Policy::new(mode, lease_s, ttr_s, Staleness::ServeStale).unwrap_or_default()
}

const fn secs(s: u64) -> Duration {
    Duration::from_secs(s)
}

/// Each of `a` with each of `b`.
fn pairs<A: Copy, B: Copy>(a: &[A], b: &[B]) -> Vec<(A, B)> {
    a.iter().flat_map(|a| b.iter().map(move |b| (*a, *b))).collect()
}

fn calm() -> Setting {
    Setting {
        indexers: 10,
        topology: Topology::Mesh,
        readers: 3,
        policy: Policy::default(),
        update_every: secs(60),
        read_every: secs(5),
        lasts: HOUR,
        delay: DELAY.0..=DELAY.1,
        loss: 0.0,
        doubled: 0.0,
        cut: None,
        session: None,
        mishaps: None,
        queries: false,
    }
}

pub(super) fn c1() -> Vec<Cell> {
    let topologies = [(Topology::Mesh, "mesh"), (Topology::Line, "line"), (Topology::Random, "4-regular")];
    let cell = |(((topology, name), readers), update_s)| {
        let (policy, update_every) = (policy(Mode::Push, 60, 60), secs(update_s));
        let about = Row::default().with("topology", name).with("readers", readers).with("update_s", update_s);
        Cell { about, setting: Setting { topology, readers, update_every, policy, queries: true, ..calm() } }
    };
    pairs(&pairs(&topologies, &[1, 2, 3]), &[30, 60, 120, 300]).into_iter().map(cell).collect()
}

pub(super) fn c2() -> Vec<Cell> {
    let cell = |(update_s, ttr_s)| {
        let (policy, update_every) = (policy(Mode::Pull, 60, ttr_s), secs(update_s));
        let theory = 100.0 * theory(f64::from(ttr_s) / update_every.as_secs_f64());
        let about = Row::default().with("update_s", update_s).with("ttr_s", ttr_s);
        let setting = Setting { indexers: 3, policy, update_every, lasts: 24 * HOUR, ..calm() };
        Cell { about: about.with("theory_percent", theory), setting }
    };
    pairs(&[60, 120], &[15, 30, 60, 120, 255]).into_iter().map(cell).collect()
}

pub(super) fn c3() -> Vec<Cell> {
    let (indexers, readers, topology) = (30, 30, Topology::Random);
    let cell = |((mode, session_min), loss_percent): ((Mode, Option<u64>), u32)| {
        let about = Row::default().with("mode", mode.to_string()).with("session_min", session_min);
        let about = about.with("loss_percent", loss_percent).with("flood", flood(indexers, readers));
        let (policy, session) = (policy(mode, 120, 60), session_min.map(|min| secs(60 * min)));
        let (loss, update_every) = (f64::from(loss_percent) / 100.0, secs(120));
        let setting = Setting { indexers, readers, topology, policy, update_every, loss, session, ..calm() };
        Cell { about, setting }
    };
    let modes = pairs(&[Mode::Push, Mode::Pull, Mode::Hybrid], &[None, Some(174), Some(30), Some(10)]);
    pairs(&modes, &[0, 1, 5, 10]).into_iter().map(cell).collect()
}

pub(super) fn c4() -> Vec<Cell> {
    let links = [
        (Some(Link::ReaderOrigin), "reader - origin"),
        (Some(Link::OriginIndexer), "origin - indexer"),
        (Some(Link::ReaderIndexer), "reader - indexer"),
        (Some(Link::Indexers), "indexer - indexer"),
        (None, "all"),
    ];
    let cell = |((link, name), lease_s)| {
        let (cut, policy) = (Some((link, secs(60)..secs(360))), policy(Mode::Push, lease_s, 60));
        let (indexers, topology, lasts) = (3, Topology::Line, secs(400));
        let (update_every, read_every) = (secs(20), secs(1));
        let setting = Setting { indexers, topology, policy, update_every, read_every, lasts, cut, ..calm() };
        Cell { about: Row::default().with("cut", name).with("lease_s", lease_s), setting }
    };
    pairs(&links, &[5, 10, 30]).into_iter().map(cell).collect()
}

pub(super) fn c5() -> Vec<Cell> {
    let rows = [
        ("messages replayed and forged", Mishaps::Messages),
        ("restarts", Mishaps::Restarts),
        ("restored folder", Mishaps::Backups),
    ];
    let cell = |(name, mishaps)| {
        // Some messages are overtaken by many others, some come after the call has timed out.
        let (delay, loss, doubled) = (DELAY.0..=secs(2), 0.05, 0.1);
        let (indexers, topology, policy) = (4, Topology::Ring, policy(Mode::Hybrid, 20, 20));
        let (update_every, lasts, mishaps) = (secs(10), secs(300), Some(mishaps));
        let links = Setting { indexers, topology, delay, loss, doubled, ..calm() };
        let setting = Setting { policy, update_every, lasts, mishaps, ..links };
        Cell { about: Row::default().with("mishaps", name), setting }
    };
    rows.map(cell).into()
}

pub(super) fn c6() -> Vec<Cell> {
    let cell = |(indexers, readers)| {
        let about = Row::default().with("indexers", indexers).with("readers", readers);
        let setting = Setting { indexers, readers, topology: Topology::Random, ..calm() };
        Cell { about: about.with("flood", flood(indexers, readers)), setting }
    };
    pairs(&[10, 30, 100], &[0, 1, 3, 10, 30]).into_iter().map(cell).collect()
}
