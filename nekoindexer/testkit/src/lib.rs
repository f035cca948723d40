//! For tests and measurements: a time limit, names and records, networks of indexers, made-up peers and indexers, and
//! nodes that break the rules.
//!
//! | room | what it holds |
//! |---|---|
//! | [`test`], [`run`], [`over_both`], [`eventually`] | a test with a runtime and a time limit; waiting for a state that sends no event |
//! | [`seeds`] | the seeds of a simulation |
//! | [`fuzz`] | a fuzz target and the replay of its corpus |
//! | [`values`] | identities, names, records, requests, the same for the same seed |
//! | [`network`] | real indexers on free ports, alone, in a line, in a mesh |
//! | [`peer`], [`fake`], [`service`] | a peer and an indexer that do what a test says |
//! | [`frames`], [`http`] | control frames and HTTP requests written by hand |
//! | [`goods`], [`holder`] | files, and who holds them, as peers see them |
//! | [`lan`] | hosts with networks between them, where programs run |
//! | [`program`] | a program that runs: its output, signals, its end |
//! | [`machine`] | probes for `nft`, `strace` and a browser, and leaves out the tests that need them |
//! | [`proxy`] | a connection that can be cut |
//! | [`rogue`] | nodes that attack |
#![allow(missing_docs, reason = "what a name says is not said again in a kit for tests")]
#![allow(clippy::unwrap_used, reason = "what a test needs and does not get fails it")]
#![allow(clippy::print_stderr, reason = "a test that fails shows it")]

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use nekoproto::transport::Security;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use tempfile::TempDir;
use tokio::{runtime::Builder, time::timeout};

pub mod fake;
pub mod frames;
mod fuzz;
pub mod goods;
pub mod holder;
pub mod http;
pub mod lan;
pub mod machine;
pub mod network;
pub mod peer;
mod prelude;
pub mod program;
pub mod proxy;
pub mod rogue;
mod seeds;
pub mod service;
pub mod values;

pub use self::{
    fuzz::fuzz,
    seeds::{Seeds, seeds},
};
pub use testkit_attribute::test;

/// Time limit of a test. It is longer than any test needs, also where many run side by side: one that takes longer
/// waits for what does not come.
pub const TEST_LIMIT: Duration = Duration::from_secs(120);
/// Deadline of calls that no test waits for.
pub const PATIENCE: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Runs a test on a runtime of one thread. `#[testkit::test]` calls it.
pub fn run<T>(case: impl Future<Output = T>) -> T {
    run_on(&mut Builder::new_current_thread(), case)
}

/// Runs a test on a runtime of two threads. `#[testkit::test(multi_thread)]` calls it.
pub fn run_on_threads<T>(case: impl Future<Output = T>) -> T {
    run_on(Builder::new_multi_thread().worker_threads(2), case)
}

fn run_on<T>(runtime: &mut Builder, case: impl Future<Output = T>) -> T {
    let runtime = runtime.enable_all().build().unwrap();
    let ended = runtime.block_on(async { timeout(TEST_LIMIT, case).await });
    ended.unwrap_or_else(|_| panic!("has not ended within {TEST_LIMIT:?}"))
}

/// Runs `case` over TLS, and then in the clear. `#[testkit::test]` before a function of one argument calls it.
pub fn over_both(case: impl Fn(Security)) {
    for security in [Security::Tls, Security::Insecure] {
        eprintln!("security: {security:?}");
        case(security);
    }
}

/// A folder that goes when it is dropped, and a path in it.
pub fn temp_path(name: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    (folder, path)
}

pub fn pipe(path: impl AsRef<Path>) {
    mknodat(CWD, path.as_ref(), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
}

/// Calls `look` every 10 ms until it returns `Some`, for a state that sends no event. The time limit of the test bounds
/// it.
pub async fn eventually<T>(look: impl AsyncFn() -> Option<T>) -> T {
    let mut looks = tokio::time::interval(LOOK_EVERY);
    loop {
        looks.tick().await;
        if let Some(seen) = look().await {
            return seen;
        }
    }
}
