//! The command line: one-shot commands, the REPL and the demo. The only room that prints.

mod args;
mod bar;
mod completion;
mod demo;
mod events;
mod flags;
mod help;
mod hosting;
mod indexers;
mod one_shot;
mod reach;
mod repair;
mod repl;
mod run;
mod serving;
mod show;
mod verbs;

use std::{env, path::PathBuf, process::ExitCode, time::Duration};

pub use crate::terminal::units;
pub use args::Args;
use args::Command;
use nekoindexer::daemon::{
    settings::{AccessArgs, CommonArgs, Program, Tool},
    signals::Stop,
    stdout::EXIT_UNREAD,
};
use tokio::runtime::Runtime;

use crate::{api::FailureKind, terminal::Output, util::reaping::reap_orphans};

/// Time limit for threads that wait for something else than the peer, such as a reader of stdout that does not read.
const THREADS_END_WITHIN: Duration = Duration::from_secs(1);

/// How a command ended; maps to the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    Well,
    Usage,
    Partly,
    /// The user or another command interrupted it.
    Interrupted,
    /// Nobody reads what it prints any more.
    Unread,
    Failed(FailureKind),
}

/// What `work` comes to; `None` if the user does not want to wait for it.
async fn unless_stopped<T>(stop: &mut Stop, work: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        result = work => Some(result),
        () = stop.wait() => None,
    }
}

impl From<Ended> for ExitCode {
    fn from(ended: Ended) -> Self {
        Self::from(match ended {
            Ended::Well => 0,
            Ended::Usage => 2,
            Ended::Unread => EXIT_UNREAD,
            Ended::Partly | Ended::Interrupted => FailureKind::Failed.exit_code(),
            Ended::Failed(kind) => kind.exit_code(),
        })
    }
}

impl Program for Args {
    fn default_file() -> Option<PathBuf> {
        let folder = |name: &str| env::var_os(name).map(PathBuf::from).filter(|folder| folder.is_absolute());
        let folder = folder("XDG_CONFIG_HOME").or_else(|| folder("HOME").map(|home| home.join(".config")));
        folder.map(|folder| folder.join("nekop2p/peer.toml"))
    }

    fn common(&self) -> &CommonArgs {
        &self.common
    }

    fn tool(&self) -> Option<&Tool> {
        match &self.command {
            Some(Command::Tool(tool)) => Some(tool),
            _ => None,
        }
    }

    fn for_help(command: clap::Command) -> clap::Command {
        help::grouped(command)
    }

    fn for_completion(command: clap::Command) -> clap::Command {
        completion::of_names(command)
    }

    fn access(&mut self) -> &mut AccessArgs {
        &mut self.node.access
    }

    fn validate(&self) -> Result<(), String> {
        self.node.validate()
    }
}

/// Runs what the arguments say. Errors have been printed when it returns.
///
/// The runtime is started here, in the library: a future is compiled where it is first polled, and so
/// once for the program and all tests.
#[must_use]
pub fn execute(args: Args) -> ExitCode {
    let output = Output::new(args.node.json, args.node.quiet);
    let Args { node, command, common: _ } = args;
    let running = async {
        match command {
            Some(Command::Demo { size_mib }) => demo::run(size_mib).await,
            Some(Command::Id) => one_shot::id(&node, output),
            Some(Command::Repair) => repair::run(&node, output).await,
            Some(Command::Serve) => one_shot::serve(&node, output).await,
            Some(Command::Tool(_)) => Ok(Ended::Well), // carried out before
            Some(Command::Verb(verb)) => one_shot::run_verb(&node, verb, output).await,
            None => repl::run(&node, output).await,
        }
    };
    let ended = Runtime::new().map_err(anyhow::Error::from).and_then(|runtime| {
        runtime.spawn(reap_orphans());
        let ended = runtime.block_on(running);
        runtime.shutdown_timeout(THREADS_END_WITHIN);
        ended
    });
    ended.unwrap_or_else(|error| show::error(&error, output)).into()
}
