//! The `nekopeer` program.

use std::process::ExitCode;

use nekoindexer::daemon::{allocator, logging, settings};
use nekopeer::cli;

#[global_allocator]
static ALLOCATOR: allocator::Global = allocator::GLOBAL;

fn main() -> ExitCode {
    let args: cli::Args = match settings::start() {
        Ok(args) => args,
        Err(ended) => return ended,
    };
    logging::start(&args.common.log);
    nekoproto::transport::raise_file_limit();
    cli::execute(args)
}
