//! Counts round trips of commands over an emulated link, from its packets: connections opened, and turns of sending after
//! receiving. No time is measured.

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

/// TCP, TLS and the question, of the indexer and then of the origin. Many small files take a few more, and not some each. It
/// is the least of some runs: where a program is held up between two writes, what the other end says to the first of them
/// comes before the second, and both count.
#[test]
fn a_query_takes_three_turns_a_small_file_six_and_many_little_more() {
    let wires = [Wire::of(Duration::from_millis(5)); 3];
    let Some(wan) = NETWORKS.or_left_out(Wan::of(&wires)) else { return };
    let at = wan.host(INDEXER).addr;
    let mut indexer = Running::start(wan.host(INDEXER).namespace.command(&an_indexer(&[at])));
    indexer.out_line(LISTENS);
    let home = |host: usize| Home::with(&["--indexer", &at.to_string()]).on(&wan.host(host).namespace);
    let origin = home(ORIGIN);
    (0..FILES).for_each(|n| drop(origin.write(&format!("many/f{n}"), bytes(n as u64, 3000))));
    origin.write("one", bytes(1, 1000));
    let listens = format!("--listen={}", SocketAddr::new(wan.host(ORIGIN).addr.ip(), 0));
    let _sharing = origin.share(&["one", "many", &listens]);
    for (words, most) in [(&["query", "one"][..], 3), (&["get", "one"], 6), (&["get", "many/"], 16)] {
        let turns = || {
            let reader = home(READER);
            wan.take_carried();
            reader.done(words);
            flights(&wan.take_carried(), READER)
        };
        assert!((0..RUNS).any(|_| turns() <= most), "{words:?}: more than {most} turns, {RUNS} times");
    }
}
