//! Probes that go round a ring of indexers until they have no hops left: where each is dropped, what every node counted
//! of it, how long it took there and on the way, and what the processes take meanwhile.

mod show;

use nekoproto::{
    NodeTag, limits::PROBE_HOPS_DEFAULT, limits::PROBE_HOPS_MAX, probe::ProbeEnd, probe::ProbeReply,
    probe::ProbeRequest,
};

use crate::cluster::Cluster;
use crate::plan::{query::Query, query::Questions, query::defaults, topology::Topology};
use crate::report::machine::Taken;
use crate::run::{growth::LOOK_EVERY_MIN, growth::lasting};
use crate::scenarios::prelude::*;

/// More would measure this machine's scheduler.
const NODES_MAX: usize = 20;
const REQUESTS_MAX: usize = 100_000_000;
const IN_FLIGHT_MAX: usize = 256;
/// Probes before those that count.
const WARM_UP: usize = amount(500);
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
const FAULTS_SHOWN: usize = 8;

/// How many nodes, hops and probes.
#[derive(Clone, Debug, Args)]
pub struct Relay {
    /// Indexers in the ring
    #[arg(long, value_name = "N", default_value = "3", value_parser = within(2, NODES_MAX))]
    nodes: usize,
    /// How often each probe is passed on
    #[arg(long, value_name = "N", default_value_t = PROBE_HOPS_DEFAULT,
        value_parser = clap::value_parser!(u8).range(1..=i64::from(PROBE_HOPS_MAX)))]
    hops: u8,
    /// Probes
    #[arg(short = 'n', long, value_name = "N", default_value = "100000", value_parser = within(1, REQUESTS_MAX))]
    requests: usize,
    /// Go on for so many minutes instead; a fraction is fine
    #[arg(long, value_name = "M", conflicts_with = "requests")]
    minutes: Option<f64>,
    /// Probes under way at once
    #[arg(long, value_name = "N", default_value = "1", value_parser = within(1, IN_FLIGHT_MAX))]
    in_flight: usize,
}

#[derive(Default)]
struct Passed {
    counted: ProbeCounts,
    processing: Times,
    forwarding: Times,
    /// What its process took from moment to moment, and its tasks in the end.
    taken: Vec<Taken>,
    tasks: Option<usize>,
}

struct Relayed {
    ring: Ring,
    probes: u64,
    wall: Duration,
    /// In the order in which a probe comes to them.
    nodes: Vec<Passed>,
    floor: Floor,
    /// What was not as computed: probes, and counts of nodes.
    errors: u64,
    faults: Vec<String>,
    /// What ended it early, by itself.
    fault: Option<String>,
}

impl Scenario for Relay {
    type How = Connecting;
    type Target = Drawn;

    async fn run(&self, on: &Deployment) -> Result<Report, Fault> {
        let watch = &on.watch;
        let floor = watch.unless_stopped(Floor::measure(on)).await.or_cannot_begin()?;
        let load = Questions { topology: Topology::Ring, ..defaults() };
        let query = Query { indexers: self.nodes, load, ..defaults() };
        let mut cluster = watch.unless_stopped(Cluster::start(&query, on)).await.or_cannot_begin()?;
        let relayed = relay(self, &mut cluster, floor).await;
        cluster.stop().await;
        Ok(relayed?.report(on))
    }
}

async fn relay(options: &Relay, cluster: &mut Cluster, floor: Floor) -> Result<Relayed> {
    let watch = &Arc::clone(cluster.net.watch());
    let ring = Ring { nodes: options.nodes, hops: options.hops };
    let client = cluster.net.client(0, Identity::generate()).await?;
    let order = order(cluster, &client).await?;
    let tags: Vec<NodeTag> = order.iter().map(|(_, tag)| *tag).collect();
    for _ in 0..WARM_UP {
        probe(&client, ring.hops).await?;
    }
    let before = cluster.net.counts().await?;
    let nodes = (0..ring.nodes).map(|_| Passed::default()).collect();
    let (errors, faults, fault, wall) = <_>::default();
    let mut relayed = Relayed { ring, probes: 0, wall, nodes, floor, errors, faults, fault };
    let lasting = options.minutes.map(lasting).transpose()?;
    let (lasts, look_every) = lasting.unwrap_or((Duration::MAX, LOOK_EVERY_MIN));
    let requests = if lasting.is_some() { REQUESTS_MAX } else { options.requests } as u64;
    if let Some(minutes) = options.minutes {
        note(&format!("relaying for {minutes} min"));
    }
    let _progress = options.minutes.is_none().then(|| Progress::begin("probes", options.requests, watch));
    let began = Instant::now();
    let send = async |_| {
        let (until, left) = (Instant::now() + look_every, requests - relayed.probes);
        let probes = (0..left).take_while(|_| Instant::now() < until && !watch.is_stopped());
        let mut ways =
            stream::iter(probes).map(|_| probe(&client, ring.hops)).buffer_unordered(options.in_flight);
        while let Some(way) = ways.next().await {
            relayed.note(way, &tags);
            watch.add_done(1);
        }
        let looked = relayed.look(cluster, &order, began.elapsed()).await;
        relayed.fault = looked.err().map(|error| format!("{error:#}"));
        relayed.fault.is_none() && relayed.probes < requests
    };
    relayed.wall = watch.during(lasts, send).await;
    for (place, (n, _)) in order.iter().enumerate() {
        match cluster.net.nodes[*n].probes().await {
            Ok((after, _)) => relayed.count(place, after.since(before[*n])),
            Err(error) => relayed.fault = relayed.fault.or_else(|| Some(format!("{error:#}"))),
        }
    }
    Ok(relayed)
}

/// The indexers, and who they are, in the order in which a probe through `client` comes to them.
async fn order(cluster: &Cluster, client: &Client) -> Result<Vec<(usize, NodeTag)>> {
    let nodes = cluster.net.nodes.len();
    let mut tags = Vec::new();
    for n in 0..nodes {
        tags.push(first(&probe(&cluster.peers[n], 0).await?, 0)?);
    }
    let step = if first(&probe(client, 1).await?, 1)? == tags[1] { 1 } else { nodes - 1 };
    Ok((0..nodes).map(|place| place * step % nodes).map(|n| (n, tags[n])).collect())
}

fn first(way: &ProbeReply, place: usize) -> Result<NodeTag> {
    let stop = way.stops.get(place).with_context(|| format!("the ring is not linked: {}", way.end))?;
    Ok(stop.node)
}

async fn probe(client: &Client, hops: u8) -> Result<ProbeReply> {
    let request = ProbeRequest::new(MsgId::random(), hops);
    Ok(client.calls.probe(call_until(Instant::now() + ANSWER_WITHIN), request).await??)
}

impl Relayed {
    /// Takes the way of one probe; what is not as computed is an error.
    fn note(&mut self, way: Result<ProbeReply>, tags: &[NodeTag]) {
        self.probes += 1;
        let way = match way {
            Ok(way) => way,
            Err(error) => return self.is_wrong(1, || format!("a probe was not answered: {error:#}")),
        };
        let stops: Vec<_> = way.stops.iter().map(|stop| (stop.node, stop.again)).collect();
        let computed = self.ring.way().enumerate().map(|(hop, place)| (tags[place], hop >= self.ring.nodes));
        if way.end != ProbeEnd::Hops {
            return self.is_wrong(1, || format!("a probe ended at stop {}: {}", stops.len(), way.end));
        }
        if !computed.eq(stops.iter().copied()) {
            let place = |(tag, _)| tags.iter().position(|one| *one == tag).map_or(0, |place| place + 1);
            let places: Vec<usize> = stops.into_iter().map(place).collect();
            return self
                .is_wrong(1, || format!("a probe went another way than computed: by nodes {places:?}"));
        }
        for (hop, (stop, place)) in way.stops.iter().zip(self.ring.way()).enumerate() {
            let seen = &mut self.nodes[place];
            seen.processing.add(Duration::from_nanos(stop.own_ns.into()));
            if let Some(us) = way.link_us(hop) {
                seen.forwarding.add(Duration::from_micros(us.into()));
            }
        }
    }

    fn is_wrong(&mut self, errors: u64, what: impl FnOnce() -> String) {
        self.errors += errors;
        if self.faults.len() < FAULTS_SHOWN {
            self.faults.push(what());
        }
    }

    /// Takes what node `n` counted.
    fn count(&mut self, n: usize, counted: ProbeCounts) {
        self.nodes[n].counted = counted;
        let expected = self.ring.counts(n, self.probes);
        let errors = off(&counted, &expected);
        if errors > 0 {
            self.is_wrong(errors, || format!("node {} counted {counted:?}, computed {expected:?}", n + 1));
        }
    }

    async fn look(&mut self, cluster: &mut Cluster, order: &[(usize, NodeTag)], at: Duration) -> Result<()> {
        for (seen, (n, _)) in self.nodes.iter_mut().zip(order) {
            let node = &mut cluster.net.nodes[*n];
            let tasks = node.probes().await?.1;
            let taken = node.of_process(Some).and_then(|pid| machine::taken(pid, at.as_secs_f64()));
            seen.tasks = taken.map(|_| tasks).or(seen.tasks);
            seen.taken.extend(taken);
        }
        Ok(())
    }

    const fn is_all_well(&self) -> bool {
        self.errors == 0 && self.fault.is_none()
    }
}

/// A ring of nodes, and the hops of a probe. Nodes are numbered from 0 in the order in which the probe comes to them.
#[derive(Clone, Copy, Debug)]
pub struct Ring {
    /// Number of nodes, at least 2.
    pub nodes: usize,
    /// How often a probe is passed on.
    pub hops: u8,
}

impl Ring {
    /// The node of each stop.
    pub fn way(self) -> impl Iterator<Item = usize> {
        (0..=usize::from(self.hops)).map(move |hop| hop % self.nodes)
    }

    /// The node where a probe has no hops left.
    pub fn dropped_at(self) -> usize {
        usize::from(self.hops) % self.nodes
    }

    /// What `node` counts of this number of probes.
    pub fn counts(self, node: usize, probes: u64) -> ProbeCounts {
        let received = self.way().filter(|at| *at == node).count() as u64;
        let out_of_hops = u64::from(self.dropped_at() == node);
        ProbeCounts {
            received: received * probes,
            forwarded: (received - out_of_hops) * probes,
            circles: received.saturating_sub(1) * probes,
            out_of_hops: out_of_hops * probes,
            ..ProbeCounts::default()
        }
    }
}

/// By how much what was counted is off.
pub fn off(counted: &ProbeCounts, expected: &ProbeCounts) -> u64 {
    let all = |of: &ProbeCounts| {
        [of.received, of.forwarded, of.circles, of.out_of_hops, of.nowhere, of.lost, of.refused]
    };
    all(counted).into_iter().zip(all(expected)).map(|(one, other)| one.abs_diff(other)).sum()
}
