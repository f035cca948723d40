//! Commands that go on after their caller was answered.

use std::sync::Arc;

use nekoproto::FileName;

use super::{BACKGROUND_MAX, Job, JobKind};
use crate::{
    api::{Answer, Failure, FailureKind, Host},
    library::events::Event,
};

/// Starts `work` that gets `names`, and answers with its job at once. Its end is an event.
pub(crate) async fn in_background<F: Future<Output = Result<(), Failure>> + Send + 'static>(
    host: &Arc<Host>,
    answer: &Answer,
    names: &[FileName],
    work: impl FnOnce(Arc<Host>, Arc<Job>, Answer) -> F,
) -> Result<(), Failure> {
    let jobs = &host.jobs;
    if host.peer.local_addr().is_none() {
        return Err(Failure::new("the running peer ends with its command, and nothing goes on in it"));
    }
    let Ok(permit) = Arc::clone(&jobs.background).try_acquire_owned() else {
        let message =
            format!("{BACKGROUND_MAX} jobs run in the background already: wait for one, or cancel it");
        return Err(Failure::with(FailureKind::Busy, message));
    };
    if jobs.closing.is_cancelled() {
        return Err(Failure::with(FailureKind::Moved, "the peer is about to end"));
    }
    let job = jobs.begin(JobKind::Get, names, String::new(), true);
    let id = job.running.row.id;
    // Nobody takes the rows: what failed is noted in the job.
    let (nobody, mut replies) = Answer::channel();
    let working = work(Arc::clone(host), Arc::clone(&job), nobody);
    let (peer, closing) = (Arc::clone(host), jobs.closing.clone());
    jobs.tasks.spawn(async move {
        let draining = async { while replies.recv().await.is_some() {} };
        let ended = async { tokio::join!(job.unless_cancelled(working), draining).0.err() };
        tokio::select! {
            _ = ended => {}
            () = closing.cancelled() => {}
        }
        drop(job);
        if let Some(row) = peer.jobs.table.lock().ended(id) {
            let (what, state) = (format!("{} {}", row.kind, row.name), row.state.to_string());
            let why = row.error.map(|text| nekoproto::Cause { text, remedy: row.remedy });
            peer.peer.library.tell(Event::JobEnded { id, what, state, why });
        }
        drop(permit);
    });
    let row = jobs.rows(&host.peer).into_iter().find(|row| row.id == id);
    answer.rows_of(row, |row| row).await
}
