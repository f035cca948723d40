//! What a reader does: its downloads, which begin at a given moment and are looked at while they go on, and what it is told of
//! newer versions, noted as it comes and said when asked.

use nekopeer::{Delivery, DownloadOptions, Downloaded, Event, Failure, Progress};
use nekoproto::NameError;
use tokio::sync::broadcast::{Receiver, error::RecvError};

use super::usage::{SAMPLED_EVERY, now_s};
use super::{Downloads, Moment, Sent, locked};
use crate::prelude::*;

/// What came of one file: who sent what, or why it failed.
pub type Fetched = Result<Vec<Delivery>, String>;

/// Waits until a newer version of a copy is in its place, verified. Who sent what of it is not known.
pub async fn until_refreshed(mut news: Receiver<Event>) -> Result<Downloads> {
    loop {
        if let Event::Refreshed { bytes_moved: bytes, .. } = news.recv().await? {
            let sent = Sent { source: String::new(), bytes, banned: false };
            return Ok(Downloads { ended_s: now_s(), sources: vec![sent], ..Downloads::default() });
        }
    }
}

/// Downloads `names`, beginning at `at_s`; returns when all have ended.
pub async fn fetch(peer: &PeerHandle, names: Vec<String>, at_s: f64) -> Result<Downloads, NameError> {
    let (names, progress, moments) = (parsed(&names)?, Arc::new(Progress::default()), Mutex::default());
    sleep(Duration::from_secs_f64((at_s - now_s()).max(0.0))).await;
    let fetched = tokio::select! {
        fetched = fetch_all(peer, &names, &progress) => fetched,
        () = look(&progress, &moments) => Vec::new(), // never ends
    };
    let ended_s = now_s();
    let mut moments = std::mem::take(&mut *locked(&moments));
    moments.push(moment(&progress));
    Ok(Downloads { ended_s, moments, ..summed(fetched) })
}

fn parsed(names: &[String]) -> Result<Vec<FileName>, NameError> {
    names.iter().map(|name| FileName::new(name)).collect()
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

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Arrivals {
    /// Names, versions and when each came, by [`now_s`].
    pub(crate) arrived: Vec<(String, u64, f64)>,
    /// Messages that this reader was too slow for.
    pub(crate) missed: u64,
}

/// Which versions of a name a reader has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Versions {
    /// That of the bytes in their place.
    pub(crate) held: u64,
    pub(crate) known: u64,
}

/// Notes what comes until it is dropped.
pub(crate) struct Follower {
    seen: Arc<Mutex<Arrivals>>,
    _following: AbortOnDropHandle<()>,
}

impl Follower {
    /// Notes the newer versions that the reader is told of; each message takes `pause`.
    pub(crate) fn start(events: Receiver<Event>, pause: Duration) -> Self {
        let seen = Arc::<Mutex<Arrivals>>::default();
        let following = tokio::spawn(follow(events, pause, Arc::clone(&seen)));
        Self { seen, _following: AbortOnDropHandle::new(following) }
    }

    /// What came since this was called last.
    pub(crate) fn take(&self) -> Arrivals {
        std::mem::take(&mut locked(&self.seen))
    }
}

async fn follow(mut events: Receiver<Event>, pause: Duration, seen: Arc<Mutex<Arrivals>>) {
    loop {
        match events.recv().await {
            Ok(Event::Invalidated { name, newest, .. }) => {
                locked(&seen).arrived.push((name.to_string(), newest.get(), now_s()));
                if !pause.is_zero() {
                    sleep(pause).await;
                }
            }
            Ok(_) => {}
            Err(RecvError::Lagged(missed)) => locked(&seen).missed += missed,
            Err(RecvError::Closed) => return,
        }
    }
}

pub(crate) async fn held(peer: &PeerHandle, names: &[String]) -> Result<Vec<Versions>, NameError> {
    let all = peer.held(parsed(names)?).await.into_iter().map(|status| {
        let Some(status) = status else { return Versions::default() };
        let held = status.record.version.get();
        Versions { held, known: status.newest.map_or(held, |newest| newest.get().max(held)) }
    });
    Ok(all.collect())
}
