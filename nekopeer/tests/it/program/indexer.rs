//! An indexer in a process of its own: this test program, started again.

use std::{env, net::SocketAddr, process::Command, thread};

use nekoindexer::{Config, Indexer};

/// Set for a process that is to be an indexer: its address and those of its neighbors.
const BE_INDEXER: &str = "NEKO_TEST_INDEXER";
pub(crate) const LISTENS: &str = "the indexer listens";

/// The process: it listens at the first of these addresses, and has the others as its neighbors.
pub(crate) fn an_indexer(addrs: &[SocketAddr]) -> Command {
    let addrs: Vec<_> = addrs.iter().map(ToString::to_string).collect();
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "program::indexer::be_an_indexer", "--nocapture"]);
    command.env(BE_INDEXER, addrs.join(","));
    command
}

/// Is an indexer until it is killed, if this process was started for that.
#[test]
fn be_an_indexer() {
    let Ok(text) = env::var(BE_INDEXER) else { return };
    let mut addrs = text.split(',').map(|addr| addr.parse().unwrap());
    let listen = addrs.next().unwrap();
    let config = Config { listen, neighbors: addrs.map(Into::into).collect(), ..Config::default() };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _indexer = runtime.block_on(Indexer::spawn(config)).unwrap();
    println!("{LISTENS}");
    loop {
        thread::park();
    }
}
