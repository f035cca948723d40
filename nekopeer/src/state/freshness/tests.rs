//! Tests of the freshness of a copy.

use nekoproto::{Mode, Policy, Record, Staleness};
use proptest::prelude::*;
use testkit::goods;

use super::*;

const TTR: Duration = Duration::from_secs(5);

fn record(version: u64) -> VerifiedRecord {
    leased(version, 5)
}

fn leased(version: u64, ttr_secs: u32) -> VerifiedRecord {
    let policy = Policy::new(Mode::Pull, 60, ttr_secs, Staleness::ServeStale).unwrap();
    goods::record(1, "a", version, |record| record.policy = policy)
}

/// A copy of the first version, which was confirmed now.
fn confirmed(now: Instant) -> CopyState {
    let mut copy = CopyState::new(&record(1), None, None, now);
    copy.confirmed(&record(1), now, 0.0);
    copy
}

#[test]
fn a_copy_is_fresh_for_its_bound_after_the_question_not_the_answer() {
    let asked = Instant::now();
    let mut copy = CopyState::new(&record(1), None, None, asked);
    assert_eq!(copy.freshness(asked), Freshness::Unverified, "nobody confirmed it yet");
    copy.confirmed(&record(1), asked, 0.0);
    assert_eq!(copy.freshness(asked + TTR - Duration::from_millis(1)), Freshness::Fresh);
    assert_eq!(copy.freshness(asked + TTR), Freshness::Unverified);
    let again = copy.ask_at();
    assert!(asked < again && again < asked + TTR, "asked again before the bound ends");
    copy.confirmed(&record(1), asked + Duration::from_secs(2), 0.0);
    copy.confirmed(&record(1), asked, 0.0);
    assert_eq!(
        copy.freshness(asked + Duration::from_secs(6)),
        Freshness::Fresh,
        "a late answer shortens nothing"
    );
}

#[test]
fn an_unreachable_origin_makes_the_copy_unverified_and_is_asked_less_and_less() {
    let now = Instant::now();
    let (mut copy, mut at, mut pauses) = (confirmed(now), now + TTR, Vec::new());
    for _ in 0..8 {
        copy.not_confirmed(NoAnswer::Away, at, 1.0);
        pauses.push(copy.ask_at() - at);
        at = copy.ask_at();
    }
    assert_eq!(copy.freshness(at), Freshness::Unverified);
    assert!(pauses.is_sorted() && pauses[0] == RETRY_MIN && pauses[7] == RETRY_MAX);
}

#[test]
fn a_reader_may_be_stricter_but_not_laxer() {
    let now = Instant::now();
    for (reader, fresh_for) in [(Some(2), 2), (Some(99), 5), (None, 5)] {
        let mut copy = CopyState::new(&record(1), None, reader.map(Duration::from_secs), now);
        copy.confirmed(&record(1), now, 0.0);
        let end = now + Duration::from_secs(fresh_for);
        assert_eq!(copy.freshness(end - Duration::from_millis(1)), Freshness::Fresh);
        assert_eq!(copy.freshness(end), Freshness::Unverified);
    }
}

#[test]
fn stale_is_remembered_over_a_restart_and_survives_a_late_confirmation() {
    let now = Instant::now();
    let mut copy = CopyState::new(&record(1), Some(record(2)), None, now);
    copy.confirmed(&record(1), now, 0.0);
    assert_eq!(copy.freshness(now), Freshness::Stale);
    assert_eq!(CopyState::new(&record(2), Some(record(2)), None, now).newest(), None);
}

/// Goal: the subscription of whoever holds an earlier version, because the user or a command wants it so, does not lapse.
#[test]
fn an_outdated_copy_is_asked_about_within_the_lease_and_seldom_if_it_is_withdrawn_or_its_origin_is_away() {
    let now = Instant::now();
    for (lease, version) in [(TTR, record(2)), (Duration::from_secs(2), leased(2, 2))] {
        let mut copy = confirmed(now);
        copy.learn(&version);
        assert!(copy.ask_at() <= now + TTR, "within the bound at first");
        let mut at = copy.ask_at();
        for failures in [1, 12] {
            copy.confirmed(&version, at, 0.0);
            assert!(copy.ask_at() - at < lease);
            let mut pauses = Vec::new();
            for _ in 0..failures {
                at = copy.ask_at();
                copy.not_confirmed(NoAnswer::Away, at, 1.0);
                pauses.push(copy.ask_at() - at);
            }
            assert_eq!(pauses[0], RETRY_MIN, "it may be back at once");
            let last = pauses.pop().unwrap();
            assert!(failures == 1 || TTR < last && last <= SELDOM_MAX, "{last:?}");
            at = copy.ask_at();
        }
        assert_eq!(copy.freshness(now), Freshness::Stale);
        let withdrawal = goods::record(1, "a", 3, |record| {
            *record =
                Record::withdrawal(record.origin, record.name.clone(), record.version, record.policy, 0);
        });
        copy.learn(&withdrawal);
        copy.confirmed(&withdrawal, at, 0.0);
        assert!(TTR < copy.ask_at() - at, "it is not shared any more");
    }
}

#[test]
fn a_withdrawn_copy_is_no_copy_of_an_origin_that_is_away() {
    let now = Instant::now();
    let mut copy = CopyState::new(&record(1), None, None, now);
    copy.not_confirmed(NoAnswer::Away, now, 0.5);
    assert!(!copy.is_reachable() && !copy.is_withdrawn());
    copy.not_confirmed(NoAnswer::Withdrawn, now, 0.5);
    assert!(copy.is_reachable() && copy.is_withdrawn() && copy.ask_at() > now);
    copy.not_confirmed(NoAnswer::Away, now, 0.5);
    assert!(copy.is_withdrawn(), "it has not said otherwise");
    copy.confirmed(&record(1), now, 0.0);
    assert!(!copy.is_withdrawn());
}

#[test]
fn hybrid_copy_is_asked_about_more_often_while_questions_find_what_no_push_told() {
    let now = Instant::now();
    let hybrid = |version| {
        let policy = Policy::new(Mode::Hybrid, 64, 64, Staleness::ServeStale).unwrap();
        goods::record(1, "a", version, |record| record.policy = policy)
    };
    let mut copy = CopyState::new(&hybrid(1), None, None, now);
    let mut version = 1;
    let mut pauses = Vec::new();
    for finds in [false, true, true, true, true, true, true, false, false, false, false, false] {
        if finds {
            version += 1;
            copy.found_later();
            let mut next = CopyState::new(&hybrid(version), None, None, now);
            next.follows(&copy);
            copy = next;
        }
        copy.confirmed(&hybrid(version), now, 0.0);
        pauses.push((copy.ask_at() - now).as_millis());
    }
    let [all, half, eighth] = [63_000, 31_500, 7_875_u128];
    assert_eq!(pauses[..4], [all, half, half, half], "each confirmation doubles it");
    for _ in 0..9 {
        copy.found_later();
    }
    copy.confirmed(&hybrid(version), now, 0.0);
    assert_eq!((copy.ask_at() - now).as_micros(), 3_937_500, "the least");
    copy.confirmed(&hybrid(version), now, 1.0);
    assert_eq!((copy.ask_at() - now).as_micros(), eighth * 900, "spread");
    let mut pulled = CopyState::new(&record(1), None, None, now);
    pulled.found_later();
    pulled.confirmed(&record(1), now, 1.0);
    assert_eq!(pulled.ask_at() - now, TTR - ASK_EARLY_MAX, "a TTR is fixed");
}

proptest! {
    #[test]
    fn knowledge_only_grows(held in 1..5u64, heard in prop::collection::vec(1..9u64, 0..30)) {
        let now = Instant::now();
        let mut copy = CopyState::new(&record(held), None, None, now);
        let mut best = held;
        for version in heard {
            prop_assert_eq!(copy.learn(&record(version)), version > best);
            best = best.max(version);
            let known = copy.newest().map_or(held, |newest| newest.version.get());
            prop_assert_eq!(known, best);
            prop_assert_eq!(copy.freshness(now) == Freshness::Stale, best > held);
        }
    }
}
