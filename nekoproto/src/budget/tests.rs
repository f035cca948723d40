//! Shares, evictions, and who makes room.

use super::*;
use crate::identity::Identity;

const MIB: usize = 1024 * 1024;

fn node(n: u16) -> NodeId {
    let mut seed = [0; 32];
    seed[..2].copy_from_slice(&n.to_le_bytes());
    Identity::from_seed(&seed).id()
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[test]
fn one_account_takes_its_share_and_gives_it_back() {
    let budget = Budget::new(48 * MIB);
    let account = budget.account(ip("127.0.0.1"), node(1));
    let mut reservation = account.take(16 * MIB).unwrap();
    assert_eq!(account.take(1).unwrap_err(), NoRoom::Share);
    assert_eq!(budget.account(ip("127.0.0.1"), node(1)).used(), 16 * MIB, "the same account");
    reservation.set(0).unwrap();
    assert!(reservation.set(17 * MIB).is_err());
    assert_eq!((reservation.used(), budget.used(), budget.refused()), (0, 0, 2));
    drop(reservation);
    drop(account);
    assert_eq!(budget.used(), 0);
    assert!(budget.accounts.lock().is_empty() && budget.sites.lock().is_empty());
}

#[test]
fn an_address_has_all_that_nobody_wants_and_then_makes_room_for_another() {
    let budget = Budget::new(48 * MIB);
    let take = |n, addr, bytes| budget.account(ip(addr), node(n)).take(bytes);
    let many: Vec<_> = (0..6).map(|n| take(n, "192.0.2.1", 8 * MIB).unwrap()).collect();
    assert_eq!((budget.used(), budget.evicted()), (48 * MIB, 0));
    let other = take(9, "192.0.2.2", 2 * MIB).unwrap();
    assert!(!other.is_evicted() && many.iter().filter(|reservation| reservation.is_evicted()).count() == 1);
}

/// Goal: many keys at one address, each with less than an honest node at another has, do not evict it. Nor do those of one
/// address evict each other as long as there is room.
#[test]
fn a_crowd_at_one_address_evicts_its_own_whatever_others_have() {
    let budget = Budget::new(48 * MIB);
    let honest = budget.account(ip("127.0.0.1"), node(0)).take(12 * MIB).unwrap();
    let mut crowd: Vec<Reservation> = Vec::new();
    for n in 1..200 {
        crowd.retain(|reservation| !reservation.is_evicted());
        crowd.extend(budget.account(ip("127.0.0.2"), node(n)).take(MIB));
        assert!(!honest.is_evicted(), "{n}");
    }
    assert!(crowd.len() >= 35, "{}", crowd.len());
}

#[test]
fn the_largest_makes_room_for_all_others() {
    let budget = Budget::new(48 * MIB);
    let local = |n| budget.account(ip("127.0.0.1"), node(n));
    let greedy: Vec<Reservation> =
        (0..4).map(|n| local(n).take((11 + usize::from(n % 2)) * MIB).unwrap()).collect();
    let honest = local(9);
    let reservation = honest.take(3 * MIB).unwrap();
    assert_eq!(budget.evicted(), 1);
    assert_eq!(greedy.iter().filter(|reservation| reservation.is_evicted()).count(), 1);
    assert!(!honest.evicted().is_cancelled());
    let again = local(9).take(MIB).unwrap();
    assert_eq!(budget.evicted(), 1, "what was evicted is not evicted again while it goes");
    drop((reservation, again, greedy, honest));
    assert_eq!(budget.used(), 0);
    assert!(budget.accounts.lock().is_empty());
}

#[test]
fn a_trusted_account_stays_while_others_can_make_room() {
    let budget = Budget::new(16 * MIB);
    let local = |n| budget.account(ip("::1"), node(n));
    let trusted = local(0);
    trusted.trust();
    let _kept = trusted.take(5 * MIB).unwrap();
    let _others: Vec<_> = (1..=11).map(|n| local(n).take(MIB).unwrap()).collect();
    let _more = local(12).take(MIB / 2).unwrap();
    assert!(!trusted.evicted().is_cancelled() && budget.evicted() == 1);
}

/// Goal: the last clone of an evicted account may be dropped while its successor is made.
#[test]
fn an_account_made_anew_while_the_evicted_one_goes_locks_nobody_out() {
    let budget = Budget::new(0);
    let (send, receive) = std::sync::mpsc::sync_channel::<Account>(1);
    let (done, is_done) = std::sync::mpsc::channel();
    let own = Arc::clone(&budget);
    std::thread::spawn(move || {
        for _ in 0..20_000 {
            let account = own.account(ip("127.0.0.1"), node(1));
            account.evicted().cancel();
            let _ = send.send(account); // dropped there, while the next one is made here
        }
        let _ = done.send(());
    });
    std::thread::spawn(move || receive.into_iter().for_each(drop));
    is_done.recv_timeout(std::time::Duration::from_secs(60)).unwrap();
}

#[test]
fn the_largest_itself_is_refused() {
    let budget = Budget::new(16 * MIB);
    let local = |n: u16| budget.account(ip("::1"), node(n));
    let _small: Vec<Reservation> = (0..48).map(|n| local(n).take(MIB / 4).unwrap()).collect();
    let greedy = local(99);
    let _most = greedy.take(4 * MIB).unwrap();
    assert_eq!(greedy.take(MIB).unwrap_err(), NoRoom::All);
    assert_eq!((budget.evicted(), greedy.used()), (0, 4 * MIB));
    let in_a_row = greedy.0.refused.load(Relaxed);
    assert_eq!(in_a_row, REFUSED_IN_A_ROW, "and further ones cost no look at the others");
    assert_eq!(greedy.take(MIB).unwrap_err(), NoRoom::All);
    assert_eq!(greedy.0.refused.load(Relaxed), REFUSED_IN_A_ROW - 1);
}

#[test]
fn addresses_of_one_host_are_one_site() {
    let site = |text: &str| site_of(ip(text));
    assert_eq!(site("2001:db8::1"), site("2001:db8::ffff:1:2:3"));
    assert_ne!(site("2001:db8::1"), site("2001:db8:0:1::1"));
    assert_eq!(site("::ffff:192.0.2.1"), site("192.0.2.1"));
    assert_ne!(site("192.0.2.1"), site("192.0.2.2"));
    assert_eq!(site("127.0.0.1"), site("::1"));
    assert_ne!(site("127.0.0.1"), site("127.0.0.2"));
}
