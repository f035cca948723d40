//! Tests of counters, and of the times that they keep.

use super::*;

#[test]
fn drops_are_named_in_their_order() {
    assert!(Drop::ALL.iter().enumerate().all(|(n, (why, _))| *why as usize == n));
}

#[test]
fn what_all_threads_count_is_found_again() {
    let counters = Counters::default();
    std::thread::scope(|scope| {
        for _ in 0..2 * STRIPES {
            scope.spawn(|| {
                for _ in 0..100 {
                    counters.queries.inc();
                }
                counters.records.inc_by(7);
                counters.drop(Drop::Busy);
            });
        }
    });
    assert_eq!(counters.queries.get(), 1600);
    assert_eq!(counters.records.get(), 112);
    assert_eq!((counters.drops(Drop::Busy).get(), counters.drops(Drop::Ttl).get()), (16, 0));
}

#[test]
fn times_fall_into_the_bucket_whose_end_they_do_not_exceed() {
    let cases =
        [(0, 0), (1000, 0), (1001, 1), (2000, 1), (2001, 2), (4000, 2), (1 << 40, 24), (u64::MAX, 24)];
    for (ns, bucket) in cases {
        assert_eq!(bucket_of(ns), bucket, "{ns} ns");
        let (us, end) = (ns.div_ceil(1000), bucket_ends_us(bucket));
        assert!(end.is_none_or(|end| us <= end), "{ns} ns");
    }
}

#[test]
fn quantiles_are_within_their_bucket() {
    let counters = Counters::default();
    let times = &counters.together;
    (0..90).for_each(|_| times.note(Duration::from_micros(3)));
    (0..10).for_each(|_| times.note(Duration::from_micros(100)));
    let answers = counters.answers();
    assert_eq!((answers.count(), answers.since(&answers)), (100, Histogram::default()));
    assert!((2.0..=4.0).contains(&answers.quantile_us(0.5).unwrap()));
    assert!((64.0..=128.0).contains(&answers.quantile_us(0.99).unwrap()));
    assert_eq!(Histogram::default().quantile_us(0.5), None);
}

#[test]
fn one_answer_in_some_is_timed_and_stands_for_the_others() {
    let (counters, now) = (Counters::default(), Instant::now());
    (0..160).for_each(|_| counters.answered_alone(&counters.searches, now));
    let counted = (counters.alone.now().count(), counters.answers().count());
    assert_eq!((counters.answered(), counted), (160, (10, 160)));
}
