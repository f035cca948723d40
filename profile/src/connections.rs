//! Many connections to one indexer, a few of them busy: what an idle one costs, and whether all are served.

mod report;

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use nekoproto::{FileName, Identity, QueryReply, SignedRecord, transport::call_until};

pub use report::Report;

use crate::{
    cluster::{
        client::Client,
        node::{Node, Place},
    },
    floor::Floor,
    outcome::{Begin, Fault},
    plan::workload::sign_record,
    report::figures::Figures,
    run::{Watch, progress::Progress},
};

/// Connections that are made at a time.
const CONNECTING_AT_ONCE: usize = 64;
/// How long an answer may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// How long the indexer is left alone before its memory is read.
const SETTLED_AFTER: Duration = Duration::from_millis(500);

/// What to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// Connections, each of a peer of its own that listens somewhere.
    pub connections: usize,
    /// Those of them that look names up.
    pub active: usize,
    /// Lookups of each of these, one after the other.
    pub lookups: usize,
}

/// Lookups of the active connections.
#[derive(Clone, Debug)]
pub struct Served {
    /// Connections open.
    pub open: usize,
    /// Lookups a second, of all together.
    pub per_s: f64,
    /// How long each took.
    pub figures: Figures,
}

/// Opens the connections and measures, on an indexer started by `place`.
///
/// # Errors
/// The indexer cannot be started or cannot be reached any more, or an answer is wrong.
pub async fn run(options: &Options, place: &Place, watch: &Arc<Watch>) -> Result<Report, Fault> {
    let floor = watch.unless_stopped(Floor::measure(place)).await.or_cannot_begin()?;
    let node = place.indexer(0, SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), Vec::new()).await;
    let node = node.or_cannot_begin()?;
    let mut report = Report::new(options.clone(), place.security, floor);
    let measured = measure(&mut report, options, &node, place, watch).await;
    node.stop().await;
    measured?;
    report.interrupted = watch.is_stopped();
    Ok(report)
}

async fn measure(
    report: &mut Report,
    options: &Options,
    node: &Node,
    place: &Place,
    watch: &Arc<Watch>,
) -> anyhow::Result<()> {
    let memory = || node.rss_bytes().context("the indexer's memory cannot be read");
    let origin = Identity::generate();
    let record = sign_record(&origin, "everybody/wants.this").to_signed();
    // All the busy ones first: what they leave behind in the indexer is no part of what an idle one costs.
    let mut clients = connect(options.active, node.addr(), place, watch).await?;
    let first = clients.first().context("at least one connection is active")?;
    first.register(vec![record.clone()]).await?;
    let expected = look_up(first, &record).await?.1;
    ensure!(expected.hits.len() == 1, "what was registered is not found");
    let asked = Asked { record: &record, expected: &expected };
    report.few = Some(asked.by(&clients[..options.active], options.lookups, watch).await?);
    tokio::time::sleep(SETTLED_AFTER).await;
    let before = memory()?;
    let began = Instant::now();
    clients.extend(connect(options.connections - options.active, node.addr(), place, watch).await?);
    report.opened = clients.len();
    report.opening = began.elapsed();
    tokio::time::sleep(SETTLED_AFTER).await;
    let idle = clients.len() - options.active;
    report.bytes_each = per(memory()?.saturating_sub(before), idle);
    report.many = Some(asked.by(&clients[..options.active], options.lookups, watch).await?);
    report.all = Some(asked.by(&clients, 1, watch).await?);
    report.bytes_each_after = per(memory()?.saturating_sub(before), idle);
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "shown with a few digits")]
fn per(bytes: u64, connections: usize) -> f64 {
    bytes as f64 / connections.max(1) as f64
}

/// Connects as so many peers; as fewer if stopped.
async fn connect(
    count: usize,
    addr: SocketAddr,
    place: &Place,
    watch: &Arc<Watch>,
) -> anyhow::Result<Vec<Client>> {
    watch.begin();
    let _progress = Progress::start(&format!("{count} connect"), count, Arc::clone(watch));
    let connect = |_| async {
        let client = Client::connect(addr, Identity::generate(), place.security).await;
        watch.add_done(1);
        client.map(Client::without_port)
    };
    let numbers = stream::iter((0..count).take_while(|_| !watch.is_stopped()));
    numbers.map(connect).buffer_unordered(CONNECTING_AT_ONCE).try_collect().await
}

async fn look_up(client: &Client, record: &SignedRecord) -> anyhow::Result<(Duration, QueryReply)> {
    let sent = Instant::now();
    let name: FileName = record.unverified().name.clone();
    let reply = client.calls.search(call_until(sent + ANSWER_WITHIN), name).await??;
    Ok((sent.elapsed(), reply))
}

/// What everybody looks up, and what must be found.
struct Asked<'a> {
    record: &'a SignedRecord,
    expected: &'a QueryReply,
}

impl Asked<'_> {
    /// Each of `clients` looks the name up so many times, one after the other; fewer times if stopped.
    async fn by(&self, clients: &[Client], times: usize, watch: &Arc<Watch>) -> anyhow::Result<Served> {
        watch.begin();
        let all = clients.len() * times;
        let _progress = Progress::start(&format!("{} ask", clients.len()), all, Arc::clone(watch));
        let began = Instant::now();
        let ask = |client| async move {
            let mut took = Vec::with_capacity(times);
            for _ in 0..times {
                if watch.is_stopped() {
                    break;
                }
                let (time, reply) = look_up(client, self.record).await?;
                ensure!(reply == *self.expected, "wrong answer: {reply:?} instead of {:?}", self.expected);
                took.push(time);
                watch.add_done(1);
            }
            anyhow::Ok(took)
        };
        let took = futures::future::try_join_all(clients.iter().map(ask)).await?.concat();
        #[expect(clippy::cast_precision_loss, reason = "shown with a few digits")]
        let per_s = took.len() as f64 / began.elapsed().as_secs_f64();
        Ok(Served { open: clients.len(), per_s, figures: Figures::of(took) })
    }
}
