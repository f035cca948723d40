//! Tests of summaries: what is told, what rules a neighbor out, and what is passed on.

use std::{sync::Arc, time::Instant};

use nekoproto::{
    FileName, List, NodeTag,
    summary::{Change, SummaryNews, What},
};

use super::*;
use crate::state::testing::tag;

fn key(n: usize) -> NameKey {
    NameKey::of(&FileName::new(&format!("file-{n}")).unwrap())
}

fn tags(nodes: &[usize]) -> Arc<[NodeTag]> {
    let mut tags: Vec<NodeTag> = nodes.iter().map(|n| tag(*n)).collect();
    tags.sort();
    tags.into()
}

/// All that is to be told.
fn messages(told: &mut Told) -> Vec<SummaryNews> {
    std::iter::from_fn(|| told.next_message()).collect()
}

/// What node `from` tells node 9 over one connection.
struct Line {
    from: usize,
    told: Told,
    theirs: TheirSummary,
}

impl Line {
    fn new(from: usize) -> Self {
        Self { from, told: Told::default(), theirs: TheirSummary::default() }
    }

    /// Tells all that is new at `now`, and says in how many messages; the heartbeat is none.
    fn tell(&mut self, own: &OwnSummary, neighbors: &[usize], relays: &[Relayed], now: Instant) -> usize {
        self.told.tell_own(tag(self.from), own, Some(&tags(neighbors)));
        self.told.tell_others(relays, true, false);
        let mut messages = messages(&mut self.told);
        let count = messages.len();
        messages.push(self.told.heartbeat());
        for message in messages {
            assert_ne!(self.theirs.take(message, tag(self.from), tag(9), Some(now)), Took::Gap);
        }
        self.theirs.compare(tag(self.from), tag(9), &tags(&[8]));
        count
    }

    fn rules_out(&self, n: usize, now: Instant) -> bool {
        self.theirs.rules_out(key(n), 0, |_| false, now)
    }

    /// The summary of node `of` that it has.
    fn relayed(&self, of: usize, now: Instant) -> Option<Relayed> {
        self.theirs.advertised(tag(self.from), now).find(|relayed| relayed.of == tag(of))
    }
}

/// The summary of `own`, which is node `of` with these `neighbors`, as it is known `hops` from it.
fn known(of: usize, own: &OwnSummary, neighbors: &[usize], now: Instant) -> Relayed {
    let mut line = Line::new(of);
    line.tell(own, neighbors, &[], now);
    line.relayed(of, now).unwrap()
}

#[test]
fn what_was_told_rules_out_all_else() {
    let now = Instant::now();
    let (mut own, mut line) = (OwnSummary::new(1), Line::new(0));
    assert!(!line.rules_out(1, now), "nothing was told yet");
    own.add(key(1));
    assert_eq!(line.tell(&own, &[], &[], now), 1);
    assert!(!line.rules_out(1, now) && line.rules_out(2, now));
    assert!(own.add(key(2)) && !own.add(key(2)));
    assert_eq!(line.tell(&own, &[], &[], now), 1);
    assert!(!line.rules_out(2, now) && line.rules_out(3, now));
    assert!(!line.rules_out(3, now + TRUSTED_FOR), "not confirmed for too long");
    assert_eq!(line.tell(&own, &[], &[], now + TRUSTED_FOR), 0, "nothing is new");
    assert!(line.rules_out(3, now + TRUSTED_FOR), "one heartbeat confirms all of it");
}

/// The time under way does not count: only a moment before the message was sent does.
#[test]
fn what_is_not_dated_is_not_trusted() {
    let now = Instant::now();
    let (own, mut line) = (OwnSummary::new(1), Line::new(0));
    line.told.tell_own(tag(0), &own, Some(&tags(&[])));
    for message in messages(&mut line.told) {
        assert_eq!(line.theirs.take(message, tag(0), tag(9), None), Took::News);
    }
    assert!(!line.rules_out(1, now), "nothing says when it was so");
    line.theirs.confirm(0, now);
    assert!(!line.rules_out(1, now), "nothing is confirmed");
    line.theirs.confirm(2, now);
    assert!(!line.rules_out(1, now), "something is confirmed that has not arrived");
    line.theirs.confirm(1, now);
    assert!(line.rules_out(1, now));
}

#[test]
fn many_changes_are_one_message_and_what_does_not_fit_follows() {
    let now = Instant::now();
    let (mut own, mut line) = (OwnSummary::new(1), Line::new(0));
    line.tell(&own, &[1, 2], &[], now);
    let added = (0..1000).filter(|n| own.add(key(*n))).count();
    assert!(added > 990, "few names look like others: {added} are new");
    let relays = [known(1, &OwnSummary::new(2), &[0], now), known(2, &OwnSummary::new(3), &[0], now)];
    assert_eq!(line.tell(&own, &[2], &relays, now), 1);
    assert!((0..1000).all(|n| !line.rules_out(n, now)));
    assert!(line.relayed(1, now).is_some() && line.relayed(2, now).is_some());

    let keys: Vec<_> = (0..400_000).map(key).collect(); // a filter of a mebibyte
    own.begin_rebuild();
    own.renew(Fresh::of(&keys));
    assert!(line.tell(&own, &[2], &relays, now) > 3);
    assert!((0..1000).all(|n| !line.rules_out(n, now)) && line.rules_out(400_001, now));
}

#[test]
fn a_neighbor_with_others_behind_it_is_asked_unless_they_are_covered() {
    let now = Instant::now();
    let (own, mut line) = (OwnSummary::new(1), Line::new(0));
    line.tell(&own, &[1], &[], now);
    assert!(line.theirs.rules_out(key(1), 0, |_| false, now));
    assert!(!line.theirs.rules_out(key(1), 1, |_| false, now));
    assert!(line.theirs.rules_out(key(1), 1, |covered| *covered == tag(1), now));
    line.tell(&own, &[1, 2], &[], now);
    assert!(!line.theirs.rules_out(key(1), 1, |covered| *covered == tag(1), now), "a link is new");
    line.tell(&own, &[], &[], now);
    assert!(line.theirs.rules_out(key(1), 1, |_| false, now), "both are gone");
}

/// Node 0 is the neighbor; behind it are 1, and behind that 2, and behind that 3.
#[test]
fn a_neighbor_is_ruled_out_when_nobody_behind_it_has_the_name_either() {
    let now = Instant::now();
    let mut sources: Vec<OwnSummary> = (1..4).map(OwnSummary::new).collect();
    sources[2].add(key(2));
    let covers = |covered: &NodeTag| *covered == tag(9) || *covered == tag(0); // the asker and who is asked
    let mut line = Line::new(0);
    let rules_out =
        |line: &Line, n, now| [0, 1, 2, 3].map(|hops| line.theirs.rules_out(key(n), hops, covers, now));
    assert_eq!(rules_out(&line, 7, now), [false; 4]);
    line.tell(&sources[0], &[9, 1], &[], now);
    assert_eq!(rules_out(&line, 7, now), [true, false, false, false]);
    let near = known(1, &sources[1], &[0, 2], now);
    let mut beyond = Line::new(1);
    beyond.tell(&sources[1], &[0, 2], &[known(2, &sources[2], &[1, 3], now)], now);
    let far = beyond.relayed(2, now).unwrap();
    assert_eq!(far.known.hops(), 1);
    line.tell(&sources[0], &[9, 1], std::slice::from_ref(&near), now);
    assert_eq!(rules_out(&line, 7, now), [true, true, false, false]);
    line.tell(&sources[0], &[9, 1], &[near, far.clone()], now);
    assert_eq!(rules_out(&line, 7, now), [true, true, true, false]);
    assert_eq!(rules_out(&line, 2, now), [true, true, false, false]);
    line.tell(&sources[0], &[9, 1], &[far], now);
    assert_eq!(rules_out(&line, 7, now), [true, false, false, false], "what is in between was withdrawn");
    assert_eq!(rules_out(&line, 7, now + TRUSTED_FOR), [false; 4]);
}

#[test]
fn a_summary_is_passed_on_while_it_is_confirmed_and_costs_what_is_new() {
    let now = Instant::now();
    let (mut own, between) = (OwnSummary::new(1), OwnSummary::new(2));
    own.add(key(1));
    let (mut line, mut further) = (Line::new(0), Line::new(1));
    line.tell(&own, &[1, 5], &[], now);
    let relays = |line: &Line, now| line.relayed(0, now).into_iter().collect::<Vec<_>>();
    assert_eq!(further.tell(&between, &[0], &relays(&line, now), now), 1);
    assert_eq!(further.tell(&between, &[0], &relays(&line, now), now), 0);
    let rules_out = |further: &Line, n, now| {
        further.theirs.rules_out(key(n), 1, |covered: &NodeTag| *covered == tag(5), now)
    };
    assert!(!rules_out(&further, 1, now) && rules_out(&further, 2, now));
    own.add(key(2));
    line.tell(&own, &[1, 5], &[], now);
    further.told.tell_others(&relays(&line, now), false, false);
    let news = messages(&mut further.told);
    assert!(matches!(&news[0].changes[..], [change] if matches!(&change.what,
        What::Added(keys) if **keys == [key(2)])));
    for message in news {
        further.theirs.take(message, tag(1), tag(9), Some(now));
    }
    assert!(!rules_out(&further, 2, now) && rules_out(&further, 3, now));
    let later = now + TRUSTED_FOR;
    assert_eq!(relays(&line, later).len(), 0, "not trusted any more");
    assert_eq!(further.tell(&between, &[0], &relays(&line, later), later), 1);
    assert!(!rules_out(&further, 3, later), "withdrawn");
}

/// A message confirms all that was told before it, at whatever moment it is sent.
#[test]
fn what_is_not_trusted_any_more_is_withdrawn_with_the_next_message() {
    let now = Instant::now();
    let (own, mut between) = (OwnSummary::new(1), OwnSummary::new(2));
    let mut further = Line::new(1);
    let passed_on = [known(0, &own, &[1], now)];
    further.tell(&between, &[0], &passed_on, now);
    assert!(!further.told.needs_others(false, true, |_| true), "nothing changed");
    between.add(key(1));
    further.told.tell_own(tag(1), &between, None);
    assert!(further.told.needs_others(false, false, |via| *via != tag(0)), "node 0 hangs");
    further.told.tell_others(&[], false, false);
    for message in messages(&mut further.told) {
        further.theirs.take(message, tag(1), tag(9), Some(now));
    }
    assert!(further.theirs.is_trusted(now) && further.relayed(0, now).is_none());
}

#[test]
fn a_whole_filter_of_another_node_waits_until_it_is_due_and_the_older_one_is_withdrawn() {
    let now = Instant::now();
    let (mut own, between) = (OwnSummary::new(1), OwnSummary::new(2));
    let mut further = Line::new(1);
    further.tell(&between, &[0], &[known(0, &own, &[1], now)], now);
    own.add(key(1));
    own.begin_rebuild();
    own.renew(Fresh::of(&[key(1)]));
    let rebuilt = [known(0, &own, &[1], now)];
    further.told.tell_others(&rebuilt, false, false);
    assert!(further.told.needs_others(false, true, |_| true), "put off");
    for message in messages(&mut further.told) {
        assert_eq!(message.changes.len(), 1);
        further.theirs.take(message, tag(1), tag(9), Some(now));
    }
    assert!(further.relayed(0, now).is_none());
    assert_eq!(further.tell(&between, &[0], &rebuilt, now), 1);
    assert!(further.relayed(0, now).is_some() && !further.told.needs_others(false, true, |_| true));
}

#[test]
fn what_a_neighbor_hears_of_itself_is_not_passed_on_to_it() {
    let now = Instant::now();
    let own = OwnSummary::new(1);
    let told = |of: usize, via: usize, hops: u8, neighbors: &[usize]| {
        let mut relayed = known(of, &own, neighbors, now);
        for n in 0..hops {
            let mut line = Line::new(100 + usize::from(n));
            line.tell(&own, &[], &[relayed], now);
            relayed = line.relayed(of, now).unwrap();
        }
        Relayed { via: tag(via), ..relayed }
    };
    let all = [
        told(1, 1, 0, &[5]),
        told(2, 2, 0, &[]),
        told(3, 2, 1, &[]),
        told(3, 1, 2, &[]), // further away than over 2
        told(4, 2, 2, &[]), // too far
        told(5, 5, 0, &[]), // the one that is told
        told(6, 5, 1, &[]), // it told us
        told(0, 2, 1, &[]), // ourselves
    ];
    let relayed = relays(tag(5), tag(0), all.into_iter());
    let mut relayed: Vec<_> = relayed.iter().map(|relayed| (relayed.of, relayed.via)).collect();
    relayed.sort();
    let mut expected = [(2, 2), (3, 2)].map(|(of, via)| (tag(of), tag(via)));
    expected.sort();
    assert_eq!(relayed, expected);
}

#[test]
fn no_more_is_passed_on_than_is_kept() {
    let now = Instant::now();
    let large = |of: usize, keys: usize| {
        let mut own = OwnSummary::new(1);
        own.begin_rebuild();
        own.renew(Fresh { filter: Filter::for_keys(keys), keys });
        known(of, &own, &[], now)
    };
    let all = [large(1, 1_200_000), large(2, 800_000), large(3, 400_000), large(4, 1)];
    let passed_on = relays(tag(5), tag(0), all.into_iter());
    let words: usize = passed_on.iter().map(|relayed| relayed.known.source().filter.words()).sum();
    assert!(words <= 256 * 1024 && passed_on.len() > 1, "{words}");
    let (own, mut line) = (OwnSummary::new(2), Line::new(0));
    line.tell(&own, &[], &passed_on, now);
    assert!(
        passed_on.iter().all(|relayed| line.theirs.advertised(tag(0), now).any(|kept| kept.of == relayed.of))
    );
}

/// The rest of a filter that is under way is not confirmed before it is told.
#[test]
fn what_is_told_in_parts_is_confirmed_with_the_last() {
    let (mut own, mut told) = (OwnSummary::new(1), Told::default());
    own.begin_rebuild();
    own.renew(Fresh { filter: Filter::for_keys(400_000), keys: 0 });
    told.tell_own(tag(0), &own, Some(&tags(&[])));
    while let Some(message) = told.next_message() {
        assert_eq!(told.confirms(own.position()) != 0, message.is_all, "{}", message.number);
        let bytes = nekoproto::codec::encode(&message).unwrap().len();
        assert!(bytes < 96 * 1024, "{bytes} bytes take a slow link too long");
    }
}

#[test]
fn a_message_that_is_missing_late_or_repeated_is_noticed() {
    let now = Instant::now();
    let (mut own, mut line) = (OwnSummary::new(1), Line::new(0));
    line.tell(&own, &[], &[], now);
    let mut news = |line: &mut Line, n| {
        own.add(key(n));
        line.told.tell_own(tag(0), &own, Some(&tags(&[])));
        messages(&mut line.told).remove(0)
    };
    let [lost, next] = [1, 2].map(|n| news(&mut line, n));
    let take =
        |line: &mut Line, message: &SummaryNews| line.theirs.take(message.clone(), tag(0), tag(9), Some(now));
    assert_eq!(take(&mut line, &next), Took::Gap);
    let heartbeat = line.told.heartbeat();
    assert_eq!(take(&mut line, &heartbeat), Took::Gap, "a heartbeat is for all before it");
    assert_eq!(take(&mut line, &lost), Took::Names);
    assert_eq!(take(&mut line, &lost), Took::Gap, "repeated");
    line.told.begin_anew();
    let begins = {
        line.told.tell_own(tag(0), &own, Some(&tags(&[])));
        messages(&mut line.told).remove(0)
    };
    assert_eq!(take(&mut line, &begins), Took::News);
    assert_eq!([&next, &begins].map(|late| take(&mut line, late)), [Took::Gap; 2]);
    assert!(!line.rules_out(1, now) && !line.rules_out(2, now) && line.rules_out(3, now));
}

#[test]
fn a_worn_filter_is_made_anew_without_losing_a_name() {
    let now = Instant::now();
    let (mut own, mut line) = (OwnSummary::new(1), Line::new(0));
    for n in 0..3000 {
        own.add(key(n));
    }
    assert!(own.is_worn(), "more names than it was made for");
    own.begin_rebuild();
    assert!(!own.is_worn());
    own.add(key(3001)); // while the keys are collected
    own.add(key(5)); // known to the old filter, and not among the keys collected
    let keys: Vec<_> = (100..3000).map(key).collect();
    own.renew(Fresh::of(&keys));
    line.tell(&own, &[], &[], now);
    assert!((100..3000).chain([3001, 5]).all(|n| !line.rules_out(n, now)));
    assert!((0..100).filter(|n| line.rules_out(*n, now)).count() > 80, "removed names are gone");
    assert!(!own.is_worn());
    own.remove(2000);
    assert!(own.is_worn(), "many names are gone");
}

/// Tells `theirs` of node 0, change by change.
struct Liar {
    theirs: TheirSummary,
    number: u64,
    now: Instant,
}

impl Liar {
    fn new() -> Self {
        Self { theirs: TheirSummary::default(), number: 0, now: Instant::now() }
    }

    fn take(&mut self, of: usize, hops: u8, what: What) -> Took {
        self.number += 1;
        let changes = List::first_of([Change { of: tag(of), hops, what }]);
        let begins = self.number == 1;
        let news = SummaryNews { echo_ms: 1, number: self.number, begins, is_all: true, changes };
        self.theirs.take(news, tag(0), tag(9), Some(self.now))
    }

    /// Takes the whole summary of a node without names, but with room for `keys` of them.
    fn take_whole(&mut self, of: usize, hops: u8, keys: usize, count: u64) {
        for part in Filter::for_keys(keys).parts() {
            let what = What::Whole { epoch: 1, count, part, neighbors: List::new() };
            assert_eq!(self.take(of, hops, what), Took::News);
        }
    }

    fn add(&mut self, of: usize, hops: u8) -> Took {
        self.take(of, hops, What::Added(List::first_of([key(1)])))
    }

    /// The nodes whose summaries are kept.
    fn kept(&self) -> Vec<NodeTag> {
        self.theirs.advertised(tag(0), self.now).map(|relayed| relayed.of).collect()
    }
}

#[test]
fn a_neighbor_cannot_make_us_keep_more_than_a_bound() {
    let mut liar = Liar::new();
    liar.take_whole(300, RELAYED_HOPS + 1, 1, 0);
    assert_eq!(liar.kept(), [], "further away than any query goes");
    for n in 1..200 {
        liar.take_whole(n, 1, 1, 0);
    }
    assert_eq!(liar.kept().len(), RELAYED_MAX);
    assert_ne!(liar.add(250, 1), Took::Gap, "the whole filter is not asked for");
    assert_eq!(liar.add(0, 0), Took::Gap, "names are added to nothing");
    assert_eq!(liar.kept(), [], "nothing is trusted after a gap");
}

/// Else all that the neighbor told would be forgotten, sent anew, and dropped anew.
#[test]
fn news_of_a_node_for_whose_filter_there_was_no_room_are_no_gap() {
    let mut liar = Liar::new();
    liar.take_whole(1, 1, 1_200_000, 0); // 1.5 MiB
    liar.take_whole(2, 1, 800_000, 0); // 1 MiB
    liar.take_whole(3, 1, 1, 0);
    let mut kept = [tag(1), tag(3)];
    kept.sort();
    assert_eq!(liar.kept(), kept, "two and a half mebibytes are too many");
    assert_ne!(liar.add(2, 1), Took::Gap);
    let neighbors = What::Neighbors { added: List::first_of([tag(4)]), removed: List::new() };
    assert_ne!(liar.take(2, 1, neighbors), Took::Gap);
    assert_eq!(liar.kept(), kept);
}

#[test]
fn no_count_of_names_ends_us() {
    let mut liar = Liar::new();
    liar.take_whole(0, 0, 1, u64::MAX);
    assert_eq!([liar.add(0, 0), liar.add(0, 0)], [Took::Names; 2]);
}
