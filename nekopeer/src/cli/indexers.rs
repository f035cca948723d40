//! Which indexers to use: those given, those found, or one started here.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener},
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Context;
use futures::{StreamExt, future::join_all, stream::FuturesUnordered};
use nekoindexer::{Indexer, IndexerHandle, StartError, announce, daemon::settings::advice};
use nekoproto::{
    IndexerAddr, NodeId, Purpose, Role,
    transport::{ConnectError, Connection, Endpoint, interfaces},
};
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use super::args::NodeArgs;
use crate::{
    indexers::{
        Dialed,
        via::{HEARD_WITHIN, by_key},
    },
    storage::remembered::{Home, remember_heard, remembered},
    terminal::Output,
};

const PROBE_WITHIN: Duration = Duration::from_secs(1);
/// How long who serves the local network waits for an answer to the first question, which takes 20 to 120 ms (RFC 6762,
/// section 6), but a second if another program asked just before: then it starts an indexer, and listens on beside it.
const ANSWERED_WITHIN: Duration = Duration::from_millis(200);
/// Indexers that were found and are used.
const FOUND_MAX: usize = 4;

/// The indexers of this run. One started here is shut down with it.
#[derive(Debug, Default)]
pub(super) struct Indexers {
    pub(super) addrs: Vec<SocketAddr>,
    /// The keys of those that were found by their keys.
    pub(super) keys: HashMap<SocketAddr, NodeId>,
    /// Whether other machines reach one of them.
    pub(super) is_open: bool,
    pub(super) embedded: Option<Arc<IndexerHandle>>,
    /// Looks for others, for the one that was started here.
    listening: Option<AbortOnDropHandle<()>>,
    /// Where it would listen if nothing else did, which does not answer as an indexer.
    taken: Option<SocketAddr>,
    /// Connections to those that were asked whether they are there.
    pub(super) dialed: Dialed,
    how: How,
    /// One that is there and lets this node in no network, and why.
    refusing: Option<(SocketAddr, String)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum How {
    /// They were given, stand at the usual address, or there are none.
    #[default]
    ByAddress,
    /// A ticket named them earlier, or they were heard.
    Remembered,
    Heard,
}

impl Indexers {
    /// The indexers given; else the one at the usual address; else those that tickets named earlier, or that were heard.
    /// Finding none is not an error.
    pub(super) async fn find_near(args: &NodeArgs, endpoint: &Arc<Endpoint>) -> Self {
        let discover = args.discovered_at();
        if !args.indexer.is_empty() {
            return Self::given(endpoint, args.indexer.iter().map(|at| at.addr).collect()).await;
        }
        let mut near = Self::default();
        if discover.port() != 0 {
            match probe(endpoint, discover, None).await {
                Ok(Some(connection)) => return Self::default().with(discover, connection),
                Ok(None) => {} // somebody else is there
                Err(error) => near.note_refusal(discover, &error),
            }
        }
        let home = Home { network: args.network.clone().unwrap_or_default(), insecure: args.insecure };
        let known = remembered(&args.data_dir(), &home);
        near.or(Self::of_those_that_answer(endpoint, &known, How::Remembered).await)
    }

    /// The indexers given, or that a ticket names, if they answer.
    pub(super) async fn find_named(args: &NodeArgs, endpoint: &Arc<Endpoint>) -> Self {
        let near = Self::find_near(args, endpoint).await;
        if !near.addrs.is_empty() {
            return near;
        }
        // Why one of these cannot be used is said by who asks it.
        let named = Self::of_those_that_answer(endpoint, &args.named, How::ByAddress).await;
        Self { refusing: near.refusing, ..named }
    }

    /// The same as [`find_near`](Self::find_near); else those that are announced to this network.
    pub(super) async fn find(args: &NodeArgs, endpoint: &Arc<Endpoint>) -> Self {
        Self::heard_within(HEARD_WITHIN, args, endpoint).await
    }

    async fn heard_within(within: Duration, args: &NodeArgs, endpoint: &Arc<Endpoint>) -> Self {
        let mut near = Self::find_near(args, endpoint).await;
        if !near.addrs.is_empty() || args.no_discovery {
            return near;
        }
        let network = args.network.clone().unwrap_or_default();
        let (until, mut tried) = (Instant::now() + within, Vec::new());
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let heard = announce::browse(&network, args.insecure, |at| !tried.contains(at), left).await;
            near = near.or(Self::of_those_that_answer(endpoint, &heard, How::Heard).await);
            if !near.addrs.is_empty() {
                near.remember(args);
                return near;
            }
            if heard.is_empty() {
                return near;
            }
            tried.extend(heard); // whoever announced that does not answer: others may
        }
    }

    /// Keeps those that were heard in the data folder for a while, if there is one: the next command that is typed within a
    /// second would wait for a second question, as nobody answers one twice in that time (RFC 6762, section 6). Blocking.
    fn remember(&self, args: &NodeArgs) {
        let data_dir = args.data_dir();
        let found: Vec<_> = self.keys.iter().map(|(&addr, &node)| IndexerAddr { addr, node }).collect();
        let home = Home { network: args.network.clone().unwrap_or_default(), insecure: args.insecure };
        if data_dir.is_dir()
            && let Err(error) = remember_heard(&data_dir, &home, &found)
        {
            tracing::debug!(%error, "the indexers that were heard are not remembered"); // they are heard again
        }
    }

    /// Each of `known` once, at that of its addresses where it proves its key first.
    async fn of_those_that_answer(endpoint: &Arc<Endpoint>, known: &[IndexerAddr], how: How) -> Self {
        let mut found = Self { how, ..Self::default() };
        let asking = by_key(known).into_iter().map(async |(node, addrs)| {
            let probes = addrs.into_iter().map(async |addr| (addr, probe(endpoint, addr, Some(node)).await));
            let (mut probes, mut failed) = (probes.collect::<FuturesUnordered<_>>(), Vec::new());
            while let Some((addr, answer)) = probes.next().await {
                match answer {
                    Ok(Some(connection)) => return (Some((addr, node, connection)), failed),
                    Ok(None) => {}
                    Err(error) => failed.push((addr, error)),
                }
            }
            (None, failed)
        });
        for (there, failed) in join_all(asking).await {
            failed.iter().for_each(|(addr, error)| found.note_refusal(*addr, error));
            if let Some((addr, node, connection)) = there.filter(|_| found.addrs.len() < FOUND_MAX) {
                found.keys.insert(addr, node);
                found = found.with(addr, connection);
            }
        }
        found
    }

    /// Notes why there is no connection to the indexer at `addr`, if that is because it lets this node in no network.
    fn note_refusal(&mut self, addr: SocketAddr, error: &ConnectError) {
        if error.is_of_access() && self.refusing.is_none() {
            self.refusing = Some((addr, format!("{error}{}", advice(error.remedy()))));
        }
    }

    /// These, of which none was found, or `others`.
    fn or(self, others: Self) -> Self {
        Self { refusing: self.refusing.or(others.refusing), ..others }
    }

    /// If there are none, the one that refuses this node: asked, it says why.
    pub(super) fn or_refusing(mut self) -> Self {
        if self.addrs.is_empty() {
            self.addrs.extend(self.refusing.as_ref().map(|(addr, _)| *addr));
            self.how = How::ByAddress;
        }
        self
    }

    async fn given(endpoint: &Arc<Endpoint>, addrs: Vec<SocketAddr>) -> Self {
        // Those that are not on this machine are reached by others, and the others are asked.
        if addrs.iter().any(|addr| !addr.ip().is_loopback()) {
            return Self { addrs, is_open: true, ..Self::default() };
        }
        let answering = join_all(addrs.iter().map(|addr| answers(endpoint, *addr))).await;
        let there = addrs.iter().zip(answering).filter_map(|(addr, to)| Some((*addr, to?)));
        let dialed: Dialed = there.collect();
        let is_open = dialed.values().any(|connection| connection.is_open);
        Self { addrs, is_open, dialed, ..Self::default() }
    }

    fn with(mut self, addr: SocketAddr, connection: Connection) -> Self {
        self.addrs.push(addr);
        self.is_open |= connection.is_open;
        self.dialed.insert(addr, connection);
        self
    }

    /// The indexers given or found, or those that a ticket names, which are waited for, or one started here.
    pub(super) async fn find_or_start(
        args: &NodeArgs,
        endpoint: &Arc<Endpoint>,
        output: Output,
    ) -> anyhow::Result<Self> {
        let found = match args.named.is_empty() {
            true if args.lan => Self::heard_within(ANSWERED_WITHIN, args, endpoint).await,
            true => Self::find(args, endpoint).await, // one on this machine alone could not be linked to it later
            false => Self::find_near(args, endpoint).await,
        };
        if !found.addrs.is_empty() {
            return Ok(found);
        }
        if !args.named.is_empty() {
            let named = Self::given(endpoint, args.named.iter().map(|at| at.addr).collect()).await;
            let keys = args.named.iter().map(|at| (at.addr, at.node)).collect();
            return Ok(Self { keys, refusing: found.refusing, ..named });
        }
        let config = config_of(args);
        let at = config.listen;
        let (embedded, is_taken) = match spawn(config.clone()).await {
            Err(StartError::Listen { .. }) if at.port() != 0 => {
                // Another program listens there: an indexer that was started at the same time, or something else.
                if let Some(connection) = answers(endpoint, reached_at(at)).await {
                    return Ok(found.with(reached_at(at), connection));
                }
                let listen = SocketAddr::new(at.ip(), 0);
                (spawn(nekoindexer::Config { listen, ..config }).await, true)
            }
            started => (started, false),
        };
        let embedded = embedded.context("cannot start an indexer here")?;
        let bound = embedded.local_addr();
        let is_open = !bound.ip().is_loopback();
        // At loopback, so that this machine may change its addresses.
        let ip = if bound.ip().is_unspecified() { Ipv4Addr::LOCALHOST.into() } else { bound.ip() };
        let addrs = vec![SocketAddr::new(ip, bound.port())];
        let taken = is_taken.then_some(at);
        let embedded = Arc::new(embedded);
        let listening = (is_open && !args.no_discovery).then(|| {
            let listening = link_to_heard(Arc::clone(&embedded), args.clone(), output);
            AbortOnDropHandle::new(tokio::spawn(listening))
        });
        let how = How::ByAddress;
        Ok(Self { addrs, is_open, embedded: Some(embedded), listening, taken, how, ..found })
    }

    /// Tells of a peer that was started with these indexers what its user does not expect: that it has none (if
    /// that `is_missed`), that one was started here, or where it serves, if an indexer is remote.
    pub(super) fn note(
        &self,
        args: &NodeArgs,
        is_missed: bool,
        serves_on: Option<SocketAddr>,
        output: Output,
    ) {
        let discover = args.discovered_at();
        let refusing = self.refusing.as_ref();
        if let Some((addr, why)) = refusing.filter(|(addr, _)| is_missed || !self.addrs.contains(addr)) {
            output.note(&format!("note: the indexer at {addr} is not used: {why}"));
        }
        if is_missed && self.addrs.is_empty() {
            output.note(&format!("no indexer found at {discover}: origins that moved are not found"));
        }
        if let Some(embedded) = &self.embedded {
            let addr = reached_at(embedded.local_addr());
            let reach = match (self.is_open, args.no_discovery) {
                (false, _) => "this machine only, --lan opens it to the network",
                (true, false) => "the network finds it by itself",
                (true, true) => "the network reaches it",
            };
            let is_usual = addr == discover || self.is_open && !args.no_discovery;
            let others = if is_usual { String::new() } else { format!("; others use --indexer {addr}") };
            let why = self.taken.map(|at| format!("what listens at {at} does not answer as an indexer"));
            let why = why.unwrap_or_else(|| "no indexer found".to_owned());
            output.note(&format!("{why}: started one at {addr}; {reach}{others}"));
        }
        for addr in &self.addrs {
            match self.how {
                How::Heard => output.note(&format!(
                    "note: uses the indexer that is announced at {addr}; --no-discovery looks for none"
                )),
                How::Remembered if serves_on.is_some() => output.note(&format!(
                    "note: uses the indexer at {addr}, known here from before; --indexer names another"
                )),
                How::Remembered | How::ByAddress => {}
            }
        }
        let Some(serves_on) = serves_on.filter(|_| self.is_open) else { return };
        if serves_on.ip().is_loopback() {
            output.note(
                "note: serves this machine only; leave out --listen to serve those that your indexer serves",
            );
        } else if args.listen.is_none() && !args.lan {
            output.note(&format!(
                "note: serves other machines too, as the indexer does, on port {}; --listen 127.0.0.1:0 serves this machine \
                 only",
                serves_on.port()
            ));
        }
    }

    pub(super) async fn shutdown(self) {
        if let Some(listening) = self.listening {
            listening.abort();
            drop(listening.await); // it is cancelled, or has ended
        }
        if let Some(embedded) = self.embedded.and_then(Arc::into_inner) {
            embedded.shutdown().await;
        }
    }
}

/// Hears of the indexers that did not answer the first question, and links the `embedded` one to them: who asks them finds
/// what is shared here.
async fn link_to_heard(embedded: Arc<IndexerHandle>, args: NodeArgs, output: Output) {
    let (network, own) = (args.network.clone().unwrap_or_default(), embedded.node());
    let heard = announce::browse(&network, args.insecure, |at| at.node != own, HEARD_WITHIN).await;
    let first = |(_, addrs): (NodeId, Vec<SocketAddr>)| addrs.first().copied();
    let addrs: Vec<SocketAddr> = by_key(&heard).into_iter().filter_map(first).take(FOUND_MAX).collect();
    if addrs.is_empty() {
        return;
    }
    let others = addrs.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    output.note(&match embedded.reload(&addrs, args.access.allow.as_deref()) {
        Ok(_) => format!("note: linked with the indexer that is announced at {others}"),
        Err(why) => format!("note: the indexer that is announced at {others} is not used: {why}"),
    });
}

/// As [`probe`]; `None` too if it fails.
async fn answers(endpoint: &Arc<Endpoint>, addr: SocketAddr) -> Option<Connection> {
    probe(endpoint, addr, None).await.unwrap_or(None)
}

/// A connection to the indexer that answers at `addr`, with this key if one is expected. `None`: it is none.
async fn probe(
    endpoint: &Arc<Endpoint>,
    addr: SocketAddr,
    expected: Option<NodeId>,
) -> Result<Option<Connection>, ConnectError> {
    let dialed = timeout(PROBE_WITHIN, endpoint.dial(addr, Purpose::Control, expected)).await;
    let connection = dialed.unwrap_or(Err(ConnectError::Timeout(addr)))?;
    Ok(Some(connection).filter(|connection| connection.remote.role == Role::Indexer))
}

/// An address of this machine at which an indexer that listens on `bound` is reached, by others too if it can be.
fn reached_at(bound: SocketAddr) -> SocketAddr {
    let is_usable = |ip: &IpAddr| bound.is_ipv6() || ip.is_ipv4();
    let own = || interfaces::addresses().into_iter().find(is_usable).unwrap_or(Ipv4Addr::LOCALHOST.into());
    if bound.ip().is_unspecified() { SocketAddr::new(own(), bound.port()) } else { bound }
}

impl NodeArgs {
    /// Where an indexer is looked for: one for the network has to answer at an address of the network.
    fn discovered_at(&self) -> SocketAddr {
        match self.lan && self.discover.ip().is_loopback() {
            true => reached_at((Ipv4Addr::UNSPECIFIED, self.discover.port()).into()),
            false => reached_at(self.discover),
        }
    }
}

fn config_of(args: &NodeArgs) -> nekoindexer::Config {
    let listen = match args.lan && args.discover.ip().is_loopback() {
        true => SocketAddr::new(listen_as(true).ip(), args.discover.port()),
        false => args.discover,
    };
    nekoindexer::Config {
        listen,
        network: args.network.clone().unwrap_or_default(),
        security: args.security(),
        access: args.access.loaded.clone(),
        announce: !args.no_discovery,
        // It stays the same, so that tickets that name it stay good.
        data_dir: Some(args.data_dir()),
        is_leaf: true,
        memory: args.memory(),
        ..nekoindexer::Config::default()
    }
}

/// A free port of all addresses of this machine if one of the peer's indexers `is_open`, reached by other machines;
/// otherwise of 127.0.0.1.
pub(super) fn listen_as(is_open: bool) -> SocketAddr {
    let all = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)); // takes IPv4 too
    match is_open {
        true if TcpListener::bind(all).is_ok() => all,
        true => (Ipv4Addr::UNSPECIFIED, 0).into(), // a system without IPv6
        false => (Ipv4Addr::LOCALHOST, 0).into(),
    }
}

/// Starts an indexer; one with a new key where that of the data folder cannot be had, as the peer will say why.
async fn spawn(config: nekoindexer::Config) -> Result<IndexerHandle, StartError> {
    match Indexer::spawn(config.clone()).await {
        Err(StartError::DataDir(_) | StartError::Identity(_)) => {
            Indexer::spawn(nekoindexer::Config { data_dir: None, ..config }).await
        }
        started => started,
    }
}
