//! Tests of summaries: what is told, what rules a neighbor out, and what is passed on.

use std::{sync::Arc, time::Instant};

use nekoproto::{
    List, NodeTag,
    summary::{Change, SummaryNews, What},
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

/// All that is to be told.
fn messages(told: &mut Told) -> Vec<SummaryNews> {
    std::iter::from_fn(|| told.next_message()).collect()
}

/// What node `from` tells node 9 over one connection.
struct Line {
    from: usize,
    told: Told,
    theirs: TheirSummary,
    now: Instant,
}

impl Line {
    fn new(from: usize) -> Self {
        Self { from, told: Told::default(), theirs: TheirSummary::default(), now: Instant::now() }
    }

    fn take(&mut self, message: &SummaryNews) -> Took {
        self.theirs.take(message.clone(), tag(self.from), tag(9), Some(self.now))
    }

    /// Takes what is to be told so far, and says in how many messages.
    fn deliver(&mut self) -> usize {
        let messages = messages(&mut self.told);
        messages.iter().for_each(|message| assert_ne!(self.take(message), Took::Gap));
        messages.len()
    }

    /// Tells all that is new, and says in how many messages; the heartbeat is none.
    fn tell(&mut self, own: &OwnSummary, neighbors: &[usize], relays: &[Relayed]) -> usize {
        self.told.tell_own(tag(self.from), own, Some(&tags(neighbors)));
        self.told.tell_others(relays, true, false);
        let count = self.deliver();
        let heartbeat = self.told.heartbeat();
        assert_ne!(self.take(&heartbeat), Took::Gap);
        self.theirs.compare(tag(self.from), tag(9), &tags(&[8]));
        count
    }

    fn rules_out(&self, n: usize) -> bool {
        self.theirs.rules_out(key(n), 0, |_| false, self.now)
    }

    /// The summary of node `of` that it has.
    fn relayed(&self, of: usize) -> Option<Relayed> {
        self.theirs.advertised(tag(self.from), self.now).find(|relayed| relayed.of == tag(of))
    }
}

/// The summary of `own`, which is node `of` with these `neighbors`, as its neighbor knows it.
fn known(of: usize, own: &OwnSummary, neighbors: &[usize]) -> Relayed {
    let mut line = Line::new(of);
    line.tell(own, neighbors, &[]);
    line.relayed(of).unwrap()
}

#[test]
fn what_was_told_rules_out_all_else() {
    let (mut own, mut line) = (OwnSummary::new(1), Line::new(0));
    assert!(!line.rules_out(1), "nothing was told yet");
    own.add(key(1));
    assert_eq!(line.tell(&own, &[], &[]), 1);
    assert!(!line.rules_out(1) && line.rules_out(2));
    assert!(own.add(key(2)) && !own.add(key(2)));
    assert_eq!(line.tell(&own, &[], &[]), 1);
    assert!(!line.rules_out(2) && line.rules_out(3));
    line.now += TRUSTED_FOR;
    assert!(!line.rules_out(3), "not confirmed for too long");
    assert_eq!(line.tell(&own, &[], &[]), 0, "nothing is new");
    assert!(line.rules_out(3), "one heartbeat confirms all of it");
}

/// The time under way does not count: only a moment before the message was sent does.
#[test]
fn what_is_not_dated_is_not_trusted() {
    let (own, mut line) = (OwnSummary::new(1), Line::new(0));
    line.told.tell_own(tag(0), &own, Some(&tags(&[])));
    for message in messages(&mut line.told) {
        assert_eq!(line.theirs.take(message, tag(0), tag(9), None), Took::News);
    }
    assert!(!line.rules_out(1), "nothing says when it was so");
    let cases = [(0, false, "nothing"), (2, false, "something that has not arrived"), (1, true, "all")];
    for (number, is_trusted, confirmed) in cases {
        line.theirs.confirm(number, line.now);
        assert_eq!(line.rules_out(1), is_trusted, "{confirmed} is confirmed");
    }
}

#[test]
fn many_changes_are_one_message_and_what_does_not_fit_follows() {
    let (mut own, mut line) = (OwnSummary::new(1), Line::new(0));
    line.tell(&own, &[1, 2], &[]);
    let added = (0..1000).filter(|n| own.add(key(*n))).count();
    assert!(added > 990, "few names look like others: {added} are new");
    let relays = [known(1, &OwnSummary::new(2), &[0]), known(2, &OwnSummary::new(3), &[0])];
    assert_eq!(line.tell(&own, &[2], &relays), 1);
    assert!((0..1000).all(|n| !line.rules_out(n)));
    assert!(line.relayed(1).is_some() && line.relayed(2).is_some());

    let keys: Vec<_> = (0..400_000).map(key).collect(); // a filter of a mebibyte
    own.begin_rebuild();
    own.renew(Fresh::of(&keys));
    assert!(line.tell(&own, &[2], &relays) > 3);
    assert!((0..1000).all(|n| !line.rules_out(n)) && line.rules_out(400_001));
}

#[test]
fn a_neighbor_with_others_behind_it_is_asked_unless_they_are_covered() {
    let (own, mut line) = (OwnSummary::new(1), Line::new(0));
    let is_ruled_out = |line: &Line, hops, covered: Option<usize>| {
        line.theirs.rules_out(key(1), hops, |tag| covered.map(self::tag) == Some(*tag), line.now)
    };
    line.tell(&own, &[1], &[]);
    assert!(is_ruled_out(&line, 0, None) && !is_ruled_out(&line, 1, None) && is_ruled_out(&line, 1, Some(1)));
    line.tell(&own, &[1, 2], &[]);
    assert!(!is_ruled_out(&line, 1, Some(1)), "a link is new");
    line.tell(&own, &[], &[]);
    assert!(is_ruled_out(&line, 1, None), "both are gone");
}

/// Node 0 is the neighbor; behind it are 1, and behind that 2, and behind that 3.
#[test]
fn a_neighbor_is_ruled_out_when_nobody_behind_it_has_the_name_either() {
    let mut sources: Vec<OwnSummary> = (1..4).map(OwnSummary::new).collect();
    sources[2].add(key(2));
    let covers = |covered: &NodeTag| *covered == tag(9) || *covered == tag(0); // the asker and who is asked
    let mut line = Line::new(0);
    let rules_out =
        |line: &Line, n| [0, 1, 2, 3].map(|hops| line.theirs.rules_out(key(n), hops, covers, line.now));
    assert_eq!(rules_out(&line, 7), [false; 4]);
    let near = known(1, &sources[1], &[0, 2]);
    let mut beyond = Line::new(1);
    beyond.tell(&sources[1], &[0, 2], &[known(2, &sources[2], &[1, 3])]);
    let far = beyond.relayed(2).unwrap();
    assert_eq!(far.known.hops(), 1);
    let cases = [
        (vec![], 7, [true, false, false, false], "only the neighbor is known"),
        (vec![near.clone()], 7, [true, true, false, false], "one behind it, too"),
        (vec![near, far.clone()], 7, [true, true, true, false], "and one behind that"),
        (vec![far], 7, [true, false, false, false], "what is in between was withdrawn"),
    ];
    for (relays, n, expected, case) in cases {
        line.tell(&sources[0], &[9, 1], &relays);
        assert_eq!(rules_out(&line, n), expected, "{case}");
        assert!(relays.len() < 2 || rules_out(&line, 2) == [true, true, false, false], "the last has it");
    }
    line.now += TRUSTED_FOR;
    assert_eq!(rules_out(&line, 7), [false; 4]);
}

#[test]
fn a_summary_is_passed_on_while_it_is_confirmed_and_costs_what_is_new() {
    let (mut own, between) = (OwnSummary::new(1), OwnSummary::new(2));
    own.add(key(1));
    let (mut line, mut further) = (Line::new(0), Line::new(1));
    line.tell(&own, &[1, 5], &[]);
    let relays = |line: &Line| line.relayed(0).into_iter().collect::<Vec<_>>();
    assert_eq!(further.tell(&between, &[0], &relays(&line)), 1);
    assert_eq!(further.tell(&between, &[0], &relays(&line)), 0);
    let rules_out = |further: &Line, n| {
        further.theirs.rules_out(key(n), 1, |covered: &NodeTag| *covered == tag(5), further.now)
    };
    assert!(!rules_out(&further, 1) && rules_out(&further, 2));
    own.add(key(2));
    line.tell(&own, &[1, 5], &[]);
    further.told.tell_others(&relays(&line), false, false);
    let news = messages(&mut further.told);
    assert!(matches!(&news[0].changes[..], [change] if matches!(&change.what,
        What::Added(keys) if **keys == [key(2)])));
    assert_ne!(further.take(&news[0]), Took::Gap);
    assert!(!rules_out(&further, 2) && rules_out(&further, 3));
    line.now += TRUSTED_FOR;
    further.now = line.now;
    assert_eq!(relays(&line).len(), 0, "not trusted any more");
    assert_eq!(further.tell(&between, &[0], &[]), 1);
    assert!(!rules_out(&further, 3), "withdrawn");
}

/// A message confirms all that was told before it, at whatever moment it is sent.
#[test]
fn what_is_not_trusted_any_more_is_withdrawn_with_the_next_message() {
    let (own, mut between) = (OwnSummary::new(1), OwnSummary::new(2));
    let mut further = Line::new(1);
    further.tell(&between, &[0], &[known(0, &own, &[1])]);
    assert!(!further.told.needs_others(false, true, |_| true), "nothing changed");
    between.add(key(1));
    further.told.tell_own(tag(1), &between, None);
    assert!(further.told.needs_others(false, false, |via| *via != tag(0)), "node 0 hangs");
    further.told.tell_others(&[], false, false);
    further.deliver();
    assert!(further.theirs.is_trusted(further.now) && further.relayed(0).is_none());
}

#[test]
fn a_whole_filter_of_another_node_waits_until_it_is_due_and_the_older_one_is_withdrawn() {
    let (mut own, between) = (OwnSummary::new(1), OwnSummary::new(2));
    let mut further = Line::new(1);
    further.tell(&between, &[0], &[known(0, &own, &[1])]);
    own.add(key(1));
    own.begin_rebuild();
    own.renew(Fresh::of(&[key(1)]));
    let rebuilt = [known(0, &own, &[1])];
    further.told.tell_others(&rebuilt, false, false);
    assert!(further.told.needs_others(false, true, |_| true), "put off");
    let withdrawals = messages(&mut further.told);
    assert_eq!(withdrawals.iter().map(|message| message.changes.len()).collect::<Vec<_>>(), [1]);
    further.take(&withdrawals[0]);
    assert!(further.relayed(0).is_none());
    assert_eq!(further.tell(&between, &[0], &rebuilt), 1);
    assert!(further.relayed(0).is_some() && !further.told.needs_others(false, true, |_| true));
}

#[test]
fn what_a_neighbor_hears_of_itself_is_not_passed_on_to_it() {
    let own = OwnSummary::new(1);
    let told = |(of, via, hops, neighbors): (usize, usize, usize, &[usize])| {
        let mut relayed = known(of, &own, neighbors);
        for n in 0..hops {
            let mut line = Line::new(100 + n);
            line.tell(&own, &[], &[relayed]);
            relayed = line.relayed(of).unwrap();
        }
        Relayed { via: tag(via), ..relayed }
    };
    let all: [(usize, usize, usize, &[usize]); 8] = [
        (1, 1, 0, &[5]),
        (2, 2, 0, &[]),
        (3, 2, 1, &[]),
        (3, 1, 2, &[]), // further away than over 2
        (4, 2, 2, &[]), // too far
        (5, 5, 0, &[]), // the one that is told
        (6, 5, 1, &[]), // it told us
        (0, 2, 1, &[]), // ourselves
    ];
    let relayed = relays(tag(5), tag(0), all.into_iter().map(told));
    let mut relayed: Vec<_> = relayed.iter().map(|relayed| (relayed.of, relayed.via)).collect();
    relayed.sort();
    let mut expected = [(2, 2), (3, 2)].map(|(of, via)| (tag(of), tag(via)));
    expected.sort();
    assert_eq!(relayed, expected);
}

#[test]
fn no_more_is_passed_on_than_is_kept() {
    let large = |(of, keys): (usize, usize)| {
        let mut own = OwnSummary::new(1);
        own.begin_rebuild();
        own.renew(Fresh { filter: Filter::for_keys(keys), keys });
        known(of, &own, &[])
    };
    let all = [(1, 1_200_000), (2, 800_000), (3, 400_000), (4, 1)].map(large);
    let passed_on = relays(tag(5), tag(0), all.into_iter());
    let words: usize = passed_on.iter().map(|relayed| relayed.known.source().filter.words()).sum();
    assert!(words <= 256 * 1024 && passed_on.len() > 1, "{words}");
    let (own, mut line) = (OwnSummary::new(2), Line::new(0));
    line.tell(&own, &[], &passed_on);
    let is_kept = |of: NodeTag| line.theirs.advertised(tag(0), line.now).any(|kept| kept.of == of);
    assert!(passed_on.iter().all(|relayed| is_kept(relayed.of)));
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
    let (mut own, mut line) = (OwnSummary::new(1), Line::new(0));
    line.tell(&own, &[], &[]);
    let next_message = |line: &mut Line, own: &OwnSummary| {
        line.told.tell_own(tag(0), own, Some(&tags(&[])));
        messages(&mut line.told).remove(0)
    };
    let [lost, next] = [1, 2].map(|n| {
        own.add(key(n));
        next_message(&mut line, &own)
    });
    assert_eq!(line.take(&next), Took::Gap);
    let heartbeat = line.told.heartbeat();
    assert_eq!(line.take(&heartbeat), Took::Gap, "a heartbeat is for all before it");
    assert_eq!(line.take(&lost), Took::Names);
    assert_eq!(line.take(&lost), Took::Gap, "repeated");
    line.told.begin_anew();
    let begins = next_message(&mut line, &own);
    assert_eq!(line.take(&begins), Took::News);
    assert_eq!([&next, &begins].map(|late| line.take(late)), [Took::Gap; 2]);
    assert!(!line.rules_out(1) && !line.rules_out(2) && line.rules_out(3));
}

#[test]
fn a_worn_filter_is_made_anew_without_losing_a_name() {
    let (mut own, mut line) = (OwnSummary::new(1), Line::new(0));
    (0..3000).for_each(|n| _ = own.add(key(n)));
    assert!(own.is_worn(), "more names than it was made for");
    own.begin_rebuild();
    assert!(!own.is_worn());
    own.add(key(3001)); // while the keys are collected
    own.add(key(5)); // known to the old filter, and not among the keys collected
    let keys: Vec<_> = (100..3000).map(key).collect();
    own.renew(Fresh::of(&keys));
    line.tell(&own, &[], &[]);
    assert!((100..3000).chain([3001, 5]).all(|n| !line.rules_out(n)));
    assert!((0..100).filter(|n| line.rules_out(*n)).count() > 80, "removed names are gone");
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
