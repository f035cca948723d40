//! Places of guests, also under simulation.

use std::time::Duration;

use rand::{RngExt, SeedableRng, rngs::StdRng};

use super::*;

fn addr(n: u8) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, n], 7707))
}

#[test]
fn one_address_takes_its_share_of_the_places_and_its_newcomers_only_its_own() {
    let now = Instant::now();
    let seated = |who, addr| Seated { who, addr, since: now, worth: Worth::Unproven };
    let mut all: Vec<_> = (0..GUESTS_OF_SITE_MAX).map(|who| seated(who, addr(1))).collect();
    all.insert(0, seated(999, addr(2)));
    assert_eq!(place_for(&all, addr(1)), Place::Of(0));
    assert_eq!(place_for(&all, addr(2)), Place::Free);
}

/// Goal: whoever takes all places, an honest newcomer gets one, and keeps it once it has proved itself and found
/// something. Method: rogue guests of random worth come all the time.
#[test]
fn an_honest_guest_gets_a_place_and_keeps_it_whoever_comes() {
    for seed in testkit::seeds(5) {
        let mut rng = StdRng::seed_from_u64(seed);
        let now = Instant::now();
        let at = |ms: u64| now + Duration::from_millis(ms);
        let local = SocketAddr::from(([127, 0, 0, 1], 1));
        let mut seated: Vec<Seated<u32>> = Vec::new();
        let come = |seated: &mut Vec<Seated<u32>>, who, worth, since| {
            match place_for(seated, local) {
                Place::Free => {}
                Place::Of(least) => seated.retain(|one| one.who != least),
                Place::None => return false,
            }
            seated.push(Seated { who, addr: local, since, worth });
            assert!(seated.len() <= GUESTS_MAX);
            true
        };
        for who in 1..=1000 {
            let worth = if rng.random_bool(0.5) { Worth::Unproven } else { Worth::Idle };
            come(&mut seated, who, worth, at(who.into()));
        }
        assert!(come(&mut seated, 0, Worth::Proving, at(1001)));
        for who in 1001..1100 {
            come(&mut seated, who, Worth::Proving, at(1 + u64::from(who)));
        }
        let honest = seated.iter_mut().find(|one| one.who == 0);
        honest.expect("it has time to prove itself").worth = Worth::Kept;
        for who in 1100..3000 {
            come(&mut seated, who, Worth::Proving, at(2 + u64::from(who)));
        }
        assert!(seated.iter().any(|one| one.who == 0));
    }
}
