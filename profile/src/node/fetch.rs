//! Downloads of one reader: they begin at a given moment, and what comes is looked at while it does.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nekopeer::{Delivery, DownloadOptions, Downloaded, Event, Failure, PeerHandle, Progress};
use nekoproto::{FileName, NameError};
use tokio::{
    sync::broadcast::Receiver,
    time::{interval, sleep},
};

use super::usage::{SAMPLED_EVERY, now_s};
use super::{Downloads, Moment, Sent, locked};

/// What came of one file: who sent what, or why it failed.
pub type Fetched = Result<Vec<Delivery>, String>;

/// Waits until a newer version of a copy is in its place, verified. Who sent what of it is not known.
pub async fn until_refreshed(mut news: Receiver<Event>) -> anyhow::Result<Downloads> {
    loop {
        if let Event::Refreshed { bytes_moved: bytes, .. } = news.recv().await? {
            let sent = Sent { source: String::new(), bytes, banned: false };
            return Ok(Downloads { ended_s: now_s(), sources: vec![sent], ..Downloads::default() });
        }
    }
}

/// Downloads `names`, beginning at `at_s`; returns when all have ended.
pub async fn fetch(peer: &PeerHandle, names: Vec<String>, at_s: f64) -> Result<Downloads, NameError> {
    let names: Vec<FileName> = names.iter().map(|name| FileName::new(name)).collect::<Result<_, _>>()?;
    let (progress, moments) = (Arc::new(Progress::default()), Mutex::default());
    sleep(Duration::from_secs_f64((at_s - now_s()).max(0.0))).await;
    let fetched = tokio::select! {
        fetched = fetch_all(peer, &names, &progress) => fetched,
        () = look(&progress, &moments) => Vec::new(), // never ends
    };
    let ended_s = now_s();
    let mut moments = moments.into_inner().unwrap_or_else(PoisonError::into_inner);
    moments.push(moment(&progress));
    Ok(Downloads { ended_s, moments, ..summed(fetched) })
}

/// Fetches all of `names`: the only place that knows how.
async fn fetch_all(peer: &PeerHandle, names: &[FileName], progress: &Arc<Progress>) -> Vec<Fetched> {
    let told = |name: &FileName, fetched: Result<Downloaded, Failure>| {
        fetched.map(|downloaded| downloaded.sources).map_err(|error| format!("{name}: {error}"))
    };
    if let [name] = names {
        return vec![told(name, peer.download(name, DownloadOptions::default(), progress).await)];
    }
    let fetched = peer.download_all(names, &DownloadOptions::default(), progress).await;
    fetched.into_iter().map(|(name, fetched)| told(&name, fetched)).collect()
}

/// Writes down from moment to moment what has come; does not end.
async fn look(progress: &Progress, moments: &Mutex<Vec<Moment>>) {
    let mut ticks = interval(SAMPLED_EVERY);
    loop {
        ticks.tick().await;
        locked(moments).push(moment(progress));
    }
}

fn moment(progress: &Progress) -> Moment {
    let sources = progress.sources();
    let bytes = sources.iter().map(|source| (source.node.to_string(), source.bytes())).collect();
    Moment { at_s: now_s(), bytes }
}

/// What each source sent for all files together.
pub fn summed(fetched: Vec<Fetched>) -> Downloads {
    let mut sum = Downloads::default();
    for file in fetched {
        match file {
            Ok(deliveries) => deliveries.iter().for_each(|&Delivery { node, bytes, banned, .. }| {
                Sent { source: node.to_string(), bytes, banned }.add_to(&mut sum.sources);
            }),
            Err(why) => sum.failed.push(why),
        }
    }
    sum
}
