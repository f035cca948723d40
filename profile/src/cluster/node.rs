//! An indexer or an echo of the cluster: a task of this process, or a process of its own.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    process::Stdio,
    time::Duration,
};

use anyhow::{Context, bail};
use nekoindexer::{Config, Indexer, IndexerHandle};
use nekoproto::transport::Security;
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

/// How nodes are run.
#[derive(Clone, Debug)]
pub struct Place {
    /// Which threads run what.
    pub layout: Layout,
    /// TLS, or plain TCP.
    pub security: Security,
    /// The n-th node listens on this port plus n; 0: on free ones.
    pub port: u16,
    /// The runtime of nodes in this process.
    pub runtime: Handle,
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

    /// Starts an indexer.
    ///
    /// # Errors
    /// It did not start, and nothing is left running.
    pub async fn indexer(&self, listen: SocketAddr, neighbors: Vec<SocketAddr>) -> anyhow::Result<Node> {
        if self.layout == Layout::Processes {
            let neighbors = neighbors.iter().map(|addr| format!("--neighbor={addr}"));
            return self
                .process("indexer", [format!("--listen={listen}")].into_iter().chain(neighbors))
                .await;
        }
        let config = indexer_config(listen, neighbors, self.security);
        Ok(Node::Here(self.runtime.spawn(Indexer::spawn(config)).await??))
    }

    /// Starts a process of this program that serves as `kind` (see [`serve`](crate::cluster::serve)).
    ///
    /// # Errors
    /// It did not start; what it printed is in the error.
    pub async fn process(&self, kind: &str, args: impl Iterator<Item = String>) -> anyhow::Result<Node> {
        let program = std::env::current_exe().context("cannot find this program to start it again")?;
        let mut command = Command::new(program);
        command.arg("serve").arg(kind).args(args).process_group(0).kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if self.security == Security::Insecure {
            command.arg("--insecure");
        }
        let mut child = command.spawn().with_context(|| format!("cannot start a process for an {kind}"))?;
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
                read.with_context(|| format!("the {kind} process said nothing for {STARTED_WITHIN:?}"))??;
                let mut complaint = String::new();
                stderr.read_to_string(&mut complaint).await?;
                bail!("{}", complaint.trim().trim_start_matches("profile: "))
            }
        }
    }
}

/// The configuration of every measured indexer: the defaults, with a lease that outlasts the run.
#[must_use]
pub fn indexer_config(listen: SocketAddr, neighbors: Vec<SocketAddr>, security: Security) -> Config {
    let lease = Duration::from_secs(nekoindexer::config::LEASE_SECS_MAX.into()); // holders here do not renew
    Config { listen, neighbors, security, lease, ..Config::default() }
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
