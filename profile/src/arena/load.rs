//! Clients that ask at a steady rate, and judge each answer: right, incomplete, wrong, or none at all.

use nekoproto::{FindRequest, Hit, IdDigits, List, QueryRequest, Refusal, Search, Term};
use tarpc::client::RpcError;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::cluster::{client::Client, net::Peers, request};
use crate::node::locked;
use crate::prelude::*;

/// How long an asker waits for an answer, `Busy` and retried among it.
pub(crate) const ANSWER_WITHIN: Duration = Duration::from_secs(2);
const TTL_HOPS: u8 = 3;
/// Pause after `Busy`.
const RETRY_AFTER: Duration = Duration::from_millis(20);

#[derive(Clone, Debug)]
pub struct Target {
    ask: Question,
    /// What must be found, each with its only holder; none: nothing.
    pub(crate) held: Vec<(SignedRecord, Holder)>,
    /// More than an answer holds share the name: it need not be complete.
    is_crowded: bool,
}

#[derive(Clone, Debug)]
enum Question {
    /// Files of a name, of one origin or of all.
    Query { name: FileName, origin: Option<IdDigits> },
    /// Files whose names match.
    Search(Search),
}

/// The kinds of questions, which are measured apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A query for a name that is there, or a download of it.
    Found,
    /// A query for a name that nobody has.
    Miss,
    Search,
}

/// What an answer was worth; what is worse comes later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Found {
    /// Everything that is there, and nothing else.
    Right,
    /// It says itself that something may be missing.
    Incomplete,
    /// Something is missing from an answer that calls itself complete, or something false is in it.
    Wrong,
    /// None came in time, or a refusal other than `Busy`.
    Failed,
}

#[derive(Clone, Copy, Debug)]
pub struct Answered {
    pub kind: Kind,
    /// When it was due, from the beginning of the load.
    pub at: Duration,
    pub took: Duration,
    pub found: Found,
}

impl Kind {
    /// All of them, with their names in tables and results.
    pub const ALL: [(Self, &'static str); 3] =
        [(Self::Found, "found"), (Self::Miss, "miss"), (Self::Search, "search")];
}

impl Target {
    const fn query(name: FileName, held: Vec<(SignedRecord, Holder)>) -> Self {
        Self { ask: Question::Query { name, origin: None }, held, is_crowded: false }
    }

    /// A name that nobody has, unless somebody hostile publishes it.
    pub fn missing(name: &str) -> Self {
        Self::query(testkit::values::name(name), Vec::new())
    }

    pub fn held(record: SignedRecord, holder: Holder) -> Self {
        Self::query(record.unverified().name.clone(), vec![(record, holder)])
    }

    /// The files with `word` in their names, which are these.
    pub(crate) fn searched(word: &str, held: Vec<(SignedRecord, Holder)>) -> Result<Self> {
        let search = Search { terms: List::first_of([Term::new(word)?]), ..Search::default() };
        Ok(Self { ask: Question::Search(search), held, is_crowded: false })
    }

    /// The same by its name alone, where more share that than an answer holds, and as a ticket asks for it: of its origin.
    pub(crate) fn among_many(self) -> Result<[Self; 2]> {
        let mut ticket = self.clone();
        if let (Question::Query { origin, .. }, [(record, _)]) = (&mut ticket.ask, &self.held[..]) {
            *origin = Some(IdDigits::try_from(record.unverified().origin.to_string())?);
        }
        Ok([Self { is_crowded: true, ..self }, ticket])
    }

    const fn kind(&self) -> Kind {
        match self.ask {
            Question::Search(_) => Kind::Search,
            Question::Query { .. } if self.held.is_empty() => Kind::Miss,
            Question::Query { .. } => Kind::Found,
        }
    }

    /// Judges an answer. Files of other origins under the name are no fault: whoever is asked for may publish any.
    pub fn judge(&self, hits: &[Hit], complete: bool) -> Found {
        let is_true = |hit: &Hit| hit.record.clone().verify().is_ok();
        let incomplete_or = |found| if complete || self.is_crowded { found } else { Found::Incomplete };
        let found = |(record, holder): &(SignedRecord, Holder)| {
            let (name, origin) = (&record.unverified().name, record.unverified().origin);
            let is_it = |hit: &&Hit| {
                let other = hit.record.unverified();
                other.origin == origin && other.name == *name
            };
            match hits.iter().find(is_it) {
                Some(hit) if hit.record != *record => Found::Wrong,
                Some(hit) if hit.at().iter().any(|other| other.node != holder.node) => Found::Wrong,
                None => incomplete_or(Found::Wrong),
                Some(hit) if hit.holders.is_empty() => incomplete_or(Found::Wrong),
                Some(_) => incomplete_or(Found::Right),
            }
        };
        match self.held.iter().map(found).max() {
            Some(worst) => worst,
            None if hits.iter().all(is_true) => incomplete_or(Found::Right),
            None => Found::Wrong,
        }
    }
}

/// A client that connects again when its connection has ended.
#[derive(Debug)]
pub(crate) struct Caller {
    at: Peers,
    client: tokio::sync::Mutex<Option<Arc<Client>>>,
}

impl Caller {
    pub(crate) fn new(at: Peers) -> Self {
        Self { at, client: tokio::sync::Mutex::default() }
    }

    async fn client(&self) -> Result<Arc<Client>> {
        let mut client = self.client.lock().await;
        if let Some(client) = &*client {
            return Ok(Arc::clone(client));
        }
        let connected = self.at.client(Identity::generate()).await?.without_port();
        Ok(Arc::clone(client.insert(Arc::new(connected))))
    }

    /// Asks until there is an answer, or no time left. What it was worth, and when it came.
    pub(super) async fn ask(&self, target: &Target, due: Instant) -> (Found, Instant) {
        let until = due + ANSWER_WITHIN;
        loop {
            let failed = || (Found::Failed, Instant::now());
            let Ok(client) = self.client().await else { return failed() };
            match call(&client, &target.ask, until).await {
                Ok(Ok((hits, complete))) => {
                    let at = Instant::now();
                    return (target.judge(&hits, complete), at);
                }
                Ok(Err(Refusal::Busy)) => {}
                Err(RpcError::Server(error)) if error.kind == io::ErrorKind::WouldBlock => {}
                Ok(Err(_)) => return failed(),
                Err(_) => {
                    *self.client.lock().await = None;
                    return failed();
                }
            }
            if until < Instant::now() + RETRY_AFTER {
                return failed();
            }
            sleep(RETRY_AFTER).await;
        }
    }
}

/// What is found, and whether that is all.
type Reply = (Vec<Hit>, bool);

async fn call(client: &Client, ask: &Question, until: Instant) -> Result<Result<Reply, Refusal>, RpcError> {
    let until = call_until(until.into_std());
    match ask {
        Question::Query { name, origin } => {
            let asked = QueryRequest { origin: origin.clone(), ..request(name, TTL_HOPS) };
            let reply = client.calls.query(until, asked).await?;
            Ok(reply.map(|reply| (reply.hits.into_vec(), reply.complete)))
        }
        Question::Search(search) => {
            let asked = FindRequest::new(search.clone(), TTL_HOPS);
            let reply = client.calls.find(until, asked).await?;
            Ok(reply.map(|reply| (reply.hits.into_vec(), reply.complete)))
        }
    }
}

#[derive(Debug)]
pub(crate) struct Inquiry {
    pub(super) askers: Vec<Caller>,
    targets: Mutex<Vec<Target>>,
    samples: Mutex<Vec<Answered>>,
    began: Instant,
}

impl Inquiry {
    pub(crate) fn new(askers: Vec<Caller>) -> Self {
        let (targets, samples) = (Mutex::default(), Mutex::default());
        Self { askers, targets, samples, began: Instant::now() }
    }

    pub(crate) fn add(&self, target: Target) {
        locked(&self.targets).push(target);
    }

    /// The time since the load began.
    pub(crate) fn now(&self) -> Duration {
        self.began.elapsed()
    }

    pub(crate) fn samples(&self) -> Vec<Answered> {
        locked(&self.samples).clone()
    }

    pub(crate) fn note(&self, kind: Kind, due: Instant, (found, answered): (Found, Instant)) {
        let (at, took) = (due - self.began, answered - due);
        locked(&self.samples).push(Answered { kind, at, took, found });
    }

    /// Asks for the targets in turn, `per_s` a second, whether or not earlier ones are answered; `anew`: over a
    /// connection of its own each. Returns when stopped and all are answered.
    pub(crate) async fn queries(self: Arc<Self>, per_s: u32, anew: bool, stop: CancellationToken) {
        let mut ticks = interval(Duration::from_secs(1) / per_s);
        let mut asking = JoinSet::new();
        for n in 0.. {
            let Some(due) = stop.run_until_cancelled(ticks.tick()).await else { break };
            let load = Arc::clone(&self);
            asking.spawn(async move {
                let target = {
                    let targets = locked(&load.targets);
                    targets[n % targets.len()].clone()
                };
                let asker = &load.askers[n % load.askers.len()];
                let newcomer = Caller::new(asker.at.clone());
                let asker = if anew { &newcomer } else { asker };
                let found = timeout(ANSWER_WITHIN * 2, asker.ask(&target, due)).await;
                load.note(target.kind(), due, found.unwrap_or_else(|_| (Found::Failed, Instant::now())));
            });
            while asking.try_join_next().is_some() {}
        }
        while asking.join_next().await.is_some() {}
    }
}
