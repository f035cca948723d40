//! Attacks on one node among honest ones: what honest clients see before, during and after, and what the
//! attacked node takes. One row for each attack, judged by what must hold.

pub mod judge;
mod victims;

use std::{path::Path, time::Duration};

use clap::Args;
use serde_json::json;
use testkit::network::ANY_PORT;
use testkit::rogue::{Attack, Order};
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use self::judge::{Judged, PHASES};
use self::victims::Victims;
use crate::arena::{Arena, load::Sample};
use crate::goals::{Bound, Goal};
use crate::node::{Request, Role, usage::Usage};
use crate::report::{Proof, Report, Row, Section, Table, machine};
use crate::{
    cluster::deployment::Deployment, outcome::Fault, plot::proof, run::watch::note, transfer::folder::Folder,
};

/// Queries a second, of all clients together.
const QUERIES_PER_S: u32 = 100;
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
pub struct Options {
    /// Attacks [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) attack: Vec<Attack>,
    /// Seconds that each attack lasts; as long is measured before it
    #[arg(long, value_name = "S", default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..=600))]
    pub(crate) seconds: u32,
    /// Show goals beside what was measured
    #[arg(long)]
    pub(crate) goals: bool,
}

/// What came of one attack.
pub(crate) struct Attacked {
    pub(crate) attack: Attack,
    pub(crate) samples: Vec<Sample>,
    /// From the beginning of the load to the begin of the figures, of the attack, to its end, and to the end of all.
    pub(crate) marks: [Duration; 4],
    pub(crate) judged: Judged,
    peak_mib: f64,
    /// Processor time of the rogue node, in percent of a core.
    rogue_percent: f64,
    notes: Vec<String>,
}

/// Runs the attacks one after the other, each on nodes of its own.
pub(crate) async fn run(options: &Options, deployment: &Deployment) -> Result<Proof, Fault> {
    let folder = Folder::prepare(None)?;
    let every = || Attack::ALL.iter().map(|(attack, _)| *attack).collect();
    let attacks = if options.attack.is_empty() { every() } else { options.attack.clone() };
    let mut all = Vec::new();
    for attack in attacks.iter().take_while(|_| !deployment.watch.is_stopped()) {
        note(&format!("attack {attack}"));
        let lasts = Duration::from_secs(options.seconds.into());
        all.push(run_one(*attack, lasts, deployment, &folder.path).await?);
    }
    // An attack that harms is a result; a run that was ended early is not all of it.
    Ok(Proof { report: report(&all, options, deployment), picture: proof::attacks(&all), is_all_well: true })
}

async fn run_one(
    attack: Attack,
    lasts: Duration,
    deployment: &Deployment,
    folder: &Path,
) -> anyhow::Result<Attacked> {
    let mut arena = Arena::start(deployment, folder, 2).await?;
    let third = TcpListener::bind(ANY_PORT).await?;
    let mut order = Order {
        attack,
        insecure: deployment.security == nekoproto::transport::Security::Insecure,
        indexer: arena.addr(),
        peer: None,
        names: vec!["indexer-1/file.bin".to_owned()],
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
    let pause = async |time| {
        let _ = stop.run_until_cancelled(sleep(time)).await;
    };
    pause(WARM_UP).await;
    let begin = load.now();
    pause(lasts).await;
    arena.ids().iter().for_each(|(_, pid)| machine::forget_peak(*pid));
    let attacked = load.now();
    let mut rogue = arena.process("rogue", Role::Rogue(order.clone())).await?;
    let until = Instant::now() + lasts;
    victims.provoke(attack, &mut arena, BAIT, until).await?;
    sleep_until(until).await;
    let used = rogue.tells::<Usage>(&Request::Usage).await;
    rogue.kill().await;
    let over = load.now();
    // Until all is as it was for some time, or too late.
    let calm = (lasts / 4).clamp(LOOK_EVERY * 5, LOOK_EVERY * 10);
    let most_us = Judged::of(&load.samples(), [begin, attacked, over, over]).most_us();
    loop {
        pause(LOOK_EVERY).await;
        let now = load.now();
        let recovered = judge::recovered(&load.samples(), most_us, over, now);
        let is_calm = recovered.is_some_and(|after| now >= over + after + calm) && victims.is_done();
        if is_calm || now >= over + AFTER_MAX || deployment.watch.is_stopped() {
            break;
        }
    }
    let peak_mib = victims.peak_mib(&arena);
    stop.cancel();
    asking.await?;
    let end = load.now();
    let samples = load.samples();
    let mut judged = Judged::of(&samples, [begin, attacked, over, end]);
    judged.missed.extend((peak_mib > judge::MEMORY_MIB).then(|| format!("memory {peak_mib:.0} MiB")));
    let notes = victims.end(over.as_secs_f64(), &mut judged).await;
    arena.stop().await;
    let marks = [begin, attacked, over, end];
    let rogue_percent = judged.rogue_percent(used.map(|used| used.cpu_s), over - attacked);
    Ok(Attacked { attack, samples, marks, judged, peak_mib, rogue_percent, notes })
}

impl Attacked {
    fn row(&self) -> Row {
        let Judged { missed, phases, recovered } = &self.judged;
        let row = Row::named(self.attack.name())
            .figure("peak_mib", self.peak_mib)
            .figure("rogue_percent", self.rogue_percent)
            .figure("recovered_s", recovered.map(|after| after.as_secs_f64()))
            .with("held", missed.is_empty())
            .with("missed", json!(missed))
            .with("notes", json!(self.notes));
        PHASES.into_iter().zip(phases).fold(row, |row, (phase, seen)| row.with(phase, seen.json()))
    }

    fn line(&self) -> Vec<String> {
        let [before, during, after] = &self.judged.phases;
        let ms = |us: f64| if us.is_finite() { format!("{:.1}", us / 1e3) } else { "-".to_owned() };
        let of = |figure: fn(&judge::Seen) -> f64| {
            [before, during, after].map(|seen| ms(figure(seen))).join(" / ")
        };
        let counts = format!("{} / {} / {}", during.wrong, during.incomplete, during.failed);
        let counts_after = format!("{} / {} / {}", after.wrong, after.incomplete, after.failed);
        let recovered =
            self.judged.recovered.map_or_else(|| "no".to_owned(), |t| format!("{:.1}", t.as_secs_f64()));
        let verdict = match self.judged.missed.is_empty() {
            true => "held".to_owned(),
            false => format!("**missed**: {}", self.judged.missed.join("; ")),
        };
        let [peak, rogue] = [self.peak_mib, self.rogue_percent].map(|figure| format!("{figure:.0}"));
        let (name, p50, p99) = (self.attack.name().to_owned(), of(|s| s.figures.p50), of(|s| s.figures.p99));
        vec![name, p50, p99, counts, counts_after, peak, rogue, recovered, verdict]
    }

    /// What must hold, as goals.
    fn goals(&self, seconds: u32) -> Vec<Goal> {
        let [_, during, _] = &self.judged.phases;
        let recovered_s = self.judged.recovered.map_or(f64::INFINITY, |after| after.as_secs_f64());
        let most_ms = self.judged.most_us() / 1e3;
        let faults = crate::report::count(self.judged.faults());
        let figures = [
            ("p99, ms", Bound::AtMost(most_ms), during.figures.p99 / 1e3),
            ("memory peak, MiB", Bound::AtMost(judge::MEMORY_MIB), self.peak_mib),
            ("recovered after, s", Bound::AtMost(judge::RECOVERED_WITHIN.as_secs_f64()), recovered_s),
            ("wrong, incomplete, failed", Bound::Exactly(0.0), faults),
        ];
        let command = format!("profile hostile --attack {} --seconds {seconds}", self.attack);
        let all_right = self.judged.phases.iter().all(|seen| seen.wrong == 0);
        let goal = |(what, bound, measured)| Goal {
            all_right,
            ..Goal::new(format!("{}: {what}", self.attack), bound, measured, &command)
        };
        figures.into_iter().map(goal).collect()
    }
}

/// The table of what was measured, or the goals beside it.
fn report(all: &[Attacked], options: &Options, deployment: &Deployment) -> Report {
    let interrupted = deployment.watch.is_stopped();
    if options.goals {
        let goals: Vec<Goal> = all.iter().flat_map(|attacked| attacked.goals(options.seconds)).collect();
        return crate::goals::report(&goals, "", interrupted);
    }
    let heads = "attack|p50 ms, before / during / after|p99 ms|wrong / incomplete / failed during|after|peak MiB|\
                 rogue CPU %|recovered s|verdict";
    let table = all.iter().fold(Table::new(heads.split('|')), |table, attacked| table.line(attacked.line()));
    let notes = all.iter().filter(|attacked| !attacked.notes.is_empty());
    let notes = notes.map(|attacked| format!("{}: {}.", attacked.attack, attacked.notes.join("; ")));
    let held = all.iter().filter(|attacked| attacked.judged.missed.is_empty()).count();
    Report {
        kind: Some("hostile"),
        head: format!(
            "Honest clients under attack, {}. Each attack lasts {} s, with figures of as long before.\n\
             The attacked nodes run as users get them; the rogue process stands for another machine and runs at nice 19.\n\
             Must hold: p99 <= 3 x before + 5 ms; each honest node <= {} MiB; recovered within {} s; no answer wrong, \
             incomplete or missing.",
            deployment.in_words(),
            options.seconds,
            judge::MEMORY_MIB,
            judge::RECOVERED_WITHIN.as_secs()
        ),
        sections: vec![Section::of(table, all.iter().map(Attacked::row).collect())],
        foot: notes.chain([format!("{held} of {} held.", all.len())]).collect(),
        interrupted,
        ..Report::default()
    }
}
