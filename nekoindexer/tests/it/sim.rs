//! The indexer's decisions under simulation: real states and routes on random networks, with
//! messages that arrive in any order. No sockets, no waiting.

mod flood;
pub(crate) mod graph;
mod news;
mod world;

use self::{
    flood::{Flood, Holding, NAME},
    graph::{Graph, Shape},
    news::News,
};
use crate::common::*;

const SEEDS: u64 = 60;
/// Origins and versions of the file that is looked for.
const ORIGINS: u16 = 3;
const VERSIONS: usize = 6;

/// The versions of each origin, signed once.
static RECORDS: LazyLock<Vec<Vec<ListedRecord>>> = LazyLock::new(|| {
    let versions = |origin| (1..=VERSIONS as u64).map(|v| verified(1000 + origin, name(NAME), v)).collect();
    (0..ORIGINS).map(versions).collect()
});

fn for_each_seed(mut case: impl FnMut(&mut StdRng)) {
    // The table of message ids needs a timer, even though nothing here waits.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let _entered = runtime.enter();
    testkit::seeds(SEEDS).for_each(|seed| case(&mut StdRng::seed_from_u64(seed)));
}

/// Goal: every indexer within `ttl_hops` answers exactly once, and no other.
/// Method: all hold the name; compare with a breadth-first search.
#[test]
fn flood_answers_exactly_the_ttl_ball() {
    for_each_seed(|rng| {
        let graph = Graph::random(rng);
        let (asker, ttl_hops) = (rng.random_range(0..graph.count()), rng.random_range(0..=TTL_MAX));
        let everybody_holds = |n| Some(Holding { record: RECORDS[0][0].clone(), partial: n % 2 == 1 });
        let mut flood = Flood::new(&graph, &graph, everybody_holds, StdRng::from_rng(rng));
        let reply = flood.run(asker, ttl_hops);
        let within = graph.within(asker, ttl_hops);
        let expected: Vec<u32> = (0..graph.count()).map(|n| u32::from(within.contains(&n))).collect();
        assert_eq!(flood.answers, expected, "{graph:?} asked at {asker} with {ttl_hops} hops");
        assert!(reply.complete);
        assert_eq!(reply.messages, flood.messages, "the answer counts other messages than were sent");
    });
}

#[test]
fn full_mesh_of_n_costs_n_minus_1_messages_at_any_ttl() {
    for_each_seed(|rng| {
        let graph = Graph::of_shape(Shape::Mesh, rng);
        let (asker, ttl_hops) = (rng.random_range(0..graph.count()), rng.random_range(1..=TTL_MAX));
        let mut flood = Flood::new(&graph, &graph, |_| None, StdRng::from_rng(rng));
        let reply = flood.run(asker, ttl_hops);
        assert_eq!(flood.messages as usize, graph.count() - 1, "{ttl_hops} hops");
        assert_eq!(reply.messages, flood.messages);
    });
}

/// Goal: the answer has the newest version of each origin that is held in reach, with exactly its
/// holders there, those of all of it first; it says that it is complete only if nothing in reach can be missing.
/// Method: few holders, so that no limit cuts; cut links; compare with what is known to be there.
#[test]
fn answer_holds_all_that_is_in_reach_and_says_when_something_may_be_missing() {
    let (mut complete, mut missing) = (0, 0);
    for_each_seed(|rng| {
        let whole = Graph::random(rng);
        let working = whole.damaged(rng);
        let held = few_holders(whole.count(), rng);
        let (asker, ttl_hops) = (rng.random_range(0..whole.count()), rng.random_range(0..=TTL_MAX));
        let mut flood = Flood::new(&whole, &working, |n| held.get(&n).cloned(), StdRng::from_rng(rng));
        let reply = flood.run(asker, ttl_hops);

        let within = working.within(asker, ttl_hops);
        let in_reach = held.iter().filter(|(n, _)| within.contains(n));
        assert_eq!(found(&reply), newest(in_reach), "{} nodes, {ttl_hops} hops", whole.count());

        let something_missing = whole.within(asker, ttl_hops) != within;
        let hops = working.hops(asker);
        let forwards = |n: &usize| hops[*n].is_some_and(|hops| hops < usize::from(ttl_hops));
        let somebody_misses =
            (0..whole.count()).filter(forwards).any(|n| whole.links[n].len() > working.links[n].len());
        assert_eq!(!reply.complete, flood.gap, "a gap does not reach the asker");
        assert!(!(reply.complete && something_missing), "called complete, and is not");
        assert!(reply.complete || somebody_misses, "called incomplete, and nobody is out of reach");
        if matches!(whole.shape, Shape::Tree | Shape::Line) {
            assert_eq!(reply.complete, !something_missing, "a tree has no second way round");
        }
        complete += u32::from(reply.complete);
        missing += u32::from(something_missing);
    });
    assert!(complete > 6 && missing > 6, "too few cases of a kind: {complete}, {missing}");
}

/// Goal: whatever the order, an indexer in reach whose peers hold an older version takes note of
/// the newest, tells those peers, and nobody ever goes back.
/// Method: several updates at once, each message sometimes twice, older versions sent again.
#[test]
fn newest_version_is_noted_wherever_an_update_reaches_and_nobody_goes_back() {
    for_each_seed(|rng| {
        let graph = Graph::random(rng);
        let origin = rng.random_range(0..graph.count());
        let ttl_hops = if rng.random_bool(0.5) { TTL_MAX } else { rng.random_range(0..=TTL_MAX) };
        let holders = (0..graph.count()).filter(|n| *n != origin && rng.random_bool(0.6)).collect();
        let mut news = News::new(&graph, RECORDS[0].clone(), holders, StdRng::from_rng(rng));
        for version in 1..VERSIONS {
            news.publish(origin, version, ttl_hops);
            for _ in 0..rng.random_range(0..4) {
                news.replay(rng.random_range(0..=version));
            }
            news.deliver(rng.random_range(0..100));
        }
        news.deliver(usize::MAX);

        let newest = VERSIONS as u64;
        let within = graph.within(origin, ttl_hops);
        for n in news.holders() {
            let told = &news.told[*n];
            assert!(told.is_sorted_by(|a, b| a < b), "the peer of {n} was told {told:?}");
            if within.contains(n) {
                assert_eq!(news.noted(*n), newest, "node {n} of {graph:?}, {ttl_hops} hops from {origin}");
                assert!(*n == origin || told.last() == Some(&newest), "the peer of {n} was told {told:?}");
            }
        }
    });
}

#[test]
fn update_costs_a_full_mesh_of_n_n_minus_1_messages() {
    for_each_seed(|rng| {
        let graph = Graph::of_shape(Shape::Mesh, rng);
        let holders = (1..graph.count()).collect();
        let mut news = News::new(&graph, RECORDS[0].clone(), holders, StdRng::from_rng(rng));
        news.some_twice = false;
        news.publish(0, 1, TTL_MAX);
        news.deliver(usize::MAX);
        assert_eq!(news.delivered, graph.count() as u64 - 1);
    });
}

/// At most so many of the nodes that no limit on holders cuts, each with a version of some origin, or
/// a part of one.
fn few_holders(count: usize, rng: &mut StdRng) -> BTreeMap<usize, Holding> {
    let mut nodes: Vec<usize> = (0..count).collect();
    nodes.shuffle(rng);
    nodes.truncate(HOLDERS_OF_NEIGHBOR_MAX);
    let mut any = || {
        let record = RECORDS[rng.random_range(0..RECORDS.len())][rng.random_range(0..3)].clone();
        Holding { record, partial: rng.random_bool(0.3) }
    };
    nodes.into_iter().map(|n| (n, any())).collect()
}

/// A version of a file by its origin and number, and who holds it, or (true) a part of it.
type Held = BTreeMap<(NodeId, u64), BTreeSet<(NodeId, SocketAddr, bool)>>;

/// What there is to find: the newest version of each origin.
fn newest<'a>(held: impl Iterator<Item = (&'a usize, &'a Holding)>) -> Held {
    let mut all = Held::new();
    for (n, Holding { record, partial }) in held {
        let holder = world::holder(*n);
        let holders = all.entry((record.origin, record.version.get())).or_default();
        holders.insert((holder.node, holder.addr, *partial));
    }
    let newer = |(origin, version): &(NodeId, u64)| {
        all.range((*origin, version + 1)..=(*origin, u64::MAX)).next().is_some()
    };
    all.iter().filter(|(key, _)| !newer(key)).map(|(key, holders)| (*key, holders.clone())).collect()
}

fn found(reply: &QueryReply) -> Held {
    let mut found = Held::new();
    for hit in reply.hits.iter() {
        let record = hit.record.unverified();
        assert!(hit.holders.is_sorted_by_key(|holder| holder.partial), "a part before the whole");
        let holders = hit.at().into_iter().map(|holder| (holder.node, holder.addr, holder.partial));
        let twice = found.insert((record.origin, record.version.get()), holders.collect());
        assert_eq!(twice, None, "one version twice");
    }
    found
}
