//! Tests of the room that what neighbors advertise takes.

use std::{sync::Arc, time::Instant};

use nekoproto::{
    List,
    budget::{Budget, Reservation, SharedQuota},
    summary::{Change, Filter, FilterPart, SummaryNews},
};

use super::*;
use crate::state::testing::account;

fn largest() -> Vec<SummaryNews> {
    let filter = Filter::for_keys(10_000_000);
    let parts: Vec<FilterPart> = filter.parts().collect();
    let last = parts.len();
    let message = |(n, part)| {
        let changes = List::first_of([Change::Filter { epoch: 1, count: 0, part }]);
        let number = n as u64 + 1;
        SummaryNews { echo_ms: 1, number, begins: n == 0, is_all: n + 1 == last, changes }
    };
    parts.into_iter().enumerate().map(message).collect()
}

fn take(theirs: &mut TheirSummary, messages: &[SummaryNews], now: Instant) -> Took {
    let take = |message: &SummaryNews| theirs.take(message.clone(), Some(now));
    messages.iter().map(take).find(|took| *took == Took::NoRoom).unwrap_or(Took::All)
}

/// Goal: what neighbors advertise is bounded in all, and one for whom there is no room is asked for everything.
#[test]
fn summaries_have_a_share_of_the_budget_and_one_without_room_rules_nothing_out() {
    let (budget, now, messages) = (Budget::new(64 << 20), Instant::now(), largest());
    let pool = SharedQuota::new(budget.max() / 3);
    let mut all = Vec::new();
    for n in 0..64 {
        let mut theirs = TheirSummary::new(Reservation::within(account(&budget, n), Arc::clone(&pool)));
        let took = take(&mut theirs, &messages, now);
        let is_kept = took == Took::All;
        assert_eq!(theirs.names().is_some(), is_kept, "{n}");
        assert_eq!(theirs.is_current(now), is_kept, "{n}");
        all.push((theirs, is_kept));
    }
    let kept = all.iter().filter(|(_, is_kept)| *is_kept).count();
    assert!((5..=10).contains(&kept), "{kept} of 2 MiB each");
    assert!(budget.used() <= budget.max() / 3);
    assert_eq!(budget.evicted(), 0, "nobody else pays for summaries");
    all.retain(|(_, is_kept)| !*is_kept);
    assert_eq!((budget.used(), pool.taken().0), (0, 0));
    assert_eq!(take(&mut all[0].0, &messages, now), Took::All, "there is room again");
}
