//! An indexer or an echo of the cluster: a task of this process, or a process of its own.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    num::NonZeroUsize,
    process::Stdio,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, bail};
use clap::ValueEnum;
use nekoindexer::{Config, Indexer, IndexerHandle, Routing};
use nekoproto::{
    Identity, NetworkName, Role,
    transport::{Endpoint, EndpointConfig, Security},
};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, BufReader},
    process::{Child, Command},
    runtime::Handle,
    time::timeout,
};

use crate::{cluster::layout::Layout, report::machine};

/// What a node prints before its address when it is ready.
pub const LISTENING_ON: &str = "listening on ";
const STARTED_WITHIN: Duration = Duration::from_secs(30);

/// What a process of a cluster is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// An indexer.
    Indexer,
    /// Sends every byte back.
    RawEcho,
    /// Answers calls with what they carry.
    Echo,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::Indexer => "indexer",
            Self::RawEcho => "raw-echo",
            Self::Echo => "echo",
        }
    }
}

/// How nodes are run.
#[derive(Clone, Debug)]
pub struct Place {
    /// Which threads run what.
    pub layout: Layout,
    /// TLS, or plain TCP.
    pub security: Security,
    /// Whom indexers send queries to.
    pub routing: Routing,
    /// The n-th node listens on this port plus n; 0: on free ones.
    pub port: u16,
    /// Threads of a node that is a process of its own.
    pub threads: NonZeroUsize,
    /// The runtimes of nodes in this process: the n-th node runs on the n-th, and so on in turn.
    pub runtimes: Arc<[Handle]>,
}

/// A running node; dropping it ends it.
#[derive(Debug)]
pub enum Node {
    /// An indexer in this process.
    Here(IndexerHandle),
    /// A process of its own.
    Process {
        /// It ends when its stdin closes, so also when this process dies.
        child: Child,
        /// Where it listens.
        addr: SocketAddr,
    },
}

impl Place {
    /// Where the n-th node listens.
    ///
    /// # Errors
    /// There is no such port.
    pub fn listen_addr(&self, n: usize) -> anyhow::Result<SocketAddr> {
        let offset = if self.port == 0 { 0 } else { u16::try_from(n)? };
        let port = self.port.checked_add(offset).context("there are no ports past 65535")?;
        Ok(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port))
    }

    /// The runtime of the n-th node, if it is in this process.
    #[must_use]
    pub fn runtime(&self, n: usize) -> &Handle {
        &self.runtimes[n % self.runtimes.len()]
    }

    /// The runtime of clients of the n-th node. To be called where clients run.
    #[must_use]
    pub fn client_runtime(&self, n: usize) -> Handle {
        match self.layout {
            Layout::Cores => self.runtime(n).clone(),
            Layout::One | Layout::Shared | Layout::Split | Layout::Processes => Handle::current(),
        }
    }

    /// Starts the n-th indexer.
    ///
    /// # Errors
    /// It did not start, and nothing is left running.
    pub async fn indexer(
        &self,
        n: usize,
        listen: SocketAddr,
        neighbors: Vec<SocketAddr>,
    ) -> anyhow::Result<Node> {
        if self.layout == Layout::Processes {
            let neighbors = neighbors.iter().map(|addr| format!("--neighbor={addr}"));
            let routing = format!("--routing={}", routing_name(self.routing));
            let args = [format!("--listen={listen}"), routing].into_iter().chain(neighbors);
            return self.process(Kind::Indexer, args.collect()).await;
        }
        let config = indexer_config(listen, neighbors, self.security, self.routing);
        Ok(Node::Here(self.runtime(n).spawn(Indexer::spawn(config)).await??))
    }

    /// Starts a process of this program that serves as `kind` (see [`serve`](crate::cluster::serve)).
    ///
    /// # Errors
    /// It did not start; what it printed is in the error.
    pub async fn process(&self, kind: Kind, args: Vec<String>) -> anyhow::Result<Node> {
        let program = std::env::current_exe().context("cannot find this program to start it again")?;
        let mut command = Command::new(program);
        command.arg("serve").arg(kind.name()).args(args).process_group(0).kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.arg(format!("--threads={}", self.threads));
        if self.security == Security::Insecure {
            command.arg("--insecure");
        }
        let mut child = command.spawn().context("cannot start a process")?;
        let (Some(stdout), Some(mut stderr)) = (child.stdout.take(), child.stderr.take()) else {
            bail!("a started process has no output")
        };
        let mut line = String::new();
        let read = timeout(STARTED_WITHIN, BufReader::new(stdout).read_line(&mut line)).await;
        match line.trim_end().strip_prefix(LISTENING_ON).and_then(|addr| addr.parse().ok()) {
            Some(addr) => {
                // Drained, so that it never waits for somebody to read what it complains about.
                tokio::spawn(async move { tokio::io::copy(&mut stderr, &mut tokio::io::sink()).await });
                Ok(Node::Process { child, addr })
            }
            None => {
                read.with_context(|| format!("a process said nothing for {STARTED_WITHIN:?}"))??;
                // It may have ended by itself, with a complaint; or it is no use anyway.
                let _ = child.start_kill();
                let mut complaint = String::new();
                timeout(STARTED_WITHIN, stderr.read_to_string(&mut complaint)).await??;
                let complaint = complaint.trim().trim_start_matches("profile: ");
                match complaint.is_empty() {
                    true => bail!("a process ended at once, {}", child.wait().await?),
                    false => bail!("{complaint}"),
                }
            }
        }
    }
}

/// How long a peer of a measured cluster stays listed without a renewal: so long that renewals do
/// not show in a measurement.
pub const LEASE: Duration = Duration::from_secs(3600);
const _: () = assert!(LEASE.as_secs() <= nekoindexer::config::LEASE_SECS_MAX as u64);

/// The configuration of every measured indexer.
#[must_use]
pub fn indexer_config(
    listen: SocketAddr,
    neighbors: Vec<SocketAddr>,
    security: Security,
    routing: Routing,
) -> Config {
    Config { listen, neighbors, security, lease: LEASE, routing, ..Config::default() }
}

impl Node {
    /// Where it listens.
    #[must_use]
    pub const fn addr(&self) -> SocketAddr {
        match self {
            Self::Here(indexer) => indexer.local_addr(),
            Self::Process { addr, .. } => *addr,
        }
    }

    /// Resident memory in bytes of its own process, if it has one that is still there.
    #[must_use]
    pub fn rss_bytes(&self) -> Option<u64> {
        match self {
            Self::Here(_) => None,
            Self::Process { child, .. } => machine::rss_bytes(child.id()?),
        }
    }

    /// Ends it and waits for its end.
    pub async fn stop(self) {
        match self {
            Self::Here(indexer) => indexer.shutdown().await,
            Self::Process { mut child, .. } => {
                // Kill fails if it has ended already, which is as good.
                let _ = child.kill().await;
            }
        }
    }
}

/// The name of a routing on the command line and in results.
#[must_use]
pub const fn routing_name(routing: Routing) -> &'static str {
    match routing {
        Routing::Summary => "summary",
        Routing::Flood => "flood",
    }
}

/// One end of measured connections.
///
/// # Errors
/// TLS cannot be set up.
pub fn endpoint(identity: Identity, role: Role, security: Security) -> anyhow::Result<Arc<Endpoint>> {
    Ok(Endpoint::new(EndpointConfig { identity, role, network: NetworkName::default(), security })?)
}
