//! Tests of `run/` and `node/`.

use std::{collections::BTreeMap, sync::Arc, thread, time::Duration, time::Instant};

use nekopeer::Delivery;
use nekoproto::NodeId;
use profile::node::{reader::*, usage::*};
use profile::report::write_csv;
use profile::run::{Watch, pacer::*, samples::*};
use profile::{plan::workload::Verdict, run::growth::*};
use tokio::sync::mpsc;

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
    write_csv(&mut out, Sample::KEYS, samples().measured.into_iter().map(Sample::row)).unwrap();
    let text = String::from_utf8(out).unwrap();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 6);
    assert_eq!(lines[1], "0,1000.000,10.000,0.000,right,1,2");
    assert_eq!(lines[2], "0,1000.000,999.000,0.000,busy,1,2");
}

#[test]
fn what_a_source_sent_for_several_files_is_summed() {
    let from = |node: u8, bytes, banned| {
        let addr = ([127, 0, 0, 1], 1).into();
        Delivery { node: NodeId::from_bytes([node; 32]), addr, bytes, banned }
    };
    let sum = summed(vec![
        Ok(vec![from(1, 10, false), from(2, 5, true)]),
        Err("broken".to_owned()),
        Ok(vec![from(1, 1, false)]),
    ]);
    let bytes: Vec<_> = sum.sources.iter().map(|sent| (sent.bytes, sent.banned)).collect();
    assert_eq!((bytes, sum.failed.len()), (vec![(11, false), (5, true)], 1));
}

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

/// A figure each second for a hundred seconds.
fn growth(figure: impl Fn(f64) -> f64) -> Growth {
    let points: Vec<(f64, f64)> = (0..100u8).map(|s| (s.into(), figure(s.into()))).collect();
    Growth::of("memory MiB", &points, 8.0).unwrap()
}

#[test]
fn growth_is_what_noise_does_not_explain() {
    assert!(!growth(|_| 50.0).grows);
    assert!(!growth(|s| 50.0 + 40.0 * (s * 1.7).sin()).grows, "noise alone");
    assert!(!growth(|s| 50.0 + s / 20.0).grows, "5 MiB are allowed");
    let leak = growth(|s| s.mul_add(0.3, 50.0) + (s * 1.7).sin());
    assert!(leak.grows, "{leak:?}");
    assert!((leak.per_hour - 1080.0).abs() < 20.0, "{leak:?}");
    assert!(!growth(|s| s.mul_add(-0.3, 50.0)).grows, "what shrinks does not grow");
    assert!(Growth::of("memory MiB", &[(0.0, 1.0), (1.0, 9.0)], 8.0).is_none(), "two points say nothing");
}
