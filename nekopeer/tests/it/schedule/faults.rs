//! The schedule of faults: pure, decided by a seed.

use std::ops::Range;

use rand::Rng;
use testkit::lan::Wire;

use super::world::{INDEXERS, READERS};

use crate::program::*;

/// For how long a process is down, and a host cut off (longer than the bounds), in milliseconds.
const DOWN_MS: Range<u64> = 0..3000;
const CUT_MS: Range<u64> = 2500..6000;
const BETWEEN_MS_MAX: u64 = 1000;

/// A process, with its host if there is a network.
#[derive(Clone, Copy, Debug)]
pub(super) enum Target {
    Origin,
    Reader(usize),
    Indexer(usize),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Harm {
    /// `kill -9`, and a start afterwards.
    Kill,
    /// SIGSTOP, and SIGCONT afterwards.
    Pause,
    /// Its host neither sends nor receives a packet.
    Cut,
    /// Its host sends, and receives nothing.
    Deaf,
    /// Its host receives, and what it sends is lost.
    Mute,
}

impl Harm {
    /// The wire of a host that suffers it.
    pub(super) const fn to(self, wire: Wire) -> Wire {
        let sends = !matches!(self, Self::Cut | Self::Mute);
        Wire { sends, receives: !matches!(self, Self::Cut | Self::Deaf), ..wire }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    Harm(Target, Harm, Duration),
    /// The origin's data folder is copied.
    BackUp,
    /// The copy is put back.
    Restore,
    /// The origin loses its catalogue, and keeps its key.
    LoseCatalogue,
    /// A copy of the origin's folder starts beside the origin.
    Clone,
}

/// The faults of this seed, each with the time until the next. Without a network nothing is cut. With one, the
/// origin's folder stays as it is: an origin that was restored while nobody can be asked cannot but use a number
/// again.
pub(super) fn faults(seed: u64, has_network: bool) -> impl Iterator<Item = (Fault, Duration)> {
    let mut rng = StdRng::seed_from_u64(seed);
    std::iter::repeat_with(move || {
        let fault = if has_network { on_network(&mut rng) } else { on_one_host(&mut rng) };
        (fault, Duration::from_millis(rng.random_range(0..BETWEEN_MS_MAX)))
    })
}

fn on_one_host(rng: &mut StdRng) -> Fault {
    match rng.random_range(0..14) {
        0..9 => harm(rng, &[Harm::Kill, Harm::Pause]),
        9 | 10 => Fault::BackUp,
        11 => Fault::Restore,
        12 => Fault::LoseCatalogue,
        _ => Fault::Clone,
    }
}

fn on_network(rng: &mut StdRng) -> Fault {
    harm(rng, &[Harm::Kill, Harm::Pause, Harm::Cut, Harm::Cut, Harm::Deaf, Harm::Mute])
}

fn harm(rng: &mut impl Rng, harms: &[Harm]) -> Fault {
    let target = match rng.random_range(0..9) {
        0..5 => Target::Reader(rng.random_range(0..READERS.len())),
        5 | 6 => Target::Indexer(rng.random_range(0..INDEXERS)),
        _ => Target::Origin,
    };
    let harm = harms[rng.random_range(0..harms.len())];
    let ms = if matches!(harm, Harm::Kill | Harm::Pause) { DOWN_MS } else { CUT_MS };
    Fault::Harm(target, harm, Duration::from_millis(rng.random_range(ms)))
}

#[test]
fn a_seed_decides_the_schedule() {
    let of = |seed| faults(seed, true).take(50).map(|fault| format!("{fault:?}")).collect::<Vec<_>>();
    assert_eq!(of(1), of(1));
    assert_ne!(of(1), of(2));
    assert!(["Kill", "Pause", "Cut", "Deaf", "Mute"].iter().all(|harm| of(1).concat().contains(harm)));
}
