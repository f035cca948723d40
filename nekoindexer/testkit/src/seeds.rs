//! Seeds of simulations: few by default, as many as `NEKO_SEEDS` says.

use std::{env, ops::Range, thread::panicking};

/// The seeds that a simulation runs with. Dropped by a panic, it prints the latest.
#[derive(Debug)]
pub struct Seeds(Range<u64>);

/// Seeds from 0 to `default`, or to the environment variable `NEKO_SEEDS`.
pub fn seeds(default: u64) -> Seeds {
    let count = env::var("NEKO_SEEDS").map_or(default, |count| count.parse().unwrap());
    eprintln!("seeds 0..{count}");
    Seeds(0..count)
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
