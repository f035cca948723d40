//! What workers do: write, publish, note what was acknowledged, look up.

use std::fs::OpenOptions;

use super::{judge::Acknowledged, origin::Origin};
use crate::scenarios::prelude::*;

/// Names that a worker looks up after each of its publications.
const LOOKUPS_EACH: usize = 4;
/// From one end of the line of indexers to the other.
const TTL_HOPS: u8 = 2;
/// Pause of a worker that could not publish.
const AGAIN_AFTER: Duration = Duration::from_millis(100);
/// Of so many faults it is said what they were.
const FAULTS_KEPT: usize = 4;

/// The names of all workers of a network, and what is written under them.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    /// Of the network; in all bytes.
    pub(crate) label: &'static str,
    pub(crate) workers: usize,
    pub(crate) each: usize,
}

impl Names {
    pub(crate) const fn count(&self) -> usize {
        self.workers * self.each
    }

    pub(crate) fn text(&self, name: usize) -> String {
        format!("w{:03}/n{:03}", name / self.each, name % self.each)
    }

    pub(crate) fn index(&self, text: &str) -> Option<usize> {
        let (worker, name) = text.strip_prefix('w')?.split_once("/n")?;
        let (worker, name): (usize, usize) = (worker.parse().ok()?, name.parse().ok()?);
        (worker < self.workers && name < self.each).then(|| worker * self.each + name)
    }

    pub(crate) fn all(&self) -> Vec<String> {
        (0..self.count()).map(|name| self.text(name)).collect()
    }

    pub(crate) fn bytes(&self, name: usize, number: u64) -> String {
        format!("{} {} {number}\n", self.label, self.text(name))
    }

    /// The number in `bytes`, if they were written under `name` here.
    pub(crate) fn number(&self, name: usize, bytes: &str) -> Option<u64> {
        let number = bytes.rsplit_once(' ').and_then(|(_, number)| number.trim_end().parse().ok());
        number.filter(|number| self.bytes(name, *number) == bytes)
    }
}

/// What the workers of a network share.
pub(crate) struct Job {
    pub(crate) names: Names,
    pub(crate) dir: PathBuf,
    pub(crate) origin: Arc<Origin>,
    pub(crate) node: String,
    pub(crate) asker: Finder,
    /// Between two publications of a worker.
    pub(crate) every: Option<Duration>,
    pub(crate) stop: CancellationToken,
}

#[derive(Debug, Default)]
pub(crate) struct Done {
    /// How often each name of all was to be published; those of others: never.
    pub(crate) attempts: HashMap<usize, u64>,
    pub(crate) acknowledged: Vec<Acknowledged>,
    pub(crate) lookups: usize,
    /// Lookups without an answer, or with one that says itself that something is missing.
    pub(crate) unanswered: usize,
    /// Answers that call themselves complete without the version that was acknowledged, or a later one.
    pub(crate) older: usize,
    /// Answers with files of another origin.
    pub(crate) foreign: usize,
    pub(crate) failed: usize,
    pub(crate) faults: Vec<String>,
}

impl Done {
    pub(crate) fn add(&mut self, other: Self) {
        self.attempts.extend(other.attempts);
        self.acknowledged.extend(other.acknowledged);
        self.lookups += other.lookups;
        self.unanswered += other.unanswered;
        self.older += other.older;
        self.foreign += other.foreign;
        self.failed += other.failed;
        other.faults.into_iter().for_each(|fault| self.note(fault));
    }

    fn note(&mut self, fault: String) {
        if self.faults.len() < FAULTS_KEPT && !self.faults.contains(&fault) {
            self.faults.push(fault);
        }
    }
}

pub(crate) struct Worker {
    pub(crate) number: usize,
    pub(crate) job: Arc<Job>,
    pub(crate) rounds: u64,
    pub(crate) done: Done,
}

impl Worker {
    pub(crate) async fn run(mut self) -> Done {
        let job = Arc::clone(&self.job);
        let mut ticks = job.every.map(interval);
        while !job.stop.is_cancelled() {
            if let Some(ticks) = &mut ticks
                && job.stop.run_until_cancelled(ticks.tick()).await.is_none()
            {
                break;
            }
            if let Err(error) = self.publish().await {
                self.done.failed += 1;
                self.done.note(format!("{error:#}"));
                job.stop.run_until_cancelled(sleep(AGAIN_AFTER)).await;
                continue;
            }
            for _ in 0..LOOKUPS_EACH {
                self.look_up().await;
            }
        }
        self.done
    }

    /// Writes new bytes under all of its names, and publishes them.
    pub(crate) async fn publish(&mut self) -> Result<()> {
        let (job, number) = (Arc::clone(&self.job), self.rounds);
        self.rounds += 1;
        let names = self.number * job.names.each..(self.number + 1) * job.names.each;
        for name in names.clone() {
            *self.done.attempts.entry(name).or_default() += 1;
        }
        let (writer, written) = (Arc::clone(&job), names.clone());
        let write = move || -> io::Result<Vec<PathBuf>> {
            let write = |name| {
                let path = writer.dir.join(writer.names.text(name));
                // Later bytes are no fewer. Cut to nothing first, each file would go to disk as it is closed.
                let mut file = OpenOptions::new().write(true).create(true).truncate(false).open(&path)?;
                file.write_all(writer.names.bytes(name, number).as_bytes())?;
                Ok(path)
            };
            written.map(write).collect()
        };
        let paths = tokio::task::spawn_blocking(write).await?.context("cannot write a file")?;
        let begun_s = now_s();
        let versions = job.origin.publish(paths).await.map_err(anyhow::Error::msg)?;
        for name in names {
            let text = job.names.text(name);
            let version = *versions.get(&text).with_context(|| format!("{text} got no version"))?;
            self.done.acknowledged.push(Acknowledged { name, version, number, begun_s });
        }
        Ok(())
    }

    /// Looks up the next of its names: the answer must not be older than what was acknowledged.
    async fn look_up(&mut self) {
        let acknowledged = &self.done.acknowledged;
        let last =
            acknowledged[acknowledged.len() - self.job.names.each + self.done.lookups % self.job.names.each];
        self.done.lookups += 1;
        match self.job.asker.versions(&self.job.names.text(last.name)).await {
            Ok((hits, is_complete)) => {
                let own = hits.iter().filter(|(origin, _)| *origin == self.job.node);
                let newest = own.map(|(_, version)| *version).max();
                let is_older = newest.is_none_or(|newest| newest < last.version);
                self.done.older += usize::from(is_older && is_complete);
                self.done.unanswered += usize::from(is_older && !is_complete);
                self.done.foreign += usize::from(hits.iter().any(|(origin, _)| *origin != self.job.node));
            }
            Err(error) => {
                self.done.unanswered += 1;
                self.done.note(format!("{error:#}"));
            }
        }
    }
}

/// Who looks names up: a peer without files, or a client of the indexers' HTTP doors.
pub(crate) enum Finder {
    Native(Box<PeerHandle>),
    Rest(Vec<Http>),
}

impl Finder {
    /// The origins and versions that are found under a name, and whether these are all.
    async fn versions(&self, name: &str) -> Result<(Vec<(String, u64)>, bool)> {
        match self {
            Self::Native(peer) => {
                let answer = peer.query(&FileName::new(name)?, TTL_HOPS).await?;
                let records = answer.candidates.iter().map(|found| &found.record);
                let hits = records.map(|record| (record.origin.to_string(), record.version.get()));
                Ok((hits.collect(), answer.complete))
            }
            Self::Rest(doors) => {
                let path = format!("/api/v1/query?ttl={TTL_HOPS}&name={name}");
                let mut answer = Err(anyhow::Error::msg("nobody is asked"));
                for door in doors {
                    answer = door.json(&path).await;
                    if answer.is_ok() {
                        break;
                    }
                }
                let answer = &answer?["answers"][0];
                let hit = |hit: &Value| Some((hit["origin"].as_str()?.to_owned(), hit["version"].as_u64()?));
                let hits = answer["hits"].as_array().into_iter().flatten().filter_map(hit);
                Ok((hits.collect(), answer["complete"] == true))
            }
        }
    }
}
