//! The `nekopeer` program.

use std::process::ExitCode;

use clap::Parser;
use nekopeer::cli;
use tracing_subscriber::EnvFilter;

#[tokio::main]
async fn main() -> ExitCode {
    let args = cli::Args::parse();
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn,tarpc=off"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    nekoproto::transport::raise_file_limit();
    cli::main(args).await.into()
}
