//! Tests with a real indexer: what it lists during a download.

use std::path::Path;

use nekoindexer::{Indexer, IndexerHandle};
use nekoproto::{Holder, Names, transport::call_within};
use tempfile::TempDir;
use testkit::{
    goods,
    network::{ANY_PORT, kept_port},
    proxy::Proxy,
    values::name,
};
use tokio::sync::broadcast;

use super::*;
use crate::{
    config::Config,
    peer::{Peer, PeerHandle},
    storage::catalogue::model_tests::copy_of,
};

const LIMIT: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(10);

fn record(version: u64) -> VerifiedRecord {
    goods::record(1, "a", version, |_| {})
}

async fn indexer(listen: std::net::SocketAddr) -> IndexerHandle {
    let config = nekoindexer::Config { listen, lease: Duration::from_secs(1), ..Default::default() };
    Indexer::spawn(config).await.unwrap()
}

struct ReaderPeer {
    folder: TempDir,
    peer: PeerHandle,
    events: broadcast::Receiver<Event>,
}

impl ReaderPeer {
    async fn start(indexer: &IndexerHandle) -> Self {
        Self::start_at(indexer.local_addr()).await
    }

    async fn start_at(indexer: std::net::SocketAddr) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let indexers = vec![indexer.into()];
        let config = Config { indexers, listen: Some(ANY_PORT), ..Config::new(folder.path()) };
        let peer = Peer::spawn(config).await.unwrap();
        let mut reader = Self { events: peer.events(), folder, peer };
        reader.registers(0).await;
        reader
    }

    async fn registers(&mut self, expected: usize) {
        loop {
            if let Event::Registered { files, .. } = self.events.recv().await.unwrap() {
                return assert_eq!(files, expected);
            }
        }
    }

    fn library(&self) -> &Arc<Library> {
        &self.peer.library
    }

    fn indexers(&self) -> &Arc<Indexers> {
        &self.peer.indexers
    }

    fn write(&self) -> std::path::PathBuf {
        let path = self.folder.path().join("a");
        std::fs::write(&path, b"content").unwrap();
        path
    }

    fn holds(&self, record: VerifiedRecord, path: &Path) {
        self.library().catalogue.put_copy(copy_of(record, path)).unwrap();
    }

    /// What its indexer lists: the version, and for each holder whether it is this peer and whether it is
    /// partial.
    async fn listed(&self) -> Option<(u64, Vec<(bool, bool)>)> {
        let answers = self.indexers().search_all(&[name("a")], 0, &via::Via::default()).await.unwrap();
        let answer = &answers[0];
        let found = answer.candidates.first()?;
        let holder = |holder: &Holder| (holder.node == self.peer.node(), holder.partial);
        Some((found.record.version.get(), found.holders.iter().map(holder).collect()))
    }

    async fn becomes(&self, listed: Option<(u64, Vec<(bool, bool)>)>) {
        while self.listed().await != listed {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

const OWN_PART: (bool, bool) = (true, true);
const OWN_WHOLE: (bool, bool) = (true, false);

#[testkit::test]
async fn part_is_registered_again_when_the_indexer_restarts_or_loses_it() {
    let first = indexer(ANY_PORT).await;
    let addr = first.local_addr();
    let mut reader = ReaderPeer::start(&first).await;
    reader.holds(record(1), &reader.write());
    reader.indexers().offer_part(&record(2)).await;
    first.shutdown().await;
    let second = indexer(addr).await;
    reader.registers(1).await;
    assert_eq!(reader.listed().await, Some((2, vec![OWN_PART])), "and not the older copy");
    let client = reader.indexers().sessions[0].link.client().unwrap();
    client.deregister(call_within(LIMIT), Names::first_of([name("a")])).await.unwrap().unwrap();
    reader.registers(1).await; // the renewal shows the missing name
    reader.becomes(Some((2, vec![OWN_PART]))).await;
    drop(second);
}

#[testkit::test]
async fn part_that_ends_while_it_is_registered_is_not_left_behind() {
    let indexer = indexer(ANY_PORT).await;
    let reader = ReaderPeer::start(&indexer).await;
    let (name, newer) = (name("a"), record(2));
    let both = async || {
        let indexers = reader.indexers();
        tokio::join!(indexers.offer_part(&newer), indexers.end_part(&name));
        reader.listed().await
    };
    for _ in 0..50 {
        assert_eq!(both().await, None);
    }
    reader.holds(record(1), &reader.write());
    for _ in 0..50 {
        assert_eq!(both().await, Some((1, vec![OWN_WHOLE])));
    }
}

/// Goal: what was read for a session that has ended takes nothing from the next one.
/// Method: one thread for all that blocks, and it is busy while the connection breaks and comes back.
#[test]
fn version_that_was_to_be_registered_when_the_connection_broke_is_registered_over_the_next() {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().max_blocking_threads(1).build().unwrap();
    let case = async {
        let indexer = indexer(ANY_PORT).await;
        let (_port, addr) = kept_port();
        let way = Proxy::begin(addr, indexer.local_addr());
        let mut reader = ReaderPeer::start_at(addr).await;
        reader.holds(record(1), &reader.write());
        let (free, busy) = std::sync::mpsc::channel::<()>();
        let blocking = tokio::task::spawn_blocking(move || busy.recv());
        let before = reader.library().tasks.tracker.len();
        reader.indexers().offer_soon(&[record(1)]);
        testkit::eventually(async || (reader.library().tasks.tracker.len() > before).then_some(())).await;
        drop(way);
        while !matches!(reader.events.recv().await.unwrap(), Event::Away { .. }) {}
        let _way = Proxy::begin(addr, indexer.local_addr());
        while !matches!(reader.events.recv().await.unwrap(), Event::Connected(_)) {}
        drop(free);
        assert!(blocking.await.unwrap().is_err());
        reader.becomes(Some((1, vec![OWN_WHOLE]))).await;
    };
    runtime.block_on(async { timeout(LIMIT, case).await }).unwrap();
}
