//! Tests of `hostile/judge.rs`.

use std::time::Duration;

use profile::arena::load::{Found, Sample};
use profile::hostile::judge::*;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Asked each 10 ms for 9 s, attacked from 2 s to 4 s: what was seen follows from when it was asked.
fn judged(seen: impl Fn(u64) -> (u64, Found)) -> Judged {
    let samples: Vec<Sample> = (0..900)
        .map(|n| {
            let (took, found) = seen(n * 10);
            Sample { at: ms(n * 10), took: ms(took), found }
        })
        .collect();
    Judged::of(&samples, [ms(0), ms(2000), ms(4000), ms(9000)])
}

#[test]
fn an_attack_that_nobody_notices_held() {
    let held = judged(|at| (if (2000..4000).contains(&at) { 10 } else { 2 }, Found::Right));
    assert!(held.missed.is_empty(), "10 ms are less than 3 x 2 ms + 5 ms: {:?}", held.missed);
    assert_eq!(held.recovered, Some(Duration::ZERO));
    assert_eq!(held.phases.map(|seen| seen.figures.count), [200, 200, 500]);
}

#[test]
fn late_answers_are_missed_and_recovery_is_counted_from_the_end() {
    let late = judged(|at| (if (2000..5300).contains(&at) { 50 } else { 2 }, Found::Right));
    assert_eq!(late.recovered, Some(ms(1500)), "the window from 5.0 s to 5.5 s is the last bad one");
    assert_eq!(late.missed.len(), 1, "{:?}", late.missed);
    assert!(late.missed[0].starts_with("p99 50."), "{:?}", late.missed);
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
