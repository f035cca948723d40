//! The `nekopeer` program.

use std::process::ExitCode;

use clap::Parser;
use nekopeer::cli;

fn main() -> ExitCode {
    let args = cli::Args::parse();
    nekoindexer::logging::start();
    nekoproto::transport::raise_file_limit();
    cli::execute(args).into()
}
