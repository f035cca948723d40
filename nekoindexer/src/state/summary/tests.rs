//! Tests of summaries: what is told, what rules a neighbor out, and what is passed on.

use std::time::Instant;

use nekoproto::FileName;

use super::*;
use crate::state::testing::tag;

fn key(n: usize) -> NameKey {
    NameKey::of(&FileName::new(&format!("file-{n}")).unwrap())
}

/// What node 0 says of itself, with these neighbors.
fn own(neighbors: &[usize]) -> About {
    let neighbors = List::first_of(neighbors.iter().map(|n| tag(*n)));
    About { of: tag(0), hops: 0, age: Duration::ZERO, neighbors }
}

/// Brings `theirs` up to date with what `tell` says of a position, and says in how many messages.
fn catch_up(
    tell: impl Fn(Option<Position>) -> Advertisement,
    about: &About,
    theirs: &mut TheirSummary,
    told: &mut Option<Position>,
    now: Instant,
) -> usize {
    let mut messages = 0;
    loop {
        let (updates, until) = tell(*told).updates(*told, about);
        for update in updates {
            assert_ne!(theirs.take(update, now), Took::Gap);
            messages += 1;
        }
        if told.replace(until) == Some(until) {
            return messages - 1; // the last one only said that nothing is new
        }
    }
}

fn rules_out(theirs: &TheirSummary, n: usize, now: Instant) -> bool {
    theirs.rules_out(key(n), 0, |_| false, now)
}

#[test]
fn what_was_told_rules_out_all_else() {
    let now = Instant::now();
    let (mut source, mut theirs, mut told) = (OwnSummary::new(1), TheirSummary::default(), None);
    assert!(!rules_out(&theirs, 1, now), "nothing was told yet");
    source.add(key(1));
    assert_eq!(catch_up(|told| source.advertise(told), &own(&[]), &mut theirs, &mut told, now), 1);
    assert!(!rules_out(&theirs, 1, now) && rules_out(&theirs, 2, now));
    assert!(source.add(key(2)) && !source.add(key(2)));
    assert_eq!(catch_up(|told| source.advertise(told), &own(&[]), &mut theirs, &mut told, now), 1);
    assert!(!rules_out(&theirs, 2, now) && rules_out(&theirs, 3, now));
    assert!(!rules_out(&theirs, 3, now + TRUSTED_FOR), "not confirmed for too long");
}

#[test]
fn a_neighbor_with_others_behind_it_is_asked_unless_they_are_covered() {
    let now = Instant::now();
    let (source, mut theirs, mut told) = (OwnSummary::new(1), TheirSummary::default(), None);
    catch_up(|told| source.advertise(told), &own(&[1]), &mut theirs, &mut told, now);
    assert!(theirs.rules_out(key(1), 0, |_| false, now));
    assert!(!theirs.rules_out(key(1), 1, |_| false, now));
    assert!(theirs.rules_out(key(1), 1, |covered| *covered == tag(1), now));
}

/// Node 0 is the neighbor; behind it are 1, and behind that 2, and behind that 3.
#[test]
fn a_neighbor_is_ruled_out_when_nobody_behind_it_has_the_name_either() {
    let now = Instant::now();
    let mut theirs = TheirSummary::default();
    let mut sources: Vec<OwnSummary> = (1..4).map(OwnSummary::new).collect();
    let links = [vec![9, 1], vec![0, 2], vec![1, 3]];
    sources[2].add(key(2));
    let tell = |source: &OwnSummary, n: usize, theirs: &mut TheirSummary, now| {
        let neighbors = List::first_of(links[n].iter().map(|n| tag(*n)));
        let hops = u8::try_from(n).unwrap();
        let about = About { of: tag(n), hops, age: Duration::ZERO, neighbors };
        catch_up(|told| source.advertise(told), &about, theirs, &mut None, now);
    };
    let covers = |covered: &NodeTag| *covered == tag(9) || *covered == tag(0); // the asker and who is asked
    for (n, source) in sources.iter().enumerate() {
        let before = [0, 1, 2, 3].map(|hops| theirs.rules_out(key(7), hops, covers, now));
        assert_eq!(before, [n > 0, n > 1, n > 2, false], "{n} known");
        tell(source, n, &mut theirs, now);
    }
    let rules_out = |n, hops, now| theirs.rules_out(key(n), hops, covers, now);
    assert_eq!([0, 1, 2, 3].map(|hops| rules_out(7, hops, now)), [true, true, true, false]);
    assert_eq!([0, 1, 2, 3].map(|hops| rules_out(2, hops, now)), [true, true, false, false]);
    let later = now + TRUSTED_FOR - Duration::from_millis(1);
    tell(&sources[0], 0, &mut theirs, later);
    let rules_out = |hops, now| theirs.rules_out(key(7), hops, covers, now);
    assert_eq!([rules_out(1, later), rules_out(1, later + Duration::from_millis(1))], [true, false]);
}

#[test]
fn a_summary_is_passed_on_with_its_age_and_its_news() {
    let now = Instant::now();
    let mut source = OwnSummary::new(1);
    source.add(key(1));
    let (mut theirs, mut told) = (TheirSummary::default(), None);
    catch_up(|told| source.advertise(told), &own(&[1, 5]), &mut theirs, &mut told, now);
    let relay = Relay { of: tag(0), via: tag(0) };
    let (mut further, mut passed) = (TheirSummary::default(), None);
    let pass_on = |theirs: &TheirSummary, further: &mut TheirSummary, passed: &mut Option<Position>, now| {
        let (_, about, is_new) = theirs.pass_on(relay, *passed, now).unwrap();
        assert_eq!(about.hops, 1);
        let tell = |told| theirs.pass_on(relay, told, now).unwrap().0;
        (is_new, catch_up(tell, &about, further, passed, now))
    };
    // The node in between has no names, and is what `further` is about.
    let (between, mut told_of_it) = (OwnSummary::new(2), None);
    let about = About { of: tag(1), neighbors: List::first_of([tag(0)]), ..own(&[]) };
    catch_up(|told| between.advertise(told), &about, &mut further, &mut told_of_it, now);
    let later = now + TRUSTED_FOR / 2;
    catch_up(|told| between.advertise(told), &about, &mut further, &mut told_of_it, later);

    assert_eq!(pass_on(&theirs, &mut further, &mut passed, later), (true, 1));
    assert_eq!(pass_on(&theirs, &mut further, &mut passed, later), (false, 0));
    let covers = |covered: &NodeTag| *covered == tag(5);
    let rules_out = |further: &TheirSummary, n, now| further.rules_out(key(n), 1, covers, now);
    assert!(!rules_out(&further, 1, later) && rules_out(&further, 2, later));
    assert!(!rules_out(&further, 2, now + TRUSTED_FOR), "it counts from when node 0 said it");
    source.add(key(2));
    catch_up(|told| source.advertise(told), &own(&[1, 5]), &mut theirs, &mut told, later);
    assert_eq!(pass_on(&theirs, &mut further, &mut passed, later), (true, 1));
    assert!(!rules_out(&further, 2, later) && rules_out(&further, 3, later));
    assert!(theirs.pass_on(relay, passed, later + TRUSTED_FOR).is_none(), "not trusted any more");
}

#[test]
fn a_message_that_comes_twice_costs_nobody_the_whole_filter() {
    let now = Instant::now();
    let (mut source, mut theirs, mut told) = (OwnSummary::new(1), TheirSummary::default(), None);
    catch_up(|told| source.advertise(told), &own(&[]), &mut theirs, &mut told, now);
    source.add(key(1));
    let (updates, _) = source.advertise(told).updates(told, &own(&[]));
    let relay = Relay { of: tag(0), via: tag(0) };
    let passed = theirs.pass_on(relay, None, now).map(|(tell, about, _)| tell.updates(None, &about).1);
    assert_eq!([(); 2].map(|()| theirs.take(updates[0].clone(), now)), [Took::News, Took::Nothing]);
    let (tell, ..) = theirs.pass_on(relay, passed, now).unwrap();
    assert!(matches!(tell, Advertisement::News(SummaryNews::Added(keys), _) if *keys == [key(1)]));
}

#[test]
fn what_a_neighbor_hears_of_itself_is_not_passed_on_to_it() {
    let told = |of: usize, via: usize, hops, is_near| relay::AdvertisedSummary {
        relay: Relay { of: tag(of), via: tag(via) },
        hops,
        is_near,
    };
    let all = [
        told(1, 1, 0, true),
        told(2, 2, 0, false),
        told(3, 2, 1, false),
        told(3, 1, 2, false), // further away than over 2
        told(4, 2, 2, false), // too far
        told(5, 5, 0, false), // the one that is told
        told(6, 5, 1, false), // it told us
        told(0, 2, 1, false), // ourselves
    ];
    let mut relayed = relays(tag(5), tag(0), all.into_iter());
    relayed.sort();
    let mut expected = [(2, 2), (3, 2)].map(|(of, via)| Relay { of: tag(of), via: tag(via) });
    expected.sort();
    assert_eq!(relayed, expected);
}

#[test]
fn a_step_that_is_missing_is_noticed() {
    let now = Instant::now();
    let (mut source, mut theirs, mut told) = (OwnSummary::new(1), TheirSummary::default(), None);
    catch_up(|told| source.advertise(told), &own(&[]), &mut theirs, &mut told, now);
    source.add(key(1));
    let (_, lost) = source.advertise(told).updates(told, &own(&[]));
    source.add(key(2));
    let (updates, _) = source.advertise(Some(lost)).updates(Some(lost), &own(&[]));
    assert_eq!(theirs.take(updates[0].clone(), now), Took::Gap);
    assert!(!rules_out(&theirs, 1, now), "a summary with a gap is not used");
    told = None;
    catch_up(|told| source.advertise(told), &own(&[]), &mut theirs, &mut told, now);
    assert!(!rules_out(&theirs, 1, now) && !rules_out(&theirs, 2, now) && rules_out(&theirs, 3, now));
}

#[test]
fn a_worn_filter_is_made_anew_without_losing_a_name() {
    let now = Instant::now();
    let (mut source, mut theirs, mut told) = (OwnSummary::new(1), TheirSummary::default(), None);
    for n in 0..3000 {
        source.add(key(n));
    }
    assert!(source.is_worn(), "more names than it was made for");
    source.begin_rebuild();
    assert!(!source.is_worn());
    source.add(key(3001)); // while the keys are collected
    source.add(key(5)); // known to the old filter, and not among the keys collected
    let keys: Vec<_> = (100..3000).map(key).collect();
    source.renew(Fresh::of(&keys));
    catch_up(|told| source.advertise(told), &own(&[]), &mut theirs, &mut told, now);
    assert!((100..3000).chain([3001, 5]).all(|n| !rules_out(&theirs, n, now)));
    assert!((0..100).filter(|n| rules_out(&theirs, *n, now)).count() > 80, "removed names are gone");
    assert!(!source.is_worn());
    source.remove(2000);
    assert!(source.is_worn(), "many names are gone");
}

#[test]
fn a_neighbor_cannot_make_us_keep_more_than_a_bound() {
    let now = Instant::now();
    let mut theirs = TheirSummary::default();
    for n in 1..200 {
        let source = OwnSummary::new(n as u64);
        let about = About { of: tag(n), hops: 1, ..own(&[]) };
        catch_up(|told| source.advertise(told), &about, &mut theirs, &mut None, now);
    }
    assert_eq!(theirs.advertised(tag(0), tag(9), now).count(), relay::BEHIND_MAX);
    let one_more = OwnSummary::new(1).advertise(Some(Position { epoch: 1, count: 0 }));
    let about = About { of: tag(250), hops: 1, ..own(&[]) };
    let (updates, _) = one_more.updates(None, &about);
    assert_eq!(theirs.take(updates[0].clone(), now), Took::Nothing, "the whole filter is not asked for");
    let far = About { of: tag(300), hops: RELAYED_HOPS + 1, ..own(&[]) };
    let (updates, _) = OwnSummary::new(1).advertise(None).updates(None, &far);
    assert_eq!(theirs.take(updates[0].clone(), now), Took::Nothing);
}
