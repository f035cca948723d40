//! The log of a program: to stderr, as much of it and in the form that its flags ask for.

use std::{
    env,
    io::{self, Write},
};

use clap::ValueEnum;
use tracing::warn;
use tracing_subscriber::{Layer, filter::Targets, fmt, prelude::*};

use crate::visible::visible;

/// What is logged unless something else is asked for.
const FILTER_DEFAULT: &str = "warn";
/// Whose lines are not ours, and only logged if they are asked for by name.
const FILTER_OTHERS: &str = "tarpc=off";

/// What is logged, and how.
#[derive(Clone, Debug, clap::Args)]
pub struct LogArgs {
    /// What is logged to stderr: off, error, warn, info, debug or trace, for all or for a part
    /// (warn,nekopeer=debug) [default: RUST_LOG, else warn]
    #[arg(long, global = true, hide_short_help = true, help_heading = "Configuration and log", value_name = "LEVEL", value_parser = filter)]
    pub log: Option<String>,
    /// How it is logged
    #[arg(
        long,
        global = true,
        hide_short_help = true,
        help_heading = "Configuration and log",
        value_name = "FORMAT",
        default_value = "human"
    )]
    pub log_format: LogFormat,
}

/// How a line of the log looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Lines for people
    Human,
    /// One JSON object in each line
    Json,
}

/// Stderr, for whole lines: each is [`visible`] in one.
struct Visible;

impl Write for Visible {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        writeln!(io::stderr().lock(), "{}", visible(text.trim_end_matches('\n')))?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Checks what is to be logged.
fn filter(text: &str) -> Result<String, String> {
    let wrong =
        |error| format!("{error}: expected a level such as debug, or a list such as warn,nekopeer=debug");
    text.parse::<Targets>().map(|_| text.to_owned()).map_err(wrong)
}

/// Starts the log. Where `RUST_LOG` decides and holds no levels, the log says so, and takes the default.
pub fn start(args: &LogArgs) {
    let variable = env::var("RUST_LOG").ok().filter(|asked| !asked.is_empty());
    let asked = args.log.clone().or(variable);
    let parsed = asked.as_deref().unwrap_or(FILTER_DEFAULT);
    let parsed = format!("{FILTER_OTHERS},{parsed}").parse::<Targets>();
    let (filter, refused) = match parsed {
        Ok(filter) => (filter, None),
        Err(error) => (Targets::new().with_default(tracing::Level::WARN), Some(error)),
    };
    let lines = match args.log_format {
        LogFormat::Human => fmt::layer().with_writer(|| Visible).boxed(),
        LogFormat::Json => fmt::layer().with_writer(io::stderr).json().flatten_event(true).boxed(),
    };
    tracing_subscriber::registry().with(lines.with_filter(filter)).init();
    if let Some(error) = refused {
        warn!("RUST_LOG={:?} is ignored: {error}", asked.unwrap_or_default());
    }
}
