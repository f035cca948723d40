//! The copies compared with a model that looks at all of them, over random operations.

use std::time::Duration;

use nekoproto::{ContentHash, Identity, ManifestHash, Policy, Record, VerifiedRecord, Version};
use rand::{RngExt, SeedableRng, rngs::StdRng, seq::IndexedRandom};

use super::*;
use crate::state::freshness::NoAnswer;

fn record(origin: u8, name: &str, version: u64) -> VerifiedRecord {
    let origin = Identity::from_seed(&[origin; 32]);
    let record = Record {
        origin: origin.id(),
        name: FileName::new(name).unwrap(),
        version: Version::new(version).unwrap(),
        size: 1,
        content: ContentHash::from_bytes([0; 32]),
        manifest: ManifestHash::from_bytes([0; 32]),
        policy: Policy::default(),
        published_ms: 1_795_000_000_000,
    };
    record.sign(&origin).unwrap()
}

/// For each origin whether it is doubtful, and what it is asked about.
type DueByOrigin = HashMap<NodeId, (bool, Vec<FileName>)>;

/// What is due, found by looking at each copy.
fn due_by_scan(
    model: &HashMap<FileName, (NodeId, CopyState)>,
    now: Instant,
    passed: &NodeId,
) -> (DueByOrigin, Option<Instant>) {
    let mut due: HashMap<NodeId, (bool, Vec<(Instant, FileName)>)> = HashMap::new();
    let mut later: HashMap<NodeId, Instant> = HashMap::new();
    for (name, (origin, state)) in model.iter().filter(|(_, (origin, _))| origin != passed) {
        if state.ask_at() <= now {
            let of = due.entry(*origin).or_default();
            of.0 |= !state.is_reachable();
            of.1.push((state.ask_at(), name.clone()));
        } else {
            let first = later.entry(*origin).or_insert(state.ask_at());
            *first = (*first).min(state.ask_at());
        }
    }
    // An origin that is asked now shows what else is due when it has answered.
    let next = later.iter().filter(|(origin, _)| !due.contains_key(origin)).map(|(_, at)| *at).min();
    let sorted = |mut names: Vec<(Instant, FileName)>| {
        names.sort();
        names.into_iter().map(|(_, name)| name).collect()
    };
    (due.into_iter().map(|(origin, (doubtful, names))| (origin, (doubtful, sorted(names)))).collect(), next)
}

#[test]
fn what_is_due_is_what_a_look_at_all_copies_finds() {
    for seed in 0..50 {
        let mut random = StdRng::seed_from_u64(seed);
        let (mut copies, mut model) = (Copies::new(true), HashMap::new());
        let mut now = Instant::now();
        let names: Vec<String> = (0..12).map(|n| format!("f{n}")).collect();
        for _ in 0..300 {
            let (text, origin) = (names.choose(&mut random).unwrap(), random.random_range(1..4u8));
            let held = record(origin, text, random.random_range(1..4));
            let (name, roll) = (held.name.clone(), random.random_range(0..10));
            match roll {
                0..3 => {
                    let state = CopyState::new(&held, None, None, now);
                    copies.insert(&name, held.origin, state.clone());
                    model.insert(name, (held.origin, state));
                }
                3 => {
                    copies.remove(&name);
                    model.remove(&name);
                }
                _ => {
                    let change = |copy: &mut CopyState| match roll {
                        4 => copy.confirmed(&held, now, 0.5),
                        5 => copy.not_confirmed(NoAnswer::Away, now, 0.5),
                        6 => copy.not_confirmed(NoAnswer::Withdrawn, now, 0.5),
                        7 => drop(copy.learn(&held)),
                        _ => {}
                    };
                    assert_eq!(
                        copies.change(&name, change).is_some(),
                        model.contains_key(&name),
                        "seed {seed}"
                    );
                    if let Some((_, copy)) = model.get_mut(&name) {
                        change(copy);
                    }
                }
            }
            now += Duration::from_millis(random.random_range(0..4000));
            let passed = Identity::from_seed(&[random.random_range(1..5u8); 32]).id();
            let found = copies.due(now, |origin| *origin == passed);
            let by_origin =
                found.origins.into_iter().map(|(origin, due)| (origin, (due.is_doubtful, due.asked)));
            assert_eq!((by_origin.collect(), found.next), due_by_scan(&model, now, &passed), "seed {seed}");
            assert_eq!(copies.first.len(), copies.origins.len(), "seed {seed}");
        }
        model.keys().for_each(|name| copies.remove(name));
        assert!(
            copies.first.is_empty() && copies.origins.is_empty() && copies.indexes.is_empty(),
            "seed {seed}"
        );
    }
}

#[test]
fn an_origin_of_very_many_copies_is_asked_about_some_at_once() {
    let (mut copies, now) = (Copies::new(true), Instant::now());
    let some = record(1, "a", 1);
    for n in 0..3 * ASKED_MAX {
        let name = FileName::new(&format!("f{n}")).unwrap();
        copies.insert(&name, some.origin, CopyState::new(&some, None, None, now));
    }
    let asked = copies.due(now, |_| false).origins.remove(&some.origin).unwrap().asked;
    assert_eq!(asked.len(), ASKED_MAX);
    assert_eq!(copies.due_of(&some.origin, now).len(), 3 * ASKED_MAX);
}
