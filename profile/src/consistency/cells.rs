//! The lines of each table: what is simulated.

use std::time::Duration;

use nekoproto::{Mode, Policy, Staleness};

use super::link::{Cut, Link, Weather};
use super::setting::{Mishaps, Setting};
use crate::plan::topology::Topology;
use crate::report::{Row, count, option_name};

/// One line of a table.
pub struct Cell {
    /// What it is about.
    pub about: Row,
    /// What is simulated.
    pub setting: Setting,
}

/// The share of stale reads of a copy that is refreshed every `x` mean update intervals.
pub fn theory(x: f64) -> f64 {
    1.0 - (1.0 - (-x).exp()) / x
}

/// The delay of a message, but for those of C5.
pub(super) const DELAY: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(20));
/// Delays in C5: some are overtaken by many others, some come after the call has timed out.
const DELAY_LONG: (Duration, Duration) = (Duration::from_millis(1), Duration::from_secs(2));
const HOUR: Duration = Duration::from_secs(3600);
/// Update means of C2, in seconds.
const C2_UPDATES_S: [u64; 2] = [60, 120];
const C6_INDEXERS: [usize; 3] = [10, 30, 100];
const C6_REPLICAS: [usize; 5] = [0, 1, 3, 10, 30];

/// Messages of an invalidation that every indexer sends to all neighbors but the one from which it came, and to the
/// `readers` that hold the file.
fn flood(indexers: usize, topology: Topology, readers: usize) -> f64 {
    let links = match topology {
        Topology::Mesh => indexers * (indexers - 1) / 2,
        Topology::Random => 2 * indexers, // of degree 4
        _ => indexers - 1,
    };
    count(2 * links + 1 - indexers + readers)
}

fn policy(mode: Mode, lease_s: u32, ttr_s: u32) -> Policy {
    Policy::new(mode, lease_s, ttr_s, Staleness::ServeStale).unwrap_or_default()
}

fn secs(s: u64) -> Duration {
    Duration::from_secs(s)
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
        weather: Weather { delay: DELAY, loss: 0.0, doubled: 0.0, cut: None },
        session: None,
        mishaps: None,
        queries: false,
        ignores_bound: false,
    }
}

pub(super) fn c1() -> Vec<Cell> {
    let mut cells = Vec::new();
    for topology in [Topology::Mesh, Topology::Line, Topology::Random] {
        for readers in 1..=3 {
            for update_s in [30, 60, 120, 300] {
                let name = if topology == Topology::Random {
                    "4-regular".to_owned()
                } else {
                    option_name(&topology)
                };
                let about =
                    Row::default().with("topology", name).with("readers", readers).with("update_s", update_s);
                let update_every = secs(update_s);
                let policy = policy(Mode::Push, 60, 60);
                let setting = Setting { topology, readers, update_every, policy, queries: true, ..calm() };
                cells.push(Cell { about, setting });
            }
        }
    }
    cells
}

pub(super) fn c2() -> Vec<Cell> {
    let mut cells = Vec::new();
    for update_s in C2_UPDATES_S {
        for ttr_s in [15, 30, 60, 120, 255] {
            let x = f64::from(ttr_s) / Duration::from_secs(update_s).as_secs_f64();
            let about = Row::default().with("update_s", update_s).with("ttr_s", ttr_s);
            let about = about.figure("theory_percent", 100.0 * theory(x));
            let (policy, update_every) = (policy(Mode::Pull, 60, ttr_s), secs(update_s));
            let setting = Setting { indexers: 3, policy, update_every, lasts: 24 * HOUR, ..calm() };
            cells.push(Cell { about, setting });
        }
    }
    cells
}

pub(super) fn c3() -> Vec<Cell> {
    let mut cells = Vec::new();
    let (indexers, readers, topology) = (30, 30, Topology::Random);
    for mode in [Mode::Push, Mode::Pull, Mode::Hybrid] {
        for session_min in [None, Some(174), Some(30), Some(10)] {
            for loss_percent in [0, 1, 5, 10] {
                let about = Row::default().with("mode", mode.to_string()).with("session_min", session_min);
                let about = about
                    .with("loss_percent", loss_percent)
                    .figure("flood", flood(indexers, topology, readers));
                let weather = Weather { loss: f64::from(loss_percent) / 100.0, ..calm().weather };
                let (policy, session) = (policy(mode, 120, 60), session_min.map(|min| secs(60 * min)));
                let update_every = secs(120);
                let (indexers, readers, topology) = (indexers, readers, topology);
                let setting =
                    Setting { indexers, readers, topology, policy, update_every, weather, session, ..calm() };
                cells.push(Cell { about, setting });
            }
        }
    }
    cells
}

pub(super) fn c4() -> Vec<Cell> {
    let links = Link::ALL.map(|(link, name)| (Some(link), name));
    let mut cells = Vec::new();
    for (link, name) in links.into_iter().chain([(None, "all")]) {
        for lease_s in [5, 10, 30] {
            let about = Row::default().with("cut", name).with("lease_s", lease_s);
            let cut = Cut { link, from: secs(60), until: secs(360) };
            let weather = Weather { cut: Some(cut), ..calm().weather };
            let (indexers, topology, lasts) = (3, Topology::Line, secs(400));
            let (policy, update_every, read_every) = (policy(Mode::Push, lease_s, 60), secs(20), secs(1));
            let setting =
                Setting { indexers, topology, policy, update_every, read_every, lasts, weather, ..calm() };
            cells.push(Cell { about, setting });
        }
    }
    cells
}

pub(super) fn c5() -> Vec<Cell> {
    let rows = [
        ("messages replayed and forged", Mishaps::Messages),
        ("restarts", Mishaps::Restarts),
        ("restored folder", Mishaps::Backups),
    ];
    let cell = |(name, mishaps): (&str, _)| {
        let weather = Weather { delay: DELAY_LONG, loss: 0.05, doubled: 0.1, cut: None };
        let (indexers, topology, policy) = (4, Topology::Ring, policy(Mode::Hybrid, 20, 20));
        let (update_every, lasts) = (secs(10), secs(300));
        let mishaps = Some(mishaps);
        let setting = Setting { indexers, topology, policy, update_every, lasts, weather, mishaps, ..calm() };
        Cell { about: Row::default().with("mishaps", name), setting }
    };
    rows.map(cell).into()
}

pub(super) fn c6() -> Vec<Cell> {
    let mut cells = Vec::new();
    for indexers in C6_INDEXERS {
        for readers in C6_REPLICAS {
            let topology = Topology::Random;
            let about = Row::default().with("indexers", indexers).with("readers", readers);
            let about = about.figure("flood", flood(indexers, topology, readers));
            cells.push(Cell { about, setting: Setting { indexers, readers, topology, ..calm() } });
        }
    }
    cells
}
