//! The words of `wish`, and what else says how fresh copies are to be.

use clap::ValueEnum;
use nekoproto::{FileName, limits::POLICY_SECS_MAX};

use crate::{commands::Command, state::freshness::OnStale};

/// What is wanted of one name.
#[derive(Clone, Debug, clap::Args)]
pub struct WishArgs {
    /// The name
    #[arg(value_name = "NAME")]
    pub(super) name: FileName,
    /// Seconds that its copy here counts as fresh at most; its origin may be stricter
    #[arg(long, value_name = "SECS", value_parser = seconds())]
    bound: Option<u32>,
    /// What happens to its copy here when a newer version is out
    #[arg(long, value_name = "WHAT")]
    when_stale: Option<StaleArg>,
    /// Take back what was said before
    #[arg(long)]
    none: bool,
}

impl WishArgs {
    pub(super) fn command(self) -> Command {
        let Self { name, bound, when_stale, none } = self;
        Command::Wish { name, anew: none, bound_secs: bound, on_stale: when_stale.map(OnStale::from) }
    }
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

impl From<StaleArg> for OnStale {
    fn from(arg: StaleArg) -> Self {
        match arg {
            StaleArg::Keep => Self::Keep,
            StaleArg::Refetch => Self::Refetch,
            StaleArg::Drop => Self::Drop,
        }
    }
}

/// Seconds of a lease or a TTR.
pub(in crate::cli) fn seconds() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=i64::from(POLICY_SECS_MAX))
}
