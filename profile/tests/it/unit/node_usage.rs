//! Tests of `node/usage.rs`.

use profile::node::usage::*;
use std::thread;

#[test]
fn work_takes_processor_time_and_memory() {
    let mut meter = Meter::start().unwrap();
    meter.reset();
    let memory = vec![1u8; 64 << 20];
    thread::sleep(2 * SAMPLED_EVERY);
    let usage = meter.usage();
    assert!(usage.cpu_s > 0.0 && usage.peak_bytes > Some(memory.len() as u64), "{usage:?}");
    assert!(!usage.memory.is_empty());
    let before = now_s();
    assert!(now_s() >= before);
}
