//! Pages of searches: as many hits as fit a frame.

use crate::common::*;

/// A hit with the longest name, and as many holders as one may have, at as many addresses.
fn longest(n: usize) -> Hit {
    let text = format!("{n:05}{}", "/x".repeat((NAME_BYTES_MAX - 5) / 2));
    let holder = |seed: u16| {
        let addr = |host: u16| SocketAddr::from(([0xfd00, 0, 0, 0, 0, 0, seed, host], 65_535));
        ListedHolder::new(NodeAddrs::new(identity(seed).id(), (0..4).map(addr)))
    };
    Hit { record: record(1, &text, u64::from(u32::MAX)), holders: List::first_of((1..=16).map(holder)) }
}

/// Goal: however long its hits, a page fits a frame, and the next one begins where it ends. Method: the longest there are.
#[test]
fn page_of_the_longest_hits_fits_a_frame_and_the_next_begins_behind_it() {
    let hits: Vec<Hit> = (0..LISTED_MAX).map(longest).collect();
    let page = FindReply::of(hits.clone(), None);
    assert!((FOUND_MAX..LISTED_MAX).contains(&page.hits.len()), "{} hits", page.hits.len());
    let frame = codec::encode(&page).unwrap().len();
    assert!(frame < FRAME_BYTES_MAX - 64, "{frame} bytes");
    let last = Position::of(page.hits.last().unwrap().record.unverified());
    assert_eq!(page.next, Some(last));

    let few = FindReply::of(hits[..3].to_vec(), None);
    assert_eq!((few.hits.len(), few.next), (3, None), "all of them are there");
}
