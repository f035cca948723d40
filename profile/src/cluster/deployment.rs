//! How nodes are run: as tasks of this process, or as processes of their own.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::{num::NonZeroUsize, sync::Arc, time::Duration};

use anyhow::bail;
use nekoindexer::{Config, Routing};
use nekoproto::transport::Security;
use testkit::network::ANY_PORT;
use tokio::runtime::Handle;

use crate::node::{Options, Private, Role, network};
use crate::report::{machine, security_name};
use crate::{cluster::layout::Layout, node::process::Process, run::folder::Folder, run::watch::Watch};

/// How long a peer of a measured cluster stays listed without a renewal: no renewal shows in a measurement.
pub(crate) const LEASE: Duration = Duration::from_secs(3600);
const _: () = assert!(LEASE.as_secs() <= nekoindexer::config::LEASE_SECS_MAX as u64);

/// How nodes are run.
#[derive(Clone, Debug)]
pub struct Deployment {
    /// Which threads run what.
    pub layout: Layout,
    /// TLS or plain TCP.
    pub security: Security,
    /// The network of the nodes, unless it is the open one.
    pub network: Option<Private>,
    /// Whom indexers send queries to.
    pub routing: Routing,
    /// Indexers with the memory and the leases that users get; otherwise with room for a million names of one peer,
    /// and leases without renewals.
    pub by_default: bool,
    /// The n-th indexer listens on this port plus n; 0: on free ones.
    pub port: u16,
    /// Threads of a node that is a process of its own.
    pub threads: NonZeroUsize,
    /// The runtimes of nodes in this process: the n-th node runs on the n-th, and so on in turn.
    pub runtimes: Arc<[Handle]>,
    /// What indexers that are processes of their own log, into `folder`; `None`: nothing.
    pub log: Option<String>,
    /// Where peers have their folders.
    pub folder: PathBuf,
    /// May end what runs there.
    pub watch: Arc<Watch>,
}

impl Deployment {
    /// How connections are secured, and the machine.
    pub(crate) fn in_words(&self) -> String {
        format!("{}, {}", security_name(self.security), machine::in_words())
    }

    /// The same, with the files of nodes in this folder.
    pub(crate) fn within(&self, folder: &Folder) -> Self {
        Self { folder: folder.path.clone(), ..self.clone() }
    }

    /// The runtime of the n-th node, if it is in this process.
    pub fn runtime(&self, n: usize) -> &Handle {
        &self.runtimes[n % self.runtimes.len()]
    }

    /// The runtime of clients of the n-th node. To be called where clients run.
    pub fn client_runtime(&self, n: usize) -> Handle {
        match self.layout {
            Layout::Cores => self.runtime(n).clone(),
            Layout::One | Layout::Shared | Layout::Split | Layout::Processes => Handle::current(),
        }
    }

    pub(crate) async fn process(&self, label: &str, role: Role) -> anyhow::Result<Process> {
        self.process_at(label, ANY_PORT, role).await
    }

    pub(crate) async fn process_at(
        &self,
        label: &str,
        listen: SocketAddr,
        role: Role,
    ) -> anyhow::Result<Process> {
        Process::start(label.to_owned(), listen, &self.options(role), None).await
    }

    /// How a process is made that does what `role` says.
    pub(crate) fn options(&self, role: Role) -> Options {
        let (insecure, network) = (self.security == Security::Insecure, self.network.clone());
        Options { role, insecure, threads: self.threads, log: None, network, http: None }
    }
}

/// How an indexer of these `options` is made: as users get it, or with room for a million names of one peer, which may take
/// a third of it.
pub(crate) fn indexer_config(listen: SocketAddr, options: &Options) -> anyhow::Result<Config> {
    let Role::Indexer { neighbors, flood, by_default } = &options.role else { bail!("it is no indexer") };
    let routing = if *flood { Routing::Flood } else { Routing::Summary };
    let neighbors = neighbors.iter().copied().map(Into::into).collect();
    let ((network, access), security) = (network(options.network.as_ref())?, security(options.insecure));
    let http = options.http;
    let config = Config { listen, neighbors, security, routing, network, access, http, ..Config::default() };
    Ok(match by_default {
        true => config,
        false => Config { lease: LEASE, memory: 2 << 30, carries_probes: true, ..config },
    })
}

pub(crate) const fn security(insecure: bool) -> Security {
    if insecure { Security::Insecure } else { Security::Tls }
}
