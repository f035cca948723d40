//! Counts round trips of commands over an emulated link, from its packets: connections opened, and turns of sending after
//! receiving; and what an origin sends to several readers. No time is measured.

use testkit::{
    lan::{Wan, Wire, flights},
    machine::NETWORKS,
};

use crate::program::{
    indexer::{LISTENS, an_indexer},
    *,
};

const INDEXER: usize = 0;
const ORIGIN: usize = 1;
const READER: usize = 2;
const FILES: usize = 300;
const RUNS: usize = 10;

/// TCP, TLS and the question, of the indexer and then of the origin; its list of chunks comes beside its bytes. Many small files take a few more, and not some each. It
/// is the least of some runs: where a program is held up between two writes, what the other end says to the first of them
/// comes before the second, and both count.
#[test]
fn a_query_takes_three_turns_a_file_of_one_unit_six_and_many_small_ones_little_more() {
    let wires = [Wire::of(Duration::from_millis(5)); 3];
    let Some(wan) = NETWORKS.or_left_out(Wan::of(&wires)) else { return };
    let at = wan.host(INDEXER).addr;
    let mut indexer = Running::start(wan.host(INDEXER).namespace.command(&an_indexer(&[at])));
    indexer.out_line(LISTENS);
    let home = |host: usize| Home::with(&["--indexer", &at.to_string()]).on(&wan.host(host).namespace);
    let origin = home(ORIGIN);
    (0..FILES).for_each(|n| drop(origin.write(&format!("many/f{n}"), bytes(n as u64, 3000))));
    origin.write("one", bytes(1, 1000));
    origin.write("unit", bytes(2, 500_000));
    let listens = format!("--listen={}", SocketAddr::new(wan.host(ORIGIN).addr.ip(), 0));
    let _sharing = origin.share(&["one", "unit", "many", &listens]);
    for (words, most) in
        [(&["query", "one"][..], 3), (&["get", "one"], 6), (&["get", "unit"], 6), (&["get", "many/"], 16)]
    {
        let turns = || {
            let reader = home(READER);
            wan.take_carried();
            reader.done(words);
            flights(&wan.take_carried(), READER)
        };
        assert!((0..RUNS).any(|_| turns() <= most), "{words:?}: more than {most} turns, {RUNS} times");
    }
}

/// Where a bit field of a reader takes longer than the pause before it is asked for again, chunks are asked of it all the same.
#[test]
fn readers_that_are_far_from_each_other_have_the_origin_send_little_more_than_the_file() {
    const READERS: usize = 3;
    const BYTES: usize = 12 << 20;
    let far = Wire { mbit: 40.0, ..Wire::of(Duration::from_millis(75)) };
    let wires: Vec<_> =
        std::iter::once(Wire::of(Duration::from_millis(5))).chain([far; 1 + READERS]).collect();
    let Some(wan) = NETWORKS.or_left_out(Wan::of(&wires)) else { return };
    let at = wan.host(INDEXER).addr;
    let mut indexer = Running::start(wan.host(INDEXER).namespace.command(&an_indexer(&[at])));
    indexer.out_line(LISTENS);
    let home = |host: usize| Home::with(&["--indexer", &at.to_string()]).on(&wan.host(host).namespace);
    let listens = |host: usize| format!("--listen={}", SocketAddr::new(wan.host(host).addr.ip(), 0));
    let (origin, content) = (home(ORIGIN), bytes(1, BYTES));
    origin.write("f", &content);
    let _sharing = origin.share(&["f", &listens(ORIGIN)]);
    let readers: Vec<_> = (READER..READER + READERS).map(|host| (home(host), listens(host))).collect();
    wan.take_carried();
    let getting: Vec<_> =
        readers.iter().map(|(reader, listens)| reader.start(&["get", "f", listens])).collect();
    getting.into_iter().for_each(|getting| getting.wait().ended_with(0, ""));
    readers.iter().for_each(|(reader, _)| assert!(reader.read("f") == content));
    let sent: usize =
        wan.take_carried().iter().filter(|packet| packet.from == ORIGIN).map(|packet| packet.data).sum();
    assert!(2 * sent < 5 * BYTES, "the origin sent {sent} bytes to {READERS} readers");
}
