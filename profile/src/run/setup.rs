//! How nodes and clients are run, as the command line says it, and on which threads that is.

use std::{io, num::NonZeroUsize, sync::Arc};

use clap::{Args, builder::RangedU64ValueParser};
use nekoindexer::{Routing, daemon::threads::THREADS_DEFAULT};
use tokio::runtime::Handle;
use tokio::signal::unix::{SignalKind, signal};

use super::Watch;
use crate::cluster::deployment::{Deployment, security};
use crate::cluster::layout::on_own_thread;
use crate::cluster::layout::{Layout, Runtimes};
use crate::outcome::{Begin, Fault};

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

    /// How nodes are run on these runtimes.
    pub(crate) fn deployment(&self, runtimes: Arc<[Handle]>, watch: &Arc<Watch>) -> Deployment {
        let (routing, port, threads) = (self.routing, self.port, self.connecting.threads);
        let security = security(self.connecting.insecure);
        let (by_default, network, log, folder) = Default::default();
        Deployment {
            layout: self.layout(),
            security,
            network,
            routing,
            by_default,
            port,
            threads,
            runtimes,
            log,
            folder,
            watch: Arc::clone(watch),
        }
    }

    /// Runs `work` on a thread of its own, where the clients run, with Ctrl-C stopping `watch`.
    pub(crate) fn on_threads<T: Send>(
        &self,
        watch: &Arc<Watch>,
        work: impl AsyncFnOnce(Deployment) -> Result<T, Fault> + Send,
    ) -> Result<T, Fault> {
        let on_thread = || {
            Runtimes::new(self.layout()).or_cannot_begin()?.run(|runtimes| async {
                listen(Arc::clone(watch)).or_cannot_begin()?;
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

/// Stops the run of `watch` at Ctrl-C or SIGTERM.
fn listen(watch: Arc<Watch>) -> io::Result<()> {
    let (mut interrupts, mut terminations) =
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    tokio::spawn(async move {
        tokio::select! {
            _ = interrupts.recv() => {}
            _ = terminations.recv() => {}
        }
        watch.stop();
    });
    Ok(())
}
