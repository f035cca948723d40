//! The run: clients that ask, each answer timed and then judged.

pub mod pacer;
pub mod samples;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use futures::{StreamExt, stream::FuturesUnordered};
use nekoproto::{Identity, limits::QUERY_DEADLINE_DEFAULT};
use tarpc::context;
use tokio::sync::{Barrier, mpsc};

use self::{
    pacer::Pacer,
    samples::{Failure, Sample, Samples},
};
use crate::{
    cluster::{Cluster, client::Client, request},
    plan::{
        expected::Expected,
        scenario::Scenario,
        workload::{Ask, Draw, Workload},
    },
};

/// What watches a run and may end it.
#[derive(Debug, Default)]
pub struct Watch {
    /// Measured requests that have ended.
    pub done: AtomicU64,
    /// Set to end the run early: what was measured by then is returned.
    pub stop: AtomicBool,
}

/// Runs `scenario` on `cluster`. When it is stopped early, requests under way are still awaited.
///
/// # Errors
/// A client cannot connect.
pub async fn run(scenario: &Scenario, cluster: &Cluster, watch: &Arc<Watch>) -> anyhow::Result<Samples> {
    let expected: Vec<Arc<Expected>> = (0..scenario.indexers.min(scenario.clients))
        .map(|n| Arc::new(cluster.expected(n, scenario.ttl_hops)))
        .collect();
    let mut asking = Vec::new();
    for n in 0..scenario.clients {
        let at = scenario.place_of(n);
        let client = cluster.client(at, Identity::generate()).await?;
        let (workload, expected) = (cluster.workload(), Arc::clone(&expected[at]));
        let asker = Asker {
            number: u32::try_from(n)?,
            client,
            workload,
            expected,
            ttl_hops: scenario.ttl_hops,
            watch: Arc::clone(watch),
        };
        asking.push(Asking { asker, draw: Draw::new(scenario, n), samples: Vec::new() });
    }
    let (asking, warm_up) = warm_up(asking, scenario.warm_up).await?;
    let (asking, wall) = match scenario.rate {
        None => closed_loop(asking, scenario.requests).await?,
        Some(rate) => open_loop(asking, scenario, rate, watch).await?,
    };
    let measured = asking.into_iter().flat_map(|asking| asking.samples).collect();
    Ok(Samples { measured, warm_up, wall, interrupted: watch.stop.load(Ordering::Relaxed) })
}

/// One client, what it is about to ask, and what came of it.
struct Asking {
    asker: Asker,
    draw: Draw,
    samples: Vec<Sample>,
}

/// One client and what it must find.
struct Asker {
    number: u32,
    client: Client,
    workload: Arc<Workload>,
    expected: Arc<Expected>,
    ttl_hops: u8,
    watch: Arc<Watch>,
}

impl Asker {
    /// Asks once; `meant` is when that was meant to happen, counted from `began`.
    async fn ask(&self, ask: Ask, began: Instant, meant: Instant) -> Sample {
        let mut context = context::current();
        let request = request(self.workload.name(ask), self.ttl_hops);
        let sent = Instant::now();
        context.deadline = sent + QUERY_DEADLINE_DEFAULT;
        let answer = self.client.calls.query(context, request).await;
        let took = meant.elapsed(); // before the answer is looked at
        let answer = answer.map_err(Failure::from).and_then(|refusable| refusable.map_err(Failure::from));
        self.watch.done.fetch_add(1, Ordering::Relaxed);
        Sample {
            client: self.number,
            begun: meant.saturating_duration_since(began),
            took,
            late: sent.saturating_duration_since(meant),
            messages: answer.as_ref().map_or(0, |reply| reply.messages),
            outcome: answer.map(|reply| self.expected.judge(ask, &reply)),
            is_hit: self.expected.is_hit(ask),
        }
    }
}

impl Asking {
    /// Asks `requests` times, one after the other.
    async fn ask_in_turn(&mut self, requests: usize, began: Instant) {
        self.samples.reserve(requests);
        for _ in 0..requests {
            self.samples.push(self.asker.ask(self.draw.ask(), began, Instant::now()).await);
            if self.asker.watch.stop.load(Ordering::Relaxed) {
                break; // after the first at the earliest, so that there is something to tell
            }
        }
    }

    /// Asks whenever `due` says so, without waiting for earlier answers.
    async fn ask_when_due(&mut self, mut due: mpsc::UnboundedReceiver<Instant>, began: Instant) {
        let mut in_flight = FuturesUnordered::new();
        let mut is_open = true;
        while is_open || !in_flight.is_empty() {
            tokio::select! {
                biased;
                meant = due.recv(), if is_open => match meant {
                    Some(meant) => in_flight.push(self.asker.ask(self.draw.ask(), began, meant)),
                    None => is_open = false,
                },
                Some(sample) = in_flight.next() => self.samples.push(sample),
            }
        }
        self.samples.sort_unstable_by_key(|sample| sample.begun);
    }
}

/// Lets every client ask `requests` times; the times are kept, the samples not.
async fn warm_up(asking: Vec<Asking>, requests: usize) -> anyhow::Result<(Vec<Asking>, Vec<Duration>)> {
    let (mut asking, _) = closed_loop(asking, requests).await?;
    let mut took = Vec::new();
    for client in &mut asking {
        took.extend(client.samples.drain(..).map(|sample| sample.took));
        client.asker.watch.done.store(0, Ordering::Relaxed);
    }
    Ok((asking, took))
}

/// Each client waits for its answer before it asks again. Returns how long that took.
async fn closed_loop(asking: Vec<Asking>, requests: usize) -> anyhow::Result<(Vec<Asking>, Duration)> {
    let together = Arc::new(Barrier::new(asking.len()));
    let work = |mut client: Asking| {
        let together = Arc::clone(&together);
        async move {
            together.wait().await;
            let began = Instant::now();
            client.ask_in_turn(requests, began).await;
            (client, began.elapsed())
        }
    };
    all(asking.into_iter().map(work)).await
}

/// Requests begin at a fixed rate. Returns how long that took.
async fn open_loop(
    asking: Vec<Asking>,
    scenario: &Scenario,
    rate: f64,
    watch: &Arc<Watch>,
) -> anyhow::Result<(Vec<Asking>, Duration)> {
    let (senders, receivers): (Vec<_>, Vec<_>) = asking.iter().map(|_| mpsc::unbounded_channel()).unzip();
    let began = Instant::now();
    let pacer = Pacer { rate, requests: scenario.requests_of_all(), began };
    let pacing = pacer.start(senders, Arc::clone(watch))?;
    let work = |(mut client, due): (Asking, _)| async move {
        client.ask_when_due(due, began).await;
        (client, began.elapsed())
    };
    let ended = all(asking.into_iter().zip(receivers).map(work)).await?;
    pacing.join().map_err(|_| anyhow::anyhow!("the pacer panicked"))?;
    Ok(ended)
}

/// Runs every client as a task of its own; returns them in order, and the longest of their times.
async fn all<F>(work: impl Iterator<Item = F>) -> anyhow::Result<(Vec<Asking>, Duration)>
where
    F: Future<Output = (Asking, Duration)> + Send + 'static,
{
    let tasks: Vec<_> = work.map(tokio::spawn).collect();
    let mut ended = Vec::new();
    let mut longest = Duration::ZERO;
    for task in tasks {
        let (client, took) = task.await?;
        ended.push(client);
        longest = longest.max(took);
    }
    Ok((ended, longest))
}
