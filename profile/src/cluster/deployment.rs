//! How nodes are run, as the command line says it: as tasks of this process, or as processes of their own, and on which threads.

use clap::builder::RangedU64ValueParser;
use nekoindexer::Config;
use nekoindexer::daemon::{signals::Stop, threads::THREADS_DEFAULT};

use super::layout::{Layout, Runtimes, on_own_thread};
use crate::node::{Options, Private, Role, network, process::Process};
use crate::outcome::{Begin, Fault};
use crate::prelude::*;
use crate::report::{machine, security_name};
use crate::run::{folder::Folder, watch::Watch};

/// How long a peer of a measured cluster stays listed without a renewal: no renewal shows in a measurement.
pub(crate) const LEASE: Duration = Duration::from_secs(3600);
const _: () = assert!(LEASE.as_secs() <= nekoindexer::config::LEASE_SECS_MAX as u64);

#[derive(Clone, Debug)]
pub struct Deployment {
    pub layout: Layout,
    pub security: Security,
    /// The network of the nodes, unless it is the open one.
    pub network: Option<Private>,
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
    pub folder: PathBuf,
    pub watch: Arc<Watch>,
}

impl Deployment {
    /// The same as users get them but for memory and leases, in the open network, without files.
    pub fn new(layout: Layout, security: Security, runtimes: Arc<[Handle]>, watch: Arc<Watch>) -> Self {
        let (by_default, network, log, folder, port) = Default::default();
        let (routing, threads) = (Routing::Summary, THREADS_DEFAULT);
        Self { layout, security, network, routing, by_default, port, threads, runtimes, log, folder, watch }
    }

    pub(crate) fn in_words(&self) -> String {
        format!("{}, {}", security_name(self.security), machine::in_words())
    }

    pub(crate) fn within(&self, folder: &Folder) -> Self {
        Self { folder: folder.path.clone(), ..self.clone() }
    }

    /// The runtime of the n-th node, if it is in this process.
    pub fn runtime(&self, n: usize) -> &Handle {
        &self.runtimes[n % self.runtimes.len()]
    }

    /// The runtime of clients of the n-th node. To be called where clients run.
    pub fn client_runtime(&self, n: usize) -> Handle {
        if self.layout == Layout::Cores { self.runtime(n).clone() } else { Handle::current() }
    }

    pub(crate) async fn process(&self, label: &str, role: Role) -> Result<Process> {
        Process::start(label.to_owned(), ANY_PORT, self.options(role), None).await
    }

    pub(crate) fn options(&self, role: Role) -> Options {
        let (insecure, network) = (self.security == Security::Insecure, self.network.clone());
        Options { role, insecure, threads: self.threads, log: None, network, http: None }
    }
}

/// How an indexer of these `options` is made: as users get it, or with room for a million names of one peer, which may take
/// a third of it.
pub(crate) fn indexer_config(listen: SocketAddr, options: &Options) -> Result<Config> {
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

/// TLS or not, and the threads of a process.
#[derive(Clone, Debug, Args)]
pub(crate) struct Connecting {
    /// Plain TCP instead of TLS
    #[arg(long)]
    pub(crate) insecure: bool,
    /// Threads of each indexer that is a process of its own
    #[arg(long, value_name = "N", default_value_t = THREADS_DEFAULT)]
    pub(crate) threads: NonZeroUsize,
}

/// How indexers and clients are run.
#[derive(Clone, Debug, Args)]
pub(crate) struct Setup {
    /// Which threads run what
    #[arg(long, default_value = "one")]
    pub(crate) layout: Layout,
    /// Each indexer a process of its own
    #[arg(long, conflicts_with = "layout")]
    pub(crate) processes: bool,
    /// Whom indexers send queries to
    #[arg(long, default_value = "summary")]
    pub(crate) routing: Routing,
    /// The n-th indexer listens on this port plus n [default: free ones]
    #[arg(long, default_value_t = 0, hide_default_value = true)]
    pub(crate) port: u16,
    #[command(flatten)]
    pub(crate) connecting: Connecting,
}

impl Setup {
    /// All on one thread, over plain TCP.
    pub(crate) const fn plain() -> Self {
        let connecting = Connecting { insecure: true, threads: THREADS_DEFAULT };
        Self { layout: Layout::One, processes: false, routing: Routing::Summary, port: 0, connecting }
    }

    /// Each indexer a process of its own.
    pub(crate) const fn apart(connecting: Connecting) -> Self {
        Self { layout: Layout::Processes, connecting, ..Self::plain() }
    }

    const fn layout(&self) -> Layout {
        if self.processes { Layout::Processes } else { self.layout }
    }

    pub(crate) fn deployment(&self, runtimes: Arc<[Handle]>, watch: &Arc<Watch>) -> Deployment {
        let (layout, watch) = (self.layout(), Arc::clone(watch));
        let &Self { routing, port, connecting: Connecting { insecure, threads }, .. } = self;
        Deployment { routing, port, threads, ..Deployment::new(layout, security(insecure), runtimes, watch) }
    }

    /// Runs `work` on a thread of its own, where the clients run, with Ctrl-C stopping `watch`.
    pub(crate) fn on_threads<T: Send>(
        &self,
        watch: &Arc<Watch>,
        work: impl AsyncFnOnce(Deployment) -> Result<T, Fault> + Send,
    ) -> Result<T, Fault> {
        let on_thread = || {
            Runtimes::new(self.layout()).or_cannot_begin()?.run(|runtimes| async {
                let (mut signals, stopping) = (Stop::new().or_cannot_begin()?, Arc::clone(watch));
                tokio::spawn(async move {
                    signals.wait().await;
                    stopping.stop();
                });
                work(self.deployment(runtimes, watch)).await
            })
        };
        on_own_thread(on_thread)?
    }
}

/// A number from `least` to `most`, on the command line.
pub(crate) fn within(least: u64, most: usize) -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(least..=most as u64)
}
