//! Tests of summaries: what is told, what it confirms, and what is taken in.

use std::{sync::Arc, time::Instant};

use nekoproto::{
    List, NodeTag,
    limits::COVERED_MAX,
    summary::{Change, Filter, NameKey, SummaryNews},
};

use super::*;
use crate::state::testing::{name, tag};

fn key(n: usize) -> NameKey {
    NameKey::of(&name(&format!("file-{n}")))
}

fn tags(nodes: &[usize]) -> Arc<[NodeTag]> {
    let mut tags: Vec<NodeTag> = nodes.iter().map(|n| tag(*n)).collect();
    tags.sort();
    tags.into()
}

fn say(told: &mut Told, own: &OwnSummary, neighbors: &[usize]) {
    let version = neighbors.iter().fold(1, |sum: u64, n| sum.wrapping_mul(1000) + *n as u64);
    told.tell(own, version, || match neighbors.len() {
        0..=COVERED_MAX => Change::Neighbors(List::first_of(tags(neighbors).iter().copied())),
        _ => Change::ManyNeighbors,
    });
}

fn messages(told: &mut Told) -> Vec<SummaryNews> {
    std::iter::from_fn(|| told.next_message()).collect()
}

struct Line {
    told: Told,
    theirs: TheirSummary,
    now: Instant,
}

impl Line {
    fn new() -> Self {
        Self { told: Told::default(), theirs: TheirSummary::default(), now: Instant::now() }
    }

    fn take(&mut self, message: &SummaryNews) -> Took {
        self.theirs.take(message.clone(), Some(self.now))
    }

    /// Tells all that is new, and says in how many messages; the heartbeat is none.
    fn tell(&mut self, own: &OwnSummary, neighbors: &[usize]) -> usize {
        say(&mut self.told, own, neighbors);
        let messages = messages(&mut self.told);
        messages.iter().for_each(|message| assert_eq!(self.take(message), Took::All));
        let heartbeat = self.told.heartbeat();
        assert_eq!(self.take(&heartbeat), Took::All);
        messages.len()
    }

    fn rules_out(&self, n: usize) -> bool {
        self.theirs.is_current(self.now)
            && self.theirs.names().is_some_and(|names| !names.may_contain(key(n)))
    }
}

#[test]
fn what_was_told_rules_out_all_else() {
    let (mut own, mut line) = (OwnSummary::new(1), Line::new());
    assert!(!line.rules_out(1), "nothing was told yet");
    own.add(key(1));
    assert_eq!(line.tell(&own, &[]), 1);
    assert!(!line.rules_out(1) && line.rules_out(2));
    assert!(own.add(key(2)) && !own.add(key(2)));
    assert_eq!(line.tell(&own, &[]), 1);
    assert!(!line.rules_out(2) && line.rules_out(3));
    line.now += CURRENT_FOR;
    assert!(!line.rules_out(3), "not confirmed for too long");
    assert_eq!(line.tell(&own, &[]), 0, "nothing is new");
    assert!(line.rules_out(3), "one heartbeat confirms all of it");
}

/// The time under way does not count: only a moment before the message was sent does.
#[test]
fn what_is_not_dated_is_not_relied_on() {
    let (own, mut line) = (OwnSummary::new(1), Line::new());
    say(&mut line.told, &own, &[]);
    for message in messages(&mut line.told) {
        assert_eq!(line.theirs.take(message, None), Took::All);
    }
    assert!(!line.rules_out(1), "nothing says when it was so");
    let cases = [(0, false, "nothing"), (2, false, "something that has not arrived"), (1, true, "all")];
    for (number, is_current, confirmed) in cases {
        line.theirs.confirm(number, line.now);
        assert_eq!(line.rules_out(1), is_current, "{confirmed} is confirmed");
    }
}

#[test]
fn many_names_are_one_message_and_what_does_not_fit_follows() {
    let (mut own, mut line) = (OwnSummary::new(1), Line::new());
    line.tell(&own, &[1, 2]);
    let added = (0..1000).filter(|n| own.add(key(*n))).count();
    assert!(added > 990, "few names look like others: {added} are new");
    assert_eq!(line.tell(&own, &[2]), 1);
    assert!((0..1000).all(|n| !line.rules_out(n)));

    let keys: Vec<_> = (0..400_000).map(key).collect(); // a filter of a mebibyte
    own.begin_rebuild();
    own.renew(Fresh::of(&keys));
    assert!(line.tell(&own, &[2]) > 3);
    assert!((0..1000).all(|n| !line.rules_out(n)) && line.rules_out(400_001));
}

/// Goal: a list that is cut says so, and whoever sent it may ask anybody.
#[test]
fn those_that_a_neighbor_trusts_are_known_unless_they_are_too_many() {
    let (own, mut line) = (OwnSummary::new(1), Line::new());
    let beyond = |line: &Line| line.theirs.beyond(tag(9), &tags(&[1, 2]));
    assert_eq!(beyond(&line), None, "nothing was told yet");
    line.tell(&own, &[2, 9]);
    assert_eq!(beyond(&line), Some(vec![]));
    line.tell(&own, &[2, 3]);
    assert_eq!(beyond(&line), Some(vec![tag(3)]));
    let many: Vec<usize> = (1000..=1000 + COVERED_MAX).collect();
    line.tell(&own, &many);
    assert_eq!(beyond(&line), None);
    line.tell(&own, &[]);
    assert_eq!(beyond(&line), Some(vec![]));
}

#[test]
fn a_neighbor_that_may_ask_others_is_asked_unless_they_are_covered() {
    let names = Filter::for_keys(1);
    names.insert(key(1));
    let is_ruled_out = |n, hops, beyond: Option<&[usize]>, covered: usize| {
        let beyond = beyond.map(tags);
        rules_out(&names, key(n), hops, beyond.as_deref(), |other| *other == tag(covered))
    };
    assert!(!is_ruled_out(1, 0, Some(&[]), 0), "it may have the name");
    assert!(is_ruled_out(2, 0, None, 0) && is_ruled_out(2, 0, Some(&[1]), 0), "it has no hops left");
    assert!(is_ruled_out(2, 1, Some(&[]), 0) && !is_ruled_out(2, 1, None, 0));
    assert!(is_ruled_out(2, 1, Some(&[1]), 1) && !is_ruled_out(2, 1, Some(&[1, 2]), 1));
}

#[test]
fn what_is_told_in_parts_is_confirmed_with_the_last() {
    let (mut own, mut told) = (OwnSummary::new(1), Told::default());
    own.begin_rebuild();
    own.renew(Fresh { filter: Filter::for_keys(400_000), keys: 0 });
    say(&mut told, &own, &[]);
    while let Some(message) = told.next_message() {
        assert_eq!(told.confirms(own.position()) != 0, message.is_all, "{}", message.number);
        let bytes = nekoproto::codec::encode(&message).unwrap().len();
        assert!(bytes < 96 * 1024, "{bytes} bytes take a slow link too long");
    }
}

#[test]
fn a_message_that_is_missing_late_or_repeated_is_noticed() {
    let (mut own, mut line) = (OwnSummary::new(1), Line::new());
    line.tell(&own, &[]);
    let next_message = |line: &mut Line, own: &OwnSummary| {
        say(&mut line.told, own, &[]);
        messages(&mut line.told).remove(0)
    };
    let [lost, next] = [1, 2].map(|n| {
        own.add(key(n));
        next_message(&mut line, &own)
    });
    assert_eq!(line.take(&next), Took::Gap);
    let heartbeat = line.told.heartbeat();
    assert_eq!(line.take(&heartbeat), Took::Gap, "a heartbeat is for all before it");
    assert_eq!(line.take(&lost), Took::All);
    assert_eq!(line.take(&lost), Took::Gap, "repeated");
    line.told.begin_anew();
    let begins = next_message(&mut line, &own);
    assert_eq!(line.take(&begins), Took::All);
    assert_eq!([&next, &begins].map(|late| line.take(late)), [Took::Gap; 2]);
    assert!(!line.rules_out(1) && !line.rules_out(2) && line.rules_out(3));
}

#[test]
fn a_worn_filter_is_made_anew_without_losing_a_name() {
    let (mut own, mut line) = (OwnSummary::new(1), Line::new());
    (0..3000).for_each(|n| _ = own.add(key(n)));
    assert!(own.is_worn(), "more names than it was made for");
    own.begin_rebuild();
    assert!(!own.is_worn());
    own.add(key(3001)); // while the keys are collected
    own.add(key(5)); // known to the old filter, and not among the keys collected
    let keys: Vec<_> = (100..3000).map(key).collect();
    own.renew(Fresh::of(&keys));
    line.tell(&own, &[]);
    assert!((100..3000).chain([3001, 5]).all(|n| !line.rules_out(n)));
    assert!((0..100).filter(|n| line.rules_out(*n)).count() > 80, "removed names are gone");
    assert!(!own.is_worn());
    own.remove(2000);
    assert!(own.is_worn(), "many names are gone");
}

#[test]
fn names_that_are_added_to_nothing_are_a_gap() {
    let mut theirs = TheirSummary::default();
    let changes = List::first_of([Change::Added(List::first_of([key(1)]))]);
    let news = SummaryNews { echo_ms: 1, number: 1, begins: true, is_all: true, changes };
    assert_eq!(theirs.take(news, Some(Instant::now())), Took::Gap);
    assert!(!theirs.is_current(Instant::now()), "nothing is relied on after a gap");
}
