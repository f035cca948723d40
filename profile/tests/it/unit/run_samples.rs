//! Tests of `run/samples.rs`.

use profile::plan::expected::Verdict;
use profile::run::samples::*;
use std::collections::BTreeMap;
use std::time::Duration;

fn sample(client: u32, took_us: u64, outcome: Result<Verdict, Failure>) -> Sample {
    let took = Duration::from_micros(took_us);
    let (begun, late) = (Duration::from_millis(1), Duration::ZERO);
    Sample { client, begun, took, late, outcome, is_hit: true, messages: 2 }
}

fn samples() -> Samples {
    let measured = vec![
        sample(0, 10, Ok(Verdict::Right)),
        sample(0, 999, Err(Failure::Busy)),
        sample(0, 30, Ok(Verdict::Incomplete)),
        sample(1, 20, Ok(Verdict::Right)),
        sample(1, 999, Err(Failure::Busy)),
    ];
    Samples { measured, ..Samples::default() }
}

#[test]
fn failures_are_counted_and_kept_out_of_the_times() {
    let samples = samples();
    assert_eq!(samples.failures(), BTreeMap::from([(Failure::Busy, 2)]));
    assert_eq!(samples.wrong(), BTreeMap::from([(Verdict::Incomplete, 1)]));
    assert_eq!((samples.answered(), samples.hits(), samples.messages()), (3, 3, 6));
    assert!(samples.figures().max < 31.0);
}

#[test]
fn rounds_are_counted_for_each_client() {
    assert_eq!(samples().round_means_us(), [15.0, 30.0]);
}

#[test]
fn csv_has_a_line_for_each_request() {
    let mut out = Vec::new();
    samples().write_csv(&mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 6);
    assert_eq!(lines[1], "0,1000.000,10.000,0.000,right,1,2");
    assert_eq!(lines[2], "0,1000.000,999.000,0.000,busy,1,2");
}
