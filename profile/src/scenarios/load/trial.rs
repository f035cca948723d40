//! The scenarios: what happens to a network under load, and what must hold then.

use tokio::time::Instant;

use super::{Broken, Plan, Trial, judge::Delivered, judge::judge, network::INDEXERS, network::Network};
use crate::scenarios::hostile::judge::MEMORY_MIB;
use crate::scenarios::prelude::*;

/// How often readers and figures are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// How long the last versions may take to arrive.
const SETTLED_WITHIN: Duration = Duration::from_secs(60);

/// What is done to the far end of the line, and when: a share of the run.
#[derive(Clone, Copy)]
enum Mishap {
    ReaderDies,
    ReaderReturns,
    IndexerDies,
    IndexerReturns,
}

const MISHAPS: [(f64, Mishap); 4] = [
    (0.3, Mishap::ReaderDies),
    (0.45, Mishap::ReaderReturns),
    (0.6, Mishap::IndexerDies),
    (0.75, Mishap::IndexerReturns),
];

/// The row of a run that came to no end.
pub(super) fn failed(label: &str, error: &anyhow::Error) -> (Row, Points) {
    let faults = vec![format!("{error:#}")];
    (Row::named(label).with("verdict", fails(&faults)).with("faults", faults), Points::new())
}

fn fails(faults: &[String]) -> String {
    let faults = faults.join("; ");
    format!("**fail**: {}", faults.lines().collect::<Vec<_>>().join(" "))
}

/// Runs one trial: its row, and the milliseconds from a publication to its arrival with the percentage of all that arrived by
/// then.
pub(crate) async fn run(plan: &Arc<Plan>) -> Result<(Row, Points), Fault> {
    let watch = &plan.on.watch;
    let mut nets = Vec::new();
    for n in 0..plan.trial.networks() {
        nets.push(watch.unless_stopped(Network::start(plan, n)).await.or_cannot_begin()?);
    }
    watch.unless_stopped(begin(&mut nets)).await?;
    let lasted = drive(plan, &mut nets).await;
    if !watch.is_stopped() {
        for net in &mut nets {
            let finished = watch.unless_stopped(finish(plan, net)).await;
            net.note(finished);
        }
    }
    let measured = summary(plan, &nets, lasted);
    for net in nets {
        net.stop().await;
    }
    Ok(measured)
}

async fn begin(nets: &mut [Network]) -> Result<()> {
    let addrs: Vec<_> = nets.iter().map(|net| net.net.addrs()).collect();
    for (n, net) in nets.iter_mut().enumerate() {
        let others = addrs.iter().enumerate().filter(|(m, _)| *m != n);
        net.begin(others.flat_map(|(_, addrs)| addrs).copied().collect()).await?;
    }
    Ok(())
}

/// Has the workers work, with what happens meanwhile; how long they did.
async fn drive(plan: &Plan, nets: &mut [Network]) -> Duration {
    let (watch, duration) = (&plan.on.watch, Duration::from_secs_f64(plan.options.duration));
    let looks = duration.as_millis().div_ceil(LOOK_EVERY.as_millis());
    let _progress = Progress::begin(&plan.label, usize::try_from(looks).unwrap_or(usize::MAX), watch);
    let began = Instant::now();
    nets.iter_mut().for_each(Network::work);
    let mut mishaps = MISHAPS.iter().filter(|_| plan.trial == Trial::Crash).peekable();
    let look = async |at: Duration| {
        sleep(LOOK_EVERY.min(duration - at.min(duration))).await;
        watch.add_done(1);
        for net in &mut *nets {
            net.look().await;
        }
        while let Some((_, mishap)) = mishaps.next_if(|(at, _)| began.elapsed() >= duration.mul_f64(*at)) {
            happens(*mishap, &mut nets[0]).await;
        }
        true
    };
    watch.during(duration, look).await;
    for net in &mut *nets {
        net.rest().await;
    }
    let lasted = began.elapsed();
    for (_, mishap) in mishaps {
        happens(*mishap, &mut nets[0]).await;
    }
    lasted
}

async fn happens(mishap: Mishap, net: &mut Network) {
    const LAST: usize = INDEXERS - 1;
    let Some(auditor) = &mut net.auditor else { return };
    let done = match mishap {
        Mishap::ReaderDies => return auditor.process.kill().await,
        Mishap::ReaderReturns => auditor.come_back().await,
        Mishap::IndexerDies => return net.net.kill(LAST).await,
        Mishap::IndexerReturns => net.net.revive(LAST).await,
    };
    net.note(done);
}

/// What comes after the last publication: all that was acknowledged must arrive.
async fn finish(plan: &Plan, net: &mut Network) -> Result<()> {
    let all_run = net.net.all_run();
    net.note(all_run);
    if plan.trial == Trial::Disk {
        net.restart().await?;
    }
    let records = if plan.trial == Trial::Disk { 0 } else { net.done.acknowledged.len() };
    let (names, until) = (net.names.count(), Instant::now() + SETTLED_WITHIN);
    let agree = net.figures.agree(names, records).await;
    net.note(agree);
    let Some(auditor) = &mut net.auditor else { return Ok(()) };
    while plan.trial != Trial::Disk && !auditor.knows(&net.done.acknowledged).await? && Instant::now() < until
    {
        sleep(LOOK_EVERY).await;
    }
    let last = net.done.acknowledged.last().map(|last| last.name);
    let downloaded =
        auditor.download_until(until, last.filter(|_| plan.options.broken == Some(Broken::Drop))).await;
    auditor.look().await?;
    net.held = auditor.held().await?;
    net.note(downloaded);
    Ok(())
}

/// The figures of all networks together, and what did not hold.
fn summary(plan: &Plan, nets: &[Network], lasted: Duration) -> (Row, Points) {
    let (mut faults, mut all) = (Vec::new(), Vec::new());
    let is_followed = plan.trial != Trial::Disk;
    for net in nets {
        let arrived = net.auditor.as_ref().map_or(&[][..], |auditor| &auditor.arrived);
        let judged = judge(&net.attempts(), &net.done.acknowledged, arrived, &net.held);
        faults.extend(net.faults.iter().cloned().chain(net.broken_promises()).chain(judged.faults()));
        faults.extend((is_followed && arrived.is_empty()).then(|| "nothing arrived".to_owned()));
        all.push(judged);
    }
    let of_nets = |of: fn(&Network) -> usize| nets.iter().map(of).sum::<usize>();
    // All were published once before the load began.
    let published = of_nets(|net| net.done.acknowledged.len().saturating_sub(net.names.count()));
    let sum = |of: fn(&Delivered) -> usize| all.iter().map(of).sum::<usize>();
    let auditors = || nets.iter().filter_map(|net| net.auditor.as_ref());
    let peak_bytes = auditors().map(|auditor| auditor.peak_bytes).max().unwrap_or(0);
    let mut delays: Vec<Duration> = all.iter().flat_map(|judged| &judged.delays).copied().collect();
    if published == 0 {
        faults.push("nothing was shared".to_owned());
    }
    if mib(peak_bytes) > MEMORY_MIB {
        faults.push(format!("the reader took {:.0} MiB", mib(peak_bytes)));
    }
    let is_stopped = plan.on.watch.is_stopped();
    let verdict = match &faults[..] {
        _ if is_stopped => "interrupted".to_owned(),
        [] => "pass".to_owned(),
        faults => fails(faults),
    };
    let curve = curve(&mut delays);
    let (lasted_s, lookups) = (lasted.as_secs_f64(), of_nets(|net| net.done.lookups));
    let row = Row::of(json!({
        "scenario": plan.label, "shared_per_s": count(published) / lasted_s, "lookups_per_s": count(lookups) / lasted_s,
        "shared": published, "unanswered": of_nets(|net| net.done.unanswered), "twice": sum(|judged| judged.twice),
        "skipped": is_followed.then(|| sum(|judged| judged.skipped)), "lost": sum(|judged| judged.lost),
        "missed": auditors().map(|auditor| auditor.missed).sum::<u64>(), "peak_mib_receiver": mib(peak_bytes),
        "verdict": verdict, "faults": faults,
    }));
    (row.times(&Figures::of(delays)), curve)
}

/// Each percentile of `delays`.
fn curve(delays: &mut [Duration]) -> Points {
    delays.sort_unstable();
    let at = |percent: u32| {
        let delay = delays.get(delays.len() * percent as usize / 100)?;
        Some((delay.as_secs_f64().max(1e-6) * 1e3, f64::from(percent)))
    };
    (1..100).filter_map(at).collect()
}
