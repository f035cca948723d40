//! Summaries under simulation: indexers that come, go and restart, names that come and go, and news
//! of them that is late, lost, doubled or out of order. No sockets, no waiting.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use nekoindexer::state::{
    route::route,
    summary::{Fresh, OwnSummary, Position, TheirSummary, Told, Took, rules_out},
};

use crate::{
    common::*,
    sim::graph::{Graph, Shape},
};

const SEEDS: u64 = 30;
const NODES_MAX: usize = 20;
const NAMES: usize = 5;
const STEPS: usize = 480;

static TAGS: LazyLock<Vec<NodeTag>> = LazyLock::new(|| {
    (0..NODES_MAX).map(|n| Identity::from_seed(&[u8::try_from(n).unwrap(); 32]).id().tag()).collect()
});
static KEYS: LazyLock<Vec<NameKey>> =
    LazyLock::new(|| (0..NAMES).map(|n| NameKey::of(&name(&format!("file-{n}")))).collect());

struct Node {
    names: BTreeSet<usize>,
    /// Those whose registration was answered.
    answered: BTreeSet<usize>,
    own: OwnSummary,
    channels: BTreeMap<usize, Channel>,
    /// Until when the other ends of earlier connections may trust what they were told.
    left_trust_until: Instant,
}

/// One end of a connection, as `neighbors::channel`.
#[derive(Default)]
struct Channel {
    link: u64,
    since: Option<Instant>,
    told: Told,
    theirs: TheirSummary,
    heard: Option<Instant>,
    /// The time stamp of their last answer, by their clock.
    their_clock: Option<Instant>,
    acknowledged: Option<Position>,
    /// The call that is not answered yet.
    call: Option<u64>,
}

struct Registration {
    at: usize,
    name: usize,
    needed: Position,
    began: Instant,
}

#[derive(Clone)]
struct Letter {
    from: usize,
    to: usize,
    link: u64,
    call: u64,
    asked: Instant,
    position: Position,
    what: Post,
}

#[derive(Clone)]
enum Post {
    /// With the time stamp of the receiver that it returns.
    Ask(SummaryNews, Option<Instant>),
    /// With the time stamp of the sender.
    Answer(SummaryReply, Instant),
}

struct World {
    graph: Graph,
    nodes: Vec<Node>,
    post: Vec<Letter>,
    waiting: Vec<Registration>,
    /// Registrations that were answered before nobody could trust an older summary any more.
    answered_early: u32,
    calls: u64,
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
        let whole = Graph::new(shape, count, &mut rng);
        let now = Instant::now();
        let nodes = (0..count).map(|_| Self::node(&mut rng, now)).collect();
        let graph = Graph { shape, links: vec![BTreeSet::new(); count] };
        let (post, waiting) = <_>::default();
        let mut world = Self { graph, nodes, post, waiting, answered_early: 0, calls: 0, now, rng };
        for (one, links) in whole.links.iter().enumerate() {
            links.iter().for_each(|other| world.set_link(one, *other, true));
        }
        world
    }

    /// `left_trust_until`: as long others may trust what it told them before.
    fn node(rng: &mut StdRng, left_trust_until: Instant) -> Node {
        let (names, answered, channels) = <_>::default();
        let own = OwnSummary::new(rng.random());
        Node { names, answered, own, channels, left_trust_until }
    }

    fn any(&mut self) -> usize {
        self.rng.random_range(0..self.nodes.len())
    }

    fn register(&mut self, at: usize, name: usize) {
        let node = &mut self.nodes[at];
        if node.names.insert(name) {
            node.own.add(KEYS[name]);
            let needed = node.own.position();
            self.waiting.push(Registration { at, name, needed, began: self.now });
        }
    }

    /// Answers the registrations that need not wait any more, as `neighbors::acknowledged`.
    fn answer_registrations(&mut self) {
        let (nodes, now) = (&mut self.nodes, self.now);
        self.waiting.retain(|waiting| {
            let node = &mut nodes[waiting.at];
            let may_lack = |channel: &Channel| {
                let trusts = channel.heard.is_some_and(|heard| now < heard + CURRENT_FOR);
                trusts && !channel.acknowledged.is_some_and(|position| position.reaches(waiting.needed))
            };
            let waits = (now < node.left_trust_until || node.channels.values().any(may_lack))
                && now < waiting.began + CURRENT_FOR;
            if !waits {
                self.answered_early += u32::from(now < waiting.began + CURRENT_FOR);
                node.answered.insert(waiting.name);
            }
            waits
        });
    }

    fn deregister(&mut self, at: usize, name: usize) {
        self.waiting.retain(|waiting| (waiting.at, waiting.name) != (at, name));
        let node = &mut self.nodes[at];
        node.answered.remove(&name);
        if node.names.remove(&name) {
            node.own.remove(1);
            if self.rng.random_bool(0.3) {
                node.own.begin_rebuild();
                let keys: Vec<NameKey> = node.names.iter().map(|name| KEYS[*name]).collect();
                node.own.renew(Fresh::of(&keys));
            }
        }
    }

    /// Cuts a connection or makes one. The two ends notice at the same time.
    fn set_link(&mut self, a: usize, b: usize, is_up: bool) {
        let is_so = |one: usize, other: usize| self.graph.links[one].contains(&other) == is_up;
        if a == b || (is_so(a, b) && is_so(b, a)) {
            return;
        }
        self.calls += 1;
        for (one, other) in [(a, b), (b, a)] {
            self.lose(one, other);
            if is_up {
                self.graph.links[one].insert(other);
                let channel = Channel { link: self.calls, since: Some(self.now), ..Channel::default() };
                self.nodes[one].channels.insert(other, channel);
            }
        }
    }

    /// `one` has no connection to `other` any more; `other` may not know yet.
    fn lose(&mut self, one: usize, other: usize) {
        self.graph.links[one].remove(&other);
        let node = &mut self.nodes[one];
        if let Some(heard) = node.channels.remove(&other).and_then(|channel| channel.heard) {
            node.left_trust_until = node.left_trust_until.max(heard + CURRENT_FOR);
        }
    }

    fn neighbors(&self, at: usize) -> Arc<[NodeTag]> {
        let mut tags: Vec<NodeTag> = self.graph.links[at].iter().map(|n| TAGS[*n]).collect();
        tags.sort();
        tags.into()
    }

    /// A node ends, which others may not notice, and begins anew.
    fn restart(&mut self, at: usize) {
        if self.rng.random_bool(0.5) {
            self.waiting.retain(|waiting| waiting.at != at);
            self.graph.links[at].clear();
            self.nodes[at] = Self::node(&mut self.rng, self.now + CURRENT_FOR);
            return;
        }
        let links: Vec<usize> = self.graph.links[at].iter().copied().collect();
        for other in 0..self.nodes.len() {
            self.set_link(at, other, false);
        }
        self.waiting.retain(|waiting| waiting.at != at);
        self.nodes[at] = Self::node(&mut self.rng, self.now);
        for neighbor in links {
            self.set_link(at, neighbor, true);
        }
    }

    /// `from` tells `to` what is new, or that nothing is: one call at a time.
    fn tell(&mut self, from: usize, to: usize) {
        let neighbors = self.neighbors(from);
        let Node { channels, own, .. } = &mut self.nodes[from];
        let Some(channel) = channels.get_mut(&to).filter(|channel| channel.call.is_none()) else { return };
        let echo = channel.their_clock;
        let told = &mut channel.told;
        let version = BuildHasherDefault::<DefaultHasher>::default().hash_one(&neighbors);
        told.tell(own, version, || Change::Neighbors(List::first_of(neighbors.iter().copied())));
        let message = told.next_message().unwrap_or_else(|| told.heartbeat());
        assert!(told.next_message().is_none(), "all changes fit one message");
        self.calls += 1;
        channel.call = Some(self.calls);
        self.post.push(Letter {
            from,
            to,
            link: channel.link,
            call: self.calls,
            asked: self.now,
            position: own.position(),
            what: Post::Ask(message, echo),
        });
    }

    /// The call of `from` to `to` takes too long; it may arrive yet.
    fn give_up(&mut self, from: usize, to: usize) {
        let Some(channel) = self.nodes[from].channels.get_mut(&to) else { return };
        if channel.call.take().is_some() {
            channel.told.begin_anew();
        }
    }

    /// What `at` confirms to `to`, as `neighbors::advertise`.
    fn confirms(&self, at: usize, to: usize) -> u64 {
        let node = &self.nodes[at];
        node.channels[&to].told.confirms(node.own.position())
    }

    /// Whether `at` passes over `neighbor` at first, which is given `ttl_hops`.
    fn rules_out(&self, at: usize, neighbor: usize, name: usize, ttl_hops: u8, covered: &Covered) -> bool {
        let theirs = &self.nodes[at].channels[&neighbor].theirs;
        let beyond = theirs.beyond(TAGS[at], &self.neighbors(at));
        let covers = |tag: &NodeTag| *tag == TAGS[at] || covered.contains(tag);
        theirs.is_current(self.now)
            && theirs
                .names()
                .is_some_and(|names| rules_out(names, KEYS[name], ttl_hops, beyond.as_deref(), covers))
    }

    fn deliver(&mut self, at: usize) {
        let is_doubled = self.rng.random_bool(0.1);
        let letter = if is_doubled { self.post[at].clone() } else { self.post.swap_remove(at) };
        let Letter { from, to, link, call, asked, .. } = letter;
        let now = self.now;
        let node = &mut self.nodes[to];
        let Some(channel) = node.channels.get_mut(&from).filter(|channel| channel.link == link) else {
            return; // that connection is over
        };
        match letter.what.clone() {
            Post::Ask(news, echo) => {
                channel.heard = Some(now);
                let took = channel.theirs.take(news, echo);
                let confirms = self.confirms(to, from);
                let reply = SummaryReply { clock_ms: 1, is_taken: took != Took::Gap, confirms };
                self.post.push(Letter { from: to, to: from, what: Post::Answer(reply, now), ..letter });
            }
            Post::Answer(reply, clock) if channel.call == Some(call) => {
                channel.call = None;
                channel.heard = Some(now);
                channel.their_clock = Some(clock);
                channel.theirs.confirm(reply.confirms, asked);
                match reply.is_taken {
                    true => channel.acknowledged = Some(letter.position),
                    false => channel.told.begin_anew(),
                }
            }
            Post::Answer(..) => {} // too late
        }
    }

    fn step(&mut self) {
        let (a, b, name) = (self.any(), self.any(), self.rng.random_range(0..NAMES));
        match self.rng.random_range(0..64) {
            0..6 => self.register(a, name),
            6..9 => self.deregister(a, name),
            9 if self.rng.random_bool(0.5) => self.set_link(a, b, false),
            9 => self.lose(a, b),
            10 => self.set_link(a, b, true),
            11 if self.rng.random_bool(0.3) => self.restart(a),
            12 if !self.post.is_empty() => {
                let lost = self.rng.random_range(0..self.post.len());
                self.post.swap_remove(lost);
            }
            13 => self.give_up(a, b),
            14..40 if !self.post.is_empty() => {
                let next = self.rng.random_range(0..self.post.len());
                self.deliver(next);
            }
            40..44 => {
                let longest = if self.rng.random_bool(0.1) { 4000 } else { 300 };
                self.now += Duration::from_millis(self.rng.random_range(0..longest));
            }
            _ => {
                let links: Vec<usize> = self.graph.links[a].iter().copied().collect();
                if !links.is_empty() {
                    let to = links[self.rng.random_range(0..links.len())];
                    self.tell(a, to);
                }
            }
        }
        self.answer_registrations();
    }

    /// Lets every node advertise everything, after the time for which earlier summaries are trusted.
    fn settle(&mut self) {
        self.post.clear();
        self.now += CURRENT_FOR;
        for (from, to) in self.pairs() {
            self.give_up(from, to);
        }
        // The last round confirms what was told in those before.
        for _ in 0..3 {
            for (from, to) in self.pairs() {
                self.tell(from, to);
                while let Some(last) = self.post.len().checked_sub(1) {
                    self.deliver(last);
                }
            }
        }
        self.answer_registrations();
    }

    fn pairs(&self) -> Vec<(usize, usize)> {
        let all = self.graph.links.iter().enumerate();
        all.flat_map(|(from, links)| links.iter().map(move |to| (from, *to))).collect()
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
        let rules_out = |index: &usize| self.rules_out(at, neighbors[*index], name, ttl_hops, &route.covered);
        let (mut later, mut first): (Vec<usize>, Vec<usize>) =
            route.ask.iter().partition(|index| rules_out(index));
        first.shuffle(&mut self.rng);
        later.shuffle(&mut self.rng);
        for index in first {
            found.extend(self.ask(neighbors[index], name, ttl_hops, &route.covered, seen));
        }
        if found.is_empty() && ttl_hops > 0 {
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

/// Since when each name is registered, and each connection is up, without a break.
#[derive(Default)]
struct Ages(BTreeMap<(usize, usize), Instant>);

impl Ages {
    fn note(&mut self, world: &World) {
        self.0.retain(|(at, name), _| world.nodes[*at].names.contains(name));
        for (at, node) in world.nodes.iter().enumerate() {
            for name in &node.names {
                self.0.entry((at, *name)).or_insert(world.now);
            }
        }
    }

    /// Those whose registration of `name` is older than the trust of each hop to them, over connections that are, too.
    fn known(&self, world: &World, at: usize, name: usize, hops: u8) -> BTreeSet<usize> {
        let since = world.now - CURRENT_FOR * u32::from(hops);
        let is_up = |one: usize, other: usize| {
            let channel = world.nodes[one].channels.get(&other);
            channel.is_some_and(|channel| channel.since.is_some_and(|up| up < since))
        };
        let mut old = world.graph.clone();
        old.links.iter_mut().enumerate().for_each(|(one, links)| {
            links.retain(|other| is_up(one, *other) && is_up(*other, one));
        });
        let is_old = |holder: &usize| self.0.get(&(*holder, name)).is_some_and(|from| *from < since);
        old.within(at, hops).into_iter().filter(is_old).collect()
    }
}

/// Goals:
/// - a name whose registration with somebody in reach was answered is always found, whatever became of the summaries;
///   when they have arrived, every holder is found;
/// - what a neighbor's registration was answered for is found, whoever else has the name, though messages are under way
///   for any time, first ones too, though they are lost, doubled and overtaken, and connections end and begin; and
///   neighbors are passed over all the same;
/// - what was registered further away is found once its news had the time that is promised, whatever is lost or stands
///   still.
///
/// Method: random lives of small networks, where a registration waits as an indexer's does; compare with what is there.
#[test]
fn names_are_found_in_time_whatever_becomes_of_summaries() {
    let seeds = testkit::seeds(SEEDS);
    let least = 30 * seeds.len();
    let (mut some, mut none, mut near, mut far, mut passed_over, mut early) = (0, 0, 0, 0, 0, 0);
    for seed in seeds {
        let (mut world, mut ages) = (World::new(seed), Ages::default());
        for _ in 0..STEPS {
            world.step();
            ages.note(&world);
            let rules_out = |(at, neighbor): &(usize, usize), name: usize| {
                world.rules_out(*at, *neighbor, name, 0, &Covered::new())
            };
            // A neighbor that is ruled out is not asked at the last hop.
            for pair in &world.pairs() {
                let (at, neighbor) = *pair;
                for name in &world.nodes[neighbor].answered {
                    assert!(!rules_out(pair, *name), "{at} passes over {neighbor}, which has {name}");
                }
                near += world.nodes[neighbor].answered.len();
                passed_over += usize::from(rules_out(pair, 0));
            }
            let at = world.any();
            if world.rng.random_bool(0.7) {
                continue;
            }
            let ttl_max = if world.rng.random_bool(0.5) { TTL_DEFAULT } else { TTL_MAX };
            let (name, ttl_hops) = (world.rng.random_range(0..NAMES), world.rng.random_range(0..=ttl_max));
            let there = world.holders_within(at, name, ttl_hops);
            let found = world.query(at, name, ttl_hops);
            assert!(found.is_subset(&there), "found {found:?}, there are {there:?}");
            let is_answered = there.iter().any(|n| world.nodes[*n].answered.contains(&name));
            assert!(!is_answered || !found.is_empty(), "found nothing, there are {there:?}");
            *if there.is_empty() { &mut none } else { &mut some } += 1;
            for hops in 1..=TTL_DEFAULT.min(ttl_hops) {
                let known = ages.known(&world, at, name, hops);
                assert!(known.is_subset(&found), "found {found:?}, {hops} hops from {at} are {known:?}");
                far += known.len();
            }
        }
        early += world.answered_early as usize;
        world.settle();
        for _ in 0..10 {
            let (at, name) = (world.any(), world.rng.random_range(0..NAMES));
            let ttl_hops = world.rng.random_range(0..=TTL_MAX);
            let there = world.holders_within(at, name, ttl_hops);
            assert_eq!(world.query(at, name, ttl_hops), there, "settled, {ttl_hops} hops");
        }
    }
    let counts = [some, none, near, far, passed_over, 10 * early];
    assert!(counts.iter().all(|count| *count > least), "too few cases of a kind: {counts:?}");
}
