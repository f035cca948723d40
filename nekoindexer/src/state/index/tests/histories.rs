//! Random histories of an index, and registrations that race with removal.

use rand::{Rng, RngExt, SeedableRng, rngs::StdRng};

use super::*;

#[test]
fn random_histories_keep_the_invariants_also_of_names_with_the_same_hash() {
    for seed in testkit::seeds(20) {
        random_history(seed, &Setup::new());
        random_history(seed, &Setup::colliding());
    }
}

fn random_history<S: BuildHasher>(seed: u64, setup: &Setup<S>) {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut sessions: Vec<Arc<Session>> = (0..6).map(|n| setup.session(n)).collect();
    let of_origin = |origin| ["a", "b", "c"].map(|text| [1, 2, 3, 4].map(|n| record(origin, text, n)));
    let records = [0, 1, 2].map(of_origin);
    for _ in 0..300 {
        let who = rng.random_range(0..sessions.len());
        let of_name = &records[rng.random_range(0..3)][rng.random_range(0..3)];
        let record = &of_name[rng.random_range(0..4)];
        match rng.next_u32() % 8 {
            0 => {
                setup.index.close_session(&sessions[who]);
                sessions[who] = setup.session(u8::try_from(who).unwrap());
            }
            1 => setup.index.deregister(&sessions[who], &record.name),
            2 => drop(setup.index.invalidate(record)),
            n => {
                let partial = n == 3;
                let register = if partial { Index::register_partial } else { Index::register };
                if matches!(register(&setup.index, &sessions[who], record), Noted::Known | Noted::News { .. })
                {
                    let expected = Holder { partial, ..holder(u8::try_from(who).unwrap()) };
                    let found = setup.index.lookup(&record.name, setup.now);
                    let holding = |found: &Found| found.at().contains(&expected);
                    let held: Vec<_> = found.iter().filter(|found| holding(found)).collect();
                    assert!(held.len() == 1 && held[0].record == *record);
                }
            }
        }
        setup.index.check();
    }
    sessions.iter().for_each(|session| setup.index.close_session(session));
    assert_eq!(setup.index.names(), 0);
}

#[test]
fn registrations_racing_with_removal_leave_nothing_behind() {
    let first = record(1, "first", 1);
    let names: Vec<_> = (0..40).map(|n| testing::named(&format!("f{n}"), &first)).collect();
    for round in 0..50 {
        let (setup, [session]) = Setup::with([1]);
        std::thread::scope(|scope| {
            scope.spawn(|| names.iter().for_each(|record| drop(setup.index.register(&session, record))));
            scope.spawn(|| setup.index.close_session(&session));
        });
        assert_eq!(setup.index.names(), 0, "round {round}");
    }
}

#[test]
fn thousands_of_names_that_come_and_go_are_each_found_or_not() {
    let setup = Setup::new();
    let (session, first) = (setup.session(1), record(1, "first", 1));
    let mut rng = StdRng::seed_from_u64(7);
    let mut listed = std::collections::HashSet::new();
    for _ in 0..6000 {
        let text = format!("f{}", rng.random_range(0..3000));
        if rng.next_u32() % 3 == 0 {
            setup.index.deregister(&session, &name(&text));
            listed.remove(&text);
        } else {
            setup.index.register(&session, &testing::named(&text, &first));
            listed.insert(text);
        }
    }
    for n in 0..3000 {
        let text = format!("f{n}");
        let found = setup.index.lookup(&name(&text), setup.now);
        assert!(found.iter().all(|found| found.record.name.as_str() == text));
        assert_eq!(found.len(), usize::from(listed.contains(&text)), "{text}");
    }
    assert_eq!((setup.index.names(), session.count()), (listed.len(), listed.len()));
    setup.index.check();
    setup.index.close_session(&session);
    assert_eq!((setup.index.names(), setup.index.take_removed() >= listed.len()), (0, true));
}
