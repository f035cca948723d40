//! The `nekopeer` program.

use std::process::ExitCode;

use nekoindexer::daemon::{logging, settings};
use nekopeer::cli;

fn main() -> ExitCode {
    let args: cli::Args = match settings::start() {
        Ok(args) => args,
        Err(ended) => return ended,
    };
    logging::start(&args.common.log);
    nekoproto::transport::raise_file_limit();
    cli::execute(args)
}
