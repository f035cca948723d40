//! Summaries under simulation: indexers that come, go and restart, names that come and go, and news
//! of them that is late, lost, doubled or out of order. No sockets, no waiting.

use std::{
    collections::{BTreeMap, BTreeSet},
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::LazyLock,
    time::{Duration, Instant},
};

use crate::sim::graph::{Graph, Shape};
use nekoindexer::state::{
    route::route,
    summary::{About, Fresh, OwnSummary, Position, Relay, TRUSTED_FOR, TheirSummary, Took, relays},
};
use nekoproto::{
    Covered, FileName, Identity, NodeTag,
    limits::TTL_MAX,
    summary::{NameKey, SummaryUpdate},
};
use rand::{RngExt, SeedableRng, rngs::StdRng, seq::SliceRandom};

const SEEDS: u64 = 1000;
const NODES_MAX: usize = 20;
const NAMES: usize = 5;
const STEPS: usize = 120;

static TAGS: LazyLock<Vec<NodeTag>> = LazyLock::new(|| {
    (0..NODES_MAX).map(|n| Identity::from_seed(&[u8::try_from(n).unwrap(); 32]).id().tag()).collect()
});
static KEYS: LazyLock<Vec<NameKey>> = LazyLock::new(|| {
    (0..NAMES).map(|n| NameKey::of(&FileName::new(&format!("file-{n}")).unwrap())).collect()
});

struct Node {
    names: BTreeSet<usize>,
    own: OwnSummary,
    theirs: BTreeMap<usize, TheirSummary>,
    told: BTreeMap<usize, Option<Position>>,
    /// What was passed on to whom, and how far.
    passed: BTreeMap<(usize, Relay), Option<Position>>,
}

struct Letter {
    from: usize,
    to: usize,
    /// `None`: it is of the sender itself.
    relay: Option<Relay>,
    update: SummaryUpdate,
    until: Position,
}

struct World {
    graph: Graph,
    nodes: Vec<Node>,
    post: Vec<Letter>,
    now: Instant,
    rng: StdRng,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let shapes =
            [Shape::Random, Shape::Tree, Shape::Line, Shape::Ring, Shape::Mesh, Shape::Mesh, Shape::Regular];
        let shape = shapes[rng.random_range(0..shapes.len())];
        let count = rng.random_range(2..=NODES_MAX);
        let graph = Graph::new(shape, count, &mut rng);
        let nodes = (0..count).map(|_| Self::node(&mut rng)).collect();
        Self { graph, nodes, post: Vec::new(), now: Instant::now(), rng }
    }

    fn node(rng: &mut StdRng) -> Node {
        let own = OwnSummary::new(rng.random());
        let (names, theirs, told, passed) = <_>::default();
        Node { names, own, theirs, told, passed }
    }

    fn any(&mut self) -> usize {
        self.rng.random_range(0..self.nodes.len())
    }

    fn register(&mut self, at: usize, name: usize) {
        if self.nodes[at].names.insert(name) {
            self.nodes[at].own.add(KEYS[name]);
        }
    }

    fn deregister(&mut self, at: usize, name: usize) {
        let node = &mut self.nodes[at];
        if node.names.remove(&name) {
            node.own.remove(1);
            if self.rng.random_bool(0.3) {
                node.own.begin_rebuild();
                let keys: Vec<NameKey> = node.names.iter().map(|name| KEYS[*name]).collect();
                node.own.renew(Fresh::of(&keys));
            }
        }
    }

    fn set_link(&mut self, a: usize, b: usize, is_up: bool) {
        if a == b || self.graph.links[a].contains(&b) == is_up {
            return;
        }
        for (one, other) in [(a, b), (b, a)] {
            match is_up {
                true => self.graph.links[one].insert(other),
                false => self.graph.links[one].remove(&other),
            };
            self.nodes[one].theirs.remove(&other);
            self.nodes[one].told.remove(&other);
            self.nodes[one].passed.retain(|(to, relay), _| *to != other && relay.via != TAGS[other]);
            self.nodes[one].own.neighbors_changed();
            self.enclose(one);
        }
        // What was on its way over a connection ends with it.
        self.post.retain(|letter| (letter.from, letter.to) != (a, b) && (letter.from, letter.to) != (b, a));
    }

    fn restart(&mut self, at: usize) {
        let links: Vec<usize> = self.graph.links[at].iter().copied().collect();
        for neighbor in &links {
            self.set_link(at, *neighbor, false);
        }
        self.nodes[at] = Self::node(&mut self.rng);
        for neighbor in links {
            self.set_link(at, neighbor, true);
        }
    }

    /// Puts into the post what `from` has to tell `to`: of itself, and of others.
    fn tell(&mut self, from: usize, to: usize) {
        let node = &self.nodes[from];
        let told = node.told.get(&to).copied().flatten();
        let neighbors = Covered::first_of(self.graph.links[from].iter().map(|n| TAGS[*n]));
        let about = About { of: TAGS[from], hops: 0, age: Duration::ZERO, neighbors };
        let mut all = vec![(None, node.own.advertise(told).updates(told, &about))];
        for relay in self.relays(from, to) {
            let told = node.passed.get(&(to, relay)).copied().flatten();
            let (tell, about, _) = self.theirs(from, relay.via).pass_on(relay, told, self.now).unwrap();
            all.push((Some(relay), tell.updates(told, &about)));
        }
        for (relay, (updates, until)) in all {
            let letter = |update| Letter { from, to, relay, update, until };
            self.post.extend(updates.into_iter().map(letter));
        }
    }

    /// What `at` does when its neighbors change, or those of one of them.
    fn enclose(&mut self, at: usize) {
        let is_ours =
            |tag: &NodeTag| *tag == TAGS[at] || self.graph.links[at].iter().any(|n| TAGS[*n] == *tag);
        self.nodes[at].theirs.values_mut().for_each(|theirs| theirs.enclose(is_ours));
    }

    fn relays(&self, from: usize, to: usize) -> Vec<Relay> {
        let theirs = self.nodes[from].theirs.iter();
        let heard = theirs.flat_map(|(via, theirs)| theirs.advertised(TAGS[*via], TAGS[to], self.now));
        relays(TAGS[to], TAGS[from], heard)
    }

    fn theirs(&self, at: usize, via: NodeTag) -> &TheirSummary {
        let neighbor = TAGS.iter().position(|tag| *tag == via).unwrap();
        &self.nodes[at].theirs[&neighbor]
    }

    /// Delivers one letter, perhaps not for the last time; the sender hears what came of it, or not.
    fn deliver(&mut self, at: usize) {
        let is_doubled = self.rng.random_bool(0.1);
        let letter = &self.post[at];
        let (from, to, relay, until) = (letter.from, letter.to, letter.relay, letter.until);
        let took = self.nodes[to].theirs.entry(from).or_default().take(letter.update.clone(), self.now);
        if took == Took::News {
            self.enclose(to);
        }
        if !is_doubled {
            self.post.swap_remove(at);
        }
        let is_heard = self.rng.random_bool(0.9);
        let sender = &mut self.nodes[from];
        let told = match relay {
            None => sender.told.entry(to).or_default(),
            Some(relay) => sender.passed.entry((to, relay)).or_default(),
        };
        match (took, is_heard) {
            (Took::Gap, _) => *told = None,
            (_, true) => *told = Some(told.filter(|told| told.reaches(until)).unwrap_or(until)),
            (_, false) => {}
        }
    }

    fn step(&mut self) {
        let (a, b, name) = (self.any(), self.any(), self.rng.random_range(0..NAMES));
        match self.rng.random_range(0..20) {
            0..5 => self.register(a, name),
            5..7 => self.deregister(a, name),
            7 => self.set_link(a, b, false),
            8 => self.set_link(a, b, true),
            9 if self.rng.random_bool(0.3) => self.restart(a),
            9 if !self.post.is_empty() => {
                let lost = self.rng.random_range(0..self.post.len());
                self.post.swap_remove(lost);
            }
            10..14 if !self.post.is_empty() => {
                let next = self.rng.random_range(0..self.post.len());
                self.deliver(next);
            }
            _ => {
                let links: Vec<usize> = self.graph.links[a].iter().copied().collect();
                if !links.is_empty() {
                    let to = links[self.rng.random_range(0..links.len())];
                    self.tell(a, to);
                }
            }
        }
    }

    /// Lets every node advertise everything, after the time for which earlier summaries are trusted.
    fn settle(&mut self) {
        self.post.clear();
        self.now += TRUSTED_FOR;
        // The last rounds pass on what others have told in those before, and lost letters are told again.
        for _ in 0..8 {
            for from in 0..self.nodes.len() {
                for to in self.graph.links[from].clone() {
                    self.tell(from, to);
                    while !self.post.is_empty() {
                        self.deliver(0);
                    }
                }
            }
        }
    }

    /// The nodes with the name that a query finds, as `query::answer` carries it out.
    fn query(&mut self, at: usize, name: usize, ttl_hops: u8) -> BTreeSet<usize> {
        self.ask(at, name, ttl_hops, &Covered::new(), &mut BTreeMap::new())
    }

    fn ask(
        &mut self,
        at: usize,
        name: usize,
        ttl_hops: u8,
        covered: &Covered,
        seen: &mut BTreeMap<usize, u8>,
    ) -> BTreeSet<usize> {
        let mut found = BTreeSet::new();
        match seen.insert(at, ttl_hops) {
            None => found.extend(self.nodes[at].names.contains(&name).then_some(at)),
            Some(before) if before >= ttl_hops => {
                seen.insert(at, before);
                return found;
            }
            Some(_) => {}
        }
        let Some(ttl_hops) = ttl_hops.checked_sub(1) else { return found };
        let neighbors: Vec<usize> = self.graph.links[at].iter().copied().collect();
        let tags: Vec<NodeTag> = neighbors.iter().map(|n| TAGS[*n]).collect();
        let route = route(TAGS[at], &tags, &[], covered);
        let covers = |tag: &NodeTag| *tag == TAGS[at] || route.covered.contains(tag);
        let rules_out = |index: &usize| {
            let theirs = self.nodes[at].theirs.get(&neighbors[*index]);
            theirs.is_some_and(|theirs| theirs.rules_out(KEYS[name], ttl_hops, covers, self.now))
        };
        let (mut later, mut first): (Vec<usize>, Vec<usize>) =
            route.ask.iter().partition(|index| rules_out(index));
        first.shuffle(&mut self.rng);
        later.shuffle(&mut self.rng);
        for index in first {
            found.extend(self.ask(neighbors[index], name, ttl_hops, &route.covered, seen));
        }
        if found.is_empty() {
            for index in later {
                found.extend(self.ask(neighbors[index], name, ttl_hops, &route.covered, seen));
            }
        }
        found
    }

    fn holders_within(&self, at: usize, name: usize, ttl_hops: u8) -> BTreeSet<usize> {
        let within = self.graph.within(at, ttl_hops);
        within.into_iter().filter(|n| self.nodes[*n].names.contains(&name)).collect()
    }
}

/// Goal: a name that somebody in reach has is always found, whatever became of the summaries; when
/// they have arrived, every holder is found. Method: random lives of small networks; compare with
/// what is there.
#[test]
fn no_answer_is_lost_whatever_becomes_of_summaries() {
    let (mut found_some, mut found_none) = (0, 0);
    for seed in 0..SEEDS {
        let mut run = || {
            let mut world = World::new(seed);
            for _ in 0..STEPS {
                world.step();
                let (at, name) = (world.any(), world.rng.random_range(0..NAMES));
                let ttl_hops = world.rng.random_range(0..=TTL_MAX);
                let there = world.holders_within(at, name, ttl_hops);
                let found = world.query(at, name, ttl_hops);
                assert!(found.is_subset(&there), "found {found:?}, there are {there:?}");
                assert_eq!(found.is_empty(), there.is_empty(), "found {found:?}, there are {there:?}");
                *if there.is_empty() { &mut found_none } else { &mut found_some } += 1;
            }
            world.settle();
            for _ in 0..10 {
                let (at, name) = (world.any(), world.rng.random_range(0..NAMES));
                let ttl_hops = world.rng.random_range(0..=TTL_MAX);
                let there = world.holders_within(at, name, ttl_hops);
                assert_eq!(world.query(at, name, ttl_hops), there, "settled, {ttl_hops} hops");
            }
        };
        if let Err(panic) = catch_unwind(AssertUnwindSafe(&mut run)) {
            eprintln!("failed with seed {seed}");
            resume_unwind(panic);
        }
    }
    assert!(found_some > 10_000 && found_none > 10_000, "{found_some} {found_none}");
}
