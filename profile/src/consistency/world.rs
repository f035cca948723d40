//! One simulation: a folder that publishes a file, readers that keep copies of it, and indexers between them. Who sends what to
//! whom when is as in the shell of the nodes; what they decide is their own code.

mod mishaps;
mod peers;
mod post;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use nekoindexer::state::index::Session;
use nekopeer::simulate::{Act, Disk, Folder, Question, Reader};
use nekoproto::{
    Covered, FileName, Freshness, Holder, InvalidateRequest, MsgId, Records, RegisterRequest, SignedRecord,
    Verdict, VerifiedRecord, Verifier, codec, limits::TTL_DEFAULT,
};
use rand::{RngExt, SeedableRng, rngs::StdRng, seq::SliceRandom};
use serde::Serialize;

use super::link::{Link, Queue, exponential};
use super::network::{Indexer, Told, holder, identity, peer_at};
use super::setting::{Mishaps, Setting};
use super::tally::{Tally, Traffic};
use crate::plan::topology::{Graph, TopologyError};

/// As in the shell: the time for a peer to answer, for an indexer to acknowledge before subscribers are told anyway, and
/// between renewals of a lease.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);
const HANGS_AFTER: Duration = Duration::from_secs(1);
/// How long a publish waits for the network to say which versions it knows.
const ASKING_MAX: Duration = Duration::from_secs(1);
/// The longest pause before subscribers are told again.
const AGAIN_MAX: Duration = Duration::from_secs(10);
const AGAIN_MIN: Duration = Duration::from_millis(250);
/// Indexers are told after so many times.
const SPREAD_AFTER: u32 = 2;
const RENEW_EVERY: Duration = Duration::from_secs(10);
/// The peer that publishes; the others are readers.
const FOLDER: usize = 0;
/// Neighbors of each indexer in a random topology.
const DEGREE: usize = 4;
/// Time away, as a part of the time that a node is there.
const AWAY_PART: u32 = 4;
/// Where the figures begin: until then all register, and confirm for the first time.
const WARM_UP_MIN: Duration = Duration::from_secs(30);

enum Event {
    ToIndexer(usize, ToIndexer),
    ToPeer(usize, ToPeer),
    /// The peer may have something to do.
    Wakes(usize),
    /// A question or a download (true) with this number was not answered.
    GivesUp(usize, u64, bool),
    /// Subscribers are told although the indexer did not answer.
    Announces(usize),
    /// Subscribers that did not acknowledge a version are told again, in this life of the peer; the indexers too after
    /// the first time.
    TellsAgain(usize, usize, VerifiedRecord, u32),
    Renews(usize, usize),
    Publishes,
    Reads(usize),
    Comes(usize),
    Goes(usize),
    Mishap,
    Begins,
}

#[derive(Clone)]
enum ToIndexer {
    /// Calls of this life of the peer: what was sent before it went is not carried on.
    Register {
        peer: usize,
        life: usize,
        record: VerifiedRecord,
        is_new: bool,
        announce: bool,
    },
    Renew {
        peer: usize,
        life: usize,
    },
    Invalidate(InvalidateRequest),
}

#[derive(Clone)]
enum ToPeer {
    News(SignedRecord),
    /// News from a folder, which waits for the acknowledgement.
    Told {
        from: usize,
        record: VerifiedRecord,
    },
    Acknowledged {
        from: usize,
        record: VerifiedRecord,
    },
    Registered {
        life: usize,
        record: VerifiedRecord,
        newer: Option<SignedRecord>,
    },
    Renewed {
        life: usize,
        is_listed: bool,
    },
    Confirm {
        from: usize,
        call: u64,
        question: Question,
    },
    Confirmed {
        call: u64,
        question: Question,
        verdict: Verdict,
    },
    Fetch {
        from: usize,
        call: u64,
    },
    Fetched {
        call: u64,
        record: Option<SignedRecord>,
    },
}

enum Role {
    Folder { folder: Box<Folder>, backups: Vec<Disk>, announcing: Option<VerifiedRecord> },
    Reader(Box<Reader>),
}

struct Peer {
    role: Role,
    home: usize,
    /// How often it has come.
    lives: usize,
    /// Its connection to the indexer, while it is there.
    session: Option<Arc<Session>>,
    is_listed: bool,
    /// The question and the download under way, by their numbers.
    asks: Option<(u64, Question)>,
    fetches: Option<u64>,
    wake_at: Option<Duration>,
}

struct World {
    setting: Setting,
    /// The indexers that a query at each gets to.
    near: Vec<Vec<usize>>,
    base: Instant,
    name: FileName,
    queue: Queue<Event>,
    rng: StdRng,
    verifier: Arc<Verifier>,
    indexers: Vec<Indexer>,
    peers: Vec<Peer>,
    /// When each version was committed, and all records that were ever published.
    committed: Vec<Duration>,
    history: Vec<VerifiedRecord>,
    newest: u64,
    calls: u64,
    tally: Tally,
}

/// Runs one simulation.
///
/// # Errors
/// Indexers cannot be linked so, or the system gives no runtime.
pub fn run(setting: &Setting, seed: u64) -> anyhow::Result<Tally> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let _within = runtime.enter(); // the tables of message ids need a timer, though nobody waits for it
    let mut world = World::new(setting.clone(), seed)?;
    while let Some(event) = world.queue.next(setting.lasts) {
        world.happens(event);
    }
    Ok(world.tally)
}

impl World {
    fn new(setting: Setting, seed: u64) -> Result<Self, TopologyError> {
        let graph = Graph::new(setting.topology, setting.indexers, DEGREE, seed)?;
        let (mut rng, base) = (StdRng::seed_from_u64(seed), Instant::now());
        let verifier = Arc::<Verifier>::default();
        #[expect(clippy::expect_used, reason = "a constant")]
        let name = FileName::new("a").expect("a name");
        let new = || Folder::new(identity(0).clone(), name.clone(), setting.policy, &verifier, base);
        let mut folder = new();
        let first = folder.publish([0; 32], None, base);
        let Some(first) = folder.offered().cloned().filter(|_| !first.is_empty()) else {
            unreachable!("an empty folder takes a first number")
        };
        let disk = folder.backup();
        // Each at another indexer as long as there are any.
        let mut homes: Vec<usize> = (0..setting.indexers).collect();
        homes.shuffle(&mut rng);
        let peer = |n: usize| {
            let role = if n == FOLDER {
                let mut folder = new();
                folder.restart(Some(disk.clone()), base);
                Role::Folder { folder: Box::new(folder), backups: vec![disk.clone()], announcing: None }
            } else {
                Role::Reader(Box::new(Reader::new(first.clone(), &verifier, base)))
            };
            let (lives, session, is_listed, asks, fetches, wake_at) = Default::default();
            Peer { role, home: homes[n % homes.len()], lives, session, is_listed, asks, fetches, wake_at }
        };
        let peers: Vec<Peer> = (0..=setting.readers).map(peer).collect();
        let indexers = Indexer::all(&graph, setting.indexers, &name, base);
        let reach = |from| graph.reach(from, TTL_DEFAULT).into_iter().zip(0..);
        let near = |from| reach(from).filter_map(|(is_reached, n)| is_reached.then_some(n)).collect();
        let mut world = Self {
            near: (0..setting.indexers).map(near).collect(),
            base,
            name,
            queue: Queue::new(),
            rng,
            verifier,
            indexers,
            peers,
            committed: vec![Duration::ZERO],
            history: vec![first],
            newest: 1,
            calls: 0,
            tally: Tally::default(),
            setting,
        };
        world.begin();
        Ok(world)
    }

    fn begin(&mut self) {
        // An origin that has just started does not know yet who holds its file.
        let warm_up = self.setting.policy.bound().max(WARM_UP_MIN);
        for n in 0..self.peers.len() {
            self.queue.add(Duration::ZERO, Event::Comes(n));
            if !self.is_folder(n) {
                let at = warm_up + exponential(self.setting.read_every, &mut self.rng);
                self.queue.add(at, Event::Reads(n));
            }
        }
        let at = warm_up + exponential(self.setting.update_every, &mut self.rng);
        self.queue.add(at, Event::Publishes);
        self.queue.add(warm_up, Event::Begins);
        if self.setting.mishaps.is_some() {
            self.queue.add(warm_up, Event::Mishap);
        }
    }

    fn now(&self) -> Instant {
        self.base + self.queue.now()
    }

    const fn is_folder(&self, peer: usize) -> bool {
        peer == FOLDER
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::ToIndexer(to, message) => self.at_indexer(to, message),
            Event::ToPeer(to, message) if self.peers[to].session.is_some() => self.at_peer(to, message),
            Event::ToPeer(..) => {}
            Event::Wakes(peer) => {
                if self.peers[peer].wake_at.is_some_and(|at| at <= self.queue.now()) {
                    self.peers[peer].wake_at = None;
                    self.wake(peer);
                }
            }
            Event::GivesUp(peer, call, is_fetch) => self.gives_up(peer, call, is_fetch),
            Event::Announces(peer) => self.announce(peer, None),
            Event::TellsAgain(peer, life, record, tries) if self.peers[peer].lives == life => {
                self.tell_subscribers(peer, record, tries);
            }
            Event::TellsAgain(..) => {}
            Event::Renews(peer, life) => self.renews(peer, life),
            Event::Begins => self.tally = Tally::default(),
            Event::Publishes => self.publishes(),
            Event::Reads(peer) => self.reads(peer),
            Event::Comes(peer) => self.comes(peer),
            Event::Goes(peer) => {
                self.goes(peer);
                let away = self.setting.session.unwrap_or_default() / AWAY_PART;
                let away = exponential(away, &mut self.rng);
                self.queue.after(away, Event::Comes(peer));
            }
            Event::Mishap => self.mishap(),
        }
    }

    fn publishes(&mut self) {
        let pause = exponential(self.setting.update_every, &mut self.rng);
        self.queue.after(pause, Event::Publishes);
        let (peer, now) = (FOLDER, self.now());
        let mut content = [0; 32];
        content[..8].copy_from_slice(&self.history.len().to_le_bytes());
        content[8] = 1;
        let network = self.known_to_network(peer);
        if let Peer { session: Some(_), role: Role::Folder { folder, backups, .. }, .. } =
            &mut self.peers[peer]
        {
            let acts = folder.publish(content, network.as_ref(), now);
            backups.push(folder.backup());
            self.tally.updates += usize::from(!acts.is_empty());
            self.carry_out(peer, acts);
        }
    }

    /// The newest version that the indexers in reach of the folder list, as far as they answer in time.
    fn known_to_network(&mut self, peer: usize) -> Option<VerifiedRecord> {
        let (home, now) = (self.peers[peer].home, self.now());
        let mut newest: Option<VerifiedRecord> = None;
        for n in self.near[home].clone() {
            let [there, back] = [Link::OriginIndexer; 2].map(|link| self.takes(link));
            let further = if n == home {
                [Some(Duration::ZERO); 2]
            } else {
                [Link::Indexers; 2].map(|link| self.takes(link))
            };
            let takes = [there, back, further[0], further[1]].into_iter().sum::<Option<Duration>>();
            if takes.is_some_and(|takes| takes <= ASKING_MAX)
                && let Some(listed) = self.indexers[n].newest(&self.name, now)
                && let Ok(record) = self.verifier.verify(listed.to_signed())
                && newest.as_ref().is_none_or(|newest| record.version > newest.version)
            {
                newest = Some(record);
            }
        }
        newest
    }

    fn reads(&mut self, peer: usize) {
        let pause = exponential(self.setting.read_every, &mut self.rng);
        self.queue.after(pause, Event::Reads(peer));
        let now = self.now();
        let Peer { session: Some(_), role: Role::Reader(reader), home, .. } = &self.peers[peer] else {
            return;
        };
        let freshness = reader.freshness(now);
        let is_fresh =
            freshness == Freshness::Fresh || self.setting.ignores_bound && freshness == Freshness::Unverified;
        let ago = |version: u64| {
            let replaced = self.committed.get(usize::try_from(version).unwrap_or(usize::MAX));
            replaced.map(|at| self.queue.now().saturating_sub(*at))
        };
        self.tally.reads += 1;
        self.tally.never_shared += usize::from(reader.known().version.get() > self.newest);
        if is_fresh {
            // Where numbers are given up, it is not known when a version was replaced.
            let is_judged = self.setting.mishaps != Some(Mishaps::Backups);
            let bound = self.setting.policy.bound() + self.setting.weather.delay.1;
            let ago = ago(reader.held().version.get()).filter(|_| is_judged);
            self.tally.read_as_fresh(ago, bound);
        }
        let asked = self.setting.queries.then_some(&self.near[*home]).into_iter().flatten();
        let listed = asked.filter_map(|n| self.indexers[*n].newest(&self.name, now));
        if let Some(found) = listed.map(|record| record.version.get()).max() {
            self.tally.queries += 1;
            self.tally.invalid += usize::from(ago(found).is_some());
            let late = ago(found).is_some_and(|ago| ago > self.setting.weather.delay.1);
            self.tally.invalid_late += usize::from(late);
        }
    }
}
