//! Processes of this program: what one can be, and what it and whoever started it say to each other: a JSON
//! object in each line, requests on its stdin, responses on its stdout.

pub(crate) mod http;
pub(crate) mod process;
pub mod reader;
pub(crate) mod serve;
pub mod usage;

use std::sync::{MutexGuard, PoisonError};

use nekopeer::{Config, Peer};
use nekoproto::{NetworkName, transport::Access, transport::NetworkSecret};
use testkit::rogue::{Order, corrupt::Corruption};

use crate::prelude::*;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Options {
    pub(crate) role: Role,
    pub insecure: bool,
    /// Threads, unless it is a peer: those have one on each core.
    pub threads: NonZeroUsize,
    /// What it logs, and into which file; `None`: nothing.
    pub log: Option<(String, PathBuf)>,
    /// The network it belongs to, unless it is the open one.
    pub network: Option<Private>,
    pub http: Option<SocketAddr>,
}

/// A private network: its name, and what all its nodes have to know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Private {
    pub(crate) name: String,
    pub(crate) secret: String,
}

pub(crate) fn network(of: Option<&Private>) -> Result<(NetworkName, Access)> {
    let Some(Private { name, secret }) = of else { return Ok(Default::default()) };
    let secret = Some(NetworkSecret::new(secret.as_bytes())?);
    Ok((NetworkName::try_from(name.clone())?, Access { secret, ..Access::default() }))
}

/// Starts a peer; returns when it has tried its indexers.
pub(crate) async fn start_peer(config: Config) -> Result<PeerHandle> {
    let peer = Peer::spawn(config).await?;
    peer.indexers_tried().await;
    Ok(peer)
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Role {
    Indexer {
        neighbors: Vec<SocketAddr>,
        /// Queries go to all neighbors.
        flood: bool,
        /// With the memory and the leases that users get.
        by_default: bool,
    },
    /// Sends every byte back, or answers calls with what they carry.
    Echo { raw: bool },
    /// Publishes and downloads as it is asked to.
    Peer(PeerOptions),
    /// Serves a file of which it corrupts some chunks, and is registered with this indexer.
    Corrupt(SocketAddr, Corruption),
    /// Does what no honest node does.
    Rogue(Order),
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct PeerOptions {
    /// Its folder, in the folder of the run, which is removed when whoever started it is gone.
    pub dir: PathBuf,
    pub(crate) indexers: Vec<SocketAddr>,
    /// File bytes a second that it sends at most.
    pub cap_up: Option<NonZeroU64>,
    /// File bytes a second that it fetches at most.
    pub cap_down: Option<NonZeroU64>,
    /// It downloads newer versions of its copies by itself.
    pub refetches: bool,
}

/// What a process is asked to do. It ends when its stdin closes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Request {
    Publish(PathBuf),
    Download {
        names: Vec<String>,
        /// When to begin, by [`now_s`](usage::now_s).
        at_s: f64,
    },
    /// Wait until a newer version of a copy is in its place, by news of it. Answers once more, before, when it waits.
    Await,
    /// Say what was counted of route probes, and how many tasks run.
    Probes,
    /// Note from now on which newer versions of copies it is told of; [`Arrived`](Self::Arrived) tells.
    Follow {
        /// Milliseconds that each message takes.
        pause_ms: u64,
    },
    /// Tell what came since this was asked last.
    Arrived,
    /// Say which versions of these names are held, and are known.
    Held(Vec<String>),
    /// Forget what was taken so far.
    Reset,
    /// Say what was taken since then.
    Usage,
    /// Withdraw what was registered, and end. What is on disk stays.
    End,
}

/// What is responded to each request, and once when the process is ready: the value, or why there is none.
///
/// Ready: [`Started`]; publish: the number of files, and seconds; download: [`Downloads`]; await: nothing, then [`Downloads`];
/// arrived: [`Arrivals`](reader::Arrivals); held: [`Versions`](reader::Versions) of each; usage: [`Usage`](usage::Usage), or why a rogue node gave
/// up; probes: [`Probes`]; follow, reset and end: nothing.
pub(crate) type Response<T> = Result<T, String>;

/// What an indexer counted of route probes, and its tasks.
pub(crate) type Probes = (ProbeCounts, usize);

/// A node, where it listens, and where it answers over HTTP.
pub(crate) type Started = (String, SocketAddr, Option<SocketAddr>);

/// What came of the downloads of one reader.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Downloads {
    /// When the last of them ended, by [`now_s`](usage::now_s).
    pub ended_s: f64,
    pub sources: Vec<Sent>,
    /// The bytes that had come by then, sampled.
    pub moments: Vec<Moment>,
    /// Why single ones failed.
    pub failed: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sent {
    /// The source: its node, or what that is called.
    pub source: String,
    /// File bytes, useless ones included.
    pub bytes: u64,
    /// It was proved to lie.
    pub banned: bool,
}

impl Sent {
    /// Adds this to what its source sent already, in `sum`.
    pub fn add_to(self, sum: &mut Vec<Self>) {
        match sum.iter_mut().find(|sent| sent.source == self.source) {
            Some(sent) => {
                sent.bytes += self.bytes;
                sent.banned |= self.banned;
            }
            None => sum.push(self),
        }
    }
}

/// What had come from each source at a moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Moment {
    /// When, by [`now_s`](usage::now_s).
    pub at_s: f64,
    /// Sources, and bytes so far.
    pub bytes: Vec<(String, u64)>,
}

/// What is in `mutex`, also if a thread panicked with it: it is whole at any time.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
