//! The run: clients that ask, each answer timed and then judged.

pub mod files;
pub mod folder;
pub mod growth;
pub mod pacer;
pub mod samples;
pub mod watch;

use futures::{future::try_join_all, stream::FuturesUnordered};
use nekoproto::limits::QUERY_DEADLINE_DEFAULT;
use tokio::sync::Barrier;

use self::pacer::Pacer;
use self::samples::{Failure, Sample, Samples};
use crate::cluster::{Cluster, request};
use crate::plan::workload::{Ask, Draw, Expected};
use crate::prelude::*;
use crate::{cluster::client::Client, plan::query::Query};

pub use watch::Watch;

/// Requests of one client that may be under way at once when there is a rate to keep. Those that are
/// due beyond it are sent later, which counts in their times.
const UNDER_WAY_MAX: usize = 10_000;

/// Connects the clients of `scenario`, each to its indexer.
pub async fn connect(scenario: &Query, cluster: &Cluster, watch: &Arc<Watch>) -> Result<Vec<LoadClient>> {
    let expected: Vec<Arc<Expected>> = (0..scenario.indexers.min(scenario.clients))
        .map(|n| Arc::new(cluster.expected(n, scenario.ttl_hops)))
        .collect();
    let mut clients = Vec::new();
    for n in 0..scenario.clients {
        let at = n % scenario.indexers;
        let asker = Asker {
            number: u32::try_from(n)?,
            client: cluster.net.client(at, Identity::generate()).await?,
            expected: Arc::clone(&expected[at]),
            ttl_hops: scenario.ttl_hops,
            watch: Arc::clone(watch),
        };
        let runtime = cluster.net.deployment.client_runtime(at);
        clients.push(LoadClient { asker, draw: Draw::new(scenario, n), samples: Vec::new(), runtime });
    }
    Ok(clients)
}

/// Runs `scenario` with its clients. When it is stopped early, requests under way are still awaited.
pub async fn run(scenario: &Query, clients: Vec<LoadClient>, watch: &Arc<Watch>) -> Result<Samples> {
    watch.begin();
    let (mut clients, _) = closed_loop(clients, scenario.load.warm_up).await?;
    let warm_up = clients.iter_mut().flat_map(|client| std::mem::take(&mut client.samples)).collect();
    watch.begin();
    let (clients, wall) = match scenario.load.rate {
        None => closed_loop(clients, scenario.load.requests).await?,
        Some(rate) => open_loop(clients, scenario, rate, watch).await?,
    };
    let measured = clients.into_iter().flat_map(|client| client.samples).collect();
    Ok(Samples { measured, warm_up, wall, interrupted: watch.is_stopped() })
}

/// One client, what it is about to ask, and what came of it.
pub struct LoadClient {
    asker: Asker,
    draw: Draw,
    samples: Vec<Sample>,
    runtime: Handle,
}

/// One client and what it must find.
struct Asker {
    number: u32,
    client: Client,
    expected: Arc<Expected>,
    ttl_hops: u8,
    watch: Arc<Watch>,
}

impl Asker {
    /// Asks once. With a rate to keep, `due` is when that was meant to happen: the time of the answer
    /// and its deadline count from then. Times in the sample count from `began`.
    async fn ask(&self, ask: Ask, began: Instant, due: Option<Instant>) -> Sample {
        let request = request(self.expected.workload.name(ask), self.ttl_hops);
        let sent = Instant::now();
        let meant = due.unwrap_or(sent);
        let context = call_until(meant + QUERY_DEADLINE_DEFAULT);
        let answer = self.client.calls.query(context, request).await;
        let took = meant.elapsed(); // before the answer is looked at
        let answer = answer.map_err(Failure::from).and_then(|refusable| refusable.map_err(Failure::from));
        self.watch.add_done(1);
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

impl LoadClient {
    async fn ask_in_turn(&mut self, requests: usize, began: Instant) {
        for _ in 0..requests {
            self.samples.push(self.asker.ask(self.draw.ask(), began, None).await);
            if self.asker.watch.is_stopped() {
                break; // after the first at the earliest, so that there is something to tell
            }
        }
    }

    /// Asks whenever `due` says so, without waiting for earlier answers.
    async fn ask_when_due(&mut self, mut due: mpsc::UnboundedReceiver<Instant>, began: Instant) {
        let mut under_way = FuturesUnordered::new();
        let mut is_open = true;
        while is_open || !under_way.is_empty() {
            let has_room = is_open && under_way.len() < UNDER_WAY_MAX;
            tokio::select! {
                biased;
                meant = due.recv(), if has_room => match meant {
                    Some(meant) if !self.asker.watch.is_stopped() => {
                        under_way.push(self.asker.ask(self.draw.ask(), began, Some(meant)));
                    }
                    _ => is_open = false,
                },
                Some(sample) = under_way.next() => self.samples.push(sample),
            }
        }
        self.samples.sort_unstable_by_key(|sample| sample.begun);
    }
}

/// Each client waits for its answer before it asks again. Returns how long that took.
async fn closed_loop(clients: Vec<LoadClient>, requests: usize) -> Result<(Vec<LoadClient>, Duration)> {
    let together = Arc::new(Barrier::new(clients.len()));
    let start = Arc::new(OnceLock::new());
    let work = |mut client: LoadClient| {
        let (together, start) = (Arc::clone(&together), Arc::clone(&start));
        client.samples.reserve(requests);
        (client.runtime.clone(), async move {
            together.wait().await;
            let began = *start.get_or_init(Instant::now);
            client.ask_in_turn(requests, began).await;
            (client, began.elapsed())
        })
    };
    all(clients.into_iter().map(work)).await
}

/// Requests begin at a fixed rate. Returns how long that took.
async fn open_loop(
    clients: Vec<LoadClient>,
    scenario: &Query,
    rate: f64,
    watch: &Arc<Watch>,
) -> Result<(Vec<LoadClient>, Duration)> {
    let (senders, receivers): (Vec<_>, Vec<_>) = clients.iter().map(|_| mpsc::unbounded_channel()).unzip();
    let began = Instant::now();
    let pacer = Pacer { rate, requests: scenario.requests_of_all(), began };
    let pacing = pacer.start(senders, Arc::clone(watch))?;
    let work = |(mut client, due): (LoadClient, _)| {
        (client.runtime.clone(), async move {
            client.ask_when_due(due, began).await;
            (client, began.elapsed())
        })
    };
    let ended = all(clients.into_iter().zip(receivers).map(work)).await;
    // It ends by itself: it has told of all requests, or has nobody to tell any more.
    pacing.join().map_err(|_| anyhow!("the pacer panicked"))?;
    ended
}

/// Runs every client as a task of its own, where it belongs; returns them in order, and the longest of
/// their times.
async fn all<F>(work: impl Iterator<Item = (Handle, F)>) -> Result<(Vec<LoadClient>, Duration)>
where
    F: Future<Output = (LoadClient, Duration)> + Send + 'static,
{
    let tasks = work.map(|(runtime, client)| AbortOnDropHandle::new(runtime.spawn(client)));
    let (clients, took): (_, Vec<Duration>) = try_join_all(tasks).await?.into_iter().unzip();
    Ok((clients, took.into_iter().max().unwrap_or_default()))
}
