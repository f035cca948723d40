//! Judgements, also under simulation.

use rand::{RngExt, SeedableRng, rngs::StdRng};

use super::*;
use crate::state::standing::{Stalls, standing_of};

const FAST: Duration = Duration::from_micros(300);

fn proven(standing: Standing, now: Instant) -> Record {
    let record = Record::new(standing, now);
    assert_eq!(record.probed(Some(FAST), now), standing.is_guest());
    record
}

fn answers(record: &Record, count: u32, now: Instant) {
    (0..count).for_each(|_| assert!(!record.answered(FAST, now)));
}

#[test]
fn who_connects_to_an_open_network_is_a_guest() {
    assert_eq!(standing_of(true, false), Standing::Configured);
    assert_eq!(standing_of(true, true), Standing::Configured);
    assert_eq!(standing_of(false, true), Standing::Member);
    assert_eq!(standing_of(false, false), Standing::Guest);
}

#[test]
fn a_guest_is_asked_once_it_answered_a_probe_in_time() {
    let now = Instant::now();
    let record = Record::new(Standing::Guest, now);
    assert!(!record.is_asked());
    assert!(record.begin_probe() && !record.begin_probe(), "one at a time");
    assert!(!record.probed(None, now) && !record.probed(Some(USUAL_MAX * 2), now));
    assert!(record.probed(Some(FAST), now) && record.is_asked());
    assert!(!record.begin_probe(), "whoever is asked needs none");
}

#[test]
fn a_guest_that_answers_probes_and_no_queries_costs_ever_fewer_queries() {
    let now = Instant::now();
    let record = proven(Standing::Guest, now);
    let mut probes = 0;
    for needed in [2, 4, 8, 16, 32, 64, 128, 256, 256] {
        assert!(record.missed(false, now) && !record.is_asked(), "the first miss of a guest judges it");
        assert!(!record.missed(false, now), "judged once");
        assert_eq!((1..).find(|_| record.probed(Some(FAST), now)), Some(needed));
        probes += needed;
    }
    assert_eq!(probes, 766, "at one probe a second");
}

#[test]
fn a_guest_is_forgiven_a_miss_now_and_then_but_no_ratio() {
    let now = Instant::now();
    let record = proven(Standing::Guest, now);
    for _ in 0..9 {
        answers(&record, 32, now);
        record.missed(false, now);
        assert!(!record.is_doubted());
    }
    answers(&record, 8, now);
    record.missed(false, now);
    assert!(!record.is_doubted());
    record.missed(false, now);
    assert!(record.is_doubted() && record.is_asked(), "three of the latest 32");
}

/// Goal: a guest that was good and falls silent stays asked for a while, for little time, and is back with some answers.
#[test]
fn a_good_guest_is_doubted_before_it_is_judged_and_some_answers_end_that() {
    let now = Instant::now();
    for comes_back in [true, false] {
        let record = proven(Standing::Guest, now);
        answers(&record, GOOD_FROM, now);
        assert!(record.patience(false) >= PATIENCE_MIN && !record.is_to_be_probed());
        for second in 0..10 {
            let at = now + Duration::from_secs(second);
            assert!((0..50).all(|_| !record.missed(false, at)) && !record.ends_doubt(at));
            assert!(record.is_asked() && record.is_doubted(), "{second}");
            assert!(record.patience(false) <= PATIENCE_SHORT.1 && record.begin_probe());
            assert!(!record.probed(None, at), "{second}");
        }
        let later = now + DOUBTED_FOR + Duration::from_millis(1);
        if comes_back {
            (0..DOUBT_ENDS_WITH).for_each(|_| assert!(!record.probed(Some(FAST), later)));
        }
        assert_eq!((record.ends_doubt(later), record.is_asked()), (!comes_back, comes_back));
        assert!(!record.is_doubted());
        assert_eq!(record.patience(false), if comes_back { PATIENCE_MAX } else { PATIENCE_MIN });
    }
}

/// Goal: while this node is busy only whoever leaves everything unanswered is judged.
#[test]
fn whoever_is_missed_where_this_node_is_busy_is_not_judged_by_that() {
    let now = Instant::now();
    for standing in [Standing::Guest, Standing::Configured] {
        let record = proven(standing, now);
        for _ in 0..9 {
            assert!((0..31).all(|_| !record.missed(true, now)) && record.is_asked());
            answers(&record, 1, now);
        }
        assert!((0..31).all(|_| !record.missed(true, now)));
        assert!(record.missed(true, now), "32 in a row");
    }
}

/// Goal: whoever passes on signatures that do not hold costs some checks a second, whatever it is asked.
#[test]
fn signatures_of_a_guest_that_do_not_hold_are_bounded() {
    let now = Instant::now();
    let record = proven(Standing::Guest, now);
    let mut checked = 0;
    for ms in 0..10_000 {
        let at = now + Duration::from_millis(ms);
        if record.is_checked(at) {
            checked += 1;
            record.forged(at);
        }
    }
    assert!((FORGED_MAX..150).contains(&checked), "{checked}");
    assert!(record.is_checked(now + Duration::from_secs(11)));
}

/// Goal: whoever comes with a key for each question that it leaves unanswered holds up answers for a part of the time.
#[test]
fn guests_of_which_little_is_known_share_the_time_that_answers_wait_in_vain() {
    let begin = Instant::now();
    let stalls = Stalls::new(begin);
    let (mut now, mut waited) = (begin, Duration::ZERO);
    while now < begin + Duration::from_secs(600) {
        let rogue = proven(Standing::Guest, now);
        let patience = rogue.patience(stalls.are_used_up(now));
        for other in 0..9 {
            stalls.note(now, now + patience + Duration::from_millis(other)); // they wait at the same time
        }
        waited += patience.saturating_sub(PATIENCE_SHORT.0);
        now += Duration::from_millis(300);
    }
    assert!(waited < Duration::from_secs(6), "{waited:?} of ten minutes");
    let known = proven(Standing::Guest, now);
    answers(&known, FORGOTTEN_AFTER, now);
    assert_eq!(known.patience(true), PATIENCE_MAX);
}

#[test]
fn a_guest_whose_answers_take_long_is_judged_and_patience_follows_their_usual_time() {
    let now = Instant::now();
    let record = proven(Standing::Guest, now);
    assert_eq!(record.patience(false), PATIENCE_MIN);
    (0..99).for_each(|_| assert!(!record.answered(Duration::from_millis(150), now)));
    assert!(record.patience(false) > Duration::from_millis(300), "{:?}", record.patience(false));
    assert!((0..20).any(|_| record.answered(Duration::from_millis(250), now) || record.is_doubted()));
    assert!(record.patience(false) <= PATIENCE_MAX);
}

/// One answer each 0.4 s, of the many that are asked, is no sign that it answers.
#[test]
fn a_configured_neighbor_is_judged_by_its_ratio_and_comes_back_with_one_answer() {
    let now = Instant::now();
    let record = Record::new(Standing::Configured, now);
    assert!(record.is_asked(), "from the start");
    for _ in 0..99 {
        assert!(!record.missed(false, now));
        (0..32).for_each(|_| assert!(!record.answered(Duration::ZERO, now)));
    }
    let judged =
        (0..40).position(|n| if n % 5 == 4 { record.answered(FAST, now) } else { record.missed(false, now) });
    assert_eq!(judged, Some(3));
    assert!(!record.probed(None, now) && record.probed(Some(USUAL_MAX * 9), now) && record.is_asked());
}

#[test]
fn a_guest_that_turns_out_to_be_configured_is_asked_at_once() {
    let now = Instant::now();
    let record = proven(Standing::Guest, now);
    assert!(record.missed(false, now));
    record.trust();
    assert!(record.is_asked() && !record.is_guest() && !record.missed(false, now));
}

/// Goal: whatever share of the queries a guest leaves unanswered, it holds up few; one that answers all but one in a
/// hundred is asked most of the time. Method: a query each 10 ms, a probe each second, random outcomes.
#[test]
fn few_queries_wait_for_a_guest_in_vain_and_a_good_one_is_asked() {
    for seed in testkit::seeds(10) {
        let mut rng = StdRng::seed_from_u64(seed);
        let is_good = rng.random_bool(0.3);
        let misses = if is_good { rng.random_range(0.0..0.004) } else { rng.random_range(0.3..=1.0) };
        let begin = Instant::now();
        let record = proven(Standing::Guest, begin);
        let (mut asked, mut in_vain) = (0, 0);
        for n in 0..60_000 {
            let now = begin + Duration::from_millis(10 * n);
            if n % 100 == 0 && !record.ends_doubt(now) && record.begin_probe() {
                record.probed(Some(FAST), now);
            }
            if record.is_asked() {
                asked += 1;
                let is_miss = rng.random_bool(misses);
                in_vain += u32::from(is_miss && !record.is_doubted());
                let _ = if is_miss { record.missed(false, now) } else { record.answered(FAST, now) };
            }
        }
        match is_good {
            true => assert!(asked > 40_000, "{misses} {asked}"),
            false => assert!(in_vain < 60, "{misses} {in_vain}"),
        }
    }
}
