//! Fetches the missing chunks of one file from everyone who has them, at once.
//!
//! One task decides who is asked, and looks for further sources now and then. Each connection has a
//! thread that leases chunks, receives, verifies and writes them ([`stream`]); chunks found on disk are
//! verified by threads beside. The schedule is the only thing they share under a lock.

mod check;
mod job;
mod stream;

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use nekoproto::{Holder, NodeId};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, sleep_until},
};
use tracing::debug;

pub(crate) use self::job::{Fetched, Job, Report};
use crate::{
    cores,
    fetch::Source,
    local::LocalChunks,
    resume,
    shared::{Shared, blocking},
    store::StoreError,
};

/// Sources asked at once.
const SOURCES_MAX: usize = 8;
/// Connections that are worth having: with fewer sources each gets several, so that all cores have
/// something to do.
const STREAMS_AIMED_AT: usize = 2;
/// A file smaller than this is not worth a second connection to the same source.
const SECOND_STREAM_FROM: u64 = 8 * 1024 * 1024;
/// Pause before a source that failed is asked again.
const RETRY_AFTER: Duration = Duration::from_millis(200);
/// Time until further sources are looked for; it doubles each time, up to the longest.
const LOOK_AFTER: Duration = Duration::from_millis(250);
const LOOK_EVERY_MAX: Duration = Duration::from_secs(5);
/// Searches for further sources when all that were found have failed, and the pause before each.
const ROUNDS: u32 = 3;
const ROUND_PAUSE: Duration = Duration::from_millis(500);
/// How often progress is noted, so that little is lost in a crash.
const NOTE_EVERY: Duration = Duration::from_secs(2);

/// Whom to begin with: a connection may be open already.
pub(crate) type Begin = Vec<(Holder, Option<Source>)>;

/// Fetches what the job lacks from `begin`, from what is on disk, and from whoever `look` finds.
///
/// # Errors
/// The disk failed. Failing sources are no error: see [`Fetched::left`].
///
/// # Cancel safety
/// Safe: all threads end, what was written stays in the partial file and is noted.
pub(crate) async fn fetch<L, F>(
    shared: &Arc<Shared>,
    job: Job,
    local: LocalChunks,
    begin: Begin,
    look: L,
) -> Result<Fetched, StoreError>
where
    L: Fn() -> F,
    F: Future<Output = Vec<Holder>> + Send + 'static,
{
    let job = Arc::new(job);
    let ends_with_this = EndOnDrop { shared: Arc::clone(shared), job: Some(Arc::clone(&job)) };
    let mut crew = Crew::new(&job, begin);
    for part in local.split(cores::threads()) {
        let job = Arc::clone(&job);
        crew.local.spawn(blocking(move || job.take_local(part)));
    }
    run(shared, &job, &mut crew, look).await;
    job.end();
    crew.join_all().await;
    ends_with_this.disarm();
    Job::into_fetched(job)
}

/// The tasks of one download.
struct Crew {
    waiting: VecDeque<(Holder, Option<Source>)>,
    /// Who was found at first.
    first: Vec<Holder>,
    /// Being asked, or waiting: by how many connections.
    known: HashMap<NodeId, usize>,
    sources: JoinSet<NodeId>,
    local: JoinSet<()>,
    looks: JoinSet<Vec<Holder>>,
    notes: JoinSet<()>,
}

impl Crew {
    fn new(job: &Job, begin: Begin) -> Self {
        let mut crew = Self {
            waiting: VecDeque::new(),
            first: begin.iter().map(|(holder, _)| *holder).collect(),
            known: HashMap::new(),
            sources: JoinSet::new(),
            local: JoinSet::new(),
            looks: JoinSet::new(),
            notes: JoinSet::new(),
        };
        begin.into_iter().for_each(|(holder, source)| crew.add(job, holder, source));
        crew
    }

    fn add(&mut self, job: &Job, holder: Holder, source: Option<Source>) {
        if !job.is_banned(holder.node) && !self.known.contains_key(&holder.node) {
            job.offers(&holder);
            self.known.insert(holder.node, 1);
            self.waiting.push_back((holder, source));
        }
    }

    /// Gives sources their turn; with few of them, several connections to each.
    fn start(&mut self, job: &Arc<Job>) {
        let few = self.known.len() < STREAMS_AIMED_AT && job.size() >= SECOND_STREAM_FROM;
        let streams = if few { STREAMS_AIMED_AT } else { 1 };
        while self.sources.len() < SOURCES_MAX {
            let Some((holder, source)) = self.waiting.pop_front() else { return };
            self.sources.spawn(run_source(Arc::clone(job), holder, source));
            for _ in 1..streams {
                *self.known.entry(holder.node).or_default() += 1;
                self.sources.spawn(run_source(Arc::clone(job), holder, None));
            }
        }
    }

    /// One connection to `node` is done with.
    fn ended(&mut self, node: NodeId) {
        if let Some(count) = self.known.get_mut(&node) {
            *count -= 1;
            if *count == 0 {
                self.known.remove(&node);
            }
        }
    }

    fn is_idle(&self) -> bool {
        self.sources.is_empty() && self.waiting.is_empty() && self.local.is_empty() && self.looks.is_empty()
    }

    async fn join_all(&mut self) {
        self.looks.abort_all();
        while self.sources.join_next().await.is_some() {}
        while self.local.join_next().await.is_some() {}
        while self.notes.join_next().await.is_some() {}
    }
}

async fn run<L, F>(shared: &Arc<Shared>, job: &Arc<Job>, crew: &mut Crew, look: L)
where
    L: Fn() -> F,
    F: Future<Output = Vec<Holder>> + Send + 'static,
{
    let (mut look_after, mut round, mut left) = (LOOK_AFTER, 1, job.left());
    let mut look_at = Instant::now() + look_after;
    let mut note_at = Instant::now() + NOTE_EVERY;
    while !job.is_over() {
        crew.start(job);
        if crew.is_idle() {
            if job.left() < left {
                (left, round) = (job.left(), 1); // something came since
            }
            if round == ROUNDS {
                return;
            }
            round += 1;
            sleep(ROUND_PAUSE).await;
            job.forgive();
            for holder in crew.first.clone() {
                crew.add(job, holder, None); // also if no indexer can be asked
            }
            crew.looks.spawn(look());
        }
        tokio::select! {
            Some(ended) = crew.sources.join_next() => match ended {
                Ok(node) => crew.ended(node),
                Err(error) => rethrow(error),
            },
            Some(ended) = crew.local.join_next() => ended.unwrap_or_else(rethrow),
            Some(noted) = crew.notes.join_next() => noted.unwrap_or_else(rethrow),
            Some(found) = crew.looks.join_next() => {
                for holder in found.unwrap_or_default() {
                    crew.add(job, holder, None);
                }
            }
            () = sleep_until(look_at) => {
                look_after = (look_after * 2).min(LOOK_EVERY_MAX);
                look_at = Instant::now() + look_after;
                if crew.looks.is_empty() {
                    crew.looks.spawn(look());
                }
            }
            () = sleep_until(note_at) => {
                note_at = Instant::now() + NOTE_EVERY;
                if job.is_resumable() && crew.notes.is_empty() {
                    let (shared, job) = (Arc::clone(shared), Arc::clone(job));
                    crew.notes.spawn(blocking(move || note(&shared, &job)));
                }
            }
        }
    }
}

fn rethrow(error: tokio::task::JoinError) {
    if let Ok(panic) = error.try_into_panic() {
        std::panic::resume_unwind(panic);
    }
}

fn note(shared: &Shared, job: &Job) {
    if let Err(error) = resume::note(&shared.catalogue, job.assembly()) {
        debug!(%error, "progress is not noted"); // the next try reads more of the file
    }
}

/// Works for one connection to a source until all is fetched, or the source is done with.
async fn run_source(job: Arc<Job>, holder: Holder, mut ready: Option<Source>) -> NodeId {
    loop {
        let connected = match ready.take() {
            Some(source) => Ok(source),
            None => {
                let connecting = Source::connect(job.endpoint(), &holder);
                let Some(connected) = job.over().run_until_cancelled(connecting).await else {
                    return holder.node;
                };
                connected
            }
        };
        let worked = match connected {
            Ok(source) => {
                let job = Arc::clone(&job);
                blocking(move || stream::work(&job, source, &holder)).await
            }
            Err(error) => Err(error),
        };
        let Err(error) = worked else { return holder.node };
        if job.is_over() {
            return holder.node; // it was hung up
        }
        if job.source_failed(&holder, &error) {
            return holder.node; // struck out
        }
        if job.over().run_until_cancelled(sleep(RETRY_AFTER)).await.is_none() {
            return holder.node;
        }
    }
}

/// Ends the threads of a download when the task that waits for them is gone, and notes what they did.
struct EndOnDrop {
    shared: Arc<Shared>,
    job: Option<Arc<Job>>,
}

impl EndOnDrop {
    /// They have ended by themselves.
    fn disarm(mut self) {
        self.job = None;
    }
}

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        let Some(job) = self.job.take() else { return };
        job.end();
        if !job.is_resumable() {
            return;
        }
        let shared = Arc::clone(&self.shared);
        // Tracked: whoever ends the peer waits for it.
        drop(self.shared.tasks.spawn_blocking(move || note(&shared, &job)));
    }
}
