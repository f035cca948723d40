//! Command-line arguments. Node flags are accepted before and after the command.

use std::{net::SocketAddr, num::NonZeroU64, path::PathBuf, time::Duration};

use clap::{Parser, Subcommand, ValueEnum};
use nekoindexer::config::DEFAULT_PORT;
use nekoproto::{
    FileName, Mode, NetworkName, Policy,
    limits::{POLICY_SECS_MAX, TTL_MAX},
    policy::BadPolicy,
    transport::{Security, resolve},
};

use super::{indexers::listen_towards, units};
use crate::{config::Config, publish::PolicyChange, state::freshness::OnStale};

/// Share files that change: publish, find, download, and know how fresh a copy is.
#[derive(Debug, Parser)]
#[command(name = "nekopeer", version, after_help = AFTER_HELP)]
pub struct Args {
    /// What the node is told.
    #[command(flatten)]
    pub node: NodeArgs,
    /// What to do; without it, commands are read line by line.
    #[command(subcommand)]
    pub command: Option<Command>,
}

const AFTER_HELP: &str = "Exit codes: 0 done; 1 not found; 2 wrong usage; 3 anything else that failed.";

/// What the node is told.
#[derive(Clone, Debug, clap::Args)]
pub struct NodeArgs {
    /// Indexers to register with and to ask
    #[arg(long, global = true, value_name = "ADDR[,ADDR...]", value_parser = resolve, value_delimiter = ',',
          env = "NEKOPEER_INDEXER")]
    pub indexer: Vec<SocketAddr>,
    /// Without --indexer: where one is looked for, and started if there is none
    #[arg(long, global = true, value_name = "ADDR", value_parser = resolve,
          default_value_t = SocketAddr::from(([127, 0, 0, 1], DEFAULT_PORT)))]
    pub discover: SocketAddr,
    /// Address to serve on; port 0 picks a free one [default: a free port of the address that reaches the
    /// indexer; of 127.0.0.1 if that is on this machine]
    #[arg(long, global = true, value_name = "ADDR", value_parser = resolve, env = "NEKOPEER_LISTEN")]
    pub listen: Option<SocketAddr>,
    /// The folder that files are downloaded to, and that names are relative to
    #[arg(long, global = true, value_name = "DIR", default_value = ".", env = "NEKOPEER_DIR")]
    pub dir: PathBuf,
    /// Where key and catalogue are kept [default: DIR/.neko]
    #[arg(long, global = true, value_name = "DIR", env = "NEKOPEER_DATA_DIR")]
    pub data_dir: Option<PathBuf>,
    /// The network to belong to; networks do not mix [default: nekop2p]
    #[arg(long, global = true, value_name = "NAME", value_parser = network)]
    pub network: Option<NetworkName>,
    /// Plain TCP instead of TLS; all nodes of a network must agree
    #[arg(long, global = true)]
    pub insecure: bool,
    /// Output for machines: one JSON object
    #[arg(long, global = true)]
    pub json: bool,
    /// How copies of published files are kept coherent: push, pull or hybrid [default: hybrid]
    #[arg(long, global = true, value_name = "MODE")]
    pub policy: Option<Mode>,
    /// Published files: seconds that a copy counts as fresh under push [default: 60]
    #[arg(long, global = true, value_name = "SECS", value_parser = seconds())]
    pub lease: Option<u32>,
    /// Published files: seconds that a copy counts as fresh under pull [default: 60]; copies here:
    /// the same, if stricter than their origin says
    #[arg(long, global = true, value_name = "SECS", value_parser = seconds())]
    pub ttr: Option<u32>,
    /// Published files: a copy past its time is not handed out at all
    #[arg(long, global = true)]
    pub no_serve_stale: bool,
    /// Bytes a second that are sent at most, to all readers together, such as 50MB [default: no limit]
    #[arg(long, global = true, value_name = "RATE", value_parser = units::rate)]
    pub limit_up: Option<NonZeroU64>,
    /// Bytes a second that are fetched at most, from all sources together [default: no limit]
    #[arg(long, global = true, value_name = "RATE", value_parser = units::rate)]
    pub limit_down: Option<NonZeroU64>,
    /// What happens to a copy here when a newer version is out
    #[arg(long, global = true, value_name = "WHAT", default_value = "keep")]
    pub on_stale: StaleArg,
}

/// What happens to an outdated copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StaleArg {
    /// It stays, marked as stale
    Keep,
    /// The newer version is downloaded in its place
    Refetch,
    /// It is deleted
    Drop,
}

/// What to do.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Publish files or folders, then keep serving until Ctrl-C
    Share {
        /// Files and folders; the files of a folder are named by their paths below --dir, or
        /// below the folder's own name if it is elsewhere. `-` is what comes on
        /// stdin: it is stored as DIR/NAME, see --name
        #[arg(required = true)]
        paths: Vec<PathBuf>,
        /// The name of a single file, or of what comes on stdin
        #[arg(long, value_name = "NAME")]
        name: Option<FileName>,
        /// Replace a file that stands in the place of what comes on stdin
        #[arg(long)]
        force: bool,
    },
    /// Download files, verified
    Get {
        /// Their names; of several, small ones are fetched together
        #[arg(required_unless_present = "names_from", value_name = "NAME")]
        names: Vec<FileName>,
        /// A file with further names, one in a line; `-` is stdin
        #[arg(long, value_name = "FILE")]
        names_from: Option<PathBuf>,
        /// Where a single file is to stand [default: DIR/NAME]; `-` is stdout, in order, each part verified
        /// before it is written, and no copy is kept
        #[arg(short, long, value_name = "PATH")]
        output: Option<PathBuf>,
        #[command(flatten)]
        reach: Reach,
        #[command(flatten)]
        which: Which,
    },
    /// Ask the own indexer only
    Search {
        /// What to look for
        #[arg(required = true, value_name = "NAME")]
        names: Vec<FileName>,
    },
    /// Ask the network
    Query {
        /// What to look for
        #[arg(required = true, value_name = "NAME")]
        names: Vec<FileName>,
        #[command(flatten)]
        reach: Reach,
    },
    /// List what is published and held here
    Ls,
    /// List what is held here after asking the origins whether it is still the newest
    Status,
    /// The whole story in one process, on real files in a temporary folder
    Demo {
        /// MiB of the large file
        #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u64).range(1..=65536))]
        size_mib: u64,
    },
}

/// How far a query travels.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Reach {
    /// Hops the query may travel beyond the own indexer
    #[arg(long, value_name = "N", default_value_t = nekoproto::limits::TTL_DEFAULT,
          value_parser = clap::value_parser!(u8).range(0..=i64::from(TTL_MAX)))]
    pub ttl: u8,
}

/// Which of several files under one name, and over which file.
#[derive(Clone, Debug, clap::Args)]
pub struct Which {
    /// Whose file, where several origins publish different ones: the first digits of its id
    #[arg(long, value_name = "ID", value_parser = id_digits)]
    pub origin: Option<String>,
    /// Replace a file that stands there and is no copy from here, or stand beside one whose name differs
    /// only in case or in the Unicode form of its letters
    #[arg(long)]
    pub force: bool,
}

fn network(text: &str) -> Result<NetworkName, String> {
    NetworkName::try_from(text.to_owned()).map_err(|error| error.to_string())
}

fn id_digits(text: &str) -> Result<String, String> {
    let digits = text.to_ascii_lowercase();
    if !digits.is_empty() && digits.chars().all(|digit| digit.is_ascii_hexdigit()) {
        Ok(digits)
    } else {
        Err("expected hexadecimal digits".to_owned())
    }
}

pub(super) fn seconds() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=i64::from(POLICY_SECS_MAX))
}

impl NodeArgs {
    /// The peer's configuration. It serves if `serving`.
    ///
    /// # Errors
    /// The policy breaks a limit. The ranges of the flags prevent that.
    pub fn config(&self, indexers: Vec<SocketAddr>, serving: bool) -> Result<Config, BadPolicy> {
        let default = Config::new(&self.dir);
        Ok(Config {
            listen: serving.then(|| self.listen.unwrap_or_else(|| listen_towards(&indexers))),
            indexers,
            data_dir: self.data_dir.clone(),
            network: self.network.clone().unwrap_or_default(),
            security: self.security(),
            policy: self.policy_change().over(Policy::default())?,
            ttr: self.ttr.map(|secs| Duration::from_secs(secs.into())),
            limit_up: self.limit_up,
            limit_down: self.limit_down,
            on_stale: match self.on_stale {
                StaleArg::Keep => OnStale::Keep,
                StaleArg::Refetch => OnStale::Refetch,
                StaleArg::Drop => OnStale::Drop,
            },
            ..default
        })
    }

    /// What the flags say of the policy of published files.
    #[must_use]
    pub fn policy_change(&self) -> PolicyChange {
        PolicyChange {
            mode: self.policy,
            lease_secs: self.lease,
            ttr_secs: self.ttr,
            serve_stale: self.no_serve_stale.then_some(false),
        }
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

    #[test]
    fn flags_stand_before_or_after_the_command() {
        let before = Args::parse_from(["nekopeer", "--json", "--indexer", "127.0.0.1:1,127.0.0.1:2", "ls"]);
        let after = Args::parse_from(["nekopeer", "ls", "--indexer", "127.0.0.1:1,127.0.0.1:2", "--json"]);
        assert!(before.node.json && after.node.json);
        assert_eq!(before.node.indexer, after.node.indexer);
        assert_eq!(before.node.indexer.len(), 2);
    }

    #[test]
    fn unsafe_names_and_far_ttls_are_wrong_usage() {
        for wrong in [
            &["get", "../a"][..],
            &["get", "/etc/passwd"],
            &["query", "a", "--ttl", "17"],
            &["query", "a", "--ttl", "255"],
            &["get", "a", "--origin", "xyz"],
            &["ls", "--ttr", "0"],
            &["share"],
            &["get"],
            &["ls", "--limit-up", "0"],
            &["ls", "--limit-down", "fast"],
        ] {
            let line = ["nekopeer"].iter().chain(wrong);
            assert!(Args::try_parse_from(line).is_err(), "{wrong:?}");
        }
    }
}
