//! What an auditor saw, held against what was acknowledged. Pure.
//!
//! The product has states, not a queue: a version may be skipped, but never comes after a later one, and the last one that
//! was acknowledged arrives in the end.

use crate::prelude::*;
use crate::report::some_of;

/// A version of a name that its publisher was told of as listed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Acknowledged {
    pub name: usize,
    pub version: u64,
    /// Which of the bytes that were written under the name, by their number; 0: those of before the load, of which the
    /// reader had a copy when it began to follow.
    pub number: u64,
    pub begun_s: f64,
}

/// A version of a name that arrived at the reader.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Arrived {
    pub name: usize,
    pub version: u64,
    pub at_s: f64,
}

/// What the reader has of a name in the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// The version, 0 if none.
    pub version: u64,
    /// The number in the bytes; `None`: they are none that were written under this name.
    pub number: Option<u64>,
}

/// What came of all names together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delivered {
    /// Arrivals of a version that had arrived before.
    pub twice: usize,
    /// Versions that were acknowledged and never arrived, but are not the last of their name.
    pub skipped: usize,
    /// Names of which the last acknowledged version is not there in the end.
    pub lost: usize,
    /// Arrivals of an older version after a newer one.
    pub went_back: usize,
    /// Arrivals of versions that nobody published.
    pub never_shared: usize,
    /// Names whose bytes in the end are none that were written under them.
    pub wrong: usize,
    /// From the begin of a publication until its version arrived.
    pub delays: Vec<Duration>,
}

/// Judges what came. Of each name there are as many versions as there were `attempts` to publish it, at most.
pub fn judge(
    attempts: &[u64],
    acknowledged: &[Acknowledged],
    arrived: &[Arrived],
    held: &[Held],
) -> Delivered {
    let mut judged = Delivered::default();
    let mut begun = vec![BTreeMap::new(); attempts.len()];
    let mut last = vec![(0, 0); attempts.len()];
    for one in acknowledged {
        if one.number > 0 {
            begun[one.name].insert(one.version, one.begun_s);
        }
        last[one.name] = last[one.name].max((one.version, one.number));
    }
    let mut seen: Vec<(u64, HashSet<u64>)> = vec![Default::default(); attempts.len()];
    for &Arrived { name, version, at_s } in arrived {
        let (newest, known) = &mut seen[name];
        judged.never_shared += usize::from(version > attempts[name]);
        if !known.insert(version) {
            judged.twice += 1;
        } else if version < *newest {
            judged.went_back += 1;
        } else if let Some(begun_s) = begun[name].get(&version) {
            judged.delays.push(Duration::from_secs_f64((at_s - begun_s).max(0.0)));
        }
        *newest = version.max(*newest);
    }
    for (name, held) in held.iter().enumerate() {
        let (version, number) = last[name];
        let is_there = held.version >= version && held.number.is_none_or(|held| held >= number);
        judged.lost += usize::from(!is_there);
        judged.wrong += usize::from(held.number.is_none() || held.version > attempts[name]);
        let before_last = begun[name].keys().filter(|one| **one < version);
        judged.skipped += before_last.filter(|one| !seen[name].1.contains(one)).count();
    }
    judged
}

impl Delivered {
    pub fn faults(&self) -> Vec<String> {
        some_of([
            (self.lost, "acknowledged and lost"),
            (self.went_back, "older after newer"),
            (self.never_shared, "never shared"),
            (self.wrong, "wrong bytes"),
        ])
    }
}
