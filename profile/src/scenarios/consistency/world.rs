//! One simulation: a folder that publishes a file, readers that keep copies of it, and indexers between them, on one queue of
//! events in virtual time. Who sends what to whom when is as in the shell of the nodes; what they decide is their own code.

mod indexers;
mod peers;

use std::sync::LazyLock;

use nekoindexer::state::index::Session;
use nekopeer::{simulate::Disk, simulate::Folder, simulate::OfferChange, simulate::Reader};
use nekoproto::{Record, Verifier, Version, codec, limits::TTL_MAX};
use rand::seq::SliceRandom;
use testkit::values::name;

use self::indexers::Indexer;
use super::{cells::Link, cells::Mishaps, cells::Setting, log::Fact, log::Message};
use crate::scenarios::prelude::*;

/// Where the log begins, or at the bound if that is longer: until then all register, and an origin that has just started
/// does not know who holds its file.
const WARM_UP_MIN: Duration = Duration::from_secs(30);
/// A packet that is lost is sent again after a second, and after two more (RFC 6298); by then the call has timed out.
const SENT_AGAIN: [Duration; 2] = [Duration::ZERO, Duration::from_secs(1)];
/// Mean time between mishaps.
const MISHAP_EVERY: Duration = Duration::from_secs(5);
/// Neighbors of each indexer in a random topology.
const DEGREE: usize = 4;
/// The peer that publishes; the others are readers.
const FOLDER: usize = 0;
/// The keys of the nodes, made once: of peers from the first on, of indexers from the last on.
static NODES: LazyLock<Vec<Identity>> =
    LazyLock::new(|| (0..=u8::MAX).map(|n| Identity::from_seed(&[n; 32])).collect());

type Event = Box<dyn FnOnce(&mut World)>;

struct World {
    setting: Setting,
    rng: StdRng,
    base: Instant,
    /// Since `base`.
    now: Duration,
    /// What happens when, in order.
    due: BTreeMap<(Duration, u64), Event>,
    /// The last number given to an event, a call or a message.
    number: u64,
    verifier: Arc<Verifier>,
    indexers: Vec<Indexer>,
    peers: Vec<Peer>,
    folder: Folder,
    /// What it tells its subscribers of once its indexer has answered; at once if its number cannot be another's.
    announcing: Option<VerifiedRecord>,
    backups: Vec<Disk>,
    /// All records that were ever published, and when.
    history: Vec<(Duration, VerifiedRecord)>,
    log: Vec<Fact>,
}

/// A peer as its links see it.
struct Peer {
    /// `None` of the folder.
    reader: Option<Reader>,
    home: usize,
    /// How often it has come.
    lives: usize,
    /// Its connection to the indexer, while it is there.
    session: Option<Arc<Session>>,
    is_listed: bool,
    /// Its calls to the origin under way.
    calls: BTreeSet<u64>,
    wake_at: Option<Duration>,
}

/// Runs one simulation: what happened once it was warmed up.
pub fn run(setting: &Setting, seed: u64) -> Result<Vec<Fact>> {
    let runtime = Builder::new_current_thread().enable_time().build()?;
    let _within = runtime.enter(); // the tables of message ids need a timer, though nobody waits for it
    let mut world = World::new(setting.clone(), seed)?;
    world.begin();
    while let Some(((at, _), event)) = world.due.pop_first()
        && at <= setting.lasts
    {
        world.now = at;
        event(&mut world);
    }
    Ok(world.log)
}

impl World {
    fn new(setting: Setting, seed: u64) -> Result<Self> {
        let graph = Graph::new(setting.topology, setting.indexers, DEGREE, seed)?;
        let (mut rng, base) = (StdRng::seed_from_u64(seed), Instant::now());
        let verifier = Arc::<Verifier>::default();
        let mut folder = Folder::new(NODES[FOLDER].clone(), name("a"), setting.policy, base);
        folder.publish([0; 32], None, base);
        let Some(first) = folder.offered().cloned() else { unreachable!("there is a first number") };
        // Each at another indexer as long as there are any.
        let mut homes: Vec<usize> = (0..setting.indexers).collect();
        homes.shuffle(&mut rng);
        let peer = |n: usize| {
            let reader = (n != FOLDER).then(|| Reader::new(first.clone(), Arc::clone(&verifier)));
            let (lives, session, is_listed, calls, wake_at) = Default::default();
            Peer { reader, home: homes[n % homes.len()], lives, session, is_listed, calls, wake_at }
        };
        let (now, due, number, announcing, log) = Default::default();
        Ok(Self {
            peers: (0..=setting.readers).map(peer).collect(),
            indexers: (0..setting.indexers).map(|n| Indexer::new(&graph, n, base)).collect(),
            now,
            due,
            number,
            announcing,
            log,
            backups: vec![folder.disk.clone()],
            history: vec![(Duration::ZERO, first)],
            setting,
            rng,
            base,
            verifier,
            folder,
        })
    }

    fn begin(&mut self) {
        let Setting { policy, update_every, read_every, mishaps, .. } = self.setting;
        let warm_up = policy.bound().max(WARM_UP_MIN);
        for n in 0..self.peers.len() {
            self.at(Duration::ZERO, move |world| world.comes(n));
            if n != FOLDER {
                self.repeat(warm_up, read_every, move |world| world.reads(n));
            }
        }
        self.repeat(warm_up, update_every, Self::publishes);
        self.at(warm_up, |world| world.log.clear());
        if let Some(mishaps) = mishaps {
            self.at(warm_up, move |world| {
                world.repeat(world.now, MISHAP_EVERY, move |world| world.mishap(mishaps));
                world.mishap(mishaps);
            });
        }
    }

    fn now(&self) -> Instant {
        self.base + self.now
    }

    fn at(&mut self, at: Duration, event: impl FnOnce(&mut Self) + 'static) {
        let key = (at.max(self.now), self.number());
        self.due.insert(key, Box::new(event));
    }

    fn number(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    fn after(&mut self, pause: Duration, event: impl FnOnce(&mut Self) + 'static) {
        self.at(self.now + pause, event);
    }

    /// `event` happens from then on, again and again: a Poisson process.
    fn repeat(&mut self, from: Duration, mean: Duration, event: impl Fn(&mut Self) + Clone + 'static) {
        let at = from + self.exponential(mean);
        self.at(at, move |world| {
            world.repeat(world.now, mean, event.clone());
            event(world);
        });
    }

    fn exponential(&mut self, mean: Duration) -> Duration {
        mean.mul_f64(-(1.0 - self.rng.random::<f64>()).ln())
    }

    /// How long a message takes over such a link; `None` if it does not arrive.
    fn takes(&mut self, link: Link) -> Option<Duration> {
        let Setting { cut, loss, delay, .. } = &self.setting;
        let carries = |after: &Duration| {
            let is_cut = cut.as_ref().is_some_and(|(of, during)| {
                of.is_none_or(|of| of == link) && during.contains(&(self.now + *after))
            });
            let is_lost = *loss > 0.0 && self.rng.random_bool(*loss);
            !(is_cut || is_lost)
        };
        let sent = SENT_AGAIN.into_iter().find(carries)?;
        Some(sent + self.rng.random_range(delay.clone()))
    }

    /// A message, and what is done where it arrives, if it does.
    fn send(&mut self, link: Link, arrives: impl FnOnce(&mut Self) + 'static) {
        if let Some(takes) = self.takes(link) {
            self.after(takes, arrives);
        }
    }

    /// News, of which some arrives twice.
    fn send_news(&mut self, link: Link, arrives: impl FnOnce(&mut Self) + Clone + 'static) {
        let doubled = self.setting.doubled;
        let copies = 1 + usize::from(doubled > 0.0 && self.rng.random_bool(doubled));
        (0..copies).for_each(|_| self.send(link, arrives.clone()));
    }

    /// Counts a message with these arguments, or this answer.
    fn note(&mut self, message: Message, call: &impl Serialize) {
        self.log.push(Fact::Sent(message, codec::encode(call).map_or(0, |bytes| bytes.len())));
    }

    /// What goes wrong on top of links and sessions: replays, forgeries, restarts, restored folders.
    fn mishap(&mut self, mishaps: Mishaps) {
        match mishaps {
            Mishaps::Messages => {
                let place = self.rng.random_range(0..self.history.len());
                let old = self.history[place].1.to_signed();
                let record = if self.rng.random_bool(0.5) { Some(old) } else { self.forged(&old) };
                if let Some(record) = record {
                    self.inject(record);
                }
            }
            Mishaps::Restarts => {
                let n = self.rng.random_range(0..self.peers.len());
                self.starts_again(n, None);
            }
            // Seldom, so that what is restored is also published and read.
            Mishaps::Backups if self.rng.random_bool(0.1) => {
                let backup = self.rng.random_range(0..self.backups.len());
                self.starts_again(FOLDER, Some(self.backups[backup].clone()));
            }
            Mishaps::Backups => {}
        }
    }

    /// Somebody sends this record to anyone.
    fn inject(&mut self, record: SignedRecord) {
        let to = self.rng.random_range(0..self.peers.len());
        if self.rng.random_bool(0.5) {
            self.after(Duration::ZERO, move |world| world.hears(to, record, Message::Invalidation));
        } else {
            let (to, ttl_hops) = (self.peers[to].home, self.rng.random_range(0..=TTL_MAX));
            let request = self.invalidation(record, ttl_hops);
            self.after(Duration::ZERO, move |world| world.invalidated(to, &request));
        }
    }

    fn starts_again(&mut self, n: usize, disk: Option<Disk>) {
        if self.is_there(n) {
            self.goes(n);
            disk.into_iter().for_each(|disk| self.folder.disk = disk);
            self.comes(n);
        }
    }

    /// The same with a higher number, under the signature of the true one.
    fn forged(&mut self, record: &SignedRecord) -> Option<SignedRecord> {
        let of = record.unverified();
        let version = Version::new(of.version.get() + 5)?;
        let mut bytes = codec::encode(&Record { version, ..of.clone() }).ok()?;
        bytes.extend(codec::encode(record.signature()).ok()?);
        let forged = codec::decode(&bytes).ok()?;
        self.log.push(Fact::Forged);
        Some(forged)
    }
}
