//! A small network of real processes that is watched while something is done to it: indexers, a peer that
//! shares files, readers that get them, and clients that ask at a steady rate.

pub mod load;

use tokio::time::Instant;

use self::load::{Caller, Found, Inquiry, Target};
use crate::cluster::deployment::Deployment;
use crate::cluster::net::Net;
use crate::node::{Downloads, Request, process::Process};
use crate::plan::{topology::Graph, workload::sign_record};
use crate::prelude::*;
use crate::report::{machine, mib};
use crate::run::files;
use crate::run::watch::{LINKED_WITHIN, until};

/// Files that readers get, one after the other.
pub(crate) const FILES: usize = 300;
const FILE_BYTES: u64 = 64 << 10;
/// The folder that they are published from, and how their names begin.
const SHARED: &str = "small";
/// The file that is larger than what sockets hold.
const LARGE: &str = "large.bin";
const LARGE_BYTES: u64 = 48 << 20;
const CLIENTS: usize = 4;
/// What a search looks for: it is in the names that are registered at the indexers, and in no other.
const FOUND_BY: &str = "honest-file";
/// Pause before who was cut off registers again.
const REGISTERS_AGAIN_AFTER: Duration = Duration::from_millis(250);

/// Running nodes; dropping it ends them.
pub(crate) struct Arena {
    /// All of them name each other as neighbors; the first one is asked, and answers over HTTP.
    pub(crate) net: Net,
    pub(crate) peers: Vec<Process>,
    /// Who have registered something; dropped, they leave.
    pub(crate) registered: Vec<AbortOnDropHandle<()>>,
    pub(crate) load: Arc<Inquiry>,
}

impl Arena {
    /// Starts this number of indexers, as users get them, with a file registered at each, and clients at the first.
    pub(crate) async fn start(deployment: &Deployment, indexers: usize) -> Result<Self> {
        let deployment = Deployment { by_default: true, ..deployment.clone() };
        let net = Net::start(&deployment, &Graph::mesh(indexers), 1).await?;
        let askers = (0..CLIENTS).map(|_| Caller::new(net.peers(0))).collect();
        let load = Arc::new(Inquiry::new(askers));
        let (peers, registered) = (Vec::new(), Vec::new());
        let mut arena = Self { net, peers, registered, load };
        let mut all = Vec::new();
        for n in 0..indexers {
            let target = arena.register(n, &file_at(n)).await?;
            arena.found(&target, LINKED_WITHIN).await?;
            all.extend(target.held.clone());
            arena.load.add(target);
        }
        arena.load.add(Target::missing("nobody/file.bin"));
        arena.load.add(Target::searched(FOUND_BY, all)?);
        Ok(arena)
    }

    /// Registers a file at indexer `n`, whether or not it is listed there.
    pub(crate) async fn register(&mut self, n: usize, name: &str) -> Result<Target> {
        let mut targets = self.register_all(n, &[name.to_owned()]).await?;
        targets.pop().context("a file that is registered")
    }

    /// Registers files of one peer at indexer `n`, again when it was cut off, whether or not they are listed there.
    pub(crate) async fn register_all(&mut self, n: usize, names: &[String]) -> Result<Vec<Target>> {
        let (at, identity) = (self.net.peers(n), Identity::generate());
        let records: Vec<_> = names.iter().map(|name| sign_record(&identity, name).to_signed()).collect();
        let mut client = at.client(identity.clone()).await?;
        let holder = client.holder;
        let targets = records.iter().map(|record| Target::held(record.clone(), holder)).collect();
        let mut is_listed = client.register_all(&records).await.is_ok();
        self.registered.push(AbortOnDropHandle::new(tokio::spawn(async move {
            loop {
                // Who is cut off, or has files that are not listed, tries again as real peers do. What is asked meanwhile must
                // not be called complete.
                tokio::select! {
                    () = client.ended() => {
                        is_listed = false;
                        while let Err(_refused) = at.client(identity.clone()).await.map(|new| client = new) {
                            sleep(REGISTERS_AGAIN_AFTER).await;
                        }
                    }
                    () = sleep(REGISTERS_AGAIN_AFTER), if !is_listed => {
                        is_listed = client.register_all(&records).await.is_ok();
                    }
                }
            }
        })));
        Ok(targets)
    }

    pub(crate) async fn found(&self, target: &Target, within: Duration) -> Result<()> {
        let look = async || {
            let (found, _) = self.load.askers[0].ask(target, Instant::now()).await;
            Ok((found != Found::Right).then(|| format!("it is not found: {target:?}")))
        };
        until(within, look).await
    }

    /// Starts the peer that shares the files, at the last indexer; their names, the large one first.
    pub(crate) async fn share(&mut self) -> Result<Vec<String>> {
        let mut peer = self.net.peers(self.net.nodes.len() - 1).start("seeder").await?;
        let (shared, large) = (peer.dir.join(SHARED), peer.dir.join(LARGE));
        let names = tokio::task::spawn_blocking(move || {
            let size = files::Bulk { size: LARGE_BYTES, sparse: false };
            files::make(&large, size, 1)?;
            files::make_small(&shared, FILES, (FILE_BYTES, FILE_BYTES), 2)
        });
        let names = names.await??.into_iter().map(|name| format!("{SHARED}/{name}"));
        for path in [LARGE, SHARED] {
            peer.call::<(usize, f64)>(&Request::Publish(peer.dir.join(path))).await?;
        }
        self.peers.push(peer);
        Ok([LARGE.to_owned()].into_iter().chain(names).collect())
    }

    /// What the system calls the processes of all nodes.
    pub(crate) fn ids(&self) -> Vec<(String, u32)> {
        let indexers = (0..).zip(&self.net.nodes);
        let indexers =
            indexers.filter_map(|(n, node)| Some((format!("indexer {n}"), node.of_process(Some)?)));
        let peers = self.peers.iter().filter_map(|peer| Some((peer.label.clone(), peer.id()?)));
        indexers.chain(peers).collect()
    }

    pub(crate) fn memory_mib(&self) -> HashMap<u32, f64> {
        let of = |(_, pid)| Some((pid, mib(machine::rss_bytes(pid)?)));
        self.ids().into_iter().filter_map(of).collect()
    }

    /// Ends all nodes, and removes their files.
    pub(crate) async fn stop(self) {
        for mut peer in self.peers {
            peer.kill().await;
        }
        let folder = self.net.deployment.folder.clone();
        self.net.stop().await;
        for left in fs::read_dir(folder).into_iter().flatten().flatten() {
            // The folder of the run is removed at its end.
            let _ = fs::remove_dir_all(left.path());
        }
    }
}

pub(crate) fn file_at(n: usize) -> String {
    format!("indexer-{n}/{FOUND_BY}.bin")
}

/// Gets a file of the seeder that `reader` does not have yet, and compares all bytes; `Err`: what went wrong.
pub(crate) async fn get(reader: &mut Process, seeder_dir: &Path, name: &str) -> Result<()> {
    let request = Request::Download { names: vec![name.to_owned()], at_s: 0.0 };
    let downloads: Downloads = reader.call(&request).await?;
    ensure!(downloads.failed.is_empty(), "{}", downloads.failed.join("; "));
    let [true_one, copy] = [seeder_dir, &reader.dir].map(|dir| dir.join(name));
    let is_same = move || Ok(files::is_right(&copy, &files::hash(&true_one)?)?);
    ensure!(files::apart(is_same).await?, WRONG);
    Ok(())
}

pub(crate) const WRONG: &str = "the file is not the one that was shared";
