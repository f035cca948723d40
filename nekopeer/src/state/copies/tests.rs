//! The copies compared with a model that looks at all of them, over random operations.

use std::{collections::HashSet, time::Duration};

use nekoproto::VerifiedRecord;
use rand::{RngExt, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use testkit::{goods, values::identity};

use super::*;
use crate::state::{freshness::NoAnswer, queue::PAUSE_MIN};

fn record(origin: u16, name: &str, version: u64) -> VerifiedRecord {
    goods::record(origin, name, version, |_| {})
}

type Model = (HashMap<FileName, (NodeId, CopyState)>, HashSet<NodeId>);

fn due_by_scan((copies, asked): &Model, now: Instant) -> HashMap<NodeId, Vec<FileName>> {
    let mut due: HashMap<NodeId, Vec<(Instant, FileName)>> = HashMap::new();
    let waiting = copies.iter().filter(|(_, (origin, _))| !asked.contains(origin));
    for (name, (origin, state)) in waiting.filter(|(_, (_, state))| state.ask_at() <= now) {
        due.entry(*origin).or_default().push((state.ask_at(), name.clone()));
    }
    let sorted = |mut names: Vec<(Instant, FileName)>| {
        names.sort();
        names.into_iter().map(|(_, name)| name).collect()
    };
    due.into_iter().map(|(origin, names)| (origin, sorted(names))).collect()
}

#[test]
fn what_is_due_is_what_a_look_at_all_copies_finds() {
    for seed in 0..50 {
        let mut random = StdRng::seed_from_u64(seed);
        let (mut copies, mut model) = (Copies::default(), Model::default());
        let mut now = Instant::now();
        let names: Vec<String> = (0..12).map(|n| format!("f{n}")).collect();
        for _ in 0..300 {
            let (text, origin) = (names.choose(&mut random).unwrap(), random.random_range(1..4));
            let held = record(origin, text, random.random_range(1..4));
            let (name, roll) = (held.name.clone(), random.random_range(0..10));
            match roll {
                0..3 => {
                    let state = CopyState::new(&held, None, None, now);
                    copies.insert(&name, held.origin, state.clone());
                    model.0.insert(name, (held.origin, state));
                }
                3 => {
                    copies.remove(&name);
                    model.0.remove(&name);
                }
                _ => {
                    let change = |copy: &mut CopyState| match roll {
                        4 => copy.confirmed(&held, now, 0.5),
                        5 => copy.not_confirmed(NoAnswer::Away, now, 0.5),
                        6 => copy.not_confirmed(NoAnswer::Withdrawn, now, 0.5),
                        7 => drop(copy.learn(&held)),
                        _ => {}
                    };
                    let is_changed = copies.change(&name, change).is_some();
                    assert_eq!(is_changed, model.0.contains_key(&name), "seed {seed}");
                    if let Some((_, copy)) = model.0.get_mut(&name) {
                        change(copy);
                    }
                }
            }
            now += Duration::from_millis(random.random_range(0..4000));
            let ended = identity(random.random_range(1..4)).id();
            if model.1.remove(&ended) {
                copies.asked(ended, true, now, 0.5);
            }
            let due = due_by_scan(&model, now);
            assert_eq!(copies.ask(now).into_iter().collect::<HashMap<_, _>>(), due, "seed {seed}");
            for name in due.values().flatten() {
                model.0.get_mut(name).unwrap().1.asked(now);
            }
            model.1.extend(due.into_keys());
            let waiting = model.0.values().filter(|(origin, _)| !model.1.contains(origin));
            assert_eq!(copies.next_at(now), waiting.map(|(_, state)| state.ask_at()).min(), "seed {seed}");
        }
        model.1.iter().for_each(|origin| copies.asked(*origin, false, now, 0.5));
        model.0.keys().for_each(|name| copies.remove(name));
        assert_eq!(copies.next_at(now), None, "seed {seed}");
    }
}

#[test]
fn an_origin_of_very_many_copies_is_asked_about_some_at_once() {
    let (mut copies, now) = (Copies::default(), Instant::now());
    let some = record(1, "a", 1);
    for n in 0..3 * ASKED_MAX {
        let name = FileName::new(&format!("f{n}")).unwrap();
        copies.insert(&name, some.origin, CopyState::new(&some, None, None, now));
    }
    let asked = copies.ask(now).remove(0).1;
    assert_eq!(asked.len(), ASKED_MAX);
    copies.asked(some.origin, false, now, 1.0);
    let later = copies.next_at(now).unwrap();
    assert!(copies.ask(now).is_empty());
    assert_eq!(later, now + PAUSE_MIN, "the rest is asked about after a pause");
    assert_eq!(copies.ask(later).remove(0).1.len(), ASKED_MAX);
}

#[test]
fn no_more_is_handed_out_than_may_be_asked() {
    let (mut copies, now) = (Copies::default(), Instant::now());
    for n in 0..200 {
        let some = record(n, "a", 1);
        let name = FileName::new(&format!("f{n}")).unwrap();
        copies.insert(&name, some.origin, CopyState::new(&some, None, None, now));
    }
    assert_eq!(copies.ask(now).len(), ASKED.doubtful, "none has answered yet");
    assert!(copies.ask(now).is_empty());
}
