//! Seeds of simulations: few by default, those that `NEKO_SEEDS` says.

use std::{env, ops::Range, thread::panicking};

/// The seeds that a simulation runs with. Dropped by a panic, it prints the latest.
#[derive(Debug)]
pub struct Seeds(Range<u64>);

/// Seeds from 0 to `default`, or those of the environment variable `NEKO_SEEDS`: `COUNT`, or `FROM..TO`.
pub fn seeds(default: u64) -> Seeds {
    let text = env::var("NEKO_SEEDS").unwrap_or_else(|_| default.to_string());
    let (from, to) = text.split_once("..").unwrap_or(("0", &text));
    eprintln!("seeds {from}..{to}");
    Seeds(from.parse().unwrap()..to.parse().unwrap())
}

impl Iterator for Seeds {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        self.0.next()
    }
}

impl ExactSizeIterator for Seeds {
    fn len(&self) -> usize {
        usize::try_from(self.0.end - self.0.start).unwrap()
    }
}

impl Drop for Seeds {
    fn drop(&mut self) {
        if panicking() {
            eprintln!("failed with seed {}", self.0.start.saturating_sub(1));
        }
    }
}
