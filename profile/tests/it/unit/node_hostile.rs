//! Tests of `node/hostile.rs`.

use nekoproto::Manifest;
use nekoproto::{Chunk, ChunkHash};
use std::num::NonZeroU64;
use std::sync::Mutex;
use std::time::Duration;
use tokio::time::Instant;

use profile::node::hostile::*;

#[test]
fn the_seed_chooses_which_chunks_are_corrupted() {
    let chunk = Chunk { len: 100, hash: ChunkHash::from_bytes([0; 32]) };
    let manifest = Manifest::new(vec![chunk; 1000]).unwrap();
    let chosen = flipped(&manifest, 5.0, 7);
    assert!((20..100).contains(&chosen.len()), "{}", chosen.len());
    assert!(chosen.is_sorted() && chosen.iter().all(|at| at % 100 == 50));
    assert_eq!(chosen, flipped(&manifest, 5.0, 7));
    assert_eq!(flipped(&Manifest::new(vec![chunk; 3]).unwrap(), 0.001, 7).len(), 1, "at least one");
}

#[test]
fn pieces_are_due_at_the_rate() {
    let (per_s, now) = (NonZeroU64::new(1000).unwrap(), Instant::now());
    let pace = Pace { per_s: Some(per_s), next: Mutex::new(now) };
    let due: Vec<u128> = (0..11).map(|_| (pace.due(now, 100, per_s) - now).as_millis()).collect();
    assert_eq!((due[0], due[1], due[10]), (0, 100, 1000));
    let later = now + Duration::from_secs(60);
    assert_eq!(pace.due(later, 100, per_s), later, "a pause gives no right to hurry");
}
