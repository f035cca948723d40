//! Simulations: many outdated copies of origins that answer, fail or hang.

use std::{collections::HashSet, time::Duration};

use rand::{RngExt as _, SeedableRng, rngs::StdRng};

use super::*;
use crate::state::queue::PAUSE_MAX;

fn name(n: usize) -> FileName {
    FileName::new(&format!("f{n}")).unwrap()
}

/// What is needed of a large file of the n-th origin.
fn origin(n: usize) -> Need {
    Need { origin: NodeId::from_bytes([u8::try_from(n).unwrap(); 32]), size: u64::MAX, late_at: None }
}

#[test]
fn large_copies_have_not_the_turns_of_small_and_late_ones() {
    let (mut outdated, now) = (Outdated::default(), Instant::now());
    for n in 0..9 {
        outdated.add(name(n), origin(n % 2));
        if n < 2 {
            assert_eq!(outdated.begin(now), [name(n)]);
            outdated.ended(&name(n), Ended::Done, now, 1.0);
        }
    }
    assert_eq!(outdated.begin(now).len(), TURNS[0].all, "two origins have all turns that are for any");
    let late_at = now + Duration::from_secs(1);
    outdated.add(name(9), Need { late_at: Some(late_at), ..origin(3) });
    outdated.add(name(10), Need { size: SMALL_BYTES_MAX, ..origin(4) });
    assert_eq!(outdated.begin(now), [name(10)]);
    assert_eq!((outdated.waiting(now), outdated.next_at(now)), (vec![name(8), name(9)], Some(late_at)));
    assert_eq!(outdated.begin(late_at), [name(9)]);
    outdated.ended(&name(10), Ended::Failed, now, 1.0);
    assert_eq!(outdated.waiting(now), [name(8)], "one that failed waits for the end of its pause");
}

#[test]
fn a_name_has_one_attempt_at_a_time_and_another_after_news() {
    let (mut outdated, now) = (Outdated::default(), Instant::now());
    (0..4).for_each(|_| outdated.add(name(1), origin(1)));
    assert_eq!(outdated.begin(now), [name(1)]);
    (0..4).for_each(|_| outdated.add(name(1), origin(1)));
    assert!(outdated.begin(now).is_empty());
    assert!(outdated.ended(&name(1), Ended::Failed, now, 1.0), "the first failure");
    assert_eq!(outdated.begin(now), [name(1)], "the news came during the attempt");
    outdated.ended(&name(1), Ended::Done, now, 1.0);
    assert!(outdated.names.is_empty() && outdated.next_at(now).is_none());
}

#[test]
fn repetitions_become_rare_and_are_told_once() {
    let (mut outdated, begin) = (Outdated::default(), Instant::now());
    let (mut now, mut told) = (begin, 0);
    outdated.add(name(1), origin(1));
    for n in 0..20 {
        assert_eq!(outdated.begin(now), [name(1)]);
        let how = if n % 2 == 0 { Ended::Failed } else { Ended::Blocked };
        told += usize::from(outdated.ended(&name(1), how, now, 1.0));
        let next = outdated.next_at(now).unwrap();
        assert!(next - now <= PAUSE_MAX && outdated.begin(now).is_empty());
        now = next;
    }
    assert!(told == 1 && now - begin > 10 * PAUSE_MAX);
}

/// Many names of one dead origin cost no more attempts than a few: they share its pauses.
#[test]
fn a_hundred_thousand_copies_of_a_dead_origin_are_quiet_after_one_attempt_each() {
    let (mut outdated, mut now) = (Outdated::default(), Instant::now());
    (0..100_000).for_each(|n| outdated.add(name(n), origin(1)));
    let (mut attempts, mut tried) = (0, HashSet::new());
    while tried.len() < 100_000 {
        for begun in outdated.begin(now) {
            outdated.ended(&begun, Ended::Failed, now, 1.0);
            assert!(tried.insert(begun), "none is tried again before all were once");
            attempts += 1;
        }
    }
    let hour = now + Duration::from_secs(3600);
    while now < hour {
        attempts +=
            outdated.begin(now).iter().map(|name| outdated.ended(name, Ended::Failed, now, 1.0)).count();
        now = outdated.next_at(now).unwrap();
    }
    assert!(attempts <= 100_000 + 121, "{attempts}");
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Alive,
    Dead,
    Hanging,
}

#[test]
fn copies_of_living_origins_are_refetched_whatever_the_others_do() {
    for seed in 0..8 {
        println!("seed {seed}");
        let mut random = StdRng::seed_from_u64(seed);
        let kinds: Vec<Kind> = (0..12)
            .map(|n| [Kind::Alive, Kind::Dead, Kind::Hanging][(n + random.random_range(0..2)) % 3])
            .collect();
        let (mut outdated, begin) = (Outdated::default(), Instant::now());
        let (mut now, mut running) = (begin, Vec::<(Instant, usize)>::new());
        let mut proven: HashMap<usize, Instant> = HashMap::new();
        let mut since: HashMap<usize, Instant> = HashMap::new(); // the outdated copies
        let healed = begin + Duration::from_secs(600);
        let kind = |n: usize, now: Instant| if now < healed { kinds[n % kinds.len()] } else { Kind::Alive };
        while now < healed + Duration::from_secs(1200) {
            if now < healed && random.random_bool(0.3) {
                let n = random.random_range(0..200);
                since.entry(n).or_insert(now);
                outdated.add(name(n), origin(n % kinds.len()));
            }
            for begun in outdated.begin(now) {
                let n: usize = begun.as_str()[1..].parse().unwrap();
                let took = match kind(n, now) {
                    Kind::Alive => 50,
                    Kind::Dead => 20,
                    Kind::Hanging => 60_000,
                };
                running.push((now + Duration::from_millis(took), n));
            }
            let names: HashSet<usize> = running.iter().map(|(_, n)| *n).collect();
            assert!(names.len() == running.len() && running.len() <= TURNS[0].all);
            let next_end = running.iter().map(|(at, _)| *at).min();
            let steps = [next_end, outdated.next_at(now), Some(now + Duration::from_millis(100))];
            now = steps.into_iter().flatten().min().unwrap().max(now);
            for (_, n) in running.extract_if(.., |(at, _)| *at <= now).collect::<Vec<_>>() {
                let alive = kind(n, now) == Kind::Alive;
                let how = if alive { Ended::Done } else { Ended::Failed };
                outdated.ended(&name(n), how, now, random.random());
                if alive {
                    since.remove(&n);
                    proven.entry(n % kinds.len()).or_insert(now);
                }
            }
            for (n, since) in &since {
                let waits = now - *since;
                // Until an origin has answered once, it shares the turns of those that hang.
                let is_proven = proven.get(&(n % kinds.len())).is_some_and(|at| at < since);
                let limit = if is_proven { 1 } else { 300 };
                let is_alive = kind(*n, *since) == Kind::Alive;
                assert!(!is_alive || waits < Duration::from_secs(limit), "{n} waits {waits:?}");
            }
        }
        assert!(since.is_empty() && outdated.names.is_empty(), "{since:?}");
    }
}
