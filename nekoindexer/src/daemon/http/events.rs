//! Server-sent events: what is broadcast, sent to one reader. A reader that is slow misses some, and is told so.

use std::{convert::Infallible, time::Duration};

use axum::response::{
    IntoResponse,
    sse::{Event, KeepAlive, Sse},
};
use futures::{Stream, StreamExt, stream};
use tokio::sync::broadcast::{Receiver, error::RecvError};

/// How often a reader is sent a comment when there is nothing else: a connection that is gone is noticed.
pub const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(15);

/// Sends what comes from `news`, in order, each as the event that `to_event` makes of it; `None` is not sent.
/// What the reader was too slow for is left out, and an `event: missed` with `{"missed":N}` stands in its place.
/// The answer ends when the sender is dropped.
pub fn follow<T, F>(news: Receiver<T>, to_event: F) -> impl IntoResponse + use<T, F>
where
    T: Clone + Send + 'static,
    F: FnMut(T) -> Option<Event> + Send + 'static,
{
    stream_of(events(news, to_event))
}

/// Sends `events`, with comments while there are none.
pub fn stream_of<S>(events: S) -> impl IntoResponse + use<S>
where
    S: Stream<Item = Event> + Send + 'static,
{
    Sse::new(events.map(Ok::<_, Infallible>)).keep_alive(KeepAlive::new().interval(KEEP_ALIVE_EVERY))
}

/// The events of [`follow`], to be preceded by others: see [`stream_of`].
pub fn events<T, F>(news: Receiver<T>, to_event: F) -> impl Stream<Item = Event> + Send + use<T, F>
where
    T: Clone + Send + 'static,
    F: FnMut(T) -> Option<Event> + Send + 'static,
{
    stream::unfold((news, to_event), |(mut news, mut to_event)| async move {
        loop {
            let event = match news.recv().await {
                Ok(item) => to_event(item),
                Err(RecvError::Lagged(missed)) => {
                    let missed = serde_json::json!({ "missed": missed });
                    Some(Event::default().event("missed").data(missed.to_string()))
                }
                Err(RecvError::Closed) => return None,
            };
            if let Some(event) = event {
                return Some((event, (news, to_event)));
            }
        }
    })
}
