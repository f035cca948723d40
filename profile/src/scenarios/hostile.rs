//! Attacks on one node among honest ones: what honest clients see before, during and after, and what the
//! attacked node takes. One row for each attack, judged by what must hold.

mod beside;
pub mod judge;
mod victims;

use testkit::{rogue::Attack, rogue::Order};
use tokio::{net::TcpListener, time::Instant};

use self::judge::{Attacked, Judged, KEPT_MIB};
use self::victims::Victims;
use crate::arena::{Arena, file_at};
use crate::scenarios::prelude::*;

/// Queries and searches a second, of all clients together.
const QUERIES_PER_S: u32 = 200;
/// Clients a second where each comes anew.
const NEWCOMERS_PER_S: u32 = 25;
/// Before anything is measured.
const WARM_UP: Duration = Duration::from_secs(2);
/// The longest that recovery is waited for.
const AFTER_MAX: Duration = Duration::from_secs(12);
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// What rogue peers register under.
const BAIT: &str = "bait/file.bin";

/// Which attacks, and for how long.
#[derive(Clone, Debug, Args)]
pub struct Hostile {
    /// Attacks [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',', long_help = listed())]
    pub(crate) attack: Vec<Attack>,
    /// Seconds that each attack lasts; as long is measured before it
    #[arg(long, value_name = "S", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=600))]
    pub(crate) seconds: u32,
    /// Show goals beside what was measured
    #[arg(long)]
    pub(crate) goals: bool,
}

fn listed() -> String {
    let each = Attack::ALL.iter().map(|(_, name, does)| format!("\n- {name}:{}", does.trim_end_matches('.')));
    format!("Attacks [default: all]:{}", each.collect::<String>())
}

impl Scenario for Hostile {
    type How = Connecting;
    type Target = Drawn;

    async fn run(&self, on: &Deployment) -> Result<Report, Fault> {
        let folder = Folder::prepare(None)?;
        let every = || Attack::ALL.iter().map(|(attack, ..)| *attack).collect();
        let attacks = if self.attack.is_empty() { every() } else { self.attack.clone() };
        let mut all = Vec::new();
        for attack in attacks.iter().take_while(|_| !on.watch.is_stopped()) {
            note(&format!("attack {attack}"));
            let lasts = Duration::from_secs(self.seconds.into());
            all.push(run_one(*attack, lasts, &on.within(&folder)).await?);
        }
        Ok(judge::report(&all, self, on))
    }
}

async fn run_one(attack: Attack, lasts: Duration, deployment: &Deployment) -> Result<Attacked> {
    let mut arena = Arena::start(deployment, 2).await?;
    let third = TcpListener::bind(ANY_PORT).await?;
    let mut order = Order {
        attack,
        insecure: deployment.security == nekoproto::transport::Security::Insecure,
        indexer: arena.net.addr(0),
        other: Some(arena.net.addr(1)),
        http: arena.net.nodes[0].http,
        peer: None,
        names: vec![file_at(1)],
        bait: BAIT.to_owned(),
        third: Some(third.local_addr()?),
    };
    let stop = CancellationToken::new();
    let mut victims = Victims::new(third);
    let load = std::sync::Arc::clone(&arena.load);
    let asking = if attack.is_of_transfers() {
        order.names = arena.share().await?;
        order.peer = arena.peers.first().map(|seeder| seeder.addr);
        victims.readers(&mut arena, order.names.clone(), stop.clone()).await?
    } else {
        if matches!(attack, Attack::Names | Attack::Keys) {
            Victims::elder(&mut arena).await?;
        }
        let (anew, stop) = (matches!(attack, Attack::Flood | Attack::Hellos), stop.clone());
        tokio::spawn(load.clone().queries(if anew { NEWCOMERS_PER_S } else { QUERIES_PER_S }, anew, stop))
    };
    sleep(WARM_UP).await;
    let begin = load.now();
    sleep(lasts).await;
    let before_mib = arena.memory_mib();
    before_mib.keys().for_each(|pid| machine::forget_peak(*pid)); // peaks count from here on
    let attacked = load.now();
    let mut rogue = arena.net.deployment.process("rogue", Role::Rogue(order.clone())).await?;
    victims.stands(attack, &arena).await;
    let until = Instant::now() + lasts;
    victims.provoke(attack, &mut arena, BAIT, until).await?;
    sleep_until(until).await;
    let used = rogue.tells::<Usage>(&Request::Usage).await;
    rogue.kill().await;
    let over = load.now();
    let rogue_percent = used.map(|used| used.cpu_s / (over - attacked).as_secs_f64() * 100.0);
    let percent = rogue_percent.as_ref().map_or(f64::NAN, |percent| *percent);
    let calm = (lasts / 4).clamp(LOOK_EVERY * 5, LOOK_EVERY * 10);
    let so_far = Judged::of(&load.samples(), [begin, attacked, over, over], percent);
    calms_down((&arena, &victims, &before_mib), &so_far, (over, calm)).await;
    let (peak_mib, kept_mib) = (victims.peak_mib(&arena), kept_mib(&before_mib, &arena));
    stop.cancel();
    asking.await?;
    let end = load.now();
    let samples = load.samples();
    let mut judged = Judged::of(&samples, [begin, attacked, over, end], percent);
    judged.memory(peak_mib, kept_mib);
    // One that could not go on was no attack.
    if let Err(error) = rogue_percent {
        judged.misses(format!("no attack: {error:#}"));
    }
    let notes = victims.end(over.as_secs_f64(), &mut judged).await;
    arena.stop().await;
    let marks = [begin, attacked, over, end];
    Ok(Attacked { attack, samples, marks, judged, peak_mib, kept_mib, rogue_percent: percent, notes })
}

/// Waits until all is as it was for `calm`, or too late.
async fn calms_down(
    (arena, victims, before_mib): (&Arena, &Victims, &HashMap<u32, f64>),
    so_far: &Judged,
    (over, calm): (Duration, Duration),
) {
    loop {
        sleep(LOOK_EVERY).await;
        let now = arena.load.now();
        let recovered = so_far.recovered(&arena.load.samples(), over, now);
        let is_calm = recovered.is_some_and(|after| now >= over + after + calm) && victims.is_done();
        let is_given_back = kept_mib(before_mib, arena) <= KEPT_MIB;
        if is_calm && is_given_back || now >= over + AFTER_MAX || arena.net.deployment.watch.is_stopped() {
            return;
        }
    }
}

/// How much more memory the node has now that grew most.
fn kept_mib(before_mib: &HashMap<u32, f64>, arena: &Arena) -> f64 {
    let grown = arena.memory_mib().into_iter().filter_map(|(pid, now)| Some(now - before_mib.get(&pid)?));
    grown.fold(0.0, f64::max)
}
