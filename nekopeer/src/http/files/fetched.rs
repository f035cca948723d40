//! The bytes of a file that comes from other nodes, sent while it comes.

use axum::body::Body;
use futures::stream;

use crate::{failure::Failure, reading::Fetch};

/// Waits for the first bytes of `fetch`, so that a file that nobody delivers is an error and no broken answer, and
/// returns the body. Each piece is sent when the next one is there, and the last one once all was verified: if the
/// fetch fails, the body fails before its end, and with it the connection.
pub(super) async fn body(mut fetch: Fetch) -> Result<Body, Failure> {
    let Some(first) = fetch.pieces.recv().await else {
        fetch.end().await?;
        return Ok(Body::empty()); // an empty file
    };
    let pieces = stream::try_unfold(Some((first, fetch)), |state| async {
        let Some((piece, mut fetch)) = state else { return Ok(None) };
        let next = match fetch.pieces.recv().await {
            Some(next) => Some((next, fetch)),
            None => {
                fetch.end().await.inspect_err(|error| tracing::debug!(%error, "an answer is cut"))?;
                None
            }
        };
        Ok::<_, Failure>(Some((piece, next)))
    });
    Ok(Body::from_stream(pieces))
}
