//! Who is there when the readers begin: an indexer, the origin, holders of copies, a hostile one.

use std::{
    collections::HashMap,
    fs,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, ensure};
use blake3::Hash;
use nekoproto::{FileName, Identity};
use tarpc::context;
use tokio::time::{Instant, sleep};

use super::{
    apart, files, hostile, node,
    process::Process,
    scenario::{Scenario, What},
    usage::now_s,
    wire::{Answer, Command},
};
use crate::cluster::{
    client::Client,
    node::{Node, Place},
};

/// The name of a large file.
const NAME: &str = "data.bin";
/// The folder of small ones.
const SMALL: &str = "small";
/// Where a peer keeps its key and its catalogue, in its folder.
const DATA: &str = ".neko";
/// How long the indexer may take to know all holders.
const LISTED_WITHIN: Duration = Duration::from_secs(30);
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(10);

/// All nodes but the readers; dropping it ends them.
#[derive(Debug)]
pub(super) struct Stage {
    pub(super) scenario: Scenario,
    folder: PathBuf,
    indexer: Node,
    asker: Client,
    pub(super) origin: Process,
    /// Holders of copies.
    pub(super) copies: Vec<Process>,
    hostile: Option<Process>,
    /// What the readers fetch, and what that must be.
    pub(super) goods: Vec<(String, Hash)>,
}

impl Stage {
    /// Makes the files in `folder`, starts the nodes, and waits until the indexer knows all holders. What
    /// was in the folder is gone.
    ///
    /// # Errors
    /// Something did not start; nothing is left running.
    pub(super) async fn start(scenario: &Scenario, place: &Place, folder: &Path) -> anyhow::Result<Self> {
        let place = Place { security: scenario.security, ..place.clone() };
        clear(folder)?;
        let indexer = place.indexer(0, (Ipv4Addr::LOCALHOST, 0).into(), Vec::new()).await?;
        let asker = Client::connect(indexer.addr(), Identity::generate(), scenario.security).await?;
        // The copies are not what is measured: they come as fast as they can.
        let capped = options(scenario, indexer.addr(), folder.join("origin"));
        let origin = Process::start("origin".to_owned(), &uncapped(capped)).await?;
        let (scenario, folder) = (scenario.clone(), folder.to_owned());
        // The origin is there before its files: it removes them should this process be killed.
        let goods = {
            let (scenario, folder) = (scenario.clone(), folder.clone());
            apart(move || make_goods(&scenario, &folder)).await?
        };
        let (copies, hostile) = (Vec::new(), None);
        let mut stage = Self { scenario, folder, indexer, asker, origin, copies, hostile, goods };
        stage.fill().await?;
        Ok(stage)
    }

    async fn fill(&mut self) -> anyhow::Result<()> {
        if matches!(self.scenario.what, What::Whole(_) | What::Change(..)) {
            self.publish().await?;
        }
        let honest = self.scenario.sources - usize::from(self.scenario.corrupt.is_some());
        for n in 1..honest {
            let options = uncapped(self.options(&format!("source-{n}")));
            let mut copy = Process::start(format!("source {n}"), &options).await?;
            self.listed(n).await?;
            copy.tell(&self.download(now_s())).await?;
            match copy.answer().await? {
                Answer::Downloaded(downloads) => {
                    ensure!(downloads.failed.is_empty(), "{}: {}", copy.label, downloads.failed.join("; "));
                }
                other => anyhow::bail!("{} says {other:?} after a download", copy.label),
            }
            self.copies.push(copy);
        }
        if self.scenario.cap_up.or(self.scenario.cap_down).is_some() {
            self.cap().await?;
        }
        if let Some(percent) = self.scenario.corrupt {
            let (file, name, seed) = (self.path(), NAME.to_owned(), self.scenario.seed);
            let hostile = Some(hostile::Options { file, name, percent, seed });
            let options = node::Options { hostile, ..self.options("hostile") };
            self.listed(honest).await?;
            self.hostile = Some(Process::start("hostile".to_owned(), &options).await?);
        }
        Ok(())
    }

    /// Starts origin and copies again, now with their caps, on what they have on disk.
    async fn cap(&mut self) -> anyhow::Result<()> {
        self.restart_origin().await?;
        for copy in &mut self.copies {
            copy.end().await?;
            let options = options(&self.scenario, self.indexer.addr(), copy.dir.clone());
            *copy = Process::start(copy.label.clone(), &options).await?;
        }
        Ok(())
    }

    /// Ends the origin and starts it again on what it has on disk.
    async fn restart_origin(&mut self) -> anyhow::Result<()> {
        self.origin.end().await?;
        self.start_origin().await
    }

    /// Ends the origin and starts one that has published nothing yet.
    pub(super) async fn fresh_origin(&mut self) -> anyhow::Result<()> {
        self.origin.end().await?;
        fs::remove_dir_all(self.origin.dir.join(DATA)).context("cannot remove what was published")?;
        self.start_origin().await
    }

    async fn start_origin(&mut self) -> anyhow::Result<()> {
        self.origin = Process::start("origin".to_owned(), &self.options("origin")).await?;
        Ok(())
    }

    /// Publishes what the readers fetch: how many files, in how many seconds.
    pub(super) async fn publish(&mut self) -> anyhow::Result<(usize, f64)> {
        let path = self.path();
        self.origin.publish(&path).await
    }

    /// Starts readers, with nothing in their folders.
    pub(super) async fn readers(&self) -> anyhow::Result<Vec<Process>> {
        let mut readers = Vec::new();
        for n in 1..=self.scenario.readers {
            let options = self.options(&format!("reader-{n}"));
            readers.push(Process::start(format!("reader {n}"), &options).await?);
        }
        Ok(readers)
    }

    /// Ends readers, and removes their folders.
    pub(super) async fn dismiss(&self, readers: Vec<Process>) -> anyhow::Result<()> {
        for mut reader in readers {
            let dir = reader.dir.clone();
            reader.end().await?;
            apart(move || Ok(fs::remove_dir_all(dir)?)).await?;
        }
        Ok(())
    }

    /// Waits until the indexer lists exactly the sources: readers that were there before are forgotten.
    pub(super) async fn settled(&self) -> anyhow::Result<()> {
        self.listed(self.scenario.sources).await
    }

    async fn listed(&self, holders: usize) -> anyhow::Result<()> {
        let Some((name, _)) = self.goods.last() else { return Ok(()) };
        let name = FileName::new(name)?;
        let deadline = Instant::now() + LISTED_WITHIN;
        loop {
            let reply = self.asker.calls.search(context::current(), name.clone()).await??;
            let listed = reply.hits.first().map_or(0, |hit| hit.holders.len());
            if listed == holders {
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "the indexer lists {listed} holders, not {holders}");
            sleep(LOOK_AGAIN_AFTER).await;
        }
    }

    /// The command that fetches all there is, beginning at `at_s`.
    pub(super) fn download(&self, at_s: f64) -> Command {
        Command::Download { names: self.goods.iter().map(|(name, _)| name.clone()).collect(), at_s }
    }

    /// What each node is called, the readers among them.
    pub(super) fn labels(&self, readers: &[Process]) -> HashMap<String, String> {
        let nodes = [&self.origin].into_iter().chain(&self.copies).chain(&self.hostile).chain(readers);
        nodes.map(|process| (process.node.clone(), process.label.clone())).collect()
    }

    /// The honest ones that send.
    pub(super) fn senders(&mut self) -> impl Iterator<Item = &mut Process> {
        [&mut self.origin].into_iter().chain(&mut self.copies)
    }

    /// The file that is published, or the folder.
    pub(super) fn path(&self) -> PathBuf {
        path_in(&self.scenario, &self.folder)
    }

    /// Bytes of all that one reader fetches.
    pub(super) fn bytes(&self) -> std::io::Result<u64> {
        let path = self.path();
        let file = |(name, _): &(String, Hash)| match self.scenario.what {
            What::Files { .. } => path.join(name),
            What::Whole(_) | What::Publish(_) | What::Change(..) => path.clone(),
        };
        self.goods.iter().map(|goods| Ok(fs::metadata(file(goods))?.len())).sum()
    }

    fn options(&self, dir: &str) -> node::Options {
        options(&self.scenario, self.indexer.addr(), self.folder.join(dir))
    }

    /// Ends all nodes.
    pub(super) async fn stop(self) -> anyhow::Result<()> {
        for mut process in [self.origin].into_iter().chain(self.copies).chain(self.hostile) {
            process.end().await?;
        }
        drop(self.asker);
        self.indexer.stop().await;
        Ok(())
    }
}

fn options(scenario: &Scenario, indexer: SocketAddr, dir: PathBuf) -> node::Options {
    let Scenario { security, cap_up, cap_down, .. } = *scenario;
    node::Options { dir, indexer, security, cap_up, cap_down, hostile: None }
}

fn uncapped(options: node::Options) -> node::Options {
    node::Options { cap_up: None, cap_down: None, ..options }
}

fn path_in(scenario: &Scenario, folder: &Path) -> PathBuf {
    let name = if matches!(scenario.what, What::Files { .. }) { SMALL } else { NAME };
    folder.join("origin").join(name)
}

/// Removes what an earlier scenario left.
fn clear(folder: &Path) -> anyhow::Result<()> {
    for left in fs::read_dir(folder)? {
        let left = left?.path();
        let removed = if left.is_dir() { fs::remove_dir_all(&left) } else { fs::remove_file(&left) };
        removed.with_context(|| format!("cannot remove {}", left.display()))?;
    }
    Ok(())
}

/// Makes the files of the origin; their names, and their hashes.
fn make_goods(scenario: &Scenario, folder: &Path) -> anyhow::Result<Vec<(String, Hash)>> {
    let path = path_in(scenario, folder);
    match scenario.what {
        What::Whole(bulk) | What::Publish(bulk) | What::Change(bulk, _) => {
            files::make(&path, bulk, scenario.seed).context("cannot make the file")?;
            // Nobody fetches what is only published.
            let fetched = !matches!(scenario.what, What::Publish(_));
            fetched.then(|| Ok((NAME.to_owned(), files::hash(&path)?))).into_iter().collect()
        }
        What::Files { count, bytes } => {
            let names = files::make_small(&path, count, bytes, scenario.seed).context("cannot make files")?;
            names.into_iter().map(|name| Ok((name.clone(), files::hash(&path.join(name))?))).collect()
        }
    }
}
