//! Messages down a line of three indexers: at which rate they go in and out of each, what waits where, and what is lost
//! by which reason, with logging off and on; and new versions of files that are announced down the same line.

mod news;
mod offer;
mod show;
mod stand;

use nekoindexer::ProbeCounts;
use nekoproto::{limits::BATCH_MAX, limits::PROBE_PAYLOAD_MAX};
use testkit::lan::Namespace;

use self::news::Announced;
use self::offer::{Offered, offer};
use self::stand::{Stand, leave_network};
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
    announced: Option<Announced>,
    /// That of this thread, or why the nodes were on loopback.
    network: Result<Namespace, String>,
    /// What ended it early, by itself.
    fault: Option<String>,
}

impl Scenario for Pipeline {
    type How = Connecting;
    type Target = Drawn;

    /// Measures each row on indexers of its own; ends early when stopped, with what was measured by then.
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

async fn measure(stand: &mut Stand, rate: u64, log: &str, options: &Pipeline) -> anyhow::Result<Ran> {
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
async fn linked(stand: &Stand, options: &Pipeline) -> anyhow::Result<()> {
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
                news::announce(&stand, options.versions).await
            };
            let announced = watch.unless_stopped(announced).await;
            stand.stop().await;
            self.announced = Some(announced?);
        }
        Ok(())
    }

    /// Nothing was lost, and everything is accounted for.
    fn is_all_well(&self, options: &Pipeline) -> bool {
        let rows = self.ran.iter().all(|ran| ran.unaccounted(options) == 0 && ran.offered.lost() == 0);
        rows && self.fault.is_none()
            && self.announced.is_none_or(|announced| announced.told >= announced.acknowledged)
    }
}
