//! Messages down a line of three indexers: at which rate they go in and out of each, what waits where, and what is lost
//! by which reason, with logging off and on; and new versions of files that are announced down the same line.

mod offer;
mod stand;

use nekoproto::limits::PROBE_PAYLOAD_MAX;

use self::offer::{Offered, announce, offer};
use self::stand::{HOPS, Stand, leave_network};
use crate::scenarios::prelude::*;

const MESSAGES_MAX: usize = 1_000_000_000;
const RATE_MAX: u64 = 100_000_000;
const BYTES_MAX: usize = PROBE_PAYLOAD_MAX / BATCH_MAX;
const IN_FLIGHT_MAX: usize = 256;
/// What is compared with.
const OFF: &str = "off";
const INFO: &str = "info";

/// How much, and how fast.
#[derive(Clone, Debug, Args)]
pub(crate) struct Pipeline {
    /// Messages of each row
    #[arg(short = 'n', long, value_name = "N", default_value = "1000000", value_parser = within(1, MESSAGES_MAX))]
    messages: usize,
    /// Bytes of each message
    #[arg(long, value_name = "N", default_value = "1400", value_parser = within(1, BYTES_MAX))]
    bytes: usize,
    /// Messages offered a second, one row for each, with log off; 0: as many as are taken
    #[arg(long, value_delimiter = ',', default_value = "100000,300000,1000000,0",
        value_parser = clap::value_parser!(u64).range(..=RATE_MAX))]
    rates: Vec<u64>,
    /// What the indexers log, compared with off at the last rate
    #[arg(long, value_delimiter = ',', default_value = "info,trace")]
    logs: Vec<String>,
    /// How often that is done, in turn
    #[arg(long, value_name = "N", default_value = "3", value_parser = within(1, 100))]
    rounds: usize,
    /// Messages in a call
    #[arg(long, value_name = "N", default_value = "128", value_parser = within(1, BATCH_MAX))]
    in_a_call: usize,
    /// Calls under way at once
    #[arg(long, value_name = "N", default_value = "8", value_parser = within(1, IN_FLIGHT_MAX))]
    in_flight: usize,
    /// New versions of files that are announced
    #[arg(long, value_name = "N", default_value = "10000", value_parser = within(1, 10_000_000))]
    versions: usize,
    /// On loopback, also where networks can be made
    #[arg(long)]
    loopback: bool,
}

/// One row: the messages, and what the nodes counted and took.
struct Ran {
    rate: u64,
    log: String,
    offered: Offered,
    counted: Vec<ProbeCounts>,
    cpu_s: Vec<f64>,
}

struct Piped {
    ran: Vec<Ran>,
    announced: Option<Row>,
    /// That of this thread, or why the nodes were on loopback.
    network: Result<Namespace, String>,
    /// What ended it early, by itself.
    fault: Option<String>,
}

impl Scenario for Pipeline {
    type How = Connecting;
    type Target = Drawn;

    async fn run(&self, on: &Deployment) -> Result<Report, Fault> {
        let folder = Folder::prepare(None).or_cannot_begin()?;
        let on = &on.within(&folder);
        let network = match self.loopback {
            true => Err("as asked for".to_owned()),
            false => leave_network().map_err(|error| format!("{error:#}")),
        };
        if let Some(why) = network.as_ref().err().filter(|_| !self.loopback) {
            note(&format!("note: on loopback, since networks cannot be made here: {why}"));
        }
        let last = self.rates.last().copied().unwrap_or(0);
        let rates = self.rates.iter().map(|rate| (*rate, OFF));
        let logs: Vec<&str> = [OFF].into_iter().chain(self.logs.iter().map(String::as_str)).collect();
        let in_turn = (0..self.rounds).flat_map(|_| logs.iter().map(|log| (last, *log)));
        let mut piped = Piped { ran: Vec::new(), announced: None, network, fault: None };
        let rows = rates.chain(in_turn).collect();
        if let Err(fault) = piped.fill(rows, self, on).await {
            let fault = fault.after(!piped.ran.is_empty())?;
            piped.fault = Some(fault).filter(|_| !on.watch.is_stopped());
        }
        Ok(piped.report(self, on))
    }
}

async fn measure(stand: &mut Stand, rate: u64, log: &str, options: &Pipeline) -> Result<Ran> {
    linked(stand, options).await?;
    let (client, watch) = (stand.client(false).await?, Arc::clone(stand.net.watch()));
    let (before, cpu_before) = (stand.net.counts().await?, cpu(stand));
    let _progress = Progress::begin(&format!("{} offered, log {log}", shown(rate)), options.messages, &watch);
    let offered = offer(&client, rate, options, &watch).await;
    let (after, cpu_after) = (stand.net.counts().await?, cpu(stand));
    let counted = after.into_iter().zip(before).map(|(after, before)| after.since(before)).collect();
    let cpu_s = cpu_after.into_iter().zip(cpu_before).map(|(after, before)| after - before).collect();
    Ok(Ran { rate, log: log.to_owned(), offered, counted, cpu_s })
}

/// Waits until a message comes to the end of the line.
async fn linked(stand: &Stand, options: &Pipeline) -> Result<()> {
    let (client, watch) = (stand.client(false).await?, stand.net.watch());
    let one = Pipeline { messages: 1, in_a_call: 1, ..options.clone() };
    let come = async || {
        ensure!(!watch.is_stopped(), "interrupted before it was measured");
        let arrived = offer(&client, 0, &one, watch).await.arrived;
        Ok((arrived == 0).then(|| "the indexers do not find each other".to_owned()))
    };
    until(LINKED_WITHIN, come).await
}

fn cpu(stand: &Stand) -> Vec<f64> {
    stand.net.nodes.iter().map(|node| node.of_process(machine::cpu_s).unwrap_or(f64::NAN)).collect()
}

fn shown(rate: u64) -> String {
    if rate == 0 { "as many as are taken".to_owned() } else { format!("{rate} a second") }
}

impl Piped {
    async fn fill(
        &mut self,
        rows: Vec<(u64, &str)>,
        options: &Pipeline,
        deployment: &Deployment,
    ) -> Result<(), Fault> {
        let (watch, here) = (&deployment.watch, self.network.clone().ok());
        let start = async |log: Option<&str>| {
            let on = Deployment { log: log.map(str::to_owned), ..deployment.clone() };
            watch.unless_stopped(Stand::start(&on, here.as_ref())).await.or_cannot_begin()
        };
        for (rate, log) in rows {
            if watch.is_stopped() {
                return Ok(());
            }
            let mut stand = start((log != OFF).then_some(log)).await?;
            let ran = measure(&mut stand, rate, log, options).await;
            stand.stop().await;
            self.ran.push(ran?);
        }
        if !watch.is_stopped() {
            let stand = start(None).await?;
            let announced = async {
                linked(&stand, options).await?;
                announce(&stand, options.versions).await
            };
            let announced = watch.unless_stopped(announced).await;
            stand.stop().await;
            self.announced = Some(announced?);
        }
        Ok(())
    }

    fn is_all_well(&self, options: &Pipeline) -> bool {
        let rows = self.ran.iter().all(|ran| ran.unaccounted(options) == 0 && ran.offered.lost() == 0);
        rows && self.fault.is_none() && self.announced.iter().all(|announced| announced.0["lost"] == 0)
    }
}

/// Goals: messages a second through all hops, and what logging at info may cost, in percent.
const PER_S_MIN: f64 = 307_000.0;
const INFO_PERCENT_MAX: f64 = 3.0;

impl Ran {
    fn label(&self) -> String {
        format!("{}, log {}", shown(self.rate), self.log)
    }

    fn per_s(&self) -> f64 {
        bytes(self.offered.arrived) / self.offered.wall.as_secs_f64()
    }

    /// Messages that are neither known to have arrived nor counted as lost, and calls that nodes count otherwise than
    /// the sender.
    fn unaccounted(&self, options: &Pipeline) -> u64 {
        let offered = &self.offered;
        let messages = offered.sent.abs_diff(offered.arrived + offered.lost());
        let calls = offered.arrived / options.in_a_call as u64;
        let ended = self.counted.last().map_or(0, |last| last.out_of_hops);
        // A call that was lost on its way back had come to the end.
        let counts =
            calls.saturating_sub(ended) + if offered.lost() == 0 { ended.saturating_sub(calls) } else { 0 };
        messages + counts * options.in_a_call as u64
    }

    fn row(&self, options: &Pipeline) -> Row {
        let (offered, per_s) = (&self.offered, self.per_s());
        let (took, held, cpu_s) =
            (offered.took.figures(), offered.held_back.figures(), self.cpu_s.iter().sum::<f64>());
        Row::of(json!({
            "scenario": self.label(), "rate": self.rate, "log": self.log, "per_s": per_s,
            "mbytes_per_s": per_s * count(options.bytes) / 1e6, "sent": offered.sent, "arrived": offered.arrived,
            "again": offered.again, "lost": offered.lost(), "lost_by_reason": offered.lost,
            "unaccounted": self.unaccounted(options), "held_back_ms": held.p50 / 1e3, "took_p50_ms": took.p50 / 1e3,
            "took_p99_ms": took.p99 / 1e3, "cpu_percent": cpu_s / offered.wall.as_secs_f64() * 100.0,
        }))
    }

    fn hops(&self, options: &Pipeline) -> Vec<Row> {
        let wall_s = self.offered.wall.as_secs_f64();
        let rate = |calls: u64| bytes(calls) * count(options.in_a_call) / wall_s;
        let hop = |((n, counted), (times, cpu_s)): ((usize, &ProbeCounts), (&[Times; 2], &f64))| {
            let [own, link] = times.each_ref().map(Times::figures);
            let out = rate(if n + 1 < HOPS { counted.forwarded } else { counted.out_of_hops });
            let messages = |calls: u64| calls * options.in_a_call as u64;
            Row::of(json!({
                "scenario": format!("node {}, {}", n + 1, self.label()), "in_per_s": rate(counted.received),
                "out_per_s": out, "mbytes_per_s": out * count(options.bytes) / 1e6,
                "refused": messages(counted.refused), "lost": messages(counted.lost + counted.nowhere),
                "own_p50_us": own.p50, "own_p99_us": own.p99, "link_p50_us": link.p50, "link_p99_us": link.p99,
                "cpu_percent": cpu_s / wall_s * 100.0,
            }))
        };
        let taken = self.offered.nodes.iter().zip(&self.cpu_s);
        self.counted.iter().enumerate().zip(taken).map(hop).collect()
    }
}

impl Piped {
    /// By how many percent fewer messages went down the line with this log than without, as medians.
    fn slower(&self, log: &str, options: &Pipeline) -> f64 {
        let in_turn = &self.ran[options.rates.len().min(self.ran.len())..];
        let usual = |log: &str| median(in_turn.iter().filter(|ran| ran.log == log).map(Ran::per_s));
        100.0 - usual(log) / usual(OFF) * 100.0
    }

    fn goals(&self, options: &Pipeline) -> Vec<Goal> {
        let goal = |what, bound, measured| Goal::new(what, bound, measured, "profile pipeline");
        let best = self.ran.iter().filter(|ran| ran.log == OFF).map(Ran::per_s).fold(f64::NAN, f64::max);
        let lost = self.ran.iter().map(|ran| ran.offered.lost() + ran.unaccounted(options)).sum();
        let info = self.slower(INFO, options);
        vec![
            goal("messages lost or unaccounted for", Bound::Exactly(0.0), bytes(lost)),
            goal("messages a second over all three hops, log off", Bound::AtLeast(PER_S_MIN), best),
            goal("slower with log info, %, medians", Bound::AtMost(INFO_PERCENT_MAX), info),
        ]
    }

    fn foot(&self, options: &Pipeline) -> Vec<String> {
        let mut foot = vec![
            "Held back: from when messages were due until they were sent. Refused for want of room and sent again is not lost.".to_owned(),
            "A relay that was measured elsewhere, multicast over veth, a core for each node: 490 000 messages a second in, \
             307 000 out; 123 000 and 83 000 with a line of log for each; 32 to 37 % lost.".to_owned(),
        ];
        let others = options.logs.iter().filter(|log| *log != INFO);
        let slower =
            others.map(|log| (log, self.slower(log, options))).filter(|(_, slower)| slower.is_finite());
        foot.extend(slower.map(|(log, slower)| format!("Slower with log {log}: {slower:.1} %, medians.")));
        for ran in &self.ran {
            let lost = ran.offered.lost.iter();
            foot.extend(lost.map(|(why, lost)| format!("{}: {lost} lost: {why}.", ran.label())));
        }
        foot
    }

    fn report(&self, options: &Pipeline, deployment: &Deployment) -> Report {
        let columns = "scenario per_s mbytes_per_s sent arrived again lost unaccounted held_back_ms took_p50_ms \
                       took_p99_ms cpu_percent";
        let hops = "scenario in_per_s out_per_s mbytes_per_s refused lost own_p50_us own_p99_us link_p50_us link_p99_us \
                    cpu_percent";
        let rows: Vec<Row> = self.ran.iter().map(|ran| ran.row(options)).collect();
        let picture = picture(&rows);
        let rows = rows.into_iter().chain(self.announced.clone()).collect();
        // In turn they say the same again.
        let once = self.ran.iter().take(options.rates.len() + 1 + options.logs.len());
        let of_hops = once.flat_map(|ran| ran.hops(options)).collect();
        let place = match &self.network {
            Ok(_) => "networks of their own, joined by pairs of virtual Ethernet devices".to_owned(),
            Err(why) => format!("loopback ({why})"),
        };
        let Pipeline { messages, bytes, in_a_call, in_flight, .. } = options;
        let setting = deployment.in_words();
        Report {
            kind: Some("pipeline"),
            head: format!(
                "{messages} messages of {bytes} bytes, {in_a_call} in a call, {in_flight} calls under way, through {HOPS} indexers \
                 in a line, each a process of its own, on {place}; {setting}."
            ),
            sections: vec![
                Section::new("By what was offered:", columns, rows),
                Section::new("At each node:", hops, of_hops),
                goals::section(&self.goals(options)),
            ],
            foot: self.foot(options),
            facts: Row::of(json!({ "loopback": self.network.as_ref().err(), "fault": self.fault })),
            is_broken: !self.is_all_well(options),
            pictures: vec![picture],
            ..Report::default()
        }
        .ended(deployment.watch.is_stopped(), "Interrupted: rows are missing.", self.fault.as_ref())
    }
}

/// Messages a second through all hops by how many are offered, where that is said; medians.
fn picture(rows: &[Row]) -> Picture {
    let limited = || rows.iter().filter(|row| row.get("rate") > 0.0);
    let mut rates =
        of_rows(limited(), "rate", "per_s", |row| format!("through all hops, log {}", row.text("log")));
    rates.extend(of_rows(limited(), "rate", "rate", |_| "offered".to_owned()));
    let charts = vec![lines(Axis::log("offered a second"), Axis::log("messages a second"), rates)];
    Picture::new("pipeline", "Messages down a line of three indexers", machine::in_words(), charts)
}
