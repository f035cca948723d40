//! Tests of `hostile/judge.rs` and `load/judge.rs`.

use std::time::Duration;

use profile::arena::load::{Answered, Found, Kind};
use profile::scenarios::hostile::judge::*;
use profile::scenarios::load::judge::{self, Acknowledged, Arrived, Held, judge};

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Asked each 10 ms for 9 s, attacked from 2 s to 4 s by somebody who takes `rogue_percent` of a core: what was seen follows
/// from when it was asked.
fn judged_of(kind: Kind, rogue_percent: f64, seen: impl Fn(u64) -> (u64, Found)) -> Judged {
    let samples: Vec<Answered> = (0..900)
        .map(|n| {
            let (took, found) = seen(n * 10);
            Answered { kind, at: ms(n * 10), took: ms(took), found }
        })
        .collect();
    Judged::of(&samples, [ms(0), ms(2000), ms(4000), ms(9000)], rogue_percent)
}

fn judged(seen: impl Fn(u64) -> (u64, Found)) -> Judged {
    judged_of(Kind::Found, 10.0, seen)
}

/// Takes 2 ms before and after the attack, and `during` it so many.
fn took(kind: Kind, rogue_percent: f64, during: u64) -> Judged {
    judged_of(kind, rogue_percent, |at| (if (2000..4000).contains(&at) { during } else { 2 }, Found::Right))
}

#[test]
fn an_attack_that_nobody_notices_held() {
    let held = took(Kind::Found, 10.0, 4);
    assert!(held.missed.is_empty(), "4 ms are less than 1.5 x 2 ms + 2 ms: {:?}", held.missed);
    assert_eq!(held.recovered, Some(Duration::ZERO));
    assert_eq!(held.phases.map(|seen| seen.figures.count), [200, 200, 500]);
}

#[test]
fn what_is_found_waits_for_no_guest_and_the_rest_a_bounded_time() {
    for (kind, name, held, late) in
        [(Kind::Found, "found", 4, 6), (Kind::Miss, "miss", 254, 256), (Kind::Search, "search", 254, 256)]
    {
        assert!(took(kind, 10.0, held).missed.is_empty(), "{name}");
        let missed = took(kind, 10.0, late).missed;
        assert!(missed.len() == 1 && missed[0].starts_with(&format!("{name} p99 {late}")), "{missed:?}");
    }
}

#[test]
fn only_an_attack_that_uses_up_a_core_may_slow_what_is_found_to_10_ms() {
    assert!(took(Kind::Found, 90.0, 9).missed.is_empty());
    assert_eq!(took(Kind::Found, 90.0, 11).missed.len(), 1);
    assert_eq!(took(Kind::Found, 50.0, 9).missed.len(), 1);
    assert_eq!(took(Kind::Found, f64::NAN, 9).missed.len(), 1, "nobody knows what it took");
}

#[test]
fn kinds_are_judged_apart() {
    let at = |n: u64| ms(n * 10);
    let sample = |n, kind, took| Answered { kind, at: at(n), took: ms(took), found: Found::Right };
    // A slow search before the attack excuses no slow query during it.
    let samples: Vec<Answered> = (0..900)
        .map(|n| match n % 2 {
            0 => sample(n, Kind::Search, 100),
            _ => sample(n, Kind::Found, if (200..400).contains(&n) { 50 } else { 2 }),
        })
        .collect();
    let judged = Judged::of(&samples, [ms(0), ms(2000), ms(4000), ms(9000)], 10.0);
    assert!(judged.missed.len() == 1 && judged.missed[0].starts_with("found p99 50"), "{:?}", judged.missed);
}

#[test]
fn late_answers_are_missed_and_recovery_is_counted_from_the_end() {
    let late = judged(|at| (if (2000..5300).contains(&at) { 50 } else { 2 }, Found::Right));
    assert_eq!(late.recovered, Some(ms(1500)), "the window from 5.0 s to 5.5 s is the last bad one");
    assert_eq!(late.missed.len(), 1, "{:?}", late.missed);
    assert!(late.missed[0].starts_with("found p99 50."), "{:?}", late.missed);
}

#[test]
fn whatever_is_not_right_is_missed_and_without_an_end_nothing_has_recovered() {
    for found in [Found::Wrong, Found::Incomplete, Found::Failed] {
        let bad = judged(|at| (2, if at >= 3990 && at % 500 == 490 { found } else { Found::Right }));
        assert_eq!(bad.recovered, None);
        assert_eq!(bad.missed.len(), 2, "{:?}", bad.missed);
        let before = judged(|at| (2, if at < 2000 { found } else { Found::Right }));
        assert!(before.missed.is_empty(), "what was so before is not the attack's: {:?}", before.missed);
    }
}

#[test]
fn an_answer_counts_for_recovery_where_it_was_answered() {
    let hangs = |at| if at == 3900 { (1800, Found::Failed) } else { (2, Found::Right) };
    let late = judged(hangs);
    assert_eq!(late.recovered, Some(ms(2000)), "asked before the end, it failed at 5.7 s");
    let unanswered = judged(|at| if at >= 4000 { (5000, Found::Failed) } else { (2, Found::Right) });
    assert_eq!(unanswered.recovered, None);
}

#[test]
fn one_slow_answer_in_five_is_no_recovery() {
    let slow = judged(|at| (if at >= 4000 && at % 50 == 0 { 50 } else { 2 }, Found::Right));
    assert_eq!((slow.recovered, slow.missed.len()), (None, 1), "{:?}", slow.missed);
}

fn acknowledged(version: u64) -> Acknowledged {
    Acknowledged { name: 0, version, number: version, begun_s: 10.0 }
}

fn arrived(version: u64) -> Arrived {
    Arrived { name: 0, version, at_s: 10.5 }
}

/// One name, published three times.
fn arrivals_judged(arrivals: &[u64], held: Held) -> judge::Delivered {
    let all = [1, 2, 3].map(acknowledged);
    let arrivals: Vec<Arrived> = arrivals.iter().copied().map(arrived).collect();
    judge(&[3], &all, &arrivals, &[held])
}

const LAST: Held = Held { version: 3, number: Some(3) };

#[test]
fn versions_in_between_may_be_skipped_and_come_twice() {
    let judged = arrivals_judged(&[1, 3, 3], LAST);
    assert_eq!((judged.skipped, judged.twice, judged.faults()), (1, 1, Vec::<String>::new()));
    assert_eq!(judged.delays, [Duration::from_millis(500); 2]);
}

#[test]
fn each_broken_promise_is_found() {
    let faults = |arrivals: &[u64], held| arrivals_judged(arrivals, held).faults();
    assert_eq!(faults(&[1, 2], Held { version: 2, number: Some(2) }), ["1 acknowledged and lost"]);
    assert_eq!(faults(&[1, 3, 2], LAST), ["1 older after newer"]);
    assert_eq!(faults(&[4], LAST), ["1 never shared"]);
    assert_eq!(faults(&[3], Held { version: 3, number: None }), ["1 wrong bytes"]);
    // The right number with the bytes of the version before.
    assert_eq!(faults(&[3], Held { version: 3, number: Some(2) }), ["1 acknowledged and lost"]);
    assert_eq!(faults(&[], Held::default()), ["1 acknowledged and lost", "1 wrong bytes"]);
}

#[test]
fn what_was_not_acknowledged_may_arrive_or_not() {
    let judged = judge(&[2], &[acknowledged(1)], &[arrived(2)], &[Held { version: 2, number: Some(2) }]);
    assert_eq!(judged.faults(), Vec::<String>::new());
    let judged = judge(&[2], &[acknowledged(1)], &[], &[Held { version: 1, number: Some(1) }]);
    assert_eq!((judged.faults(), judged.skipped), (Vec::<String>::new(), 0));
}

#[test]
fn what_the_reader_had_before_is_not_skipped() {
    let before = Acknowledged { number: 0, ..acknowledged(1) };
    let judged =
        judge(&[2], &[before, acknowledged(2)], &[arrived(2)], &[Held { version: 2, number: Some(2) }]);
    assert_eq!((judged.skipped, judged.faults()), (0, Vec::<String>::new()));
}
