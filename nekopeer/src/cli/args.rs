//! Command-line arguments. Node flags are accepted before and after the command.

use std::{
    net::{Ipv4Addr, SocketAddr, SocketAddrV4},
    num::NonZeroU64,
    path::PathBuf,
};

use clap::{
    Parser, Subcommand,
    builder::{PossibleValuesParser, TypedValueParser},
};
use nekoindexer::{
    config::DEFAULT_PORT,
    daemon::settings::{self, AccessArgs, CommonArgs, Tool, units as memory},
};
use nekoproto::{
    IndexerAddr, Label, LabelError, Mode, NetworkName, Staleness,
    budget::BUDGET_DEFAULT,
    transport::{HostAddr, Security, resolve},
};

use super::{units, verbs::Verb};
use crate::{api::seconds, config::Config, publish::PolicyChange, state::freshness::OnStale};

/// Share files that change, find and download them, and know how fresh a copy is.
#[derive(Debug, Parser)]
#[command(name = "nekopeer", version = env!("NEKO_VERSION"), after_long_help = AFTER_HELP)]
pub struct Args {
    /// What the node is told.
    #[command(flatten)]
    pub node: NodeArgs,
    /// Configuration file and log.
    #[command(flatten)]
    pub common: CommonArgs,
    /// What to do; without it, commands are read line by line.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// Where an indexer is looked for, and started.
pub(super) const DISCOVER_DEFAULT: SocketAddr =
    SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, DEFAULT_PORT));

const AFTER_HELP: &str = "Exit codes: 0 done; 1 not found; 2 wrong usage; 3 anything else that failed.";

/// What the node is told.
#[derive(Clone, Debug, clap::Args)]
pub struct NodeArgs {
    /// Indexers to register with and to ask
    #[arg(long, global = true, value_name = "ADDR[,ADDR...]", value_delimiter = ',')]
    pub indexer: Vec<HostAddr>,
    /// Without --indexer: where one is looked for, and started if there is none
    #[arg(long, global = true, hide_short_help = true, help_heading = "Network", value_name = "ADDR", value_parser = resolve,
          default_value_t = DISCOVER_DEFAULT)]
    pub discover: SocketAddr,
    /// Look for no indexer by multicast, and announce none that is started here
    #[arg(long, global = true, hide_short_help = true, help_heading = "Network")]
    pub no_discovery: bool,
    /// Serve the local network: an indexer that is started here listens on all addresses of this machine, not on
    /// 127.0.0.1 alone
    #[arg(long, global = true, hide_short_help = true, help_heading = "Network")]
    pub lan: bool,
    /// Address to serve on; port 0 picks a free one [default: a free port of all addresses of this machine if the
    /// indexer serves other machines, of 127.0.0.1 otherwise]
    #[arg(long, global = true, hide_short_help = true, help_heading = "Serving", value_name = "ADDR", value_parser = resolve)]
    pub listen: Option<SocketAddr>,
    /// Answer over HTTP on this address while serving, with a page to look at; port 0 picks a free one [default: not]
    #[arg(long, global = true, hide_short_help = true, help_heading = "Serving", value_name = "ADDR", value_parser = resolve)]
    pub http: Option<SocketAddr>,
    /// Names under which HTTP is answered, also by a proxy, beside IP addresses, localhost and the name of this machine
    #[arg(long, global = true, hide_short_help = true, help_heading = "Serving", value_name = "NAME,NAME...", value_delimiter = ',', value_parser = settings::host_name)]
    pub http_hosts: Vec<String>,
    /// The folder that files are downloaded to, and that names are relative to
    #[arg(long, global = true, value_name = "DIR", default_value = ".")]
    pub dir: PathBuf,
    /// Where key and catalogue are kept [default: DIR/.neko]
    #[arg(long, global = true, hide_short_help = true, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// What this peer is called where readers are listed, beside its id [default: the name of this machine]
    #[arg(long, global = true, hide_short_help = true, value_name = "NAME", value_parser = label)]
    pub label: Option<Label>,
    /// The network to belong to; networks do not mix [default: nekop2p]
    #[arg(long, global = true, hide_short_help = true, help_heading = "Network", value_name = "NAME", value_parser = settings::network)]
    pub network: Option<NetworkName>,
    /// Plain TCP instead of TLS; all nodes of a network must agree. With a secret it needs --closed-link
    #[arg(long, global = true, hide_short_help = true, help_heading = "Network")]
    pub insecure: bool,
    /// Whom it connects with.
    #[command(flatten)]
    pub access: AccessArgs,
    /// No notes and no progress bars: results and errors only
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// Output for machines: one JSON object
    #[arg(long, global = true)]
    pub json: bool,
    /// The policy of shared files, and of copies here.
    #[command(flatten)]
    pub policy: PolicyArgs,
    /// Bytes a second that are sent at most, to all peers together and not over HTTP, such as 50MB [default: no limit]
    #[arg(long, global = true, hide_short_help = true, help_heading = "Serving", value_name = "RATE", value_parser = units::rate)]
    pub limit_up: Option<NonZeroU64>,
    /// Bytes a second that are fetched at most, from all sources together [default: no limit]
    #[arg(long, global = true, hide_short_help = true, help_heading = "Serving", value_name = "RATE", value_parser = units::rate)]
    pub limit_down: Option<NonZeroU64>,
    /// Disk that copies of shared files take at most, so that their next versions are sent as differences: 10GiB, 0 keeps none
    /// [default: a tenth of what is free, at most 10GiB]
    #[arg(long, global = true, hide_short_help = true, help_heading = "Serving", value_name = "BYTES", value_parser = bytes_or_none)]
    pub keep_base: Option<u64>,
    /// Memory kept for other nodes at most, such as 1GiB; one node may use a third of it [default: 160MiB]
    #[arg(long, global = true, hide_short_help = true, help_heading = "Serving", value_name = "BYTES", value_parser = memory::memory)]
    pub memory: Option<NonZeroU64>,
    /// What happens to a copy here when a newer version is out [default: keep]
    #[arg(long, global = true, hide_short_help = true, help_heading = "Copies here", value_name = "WHAT")]
    pub on_stale: Option<OnStale>,
    /// Indexers that the command's tickets name: used where a peer that serves finds no other one.
    #[arg(skip)]
    pub(super) named: Vec<IndexerAddr>,
}

fn mode() -> impl TypedValueParser<Value = Mode> {
    PossibleValuesParser::new(["push", "pull", "hybrid"]).try_map(|word| word.parse::<Mode>())
}

fn label(text: &str) -> Result<Label, LabelError> {
    text.to_owned().try_into()
}

/// A number of bytes, or 0.
fn bytes_or_none(text: &str) -> Result<u64, String> {
    if text.trim() == "0" { Ok(0) } else { units::bytes(text) }
}

/// What was said about a policy.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
#[command(next_help_heading = "Policy of what is shared")]
pub struct PolicyArgs {
    /// How copies of shared files are kept coherent [default: as before, else hybrid]
    #[arg(long, global = true, hide_short_help = true, value_name = "MODE", value_parser = mode())]
    pub policy: Option<Mode>,
    /// Shared files: seconds that a copy counts as fresh under push [default: as before, else 60]
    #[arg(long, global = true, hide_short_help = true, value_name = "SECS", value_parser = seconds())]
    pub lease: Option<u32>,
    /// Shared files: seconds that a copy counts as fresh under pull [default: as before, else 60]; copies
    /// here: the same, if stricter than their origin says
    #[arg(long, global = true, hide_short_help = true, value_name = "SECS", value_parser = seconds())]
    pub ttr: Option<u32>,
    /// Shared files: a copy past its time is not handed out at all
    #[arg(long, global = true, hide_short_help = true)]
    pub no_serve_stale: bool,
    /// Shared files: a copy past its time is handed out again, as such
    #[arg(long, global = true, hide_short_help = true, conflicts_with = "no_serve_stale")]
    pub serve_stale: bool,
    /// Shared files: nobody reads a copy unless this peer confirms that it is the newest, at each read
    #[arg(long, global = true, hide_short_help = true, conflicts_with_all = ["serve_stale", "no_serve_stale"])]
    pub strict: bool,
}

impl PolicyArgs {
    /// What was said.
    #[must_use]
    pub fn change(self) -> PolicyChange {
        let said = [
            (self.serve_stale, Staleness::ServeStale),
            (self.no_serve_stale, Staleness::Bounded),
            (self.strict, Staleness::Strict),
        ];
        let staleness = said.into_iter().find_map(|(is_said, staleness)| is_said.then_some(staleness));
        PolicyChange { mode: self.policy, lease_secs: self.lease, ttr_secs: self.ttr, staleness }
    }
}

/// What to do.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// What the REPL understands too.
    #[command(flatten)]
    Verb(Verb),
    /// Keep serving what is shared, until Ctrl-C or SIGTERM
    Serve,
    /// Print the id of this peer, which lists of allowed nodes name; its key is made if there is none
    Id,
    /// Examine the catalogue; rebuild one that is damaged or lost from the files here and from what indexers know
    Repair,
    /// The whole story in one process, on real files in a temporary folder
    Demo {
        /// MiB of the large file
        #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u64).range(1..=65536))]
        size_mib: u64,
    },
    /// What needs no peer.
    #[command(flatten)]
    Tool(Tool),
}

impl NodeArgs {
    pub(super) fn memory(&self) -> usize {
        self.memory.map_or(BUDGET_DEFAULT, memory::budget)
    }

    /// The same in the network of a command's tickets, unless a network is given, and with the indexers that they name.
    #[must_use]
    pub(super) fn for_command(&self, command: &crate::api::Command) -> Self {
        let Some((home, named)) = command.api().about().by_ticket else { return self.clone() };
        Self { network: self.network.clone().or(Some(home.network)), named, ..self.clone() }
    }

    /// Checks what no single value can tell.
    pub(super) fn validate(&self) -> Result<(), String> {
        self.access.check(self.insecure)?;
        let is_own = |addr: &SocketAddr| addr.port() != 0 && self.indexer.iter().any(|at| at.addr == *addr);
        if let Some(listen) = self.listen.filter(is_own) {
            return Err(format!("--listen {listen} is the address of an indexer: serve on another port"));
        }
        if let Some(http) = self.http.filter(|http| http.port() != 0 && Some(*http) == self.listen) {
            return Err(format!("--http {http} is the address of --listen: give it another port"));
        }
        Ok(())
    }

    /// The data folder.
    #[must_use]
    pub fn data_dir(&self) -> PathBuf {
        Config { data_dir: self.data_dir.clone(), ..Config::new(&self.dir) }.data_dir()
    }

    /// TLS, or plain TCP.
    #[must_use]
    pub const fn security(&self) -> Security {
        if self.insecure { Security::Insecure } else { Security::Tls }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definition_is_sound() {
        use clap::CommandFactory;
        Args::command().debug_assert();
    }
}
