//! [`Feed`]: what happens in the peer, made ready once for all who read it over HTTP.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
    time::Duration,
};

use serde::Serialize;
use tokio::{
    sync::broadcast::{self, error::RecvError},
    time::interval,
};
use tokio_util::sync::CancellationToken;

use crate::{
    api::{EventRow, Host, JobRow, JobState},
    library::events::Event,
};

/// Events kept for a slow reader; it misses older ones.
const NEWS_KEPT: usize = 256;
/// Interval between two reports of a job's progress.
const PROGRESS_EVERY: Duration = Duration::from_millis(500);

/// One event: its kind and its JSON. A clone copies a pointer.
#[derive(Clone, Debug)]
pub(crate) struct FeedEvent {
    pub(crate) event: &'static str,
    pub(crate) data: Arc<str>,
}

/// What happens in the peer.
#[derive(Debug)]
pub(crate) struct Feed(broadcast::Sender<FeedEvent>);

impl FeedEvent {
    fn new(event: &'static str, json: &impl Serialize) -> Self {
        // Plain fields: serialising them cannot fail.
        Self { event, data: serde_json::to_string(json).unwrap_or_default().into() }
    }

    /// A job as it is now.
    pub(crate) fn job(job: &JobRow) -> Self {
        Self::new("job", job)
    }
}

impl Feed {
    /// Gathers news until `closing`.
    pub(crate) fn start(host: &Arc<Host>, closing: &CancellationToken) -> Self {
        let sender = broadcast::channel(NEWS_KEPT).0;
        let gathering = gather(Arc::downgrade(host), sender.clone(), host.peer.events(), host.jobs.changes());
        tokio::spawn(closing.clone().run_until_cancelled_owned(gathering));
        Self(sender)
    }

    /// What happens from now on.
    pub(crate) fn subscribe(&self) -> broadcast::Receiver<FeedEvent> {
        self.0.subscribe()
    }
}

async fn gather(
    host: Weak<Host>,
    news: broadcast::Sender<FeedEvent>,
    mut events: broadcast::Receiver<Event>,
    mut jobs: broadcast::Receiver<JobRow>,
) {
    let missed = |missed| FeedEvent::new("missed", &serde_json::json!({ "missed": missed }));
    let mut ticks = interval(PROGRESS_EVERY);
    let mut told = HashMap::new();
    loop {
        let now = tokio::select! {
            biased; // the end of a job comes before the event that tells of it, as it happened
            job = jobs.recv() => match job {
                Ok(job) => FeedEvent::job(&job),
                Err(RecvError::Lagged(count)) => missed(count),
                Err(RecvError::Closed) => return,
            },
            event = events.recv() => match event {
                Ok(event) if event.is_worth_showing() => {
                    let json = EventRow::from(&event);
                    FeedEvent::new(json.event, &json)
                }
                Ok(_) => continue,
                Err(RecvError::Lagged(count)) => missed(count),
                Err(RecvError::Closed) => return,
            },
            _ = ticks.tick() => {
                let Some(host) = host.upgrade() else { return };
                if news.receiver_count() == 0 {
                    continue;
                }
                let running = host.jobs.rows(&host.peer).into_iter();
                let running = running.filter(|job| job.state == JobState::Running);
                let mut still = HashMap::new();
                for job in running {
                    if told.get(&job.id).is_some_and(|before| *before != job.now) {
                        drop(news.send(FeedEvent::job(&job))); // nobody may listen any more
                    }
                    still.insert(job.id, job.now);
                }
                told = still;
                continue;
            }
        };
        drop(news.send(now)); // nobody may listen
    }
}
