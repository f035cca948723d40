//! What happens in the background of a peer, until the caller leaves: for the REPL, and as server-sent events.

use std::{collections::HashMap, time::Duration};

use axum::response::{IntoResponse, sse};
use futures::{
    Stream, StreamExt,
    stream::{self, PollNext},
};
use nekoindexer::daemon::http::events::{events as events_of, stream_of};
use tokio::time::interval;
use tokio_util::sync::CancellationToken;

use super::{EventRow, JobRow, JobState, pass_events, prelude::*};
use crate::library::events::Event;

const PROGRESS_EVERY: Duration = Duration::from_millis(500);

/// Tell what happens in the background. Answers with [`Reply::Event`](super::Reply::Event).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Events {}

impl Api for Events {
    async fn run(self, host: &Arc<Host>, _: Input, answer: &Answer) -> Result<Done, Failure> {
        let (events, endless) = (host.peer.events(), CancellationToken::new());
        pass_events(Event::is_worth_showing, events, None, answer, &endless).await;
        Ok(Done::all())
    }

    fn about(&self) -> About<'_> {
        About { shape: Shape::Lines, is_endless: true, ..About::needing(Need::Catalogue) }
    }
}

/// Tells what happens until the reader leaves: first the jobs that run, then events and changes of jobs as they
/// come. The name of an event is its kind; of those about jobs it is `job`. A reader that is too slow misses some
/// and is told how many by the event `missed`.
#[utoipa::path(
    get,
    path = "/api/v1/events",
    responses(
        (status = 200, description = "Server-sent events; the data of each is JSON", content(
            (EventRow = "text/event-stream"),
        )),
        Refused,
    ),
)]
pub(super) async fn events(
    State(inside): State<Arc<Inside>>,
    _: Asked<Events>,
) -> Result<impl IntoResponse, Problem> {
    let host = &inside.host;
    // No command with a place of its own: as many readers may come at once as there are connections.
    let jobs = events_of(host.jobs.changes.subscribe(), |job| event("job", &job));
    let others = events_of(host.peer.library.events(), |happened: Event| {
        let row = EventRow::from(&happened);
        happened.is_worth_showing().then(|| event(row.event, &row)).flatten()
    });
    // The end of a job comes before the event that tells of it, as it happened.
    let all = first_of(progress(host), first_of(jobs, others));
    Ok(stream_of(all.take_until(host.closing.clone().cancelled_owned())))
}

/// The jobs that run, and each as often as it is found further.
fn progress(host: &Arc<Host>) -> impl Stream<Item = sse::Event> + use<> {
    let begun = (interval(PROGRESS_EVERY), None::<HashMap<_, _>>, Arc::downgrade(host));
    let progress = stream::unfold(begun, |(mut ticks, told, host)| async move {
        ticks.tick().await;
        let there = host.upgrade()?;
        let mut running = there.jobs.rows(&there.peer);
        running.retain(|job| job.state == JobState::Running);
        let is_further = |job: &&JobRow| match &told {
            Some(told) => told.get(&job.id).is_some_and(|before| *before != job.now),
            None => true,
        };
        let events = running.iter().filter(is_further).filter_map(|job| event("job", job));
        let events: Vec<_> = events.collect();
        let told = running.iter().map(|job| (job.id, job.now)).collect();
        Some((stream::iter(events), (ticks, Some(told), host)))
    });
    progress.flatten()
}

/// What comes from both, that of the first before that of the second.
fn first_of<T>(first: impl Stream<Item = T>, second: impl Stream<Item = T>) -> impl Stream<Item = T> {
    stream::select_with_strategy(first, second, |(): &mut ()| PollNext::Left)
}

fn event(kind: &str, json: &impl Serialize) -> Option<sse::Event> {
    Some(sse::Event::default().event(kind).data(serde_json::to_string(json).ok()?))
}
