//! Who is evicted, and what comes back.

use super::*;
use crate::identity::Identity;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn at(text: &str) -> SlotOwner {
    SlotOwner::at(ip(text), None)
}

fn node(addr: &str, seed: u8) -> SlotOwner {
    SlotOwner::at(ip(addr), Some(Identity::from_seed(&[seed; 32]).id()))
}

fn enter(slots: &Slots, owner: SlotOwner) -> Option<Slot> {
    slots.enter(owner, Activity::default())
}

fn busy(slots: &Slots, owner: SlotOwner) -> Option<Slot> {
    slots.enter(owner, Activity::busy())
}

fn ended(slot: &Slot) -> bool {
    slot.activity.ended().is_cancelled()
}

#[test]
fn the_one_with_the_most_gives_way_and_slots_come_back() {
    let slots = Slots::new(4);
    let honest = enter(&slots, at("192.0.2.1")).unwrap();
    let mut greedy: Vec<Slot> = (0..3).map(|_| enter(&slots, at("192.0.2.2")).unwrap()).collect();
    greedy[0].activity.used();
    let other = enter(&slots, at("192.0.2.3")).unwrap();
    assert!(!ended(&honest) && !ended(&greedy[0]) && !ended(&other), "the used one stays");
    assert_eq!(greedy.iter().filter(|slot| ended(slot)).count(), 1);
    assert_eq!((slots.taken(), slots.evicted()), (4, 1));
    greedy.clear();
    assert_eq!(slots.taken(), 2, "a slot that was given away is not given back twice");
    drop((honest, other));
    assert!(slots.0.table.lock().counts_nobody());
}

#[test]
fn who_waits_longest_unused_gives_way_first_and_the_busy_last() {
    let slots = Slots::new(3);
    let own: Vec<Slot> = (0..3).map(|_| enter(&slots, SlotOwner::LOCAL).unwrap()).collect();
    own[0].activity.set_busy(true);
    own[1].activity.used();
    let fourth = enter(&slots, SlotOwner::LOCAL).unwrap();
    assert!(ended(&own[2]), "never used");
    fourth.activity.used();
    let _fifth = enter(&slots, SlotOwner::LOCAL).unwrap();
    assert!(ended(&own[1]) && !ended(&fourth), "used longer ago");
    assert!(!ended(&own[0]));
}

#[test]
fn a_busy_one_gives_way_only_to_who_has_fewer() {
    let slots = Slots::new(4);
    let _greedy: Vec<Slot> = (0..3).map(|_| busy(&slots, at("192.0.2.2")).unwrap()).collect();
    let honest = busy(&slots, at("192.0.2.1")).unwrap();
    assert!(enter(&slots, at("192.0.2.2")).is_none(), "it has the most itself");
    let other = busy(&slots, at("192.0.2.3")).unwrap();
    assert!(!ended(&honest) && !ended(&other));
    assert!(enter(&slots, at("192.0.2.4")).is_some());
    assert_eq!(slots.evicted(), 2);
}

#[test]
fn the_busiest_address_gives_way_first_and_within_it_the_busiest_node() {
    let slots = Slots::new(7);
    let own: Vec<Slot> = (1..=2).map(|seed| enter(&slots, node("127.0.0.1", seed)).unwrap()).collect();
    let crowd: Vec<Slot> = (3..=6).map(|seed| enter(&slots, node("192.0.2.1", seed)).unwrap()).collect();
    let twice = enter(&slots, node("127.0.0.1", 2)).unwrap();
    own.iter().chain([&twice]).for_each(|slot| slot.activity.used());
    let _newcomer = enter(&slots, node("127.0.0.1", 6)).unwrap();
    assert!(ended(&crowd[0]) && !ended(&twice), "its address has most");
    let _another = enter(&slots, node("192.0.2.2", 1)).unwrap();
    assert!(ended(&own[1]) && !ended(&own[0]) && !ended(&twice), "the older one of the node with two");
    let slots = Slots::new(3);
    let same: Vec<Slot> = [1, 2, 2].map(|seed| busy(&slots, node("127.0.0.1", seed)).unwrap()).into();
    assert!(enter(&slots, node("127.0.0.1", 1)).is_none());
    let other = enter(&slots, node("127.0.0.1", 3));
    assert!(other.is_some() && ended(&same[1]), "who has two makes room for who has none");
}

#[test]
fn a_node_has_a_bounded_number_whoever_else_is_there() {
    let slots = Slots::with(SlotLimits { each: 2, ..SlotLimits::new(100) });
    let other = enter(&slots, node("127.0.0.1", 2)).unwrap();
    let own: Vec<Slot> = (0..2).map(|_| enter(&slots, node("127.0.0.1", 1)).unwrap()).collect();
    own[0].activity.set_busy(true);
    let third = busy(&slots, node("127.0.0.1", 1)).unwrap();
    assert!(ended(&own[1]) && !ended(&own[0]), "the idle one");
    let _fourth = enter(&slots, node("127.0.0.1", 1)).unwrap();
    assert!(ended(&own[0]) && !ended(&third) && !ended(&other), "the oldest, where none is idle");
    let many: Vec<Slot> = (0..9).map(|_| enter(&slots, at("127.0.0.1")).unwrap()).collect();
    assert!(!many.iter().any(ended), "one that has not proven its key is no node");
}

#[test]
fn the_one_idle_for_longest_gives_way_once_it_was_so_for_long() {
    const LONG: Duration = Duration::from_secs(2);
    let slots = Slots::with(SlotLimits { weight: 100, idle_after: LONG, ..SlotLimits::new(3) });
    let now = Instant::now() + LONG; // so that what it is counted from is before it
    let enter = |now| slots.enter_within(3, SlotOwner::LOCAL, Activity::busy(), now);
    let [first, second, third] = [(); 3].map(|()| enter(now).unwrap());
    assert!(enter(now).is_none(), "nobody is idle");
    third.activity.idle_since(now + Duration::from_secs(1));
    second.activity.idle_since(now);
    assert!(enter(now + LONG - Duration::from_millis(2)).is_none(), "not for long");
    let later = now + 2 * LONG;
    assert!(first.grow(60, now) && second.grow(40, now) && !first.grow(1, now));
    let fourth = enter(later).unwrap();
    assert!(ended(&second) && !ended(&third) && !second.grow(1, now));
    assert_eq!(slots.weight(), 60);
    assert!(fourth.grow(40, now) && !fourth.grow(1, later), "the idle one has no weight");
    assert!(ended(&third));
    drop((first, fourth));
    assert_eq!(slots.weight(), 0);
}

#[test]
fn addresses_of_one_host_are_one_and_those_of_this_machine_are_told_apart() {
    assert_eq!(at("2001:db8::1"), at("2001:db8::ffff:1"));
    assert_ne!(at("2001:db8:0:1::1"), at("2001:db8::1"));
    assert_ne!(at("127.0.0.1"), at("127.0.0.2"));
}

/// Goal: a node that comes again and again never loses its connection to one who takes all he gets.
#[test]
fn crowd_of_one_never_displaces_another() {
    let slots = Slots::new(2000);
    let honest: Vec<Slot> = (1..20).map(|seed| enter(&slots, node("127.0.0.1", seed)).unwrap()).collect();
    let crowd: Vec<Slot> = (0..10_000).map(|_| enter(&slots, node("127.0.0.1", 0)).unwrap()).collect();
    assert!(!honest.iter().any(ended));
    assert!(!ended(crowd.last().unwrap()), "the newcomer has its slot");
    assert!(slots.taken() <= 2000);
}
