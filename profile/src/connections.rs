//! Many connections to one indexer, a few of them busy: what an idle one costs, and whether all are served.

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use clap::Args;
use futures::{StreamExt, TryStreamExt, stream};
use nekoproto::{
    FileName, Identity, QueryReply, SignedRecord,
    limits::CONNECTIONS_MAX,
    transport::{Security, call_until},
};

use crate::{
    cluster::{
        client::Client,
        deployment::{Deployment, Node},
    },
    floor::Floor,
    outcome::{Begin, Fault},
    plan::workload::sign_record,
    report::{Report, Row, Section, bytes, count, figures::Figures, machine, security_name},
    run::{Watch, progress::Progress, setup::within},
};

/// Connections that are made at a time.
const CONNECTING_AT_ONCE: usize = 64;
/// How long an answer may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// How long the indexer is left alone before its memory is read.
const SETTLED_AFTER: Duration = Duration::from_millis(500);

/// What to measure.
#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Connections, each of a peer of its own
    #[arg(short = 'n', long, default_value = "10000", value_parser = within(1, CONNECTIONS_MAX))]
    pub connections: usize,
    /// How many of them look names up
    #[arg(long, default_value = "100", value_parser = within(1, CONNECTIONS_MAX))]
    pub active: usize,
    /// Lookups of each of these
    #[arg(long, default_value = "200", value_parser = within(1, 1_000_000))]
    pub lookups: usize,
}

/// All that was measured.
#[derive(Clone, Debug)]
pub struct Measured {
    security: Security,
    floor: Floor,
    /// Connections that look names up.
    active: usize,
    /// Connections that were opened, and stayed.
    pub opened: usize,
    /// How long opening the idle ones took.
    opening: Duration,
    /// Resident memory of the indexer for each idle connection.
    bytes_each: f64,
    /// The same after each of them has been used once.
    pub bytes_each_after: f64,
    /// Lookups: of the active ones alone, of these with all others open, of each connection once.
    served: Vec<Served>,
    /// It was ended early.
    pub interrupted: bool,
}

/// Lookups of some connections.
#[derive(Clone, Debug)]
struct Served {
    what: String,
    /// Connections that looked up.
    open: usize,
    /// Lookups a second, of all together.
    per_s: f64,
    figures: Figures,
}

impl Measured {
    /// A row for each kind of lookups.
    pub fn report(&self) -> Report {
        let (security, raw) = (security_name(self.security), self.floor.raw.p50);
        let (opened, opening) = (self.opened, self.opening.as_secs_f64());
        let last = opened - self.active.min(opened);
        let [each, after] = [self.bytes_each, self.bytes_each_after].map(|bytes| bytes / 1024.0);
        let head = format!(
            "One indexer in a process of its own, {security}, {}.\n\
             Floor between two processes: raw TCP p50 {raw:.1} us.\n\n\
             {opened} connections, each of a peer of its own, the last {last} of them opened in {opening:.1} s. \
             Resident memory of the indexer for each idle one: {each:.1} KiB; after each was used: {after:.1} KiB.",
            machine::in_words()
        );
        let row = |served: &Served| {
            let row = Row::named(served.what.clone()).with("security", security).with("open", served.open);
            row.figure("per_s", served.per_s).times(&served.figures)
        };
        let columns = ["scenario", "times", "per_s", "p50_us", "p99_us", "max_us"];
        Report {
            kind: Some("connections"),
            head,
            sections: vec![Section::new("Lookups:", &columns, self.served.iter().map(row).collect())],
            foot: Vec::from_iter(
                self.interrupted.then(|| "Interrupted: not all of it was measured.".to_owned()),
            ),
            facts: Row::default()
                .with("connections", opened)
                .with("active", self.active)
                .figure("bytes_each", self.bytes_each)
                .figure("bytes_each_after", self.bytes_each_after)
                .figure("opening_s", opening)
                .figure("floor_us", raw),
            interrupted: self.interrupted,
        }
    }
}

/// Opens the connections and measures, on an indexer of its own.
pub async fn run(options: &Options, deployment: &Deployment) -> Result<Measured, Fault> {
    let options = Options { connections: options.connections.max(options.active), ..options.clone() };
    let watch = &deployment.watch;
    let floor = watch.unless_stopped(Floor::measure(deployment)).await.or_cannot_begin()?;
    let node = deployment.indexer(0, Vec::new()).await.or_cannot_begin()?;
    let mut measured = Measured {
        security: deployment.security,
        floor,
        active: options.active,
        opened: 0,
        opening: Duration::ZERO,
        bytes_each: f64::NAN,
        bytes_each_after: f64::NAN,
        served: Vec::new(),
        interrupted: false,
    };
    let done = measure(&mut measured, &options, &node, deployment).await;
    node.stop().await;
    done?;
    measured.interrupted = watch.is_stopped();
    Ok(measured)
}

async fn measure(
    measured: &mut Measured,
    options: &Options,
    node: &Node,
    deployment: &Deployment,
) -> anyhow::Result<()> {
    let watch = &deployment.watch;
    let memory = || node.rss_bytes().context("the indexer's memory cannot be read");
    let origin = Identity::generate();
    let record = sign_record(&origin, "everybody/wants.this").to_signed();
    // All the busy ones first: what they leave behind in the indexer is no part of what an idle one costs.
    let mut clients = connect(options.active, node.addr(), deployment).await?;
    let first = clients.first().context("at least one connection is active")?;
    first.register(vec![record.clone()]).await?;
    let expected = look_up(first, &record).await?.1;
    ensure!(expected.hits.len() == 1, "what was registered is not found");
    let asked = Asked { record: &record, expected: &expected };
    let active = options.active;
    let alone = format!("{active} active, no others");
    measured.served.push(asked.by(alone, &clients[..active], options.lookups, watch).await?);
    tokio::time::sleep(SETTLED_AFTER).await;
    let before = memory()?;
    let began = Instant::now();
    clients.extend(connect(options.connections - active, node.addr(), deployment).await?);
    let opened = clients.len();
    measured.opened = opened;
    measured.opening = began.elapsed();
    tokio::time::sleep(SETTLED_AFTER).await;
    let idle = opened - active;
    measured.bytes_each = per(memory()?.saturating_sub(before), idle);
    let (open, each) = (format!("{active} active, {opened} open"), format!("each of {opened} once"));
    measured.served.push(asked.by(open, &clients[..active], options.lookups, watch).await?);
    measured.served.push(asked.by(each, &clients, 1, watch).await?);
    measured.bytes_each_after = per(memory()?.saturating_sub(before), idle);
    Ok(())
}

fn per(memory: u64, connections: usize) -> f64 {
    bytes(memory) / count(connections.max(1))
}

/// Connects as this number of peers; as fewer if stopped.
async fn connect(peers: usize, addr: SocketAddr, deployment: &Deployment) -> anyhow::Result<Vec<Client>> {
    let watch = &deployment.watch;
    let _progress = Progress::begin(&format!("{peers} connect"), peers, watch);
    let connect = |_| async {
        let client = Client::connect(addr, Identity::generate(), deployment.security).await;
        watch.add_done(1);
        client.map(Client::without_port)
    };
    let numbers = stream::iter((0..peers).take_while(|_| !watch.is_stopped()));
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
    /// Each of `clients` looks the name up `times` times, one after the other; less often if stopped.
    async fn by(
        &self,
        what: String,
        clients: &[Client],
        times: usize,
        watch: &Arc<Watch>,
    ) -> anyhow::Result<Served> {
        let open = clients.len();
        let _progress = Progress::begin(&format!("{open} ask"), open * times, watch);
        let began = Instant::now();
        let ask = |client| async move {
            let mut took = Vec::with_capacity(times);
            for _ in (0..times).take_while(|_| !watch.is_stopped()) {
                let (time, reply) = look_up(client, self.record).await?;
                ensure!(reply == *self.expected, "wrong answer: {reply:?} instead of {:?}", self.expected);
                took.push(time);
                watch.add_done(1);
            }
            anyhow::Ok(took)
        };
        let took = futures::future::try_join_all(clients.iter().map(ask)).await?.concat();
        let per_s = count(took.len()) / began.elapsed().as_secs_f64();
        Ok(Served { what, open, per_s, figures: Figures::of(took) })
    }
}
