//! What happens in the background of a peer, until the caller leaves: for the REPL, and as server-sent events.

use axum::response::{IntoResponse, sse};
use futures::{StreamExt, stream};
use nekoindexer::daemon::http::events::{events as events_of, stream_of};
use tokio_util::sync::CancellationToken;

use super::rest::feed::FeedEvent;
use super::{JobRow, JobState, pass_events, prelude::*};
use crate::library::events::Event;

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

    fn about(&self) -> About {
        About { shape: Shape::Lines, is_endless: true, ..About::needing(Need::Catalogue) }
    }

    fn view(&self) -> Box<dyn View> {
        Lines::none()
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
    let news = inside.feed.subscribe();
    // No command with a place of its own: as many readers may come at once as there are connections.
    let jobs = inside.host.jobs.rows(&inside.host.peer).into_iter();
    let running = jobs.filter(|job: &JobRow| job.state == JobState::Running);
    let running: Vec<_> = running.map(|job| event(FeedEvent::job(&job))).collect();
    let closing = inside.host.closing.clone().cancelled_owned();
    let all = stream::iter(running.into_iter().flatten()).chain(events_of(news, event));
    Ok(stream_of(all.take_until(closing)))
}

fn event(FeedEvent { event, data }: FeedEvent) -> Option<sse::Event> {
    Some(sse::Event::default().event(event).data(data))
}
