//! Tests of `run/pacer.rs`.

use profile::run::Watch;
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;
use tokio::sync::mpsc;

use profile::run::pacer::*;

#[test]
fn every_client_is_told_in_turn_and_in_order() {
    let began = Instant::now();
    let pacer = Pacer { rate: 1e6, requests: 10, began };
    let (senders, mut receivers): (Vec<_>, Vec<_>) = (0..3).map(|_| mpsc::unbounded_channel()).unzip();
    pacer.start(senders, Arc::default()).unwrap().join().unwrap();
    let told: Vec<Vec<Instant>> = receivers
        .iter_mut()
        .map(|receiver| std::iter::from_fn(|| receiver.try_recv().ok()).collect())
        .collect();
    let due = |numbers: &[usize]| numbers.iter().map(|n| pacer.due(*n)).collect::<Vec<_>>();
    assert_eq!(told, [due(&[0, 3, 6, 9]), due(&[1, 4, 7]), due(&[2, 5, 8])]);
    assert_eq!(pacer.due(10) - began, Duration::from_micros(10));
}

#[test]
fn a_stopped_run_is_paced_no_further() {
    let watch = Arc::new(Watch::default());
    watch.stop();
    let (sender, mut receiver) = mpsc::unbounded_channel();
    let pacer = Pacer { rate: 1.0, requests: 1000, began: Instant::now() };
    pacer.start(vec![sender], watch).unwrap().join().unwrap();
    assert!(receiver.try_recv().is_err());
}
