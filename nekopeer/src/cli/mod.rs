//! The command line: one-shot commands, the REPL and the demo. The only room that prints.

mod args;
mod demo;
mod indexers;
mod list;
mod outcome;
mod output;
mod pipes;
mod repl;
mod run;
mod show;
mod stop;
pub mod units;

use std::process::ExitCode;

pub use args::Args;

/// How a command ended; maps to the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Success.
    Well,
    /// No node offers the name.
    NotFound,
    /// The command line is wrong.
    Usage,
    /// Any other failure.
    Failed,
}

impl From<Ended> for ExitCode {
    fn from(ended: Ended) -> Self {
        Self::from(match ended {
            Ended::Well => 0,
            Ended::NotFound => 1,
            Ended::Usage => 2,
            Ended::Failed => 3,
        })
    }
}

/// Runs what the arguments say. Errors have been printed when it returns.
///
/// The runtime is started here, in the library: a future is compiled where it is first polled, and so
/// once for the program and all tests.
#[tokio::main]
pub async fn execute(args: Args) -> Ended {
    let output = output::Output::new(args.node.json);
    let ended = match &args.command {
        Some(args::Command::Demo { size_mib }) => demo::run(&output, *size_mib).await,
        Some(command) => run::one_shot(&args.node, command, &output).await,
        None => repl::run(&args.node, &output).await,
    };
    ended.unwrap_or_else(|error| {
        output.error(&error);
        Ended::Failed
    })
}
