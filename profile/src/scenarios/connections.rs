//! Many connections to one indexer, a few of them busy: what an idle one costs, and whether all are served.

use crate::cluster::request;
use crate::scenarios::prelude::*;

const CONNECTING_AT_ONCE: usize = 64;
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// How long the indexer is left alone before its memory is read.
const SETTLED_AFTER: Duration = Duration::from_millis(500);

/// What to measure.
#[derive(Clone, Debug, Args)]
pub(crate) struct Connections {
    /// Connections, each of a peer of its own
    #[arg(short = 'n', long, default_value = "10000", value_parser = within(1, CONNECTIONS_MAX))]
    pub(crate) connections: usize,
    /// How many of them look names up
    #[arg(long, default_value = "100", value_parser = within(1, CONNECTIONS_MAX))]
    pub(crate) active: usize,
    /// Lookups of each of these
    #[arg(long, default_value = "200", value_parser = within(1, 1_000_000))]
    pub(crate) lookups: usize,
}

impl Scenario for Connections {
    type How = Connecting;
    type Target = Output;

    async fn run(&self, on: &Deployment) -> Result<Report, Fault> {
        let watch = &on.watch;
        let options = Self { connections: self.connections.max(self.active), ..self.clone() };
        let floor = watch.unless_stopped(Floor::measure(on)).await.or_cannot_begin()?;
        let net = Net::single(on).await.or_cannot_begin()?;
        let measured = measure(&options, &net).await;
        net.stop().await;
        let (facts, rows) = measured?;
        let (security, raw) = (security_name(on.security), floor.raw.p50);
        let (opened, opening) = (facts.get("connections"), facts.get("opening_s"));
        let last = (opened - count(self.active)).max(0.0);
        let [each, after] = ["bytes_each", "bytes_each_after"].map(|key| facts.get(key) / 1024.0);
        let rows = rows.into_iter().map(|row| row.with("security", security)).collect();
        let report = Report {
            kind: Some("connections"),
            head: format!(
                "One indexer in a process of its own, {security}, {}.\n\
                 Floor between two processes: raw TCP p50 {raw:.1} us.\n\n\
                 {opened} connections, each of a peer of its own, the last {last} of them opened in {opening:.1} s. \
                 Resident memory of the indexer for each idle one: {each:.1} KiB; after each was used: {after:.1} KiB.",
                machine::in_words()
            ),
            sections: vec![Section::new("Lookups:", "scenario times per_s p50_us p99_us max_us", rows)],
            facts: facts.with("floor_us", raw),
            ..Report::default()
        };
        Ok(report.ended(watch.is_stopped(), "Interrupted: not all of it was measured.", None))
    }
}

/// What the connections cost, and a row for each kind of lookups.
async fn measure(options: &Connections, net: &Net) -> Result<(Row, Vec<Row>)> {
    let (node, watch, active) = (&net.nodes[0], net.watch(), options.active);
    let memory = || node.of_process(machine::rss_bytes).context("the indexer's memory cannot be read");
    let origin = Identity::generate();
    let record = sign_record(&origin, "everybody/wants.this").to_signed();
    // All the busy ones first: what they leave behind in the indexer is no part of what an idle one costs.
    let mut clients = connect(active, net).await?;
    let first = clients.first().context("at least one connection is active")?;
    first.register(vec![record.clone()]).await?;
    let expected = look_up(first, &record).await?.1;
    ensure!(expected.hits.len() == 1, "what was registered is not found");
    let asked = Asked { record: &record, expected: &expected, watch };
    let alone = format!("{active} active, no others");
    let alone = asked.by(alone, &clients[..active], options.lookups).await?;
    tokio::time::sleep(SETTLED_AFTER).await;
    let before = memory()?;
    let began = Instant::now();
    clients.extend(connect(options.connections - active, net).await?);
    let opened = clients.len();
    let opening_s = began.elapsed().as_secs_f64();
    tokio::time::sleep(SETTLED_AFTER).await;
    let each = |memory: u64| bytes(memory.saturating_sub(before)) / count((opened - active).max(1));
    let bytes_each = each(memory()?);
    let (open, once) = (format!("{active} active, {opened} open"), format!("each of {opened} once"));
    let open = asked.by(open, &clients[..active], options.lookups).await?;
    let once = asked.by(once, &clients, 1).await?;
    let facts = Row::default().with("connections", opened).with("active", active);
    let facts = facts.with("bytes_each", bytes_each).with("bytes_each_after", each(memory()?));
    Ok((facts.with("opening_s", opening_s), vec![alone, open, once]))
}

/// Connects as this number of peers; as fewer if stopped.
async fn connect(peers: usize, net: &Net) -> Result<Vec<Client>> {
    let (watch, at) = (net.watch(), net.peers(0));
    let _progress = Progress::begin(&format!("{peers} connect"), peers, watch);
    let connect = |_| async {
        let client = at.client(Identity::generate()).await;
        watch.add_done(1);
        client.map(Client::without_port)
    };
    let numbers = stream::iter((0..peers).take_while(|_| !watch.is_stopped()));
    numbers.map(connect).buffer_unordered(CONNECTING_AT_ONCE).try_collect().await
}

async fn look_up(client: &Client, record: &SignedRecord) -> Result<(Duration, QueryReply)> {
    let sent = Instant::now();
    let request = request(&record.unverified().name, 0);
    let reply = client.calls.query(call_until(sent + ANSWER_WITHIN), request).await??;
    Ok((sent.elapsed(), reply))
}

/// What everybody looks up, and what must be found.
struct Asked<'a> {
    record: &'a SignedRecord,
    expected: &'a QueryReply,
    watch: &'a Arc<Watch>,
}

impl Asked<'_> {
    /// Each of `clients` looks the name up `times` times, one after the other; less often if stopped.
    async fn by(&self, what: String, clients: &[Client], times: usize) -> Result<Row> {
        let watch = self.watch;
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
        Ok(Row::named(what).with("open", open).with("per_s", per_s).times(&Figures::of(took)))
    }
}
