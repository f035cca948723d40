//! The indexer as a program: reads its configuration, says where it listens, runs until told to stop.

use std::{
    io::Write,
    net::SocketAddr,
    num::{NonZeroU64, NonZeroUsize},
    path::PathBuf,
    process::ExitCode,
    time::Duration,
};

use anyhow::Context;
use clap::Parser;
use nekoindexer::{
    Config, Indexer, Routing, StartError,
    config::LEASE_SECS_MAX,
    daemon::{
        allocator, logging,
        settings::{
            self, AccessArgs, CommonArgs, Program, Tool, advice,
            units::{self, Rate},
        },
        signals::{self, Hangups, Stop},
        stdout::{EXIT_UNREAD, Stdout, is_unread},
        threads::{self, THREADS_DEFAULT, THREADS_MAX},
    },
    identity_in,
    visible::visible,
};
use nekoproto::{
    NetworkName, Remedy,
    transport::{HostAddr, Security, resolve},
};
use tracing::warn;

#[global_allocator]
static ALLOCATOR: allocator::Global = allocator::GLOBAL;

/// A nekop2p indexer: knows who holds what, and asks its neighbors.
#[derive(Debug, Parser)]
#[command(name = "nekoindexer", version = env!("NEKO_VERSION"), after_long_help = AFTER_HELP)]
#[command(subcommand_precedence_over_arg = true)]
pub(crate) struct Args {
    /// Address to listen on; port 0 picks a free one
    #[arg(long, value_name = "ADDR", value_parser = resolve, default_value_t = Config::default().listen)]
    listen: SocketAddr,
    /// Indexers to forward queries to; naming them on one side is enough
    #[arg(long, value_name = "ADDR,ADDR...", value_delimiter = ',', num_args = 1..)]
    neighbors: Vec<HostAddr>,
    /// Where the key is kept, so that the node stays the same; without it a new key is made at each start
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// The network to belong to; networks do not mix
    #[arg(long, value_name = "NAME", value_parser = settings::network, default_value_t)]
    network: NetworkName,
    /// Whom it connects with.
    #[command(flatten)]
    access: AccessArgs,
    /// Seconds a holder stays listed without a word
    #[arg(long, value_name = "SECS", value_parser = clap::value_parser!(u32).range(1..=i64::from(LEASE_SECS_MAX)),
          default_value_t = 30)]
    lease_secs: u32,
    /// Whom queries go to
    #[arg(long, value_name = "WHOM", default_value = "summary")]
    routing: Routing,
    /// Threads that serve connections; more than one only pays when one is busy all the time
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u16).range(1..=i64::from(THREADS_MAX)))]
    threads: u16,
    /// Answer HTTP on this address: the dashboard, /status, /metrics, /api/v1; port 0 picks a free one [default: off]
    #[arg(long, value_name = "ADDR", value_parser = resolve)]
    http: Option<SocketAddr>,
    /// Names under which HTTP is answered, also by a proxy, beside IP addresses, localhost and the name of this machine
    #[arg(long, value_name = "NAME,NAME...", value_delimiter = ',', value_parser = settings::host_name)]
    http_hosts: Vec<String>,
    /// Memory kept for other nodes at most, such as 1GiB; one node may use a third of it
    #[arg(long, value_name = "BYTES", value_parser = units::memory, default_value = "160MiB")]
    memory: NonZeroU64,
    /// Bytes a second relayed, in all, between nodes that cannot connect to each other; 0 relays nothing
    #[arg(long, value_name = "RATE", value_parser = units::rate, default_value = "16MB")]
    relay: Rate,
    /// Plain TCP instead of TLS; all nodes of a network must agree. With a secret it needs --closed-link
    #[arg(long)]
    insecure: bool,
    /// Do not announce it by multicast; one that listens on a loopback address is not announced anyway
    #[arg(long)]
    no_discovery: bool,
    /// Configuration file and log.
    #[command(flatten)]
    common: CommonArgs,
    /// What to do instead of running.
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Print the id of this indexer, which lists of allowed nodes name; its key is made if there is none
    Id,
    /// What every program does.
    #[command(flatten)]
    Tool(Tool),
}

const AFTER_HELP: &str =
    "Exit codes: 0 told to end; 2 wrong usage or configuration; 3 anything else that failed.";

impl Program for Args {
    fn common(&self) -> &CommonArgs {
        &self.common
    }

    fn tool(&self) -> Option<&Tool> {
        match &self.command {
            Some(Command::Tool(tool)) => Some(tool),
            Some(Command::Id) | None => None,
        }
    }

    fn access(&mut self) -> &mut AccessArgs {
        &mut self.access
    }

    fn validate(&self) -> Result<(), String> {
        if let Some(http) = self.http.filter(|http| http.port() != 0 && *http == self.listen) {
            return Err(format!("--http {http} is the address of --listen: give it another port"));
        }
        self.access.check(self.insecure)?;
        self.config().validate().map_err(|error| error.to_string())
    }
}

impl Args {
    fn config(&self) -> Config {
        Config {
            listen: self.listen,
            neighbors: self.neighbors.clone(),
            data_dir: self.data_dir.clone(),
            network: self.network.clone(),
            security: if self.insecure { Security::Insecure } else { Security::Tls },
            access: self.access.loaded.clone(),
            lease: Duration::from_secs(self.lease_secs.into()),
            routing: self.routing,
            http: self.http,
            http_hosts: self.http_hosts.clone(),
            is_leaf: false,
            announce: !self.no_discovery,
            carries_probes: false,
            relay: self.relay.0,
            memory: units::budget(self.memory),
        }
    }
}

fn main() -> ExitCode {
    let args: Args = match settings::start() {
        Ok(args) => args,
        Err(ended) => return ended,
    };
    logging::start(&args.common.log);
    nekoproto::transport::raise_file_limit();
    let ended = if matches!(args.command, Some(Command::Id)) { say_id(&args) } else { run(&args) };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_unread(error.as_ref()) => ExitCode::from(EXIT_UNREAD),
        Err(error) => {
            let mut stderr = std::io::stderr().lock();
            // Nobody is left to tell if even that fails.
            let _ = writeln!(stderr, "{}", visible(&format!("nekoindexer: {error:#}")));
            ExitCode::from(3)
        }
    }
}

fn run(args: &Args) -> anyhow::Result<()> {
    let threads = NonZeroUsize::new(args.threads.into()).unwrap_or(THREADS_DEFAULT);
    let runtime = threads::runtime(threads).context("cannot start the threads")?;
    runtime.block_on(serve(args.config()))
}

fn say_id(args: &Args) -> anyhow::Result<()> {
    let folder =
        args.data_dir.as_ref().context("an id stays the same only with --data-dir, which keeps the key")?;
    let (identity, _) = identity_in(folder).map_err(advised)?;
    Ok(writeln!(Stdout::lock(), "{}", identity.id())?)
}

async fn serve(config: Config) -> anyhow::Result<()> {
    let (mut stop, hangups) = (Stop::new()?, Hangups::new()?);
    let mut indexer = Indexer::spawn(config).await.map_err(advised)?;
    writeln!(Stdout::lock(), "listening on {}", indexer.local_addr())?;
    if let Some(addr) = indexer.http_addr() {
        writeln!(Stdout::lock(), "http on http://{addr}/")?;
    }
    signals::serve(&mut stop, Some(hangups), std::future::pending(), async || reload(&indexer).await).await;
    tokio::select! {
        () = indexer.drain() => {}
        interrupted = tokio::signal::ctrl_c() => interrupted?, // the user does not want to wait
    }
    indexer.shutdown().await;
    Ok(())
}

/// As text, since it tells its causes itself, with what helps.
fn advised(error: StartError) -> anyhow::Error {
    let remedy = match error {
        StartError::DataDir(_) => Some(Remedy::DataDir),
        StartError::Http { .. } => Some(Remedy::Http),
        StartError::Listen { .. } => Some(Remedy::Listen),
        StartError::Config(_) | StartError::Identity(_) | StartError::Endpoint(_) => None,
    };
    anyhow::anyhow!("{error}{}", advice(remedy))
}

/// Reads the configuration again; what is wrong changes nothing.
async fn reload(indexer: &nekoindexer::IndexerHandle) {
    let reloaded = settings::again::<Args>()
        .await
        .map_err(|faults| faults.join("; "))
        .and_then(|args| indexer.reload(&args.neighbors, args.access.allow.as_deref()));
    match reloaded {
        Ok(changes) if changes.is_empty() => warn!("configuration read again: nothing has changed"),
        Ok(changes) => warn!("configuration read again: {}", changes.join(", ")),
        Err(why) => warn!("configuration read again, and everything stays as it was: {why}"),
    }
}
