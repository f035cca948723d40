//! The names that a shell proposes: those held here, and those that a REPL on this folder was told before.

use std::{
    collections::BTreeSet,
    ffi::OsStr,
    path::{Path, PathBuf},
    time::Duration,
};

use clap::{Arg, Command, FromArgMatches};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use nekoindexer::daemon::settings;
use nekoproto::FileName;
use tokio::{runtime, time::timeout};

use super::{
    args::{Args, NodeArgs},
    repl::{LastWord, names_of, typed_before},
};
use crate::{api::Ls, door::knock, storage::catalogue::names_in};

const PROPOSED_MAX: u32 = 1000;
const LISTED_WITHIN: Duration = Duration::from_millis(500);

/// `command` with the arguments of its commands completed that are names.
pub(super) fn of_names(command: Command) -> Command {
    let names = || ArgValueCompleter::new(|word: &OsStr| proposed(word).unwrap_or_default());
    let is_name = |arg: &Arg| {
        let values = arg.get_value_names().unwrap_or_default();
        arg.is_positional()
            && values.iter().any(|value| ["NAME", "NAME|ID", "TERM"].contains(&value.as_str()))
    };
    command
        .mut_subcommands(|command| command.mut_args(|arg| if is_name(&arg) { arg.add(names()) } else { arg }))
}

/// The names that `word` may become; some shells leave its quotation marks and backslashes in it.
fn proposed(word: &OsStr) -> Option<Vec<CompletionCandidate>> {
    let word = word.to_str().filter(|word| !word.starts_with('-'))?;
    let is_quoted = word.contains(['\\', '\'', '"']);
    let begin = if is_quoted { LastWord::of(word).text } else { word.to_owned() };
    let folder = NodeArgs::from_arg_matches(&settings::half_typed::<Args>()?).ok()?.data_dir();
    let mut names = BTreeSet::from_iter(typed_before(&folder, &begin));
    names.extend(held(folder, &begin));
    let fitting = names.into_iter().filter(|name| name.starts_with(&begin));
    Some(fitting.map(CompletionCandidate::new).collect())
}

/// Names held in the data folder, from `begin` on. Nobody runs there, or is asked; there are none if that fails.
fn held(folder: PathBuf, begin: &str) -> Vec<String> {
    let Ok(runtime) = runtime::Builder::new_current_thread().enable_all().build() else { return Vec::new() };
    let listed = runtime.block_on(async { timeout(LISTED_WITHIN, listed(&folder, begin)).await });
    match listed {
        Ok(Some(names)) => names,
        _ => names_in(&folder, begin, PROPOSED_MAX as usize).unwrap_or_default(),
    }
}

async fn listed(folder: &Path, begin: &str) -> Option<Vec<String>> {
    let mut peer = knock(folder).await.ok()?;
    let after = FileName::new(begin.trim_end_matches('/')).ok();
    let list = Ls { first: Some(PROPOSED_MAX), after, ..Ls::default() };
    Some(names_of(&peer.rows(list.into()).await.1))
}
