//! The words of `follow`.

use std::path::absolute;

use anyhow::Context;

use super::{NoCommand, PreferenceArgs, Reach, Which};
use crate::{
    commands::{Command, LocalPath, Wanted, Word},
    follow::{FOLLOWED_MAX, KEEP_MAX},
};

/// Time limit of the command of `follow`, in seconds: what is usual, and a day.
const EXEC_SECS_DEFAULT: u32 = 600;
const EXEC_SECS_MAX: u32 = 24 * 60 * 60;

/// What to follow.
#[derive(Clone, Debug, clap::Args)]
pub struct FollowArgs {
    /// Their names, or tickets that `share` printed elsewhere; NAME@ID, with 10 to 64 digits of an id, is the file of
    /// that origin. What nobody offers yet is waited for
    #[arg(required = true, value_name = "NAME", value_parser = Word::said)]
    pub(super) names: Vec<Word>,
    /// Run this by /bin/sh on each new version, with NEKO_NAME, NEKO_VERSION, NEKO_PATH and NEKO_PREVIOUS_VERSION; if
    /// it fails, the version that it accepted before is put back, and the next one is waited for
    #[arg(long, value_name = "COMMAND")]
    exec: Option<String>,
    /// Kill the command after so many seconds, which counts as a failure
    #[arg(long, value_name = "SECS", default_value_t = EXEC_SECS_DEFAULT, requires = "exec",
          value_parser = clap::value_parser!(u32).range(1..=i64::from(EXEC_SECS_MAX)))]
    exec_timeout: u32,
    /// Keep the last N versions that were replaced, for rollback [default: as many as before, with --exec at least 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=i64::from(KEEP_MAX)))]
    keep: Option<u32>,
    #[command(flatten)]
    reach: Reach,
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    preference: PreferenceArgs,
}

impl FollowArgs {
    pub(super) fn command(self) -> Result<Command, NoCommand> {
        let Self { names, exec, exec_timeout, keep, reach, which, preference } = self;
        if names.len() > FOLLOWED_MAX {
            let why = format!("one command follows at most {FOLLOWED_MAX} names");
            return Err(NoCommand::Usage(why.into()));
        }
        let wanted = Wanted::of_words(&names, which.origin, reach.ttl);
        let (names, wanted) = wanted.map_err(|why| NoCommand::Usage(why.into()))?;
        if let Some(pattern) = wanted.patterns.first() {
            return Err(NoCommand::Usage(format!("follow takes names, not {}", pattern.text).into()));
        }
        let folder = absolute(".").context("the current folder is unknown").map_err(NoCommand::Failed)?;
        let folder = LocalPath(folder);
        let (exec_secs, force, preference) = (exec_timeout, which.force, preference.change());
        Ok(Command::Follow { names, exec, folder, exec_secs, keep, force, wanted, preference })
    }
}
