//! The closed loop: each client asks, waits, checks, and asks again.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use nekoproto::{Covered, FileName, MsgId, NodeId, QueryReply, QueryRequest};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use tarpc::context;

use crate::{
    cluster::{Client, Cluster, FILES_PER_INDEXER, file_name},
    scenario::Scenario,
};

/// Requests of each client before the measured ones.
pub const WARM_UP: usize = 50;

/// What was measured.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    /// Response times, in the order they were taken by each client.
    pub took: Vec<Duration>,
    /// Answers that are not what the topology says they must be.
    pub hits_wrong: usize,
    /// Calls without an answer.
    pub errors: usize,
    /// Messages between indexers.
    pub messages: u64,
    /// From the first measured request to the last answer.
    pub wall: Duration,
}

/// What one query must find.
#[derive(Clone, Debug)]
pub struct Question {
    name: FileName,
    /// The only holder that must be found, if any.
    holder: Option<NodeId>,
}

impl Question {
    /// Whether `reply` is exactly what must be found.
    #[must_use]
    pub fn is_answered_by(&self, reply: &QueryReply) -> bool {
        let found: Vec<NodeId> =
            reply.hits.iter().flat_map(|hit| hit.holders.iter().map(|holder| holder.node)).collect();
        let named = reply.hits.iter().all(|hit| hit.record.unverified().name == self.name);
        reply.complete && named && found == self.holder.into_iter().collect::<Vec<_>>()
    }
}

/// Runs `scenario` on `cluster`.
///
/// # Errors
/// A client cannot connect.
pub async fn run(scenario: &Scenario, cluster: &Cluster) -> anyhow::Result<Samples> {
    let mut clients = Vec::new();
    for n in 0..scenario.clients {
        let place = n % scenario.indexers;
        clients.push((cluster.client(place).await?, Questions::new(scenario, cluster, place, n as u64)));
    }
    let ready = Arc::new(tokio::sync::Barrier::new(scenario.clients));
    let tasks: Vec<_> = clients
        .into_iter()
        .map(|(client, questions)| {
            let (ready, scenario) = (Arc::clone(&ready), scenario.clone());
            tokio::spawn(async move { ask_all(&scenario, &client, questions, &ready).await })
        })
        .collect();
    let mut all = Samples::default();
    for task in tasks {
        let samples = task.await?;
        all.took.extend(samples.took);
        all.hits_wrong += samples.hits_wrong;
        all.errors += samples.errors;
        all.messages += samples.messages;
        all.wall = all.wall.max(samples.wall);
    }
    Ok(all)
}

async fn ask_all(
    scenario: &Scenario,
    client: &Client,
    mut questions: Questions,
    ready: &tokio::sync::Barrier,
) -> Samples {
    for _ in 0..WARM_UP {
        let question = questions.next();
        drop(ask(client, scenario, &question).await); // not measured, so not counted either
    }
    ready.wait().await;
    let began = Instant::now();
    let mut samples = Samples::default();
    for _ in 0..scenario.requests {
        let question = questions.next();
        let asked = Instant::now();
        match ask(client, scenario, &question).await {
            Some(reply) => {
                samples.took.push(asked.elapsed());
                samples.messages += u64::from(reply.messages);
                samples.hits_wrong += usize::from(!question.is_answered_by(&reply));
            }
            None => samples.errors += 1,
        }
    }
    samples.wall = began.elapsed();
    samples
}

async fn ask(client: &Client, scenario: &Scenario, question: &Question) -> Option<QueryReply> {
    let request = QueryRequest {
        msg_id: MsgId::random(),
        name: question.name.clone(),
        ttl_hops: scenario.ttl_hops,
        covered: Covered::new(),
    };
    client.calls.query(context::current(), request).await.ok()?.ok()
}

/// Draws questions, the same for the same seed.
struct Questions {
    rng: StdRng,
    miss: f64,
    /// For each indexer its holder, if a query from here must find it.
    holders: Vec<Option<NodeId>>,
}

impl Questions {
    fn new(scenario: &Scenario, cluster: &Cluster, place: usize, client: u64) -> Self {
        let reached = scenario.reaches(place);
        let holders =
            cluster.holders.iter().zip(reached).map(|(holder, reached)| reached.then_some(holder.node));
        Self {
            rng: StdRng::seed_from_u64(scenario.seed.wrapping_mul(1_000_003).wrapping_add(client)),
            miss: scenario.miss,
            holders: holders.collect(),
        }
    }

    fn next(&mut self) -> Question {
        let at = self.rng.random_range(0..self.holders.len());
        if self.rng.random_bool(self.miss) {
            return Question { name: file_name(at, FILES_PER_INDEXER), holder: None };
        }
        let name = file_name(at, self.rng.random_range(0..FILES_PER_INDEXER));
        Question { name, holder: self.holders[at] }
    }
}
