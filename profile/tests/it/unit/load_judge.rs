use std::time::Duration;

use profile::load::judge::{Acknowledged, Arrived, Held, Judged, judge};

fn acknowledged(version: u64) -> Acknowledged {
    Acknowledged { name: 0, version, number: version, begun_s: 10.0 }
}

fn arrived(version: u64) -> Arrived {
    Arrived { name: 0, version, at_s: 10.5 }
}

/// One name, published three times.
fn judged(arrivals: &[u64], held: Held) -> Judged {
    let all = [1, 2, 3].map(acknowledged);
    let arrivals: Vec<Arrived> = arrivals.iter().copied().map(arrived).collect();
    judge(&[3], &all, &arrivals, &[held])
}

const LAST: Held = Held { version: 3, number: Some(3) };

#[test]
fn versions_in_between_may_be_skipped_and_come_twice() {
    let judged = judged(&[1, 3, 3], LAST);
    assert_eq!((judged.skipped, judged.twice, judged.faults()), (1, 1, Vec::<String>::new()));
    assert_eq!(judged.delays, [Duration::from_millis(500); 2]);
}

#[test]
fn each_broken_promise_is_found() {
    let faults = |arrivals: &[u64], held| judged(arrivals, held).faults();
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
