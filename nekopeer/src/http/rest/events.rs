//! What happens in the peer, as server-sent events.

use std::sync::Arc;

use axum::{
    extract::State,
    response::{IntoResponse, sse},
};
use futures::{StreamExt, stream};
use nekoindexer::daemon::http::{
    Problem,
    events::{events as events_of, stream_of},
};

use super::params::Params;
use crate::{
    commands::{EventRow, JobRow, JobState},
    http::{Inside, described::Refused, feed::News},
};

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
    params: Params,
) -> Result<impl IntoResponse, Problem> {
    params.known(&[])?;
    let news = inside.feed.subscribe();
    // No command with a place of its own: as many readers may come at once as there are connections.
    let jobs = inside.host.jobs.rows(&inside.host.peer).into_iter();
    let running = jobs.filter(|job: &JobRow| job.state == JobState::Running);
    let running: Vec<_> = running.map(|job| event(News::job(&job))).collect();
    let closing = inside.closing.clone().cancelled_owned();
    let all = stream::iter(running.into_iter().flatten()).chain(events_of(news, event));
    Ok(stream_of(all.take_until(closing)))
}

fn event(News { event, data }: News) -> Option<sse::Event> {
    Some(sse::Event::default().event(event).data(data))
}
