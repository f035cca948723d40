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
mod listen;
mod one_shot;
mod reach;
mod repair;
mod repl;
mod run;
mod serving;
mod show;
mod verbs;

use std::{process::ExitCode, time::Duration};

pub use crate::terminal::units;
pub use args::Args;
use args::Command;
use tokio::runtime::Runtime;

use crate::{
    api::{Failure, FailureKind},
    terminal::Output,
};

/// Time limit for threads that wait for something else than the peer, such as a reader of stdout that does not read.
const THREADS_END_WITHIN: Duration = Duration::from_secs(1);

/// How a command ended; maps to the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// Success.
    Well,
    /// The command line is wrong.
    Usage,
    /// Failed for some of what was asked for.
    Partly,
    /// The user or another command interrupted it.
    Interrupted,
    /// Any other failure.
    Failed(FailureKind),
}

impl From<Ended> for ExitCode {
    fn from(ended: Ended) -> Self {
        Self::from(match ended {
            Ended::Well => 0,
            Ended::Usage => 2,
            Ended::Partly | Ended::Interrupted => FailureKind::Failed.exit_code(),
            Ended::Failed(kind) => kind.exit_code(),
        })
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
        let ended = runtime.block_on(running);
        runtime.shutdown_timeout(THREADS_END_WITHIN);
        ended
    });
    ended.unwrap_or_else(|error| show::failure(&Failure::of_any(&error), output)).into()
}
