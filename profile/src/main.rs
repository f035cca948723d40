//! The profiler as a program.

use std::{io::Write, process::ExitCode};

use clap::Parser;
use nekoindexer::daemon::allocator;
use profile::scenarios::{self, Args};

#[global_allocator]
static ALLOCATOR: allocator::Global = allocator::GLOBAL;

fn main() -> ExitCode {
    match scenarios::run(&Args::parse()) {
        Ok(outcome) => ExitCode::from(outcome as u8),
        Err(fault) => {
            let (code, error) = fault.parts();
            // Nobody is left to tell if stderr is closed.
            let _ = writeln!(std::io::stderr(), "profile: {error:#}");
            ExitCode::from(code)
        }
    }
}
