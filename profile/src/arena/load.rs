//! Clients that ask at a steady rate, and judge each answer: right, incomplete, wrong, or none at all.

use std::sync::{Arc, Mutex};
use std::{net::SocketAddr, time::Duration};

use nekoproto::transport::{Security, call_until};
use nekoproto::{FileName, Holder, Identity, QueryReply, Refusal, SignedRecord};
use tarpc::client::RpcError;
use tokio::task::JoinSet;
use tokio::time::{Instant, interval, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::cluster::{client::Client, request};
use crate::node::locked;

/// How long an asker waits for an answer, `Busy` and retried among it.
pub(crate) const ANSWER_WITHIN: Duration = Duration::from_secs(2);
const TTL_HOPS: u8 = 3;
/// Pause after `Busy`.
const RETRY_AFTER: Duration = Duration::from_millis(20);

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Target {
    /// The name.
    pub name: FileName,
    /// What must be found, and its only holder; `None`: nothing.
    held: Option<(SignedRecord, Holder)>,
}

/// What an answer was worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// One question.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// When it was due, from the beginning of the load.
    pub at: Duration,
    /// How long the answer took.
    pub took: Duration,
    /// What it was worth.
    pub found: Found,
}

impl Target {
    /// A name that nobody has.
    pub(crate) fn missing(name: &str) -> Self {
        Self { name: testkit::values::name(name), held: None }
    }

    /// A file with one holder.
    pub fn held(record: SignedRecord, holder: Holder) -> Self {
        Self { name: record.unverified().name.clone(), held: Some((record, holder)) }
    }

    /// Judges an answer. Files of other origins under the name are no fault: whoever is asked for may publish any.
    pub fn judge(&self, reply: &QueryReply) -> Found {
        let incomplete_or = |found| if reply.complete { found } else { Found::Incomplete };
        let Some((record, holder)) = &self.held else {
            return if reply.hits.is_empty() { incomplete_or(Found::Right) } else { Found::Wrong };
        };
        let origin = record.unverified().origin;
        match reply.hits.iter().find(|hit| hit.record.unverified().origin == origin) {
            None => incomplete_or(Found::Wrong),
            Some(hit) if hit.record != *record => Found::Wrong,
            Some(hit) if hit.at().iter().any(|other| other.node != holder.node) => Found::Wrong,
            Some(hit) if hit.holders.is_empty() => incomplete_or(Found::Wrong),
            Some(_) => incomplete_or(Found::Right),
        }
    }
}

/// A client that connects again when its connection has ended.
#[derive(Debug)]
pub(crate) struct Asker {
    addr: SocketAddr,
    security: Security,
    client: tokio::sync::Mutex<Option<Arc<Client>>>,
}

impl Asker {
    pub(crate) fn new(addr: SocketAddr, security: Security) -> Self {
        Self { addr, security, client: tokio::sync::Mutex::default() }
    }

    async fn client(&self) -> anyhow::Result<Arc<Client>> {
        let mut client = self.client.lock().await;
        if let Some(client) = &*client {
            return Ok(Arc::clone(client));
        }
        let connected = Client::connect(self.addr, Identity::generate(), self.security).await?.without_port();
        Ok(Arc::clone(client.insert(Arc::new(connected))))
    }

    /// Asks until there is an answer, or no time left.
    pub(super) async fn ask(&self, target: &Target, due: Instant) -> Found {
        let until = due + ANSWER_WITHIN;
        loop {
            let Ok(client) = self.client().await else { return Found::Failed };
            let asked = request(&target.name, TTL_HOPS);
            match client.calls.query(call_until(until.into_std()), asked).await {
                Ok(Ok(reply)) => return target.judge(&reply),
                Ok(Err(Refusal::Busy)) => {}
                Err(RpcError::Server(error)) if error.kind == std::io::ErrorKind::WouldBlock => {}
                Ok(Err(_)) => return Found::Failed,
                Err(_) => {
                    *self.client.lock().await = None;
                    return Found::Failed;
                }
            }
            if until < Instant::now() + RETRY_AFTER {
                return Found::Failed;
            }
            sleep(RETRY_AFTER).await;
        }
    }
}

/// What is asked, and what came of it.
#[derive(Debug)]
pub(crate) struct Load {
    pub(super) askers: Vec<Asker>,
    targets: Mutex<Vec<Target>>,
    samples: Mutex<Vec<Sample>>,
    began: Instant,
}

impl Load {
    pub(crate) fn new(askers: Vec<Asker>) -> Self {
        let (targets, samples) = (Mutex::default(), Mutex::default());
        Self { askers, targets, samples, began: Instant::now() }
    }

    /// From now on this is asked for too.
    pub(crate) fn add(&self, target: Target) {
        locked(&self.targets).push(target);
    }

    /// The time since the load began.
    pub(crate) fn now(&self) -> Duration {
        self.began.elapsed()
    }

    pub(crate) fn samples(&self) -> Vec<Sample> {
        locked(&self.samples).clone()
    }

    /// Notes what came of a question.
    pub(crate) fn note(&self, due: Instant, found: Found) {
        let (at, took) = (due - self.began, due.elapsed());
        locked(&self.samples).push(Sample { at, took, found });
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
                let newcomer = Asker::new(asker.addr, asker.security);
                let asker = if anew { &newcomer } else { asker };
                let found = timeout(ANSWER_WITHIN * 2, asker.ask(&target, due)).await;
                load.note(due, found.unwrap_or(Found::Failed));
            });
            while asking.try_join_next().is_some() {}
        }
        while asking.join_next().await.is_some() {}
    }
}
