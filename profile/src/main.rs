//! The profiler as a program.

use std::{io::Write, process::ExitCode};

use clap::Parser;
use profile::args::{Args, Command};

#[tokio::main]
async fn main() -> ExitCode {
    let Command::Query(query) = Args::parse().command;
    let ended = match query.scenario() {
        Ok(scenario) => profile::report::run_and_report(&query, &scenario).await.map_err(|error| (3, error)),
        Err(error) => Err((2, error)),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err((code, error)) => {
            // Nobody is left to tell if stderr is closed.
            let _ = writeln!(std::io::stderr(), "profile: {error:#}");
            ExitCode::from(code)
        }
    }
}
