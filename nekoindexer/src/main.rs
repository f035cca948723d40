//! The indexer as a program: reads its configuration, says where it listens, runs until told to stop.

use std::{io::Write, net::SocketAddr, num::NonZeroUsize, path::PathBuf, process::ExitCode};

use anyhow::Context;
use clap::Parser;
use nekoindexer::{
    Config, Indexer, Routing, logging,
    threads::{self, THREADS_DEFAULT, THREADS_MAX},
};
use nekoproto::{
    NetworkName,
    transport::{Security, resolve},
};
use tokio::signal::unix::{SignalKind, signal};

/// A nekop2p indexer: knows who holds what, and asks its neighbors.
#[derive(Debug, Parser)]
#[command(name = "nekoindexer", version)]
struct Args {
    /// Address to listen on; port 0 picks a free one [default: 127.0.0.1:7707]
    #[arg(long, value_name = "ADDR", value_parser = resolve, env = "NEKOINDEXER_LISTEN")]
    listen: Option<SocketAddr>,
    /// Indexers to forward queries to; naming them on one side is enough
    #[arg(long, value_name = "ADDR,ADDR...", value_parser = resolve, value_delimiter = ',', num_args = 1..,
          env = "NEKOINDEXER_NEIGHBORS")]
    neighbors: Vec<SocketAddr>,
    /// Where the key is kept, so that the node stays the same; without it a new key is made at each start
    #[arg(long, value_name = "DIR", env = "NEKOINDEXER_DATA_DIR")]
    data_dir: Option<PathBuf>,
    /// Configuration file (TOML): listen, neighbors, data_dir, network, insecure, lease_secs, routing, http, http_hosts
    #[arg(long, value_name = "FILE", env = "NEKOINDEXER_CONFIG")]
    config: Option<PathBuf>,
    /// The network to belong to; networks do not mix [default: nekop2p]
    #[arg(long, value_name = "NAME")]
    network: Option<String>,
    /// Seconds a holder stays listed without a word [default: 30]
    #[arg(long, value_name = "SECS", value_parser = clap::value_parser!(u32).range(1..=3600))]
    lease_secs: Option<u32>,
    /// Whom queries go to [default: summary]
    #[arg(long)]
    routing: Option<Routing>,
    /// Threads that serve connections; more than one only pays when one is busy all the time
    #[arg(long, value_name = "N", default_value_t = 1, env = "NEKOINDEXER_THREADS",
          value_parser = clap::value_parser!(u16).range(1..=i64::from(THREADS_MAX)))]
    threads: u16,
    /// Answer HTTP on this address: the dashboard, /status, /metrics, /api/v1; port 0 picks a free one [default: off]
    #[arg(long, value_name = "ADDR", value_parser = resolve, env = "NEKOINDEXER_HTTP")]
    http: Option<SocketAddr>,
    /// Names under which HTTP is answered, beside localhost and IP addresses
    #[arg(long, value_name = "NAME,NAME...", value_delimiter = ',', env = "NEKOINDEXER_HTTP_HOSTS")]
    http_hosts: Vec<String>,
    /// Plain TCP instead of TLS; all nodes of a network must agree
    #[arg(long)]
    insecure: bool,
    /// Do not announce it by multicast; one that listens on a loopback address is not announced anyway
    #[arg(long, env = "NEKO_NO_DISCOVERY", value_parser = clap::builder::FalseyValueParser::new())]
    no_discovery: bool,
}

impl Args {
    fn config(self) -> anyhow::Result<Config> {
        let mut config = self.config.map_or_else(|| Ok(Config::default()), |path| Config::load(&path))?;
        config.listen = self.listen.unwrap_or(config.listen);
        if !self.neighbors.is_empty() {
            config.neighbors = self.neighbors;
        }
        config.data_dir = self.data_dir.or(config.data_dir);
        config.routing = self.routing.unwrap_or(config.routing);
        config.http = self.http.or(config.http);
        if !self.http_hosts.is_empty() {
            config.http_hosts = self.http_hosts;
        }
        if let Some(network) = self.network {
            config.network = NetworkName::try_from(network)?;
        }
        if let Some(secs) = self.lease_secs {
            config.lease = std::time::Duration::from_secs(secs.into());
        }
        if self.insecure {
            config.security = Security::Insecure;
        }
        config.announce = !self.no_discovery;
        Ok(config)
    }
}

fn main() -> ExitCode {
    let args = Args::parse();
    logging::start();
    nekoproto::transport::raise_file_limit();
    match run(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let mut stderr = std::io::stderr().lock();
            // Nobody is left to tell if even that fails.
            let _ = writeln!(stderr, "nekoindexer: {error:#}");
            ExitCode::from(3)
        }
    }
}

fn run(args: Args) -> anyhow::Result<()> {
    let threads = NonZeroUsize::new(args.threads.into()).unwrap_or(THREADS_DEFAULT);
    let runtime = threads::runtime(threads).context("cannot start the threads")?;
    runtime.block_on(serve(args.config()?))
}

async fn serve(config: Config) -> anyhow::Result<()> {
    let indexer = Indexer::spawn(config).await?;
    writeln!(std::io::stdout(), "listening on {}", indexer.local_addr()).context("cannot write to stdout")?;
    if let Some(addr) = indexer.http_addr() {
        writeln!(std::io::stdout(), "http on http://{addr}/").context("cannot write to stdout")?;
    }
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        interrupted = tokio::signal::ctrl_c() => interrupted?,
        _ = terminate.recv() => {}
    }
    indexer.shutdown().await;
    Ok(())
}
