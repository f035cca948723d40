//! Who is there when the readers begin: an indexer, the origin, holders of copies, a hostile one.

use blake3::Hash;
use testkit::rogue::corrupt::Corruption;

use super::{case::Case, case::What, figures::ORIGIN};
use crate::cluster::request;
use crate::scenarios::prelude::*;

const NAME: &str = "data.bin";
const SMALL: &str = "small";
/// Where a peer keeps its key and its catalogue, in its folder.
const DATA: &str = ".neko";

/// All nodes but the readers; dropping it ends them.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) case: Case,
    net: Net,
    asker: Client,
    pub(crate) origin: Process,
    pub(crate) copies: Vec<Process>,
    hostile: Option<Process>,
    /// What the readers fetch, and what that must be.
    pub(crate) goods: Vec<(String, Hash)>,
}

impl Stage {
    /// Makes the files in the folder of nodes, starts the nodes, and waits until the indexer knows all holders. What
    /// was in the folder is gone. If something does not start, nothing is left running.
    pub(crate) async fn start(case: &Case, deployment: &Deployment) -> Result<Self> {
        let deployment = Deployment { security: case.security, ..deployment.clone() };
        clear(&deployment.folder)?;
        let net = Net::single(&deployment).await?;
        let asker = net.client(0, Identity::generate()).await?;
        // The copies are not what is measured: they come as fast as they can.
        let uncapped = Case { cap_up: None, cap_down: None, ..case.clone() };
        let origin = start(&net, ORIGIN, &uncapped).await?;
        let (case, of, folder) = (case.clone(), case.clone(), deployment.folder);
        // The origin is there before its files: it removes them should this process be killed.
        let goods = apart(move || make_goods(&of, &folder)).await?;
        let (copies, hostile) = (Vec::new(), None);
        let mut stage = Self { case, net, asker, origin, copies, hostile, goods };
        stage.fill().await?;
        Ok(stage)
    }

    async fn fill(&mut self) -> Result<()> {
        if matches!(self.case.what, What::Whole(_) | What::Change(..)) {
            self.publish().await?;
        }
        let uncapped = Case { cap_up: None, cap_down: None, ..self.case.clone() };
        let honest = self.case.sources - usize::from(self.case.corrupt.is_some());
        for n in 1..honest {
            let mut copy = start(&self.net, &format!("source {n}"), &uncapped).await?;
            self.listed(n).await?;
            let failed = copy.call::<Downloads>(&self.download(now_s())).await?.failed;
            ensure!(failed.is_empty(), "{}: {}", copy.label, failed.join("; "));
            self.copies.push(copy);
        }
        if self.case.cap_up.or(self.case.cap_down).is_some() {
            // Again, now with their caps, on what they have on disk.
            for node in [&mut self.origin].into_iter().chain(&mut self.copies) {
                node.end().await?;
                *node = start(&self.net, &node.label, &self.case).await?;
            }
        }
        if let Some(percent) = self.case.corrupt {
            let (file, name, seed) = (self.path(), NAME.to_owned(), self.case.seed);
            let corruption = Corruption { file, name, percent, seed, per_s: self.case.cap_up };
            self.listed(honest).await?;
            let role = Role::Corrupt(self.net.addr(0), corruption);
            self.hostile = Some(self.net.deployment.process("hostile", role).await?);
        }
        Ok(())
    }

    /// Ends the origin and starts one that has published nothing yet.
    pub(crate) async fn fresh_origin(&mut self) -> Result<()> {
        self.origin.end().await?;
        fs::remove_dir_all(self.origin.dir.join(DATA)).context("cannot remove what was shared")?;
        self.origin = start(&self.net, ORIGIN, &self.case).await?;
        Ok(())
    }

    /// Publishes what the readers fetch: how many files, in how many seconds.
    pub(crate) async fn publish(&mut self) -> Result<(usize, f64)> {
        let path = self.path();
        self.origin.call(&Request::Publish(path)).await
    }

    /// Starts readers, with nothing in their folders.
    pub(crate) async fn readers(&self) -> Result<Vec<Process>> {
        let mut readers = Vec::new();
        for n in 1..=self.case.readers {
            readers.push(start(&self.net, &format!("reader {n}"), &self.case).await?);
        }
        Ok(readers)
    }

    pub(crate) async fn dismiss(&self, readers: Vec<Process>) -> Result<()> {
        for mut reader in readers {
            let dir = reader.dir.clone();
            reader.end().await?;
            apart(move || Ok(fs::remove_dir_all(dir)?)).await?;
        }
        Ok(())
    }

    /// Waits until the indexer lists exactly this number of holders: earlier readers are forgotten.
    pub(crate) async fn listed(&self, holders: usize) -> Result<()> {
        let Some((name, _)) = self.goods.last() else { return Ok(()) };
        let name = FileName::new(name)?;
        let listed = async || {
            let reply = self.asker.calls.query(context::current(), request(&name, 0)).await??;
            let listed = reply.hits.first().map_or(0, |hit| hit.holders.len());
            Ok((listed != holders).then(|| format!("the indexer lists {listed} holders, not {holders}")))
        };
        until(LINKED_WITHIN, listed).await
    }

    pub(crate) fn download(&self, at_s: f64) -> Request {
        Request::Download { names: self.goods.iter().map(|(name, _)| name.clone()).collect(), at_s }
    }

    pub(crate) fn labels(&self, readers: &[Process]) -> HashMap<String, String> {
        let nodes = [&self.origin].into_iter().chain(&self.copies).chain(&self.hostile).chain(readers);
        nodes.map(|process| (process.node.clone(), process.label.clone())).collect()
    }

    /// The honest ones that send.
    pub(crate) fn senders(&mut self) -> impl Iterator<Item = &mut Process> {
        [&mut self.origin].into_iter().chain(&mut self.copies)
    }

    /// The file that is published, or the folder.
    pub(crate) fn path(&self) -> PathBuf {
        path_in(&self.case, &self.net.deployment.folder)
    }

    /// Bytes of all that one reader fetches.
    pub(crate) fn bytes(&self) -> io::Result<u64> {
        let path = self.path();
        self.goods.iter().map(|(name, _)| Ok(fs::metadata(path.with_file_name(name))?.len())).sum()
    }

    pub(crate) async fn stop(self) -> Result<()> {
        for mut process in [self.origin].into_iter().chain(self.copies).chain(self.hostile) {
            process.end().await?;
        }
        drop(self.asker);
        self.net.stop().await;
        Ok(())
    }
}

async fn start(net: &Net, label: &str, case: &Case) -> Result<Process> {
    let &Case { cap_up, cap_down, by_news: refetches, .. } = case;
    let peer = PeerOptions { cap_up, cap_down, refetches, ..net.peers(0).options(label) };
    net.deployment.process(label, Role::Peer(peer)).await
}

fn path_in(case: &Case, folder: &Path) -> PathBuf {
    let name = if matches!(case.what, What::Files { .. }) { SMALL } else { NAME };
    folder.join(ORIGIN).join(name)
}

/// Removes what an earlier case left.
fn clear(folder: &Path) -> Result<()> {
    for left in fs::read_dir(folder)? {
        let left = left?.path();
        let removed = if left.is_dir() { fs::remove_dir_all(&left) } else { fs::remove_file(&left) };
        removed.with_context(|| format!("cannot remove {}", left.display()))?;
    }
    Ok(())
}

/// Makes the files of the origin; their names, and their hashes.
fn make_goods(case: &Case, folder: &Path) -> Result<Vec<(String, Hash)>> {
    let path = path_in(case, folder);
    match case.what {
        What::Whole(bulk) | What::Publish(bulk) | What::Change(bulk, _) => {
            files::make(&path, bulk, case.seed).context("cannot make the file")?;
            // Nobody fetches what is only published.
            let fetched = !matches!(case.what, What::Publish(_));
            fetched.then(|| Ok((NAME.to_owned(), files::hash(&path)?))).into_iter().collect()
        }
        What::Files { count, bytes } => {
            let names = files::make_small(&path, count, bytes, case.seed).context("cannot make files")?;
            names
                .into_iter()
                .map(|name| Ok((format!("{SMALL}/{name}"), files::hash(&path.join(name))?)))
                .collect()
        }
    }
}
