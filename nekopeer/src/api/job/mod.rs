//! [`Jobs`]: the long commands that a peer carries out, and those that ended lately.
//!
//! A job begins with [`Jobs::begin`] and ends when its [`Job`] is dropped. Whoever cancels one interrupts its
//! command as its caller would. Downloads that the peer began by itself are listed too while they run.

mod background;
mod row;
mod table;

use std::sync::Arc;

use nekoproto::FileName;
use parking_lot::Mutex;
use tokio::{
    sync::{Semaphore, broadcast},
    time::{Duration, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::table::{Found, Running, Table};
pub(crate) use self::{
    background::in_background,
    row::{JobKind, JobRow, JobState},
};
use super::{Failure, FailureKind};
use crate::{
    peer::PeerHandle,
    util::{clock, progress::Progress},
};

pub(crate) const BACKGROUND_MAX: usize = 16;
/// Changes kept for a slow receiver; it misses older ones.
const CHANGES_KEPT: usize = 256;
const CANCELLED_WITHIN: Duration = Duration::from_secs(2);
const CANCELLED: &str = "cancelled by another command; what came so far is kept";

#[derive(Debug)]
pub(crate) struct Jobs {
    table: Mutex<Table>,
    /// Begins and ends of jobs.
    pub(crate) changes: broadcast::Sender<JobRow>,
    /// Jobs that may still begin in the background.
    background: Arc<Semaphore>,
    /// Those that run in the background.
    tasks: TaskTracker,
    closing: CancellationToken,
}

impl Default for Jobs {
    fn default() -> Self {
        Self {
            table: Mutex::default(),
            changes: broadcast::channel(CHANGES_KEPT).0,
            background: Arc::new(Semaphore::new(BACKGROUND_MAX)),
            tasks: TaskTracker::new(),
            closing: CancellationToken::new(),
        }
    }
}

/// What is written, by commands or by the peer itself, and what waits for its turn.
fn own_work(peer: &PeerHandle) -> table::NamesInWork {
    let (library, mut work) = (&peer.library, table::NamesInWork::new());
    work.extend(library.writing().into_iter().map(|(name, progress)| (name, Some(progress))));
    let waiting = library.outdated.lock().waiting(clock::now());
    work.extend(waiting.into_iter().filter(|name| !library.is_in_use(name)).map(|name| (name, None)));
    work
}

/// A job that runs. Dropping it ends it; without [`end`](Self::end) it counts as cancelled by its caller.
#[derive(Debug)]
pub(crate) struct Job {
    jobs: Arc<Jobs>,
    running: Arc<Running>,
    pub(in crate::api) progress: Arc<Progress>,
    outcome: Mutex<Outcome>,
}

#[derive(Debug, Default)]
struct Outcome {
    /// `None`: it was interrupted.
    state: Option<JobState>,
    /// Parts of it that failed, and why the first did.
    failed: u64,
    why: Option<Failure>,
}

impl Jobs {
    /// Begins a job about `names`; `title` is what it is called if they are none.
    pub(in crate::api) fn begin(
        self: &Arc<Self>,
        kind: JobKind,
        names: &[FileName],
        title: String,
        is_background: bool,
    ) -> Arc<Job> {
        let running = self.table.lock().begin(kind, names, title, is_background);
        drop(self.changes.send(running.row())); // there may be no receiver
        let (jobs, progress) = (Arc::clone(self), Arc::clone(&running.progress));
        Arc::new(Job { jobs, running, progress, outcome: Mutex::default() })
    }

    /// The jobs that run, and then those that ended lately, the last one first.
    pub(crate) fn rows(&self, peer: &PeerHandle) -> Vec<JobRow> {
        self.table.lock().rows(own_work(peer))
    }

    /// Cancels the job with this id, or those about this name alone; returns them when they have ended.
    pub(in crate::api) async fn cancel(&self, what: &str, peer: &PeerHandle) -> Result<Vec<JobRow>, Failure> {
        let found = self.table.lock().find(what, own_work(peer))?;
        let mut rows = Vec::with_capacity(found.len());
        for (id, found) in found {
            rows.push(match found {
                Found::Command(running) => {
                    running.cancelled.cancel();
                    // One that writes its last bytes ends a moment later.
                    let _ = timeout(CANCELLED_WITHIN, running.ended.cancelled()).await;
                    self.table.lock().ended(id).unwrap_or_else(|| running.row())
                }
                Found::Writing(row, name) => {
                    peer.library.end_writing(&name);
                    let _ = timeout(CANCELLED_WITHIN, peer.library.until_free(&name)).await;
                    JobRow { state: JobState::Cancelled, ..row }
                }
            });
        }
        Ok(rows)
    }

    /// Waits until no job runs in the background; returns whether one failed, of those that are still listed.
    pub(crate) async fn background_ended(&self) -> bool {
        // A job gives its permit back at its end. The semaphore is never closed.
        let all = u32::try_from(BACKGROUND_MAX).unwrap_or(u32::MAX);
        drop(self.background.acquire_many(all).await);
        self.table.lock().has_failed_in_background()
    }

    /// Ends the jobs in the background, and takes no further ones. Returns when all have ended.
    pub(crate) async fn close(&self) {
        self.closing.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

impl Job {
    pub(in crate::api) async fn unless_cancelled<T>(
        &self,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let result = tokio::select! {
            biased;
            () = self.running.cancelled.cancelled() => {
                Err(Failure::with(FailureKind::Cancelled, CANCELLED))
            }
            result = work => result,
        };
        let mut outcome = self.outcome.lock();
        outcome.state = Some(match &result {
            Ok(_) if outcome.failed == 0 => JobState::Done,
            Ok(_) => JobState::Failed,
            Err(failure) if failure.kind == FailureKind::Cancelled => JobState::Cancelled,
            Err(failure) => {
                outcome.why.get_or_insert_with(|| failure.clone());
                JobState::Failed
            }
        });
        drop(outcome);
        result
    }

    pub(in crate::api) fn failed(&self, why: &Failure) {
        let mut outcome = self.outcome.lock();
        outcome.failed += 1;
        outcome.why.get_or_insert_with(|| why.clone());
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        let Outcome { state, failed, why } = std::mem::take(self.outcome.get_mut());
        let why = match state {
            None => Some(Failure::new("interrupted; what came so far is kept")),
            Some(JobState::Cancelled) => Some(Failure::new(CANCELLED)),
            Some(_) if failed > 1 => {
                why.map(|why| Failure { message: format!("{failed} failed, the first: {why}"), ..why })
            }
            Some(_) => why,
        };
        let state = state.unwrap_or(JobState::Cancelled);
        let row = self.jobs.table.lock().end(self.running.row.id, state, why);
        if let Some(row) = row {
            drop(self.jobs.changes.send(row)); // there may be no receiver
        }
        self.running.ended.cancel();
    }
}
