//! Where the log of a program goes, and how much of it: stderr, as `RUST_LOG` asks.

use std::{env, io};

use tracing::warn;
use tracing_subscriber::{filter::Targets, fmt, prelude::*};

/// What is logged unless `RUST_LOG` asks for something else.
const FILTER_DEFAULT: &str = "warn,tarpc=off";

/// Starts the log. `RUST_LOG` holds levels, alone or for a target, separated by commas: `debug`, `warn,nekopeer=trace`.
/// Where it holds something else the log says so, and takes the default.
pub fn start() {
    let asked = env::var("RUST_LOG").unwrap_or_default();
    let parsed = if asked.is_empty() { FILTER_DEFAULT } else { &asked }.parse::<Targets>();
    let (filter, refused) = match parsed {
        Ok(filter) => (filter, None),
        Err(error) => (FILTER_DEFAULT.parse().unwrap_or_default(), Some(error)),
    };
    tracing_subscriber::registry().with(fmt::layer().with_writer(io::stderr)).with(filter).init();
    if let Some(error) = refused {
        warn!("RUST_LOG={asked:?} is ignored: {error}");
    }
}
