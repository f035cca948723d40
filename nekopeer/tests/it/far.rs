//! Counts round trips of commands over an emulated link, from its packets: connections opened, and turns of sending after
//! receiving; and what an origin sends to several readers. No time is measured.

use std::collections::HashMap;

use testkit::{
    lan::{Wan, Wire, flights},
    machine::NETWORKS,
};

use crate::{
    common,
    program::{
        indexer::{LISTENS, an_indexer},
        *,
    },
};

const INDEXER: usize = 0;
const ORIGIN: usize = 1;
const READER: usize = 2;
const FILES: usize = 300;
const RUNS: usize = 10;
const NEAR: Duration = Duration::from_millis(5);

/// Hosts with an emulated link between each two of them, and an indexer on the first.
struct FarHosts {
    wan: Wan,
    indexer: SocketAddr,
    _running: Running,
}

impl FarHosts {
    fn over(wires: &[Wire]) -> Option<Self> {
        let wan = NETWORKS.or_left_out(Wan::of(wires))?;
        let indexer = wan.host(INDEXER).addr;
        let mut running = Running::start(wan.host(INDEXER).namespace.command(&an_indexer(&[indexer])));
        running.out_line(LISTENS);
        Some(Self { wan, indexer, _running: running })
    }

    fn home(&self, host: usize) -> Home {
        Home::with(&["--indexer", &self.indexer.to_string()]).on(&self.wan.host(host).namespace)
    }

    fn listens(&self, host: usize) -> String {
        format!("--listen={}", SocketAddr::new(self.wan.host(host).addr.ip(), 0))
    }
}

/// TCP, TLS and the question, of the indexer and then of the origin; its list of chunks comes beside its bytes. Many small
/// files take a few more, and not some each. It is the least of some runs: where a program is held up between two writes, what
/// the other end says to the first of them comes before the second, and both count.
#[test]
fn a_query_takes_three_turns_a_file_of_one_unit_six_and_many_small_ones_little_more() {
    let Some(hosts) = FarHosts::over(&[Wire::of(NEAR); 3]) else { return };
    let origin = hosts.home(ORIGIN);
    (0..FILES).for_each(|n| drop(origin.write(&format!("many/f{n}"), bytes(n as u64, 3000))));
    origin.write("one", bytes(1, 1000));
    origin.write("unit", bytes(2, 500_000));
    let _sharing = origin.share(&["one", "unit", "many", &hosts.listens(ORIGIN)]);
    for (words, most) in
        [(&["query", "one"][..], 3), (&["get", "one"], 6), (&["get", "unit"], 6), (&["get", "many/"], 16)]
    {
        let turns = || {
            let reader = hosts.home(READER);
            hosts.wan.take_carried();
            reader.done(words);
            flights(&hosts.wan.take_carried(), READER)
        };
        assert!((0..RUNS).any(|_| turns() <= most), "{words:?}: more than {most} turns, {RUNS} times");
    }
}

/// Of the second connection they are all that is asked for at first. At the end nothing is told to the indexer, which lists the
/// reader as long as it is connected. As above, it is the best of some runs.
#[test]
fn bytes_of_a_large_file_come_over_two_connections_before_its_list_of_chunks_and_nothing_is_said_at_the_end()
{
    const BYTES: usize = 12 << 20;
    const COME: usize = 8 * 1024; // more than a handshake, and less than a new connection sends in a round trip
    let Some(hosts) = FarHosts::over(&[Wire::of(NEAR); 3]) else { return };
    let (origin, content) = (hosts.home(ORIGIN), bytes(1, BYTES));
    origin.write("f", &content);
    let _sharing = origin.share(&["f", &hosts.listens(ORIGIN)]);
    let run = || {
        let reader = hosts.home(READER);
        hosts.wan.take_carried();
        reader.done(&["get", "f", &hosts.listens(READER)]);
        assert!(reader.read("f") == content);
        // Bytes that came over each connection until the reader sent for the third time: before that are hellos and requests.
        let mut of_connections: HashMap<u16, (usize, bool, usize)> = HashMap::new();
        let mut told_since = 0;
        for packet in hosts.wan.take_carried().iter().filter(|packet| packet.data > 0) {
            let (port, is_sent) = match (packet.from, packet.to) {
                (READER, ORIGIN) => (packet.ports.0, true),
                (ORIGIN, READER) => (packet.ports.1, false),
                (READER, INDEXER) => {
                    told_since += 1;
                    continue;
                }
                _ => continue,
            };
            let (turns, was_sent, came) = of_connections.entry(port).or_default();
            *turns += usize::from(is_sent && !*was_sent);
            *was_sent = is_sent;
            *came += if *turns < 3 && !is_sent { packet.data } else { 0 };
            told_since = 0;
        }
        let early = of_connections.values().filter(|(_, _, came)| *came > COME).count();
        (early, told_since)
    };
    let (mut runs, mut come_early, mut ends_quietly) = (Vec::new(), false, false);
    while runs.len() < RUNS && !(come_early && ends_quietly) {
        let (early, told_since) = run();
        (come_early, ends_quietly) = (come_early || early == 2, ends_quietly || told_since == 0);
        runs.push((early, told_since));
    }
    assert!(come_early, "connections with early bytes: {runs:?}");
    assert!(ends_quietly, "packets at the end: {runs:?}");
}

/// Where a bit field of a reader takes longer than the pause before it is asked for again, chunks are asked of it all the same.
#[test]
fn readers_that_are_far_from_each_other_have_the_origin_send_little_more_than_the_file() {
    const READERS: usize = 3;
    const BYTES: usize = 12 << 20;
    let far = Wire { mbit: 40.0, ..Wire::of(Duration::from_millis(75)) };
    let wires: Vec<_> = std::iter::once(Wire::of(NEAR)).chain([far; 1 + READERS]).collect();
    let Some(hosts) = FarHosts::over(&wires) else { return };
    let (origin, content) = (hosts.home(ORIGIN), bytes(1, BYTES));
    origin.write("f", &content);
    let _sharing = origin.share(&["f", &hosts.listens(ORIGIN)]);
    let readers: Vec<_> =
        (READER..READER + READERS).map(|host| (hosts.home(host), hosts.listens(host))).collect();
    hosts.wan.take_carried();
    let getting: Vec<_> =
        readers.iter().map(|(reader, listens)| reader.start(&["get", "f", listens])).collect();
    getting.into_iter().for_each(|getting| getting.wait().ended_with(0, ""));
    readers.iter().for_each(|(reader, _)| assert!(reader.read("f") == content));
    let carried = hosts.wan.take_carried();
    let sent: usize = carried.iter().filter(|packet| packet.from == ORIGIN).map(|packet| packet.data).sum();
    assert!(2 * sent < 5 * BYTES, "the origin sent {sent} bytes to {READERS} readers");
}

/// The time that an indexer has for an answer is less than a round trip. The first question travels with the end of the
/// handshake, the second over a connection that is there.
#[test]
fn the_way_to_an_indexer_takes_nothing_of_its_time_for_an_answer() {
    let (query_deadline, way) = (Duration::from_millis(1500), Duration::from_millis(400));
    let Some(hosts) = FarHosts::over(&[Wire::of(way), Wire::of(way)]) else { return };
    let asking = async {
        let config = common::Folder::new().config(&[hosts.indexer]);
        let config = nekopeer::Config { query_deadline, listen: None, ..config };
        let reader = common::Node::start(config).await;
        for question in ["first", "second"] {
            let answer = reader.peer.query(&common::name("a"), 0).await;
            assert!(answer.unwrap().complete, "the {question} question");
        }
    };
    hosts.wan.host(1).namespace.within(|| Runtime::new().unwrap().block_on(asking));
}
