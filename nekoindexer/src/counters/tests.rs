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
                (0..100).for_each(|_| counters.count(Work::Query));
                counters.add(Work::Record, 7);
                counters.drop(Drop::Busy);
            });
        }
    });
    let totals = counters.totals();
    assert_eq!(totals.work(Work::Query), 1600);
    assert_eq!(totals.work(Work::Record), 112);
    assert_eq!((totals.drops(Drop::Busy), totals.drops(Drop::Ttl)), (16, 0));
    assert_eq!(counters.totals() - &totals, Totals::default());
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
    let times = &counters.stripes[3].together;
    (0..90).for_each(|_| times.note(Duration::from_micros(3)));
    (0..10).for_each(|_| times.note(Duration::from_micros(100)));
    let answers = counters.totals().answers();
    assert_eq!(answers.count(), 100);
    assert!((2.0..=4.0).contains(&answers.quantile_us(0.5).unwrap()));
    assert!((64.0..=128.0).contains(&answers.quantile_us(0.99).unwrap()));
    assert_eq!(Histogram::default().quantile_us(0.5), None);
}

#[test]
fn one_answer_in_some_is_timed_and_stands_for_the_others() {
    let (counters, now) = (Counters::default(), Instant::now());
    (0..160).for_each(|_| counters.answered_alone(Work::Search, now));
    let totals = counters.totals();
    assert_eq!((totals.work(Work::Search), totals.alone.count(), totals.answers().count()), (160, 10, 160));
}
