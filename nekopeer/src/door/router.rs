//! The routes of the door: what the peer is, and the carrying out of commands.

use std::{convert::Infallible, io, sync::Arc, time::Duration};

use axum::{
    Extension, Json, Router,
    body::Body,
    extract::State,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use futures::stream;
use nekoproto::transport::slots::Activity;
use tokio::{
    io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt},
    sync::{Semaphore, mpsc},
    task::spawn_blocking,
    time::timeout,
};
use tokio_util::{io::ReaderStream, task::AbortOnDropHandle};

use super::{
    Facts,
    call::Call,
    lines::{self, encoded},
};
use crate::api::{
    Command, Failure, FailureKind, Host, INPUT_WAITING_MAX, PIECE_BYTES, Piece, Reply, feed, no_input,
};

pub(super) const FACTS: &str = "/facts";
pub(super) const RUN: &str = "/run";

/// Longest command, in bytes: one with half a million names of a hundred bytes.
const COMMAND_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Bytes of a command that every caller may send.
const SHORT_BYTES: usize = 1024 * 1024;
/// Longer commands that are received at once.
const LONG_COMMANDS_MAX: usize = 2;
const COMMAND_WITHIN: Duration = Duration::from_secs(20);
/// Time in which a caller who has the answer ends its input, or leaves.
const INPUT_ENDS_WITHIN: Duration = Duration::from_secs(5);

static LONG_COMMANDS: Semaphore = Semaphore::const_new(LONG_COMMANDS_MAX);

#[derive(Debug)]
struct Inside {
    host: Arc<Host>,
    facts: Facts,
}

/// The router of a peer. To be called on the runtime of the peer.
pub(super) fn router(host: &Arc<Host>, facts: Facts) -> Router {
    let inside = Arc::new(Inside { host: Arc::clone(host), facts });
    let facts = async |State(inside): State<Arc<Inside>>| Json(inside.facts.clone()).into_response();
    Router::new().route(FACTS, get(facts)).route(RUN, post(run)).with_state(inside)
}

async fn run(
    State(inside): State<Arc<Inside>>,
    activity: Option<Extension<Activity>>,
    body: Body,
) -> Response {
    let mut body = lines::reader(body);
    let begun = match call(&mut body).await {
        Ok(call) => {
            // Until now it gives way to newcomers, as one does that says nothing.
            activity.iter().for_each(|Extension(activity)| activity.set_busy(true));
            let facts = inside.facts.clone();
            let checking =
                spawn_blocking(move || call.fault(&facts).map_or_else(|| Ok(call.command.into_owned()), Err));
            checking.await.unwrap_or_else(|error| Err(Failure::new(error.to_string())))
        }
        Err(failure) => Err(failure),
    };
    let begun = begun.and_then(|command| begin(&inside.host, command, body));
    let begun = match begun {
        Ok(begun) => begun,
        Err(failure) => return Body::from(encoded(Reply::Finished(Err(failure)))).into_response(),
    };
    let replies = stream::unfold(begun, async |(mut carried, feeding)| {
        if let Some(reply) = carried.replies.recv().await {
            return Some((Ok::<_, Infallible>(encoded(reply)), (carried, feeding)));
        }
        // A connection that is closed before its input was taken can take the end of the answer with it.
        drop(carried); // others may begin
        if let Some(feeding) = feeding {
            let _ = timeout(INPUT_ENDS_WITHIN, feeding).await;
        }
        None
    });
    Body::from_stream(replies).into_response()
}

/// The call. A long one takes one of a few places.
async fn call(body: &mut (impl AsyncBufRead + Unpin)) -> Result<Call<'static>, Failure> {
    let mut line = Vec::new();
    let invalid = |error: io::Error| Failure::invalid(format!("no command: {error}"));
    let late = |_| Failure::with(FailureKind::Moved, "the command did not arrive in time");
    let reading = async {
        let read = body.take(SHORT_BYTES as u64).read_until(b'\n', &mut line).await.map_err(invalid)?;
        if read == SHORT_BYTES && line.last() != Some(&b'\n') {
            let busy = |_| Failure::with(FailureKind::Busy, "too many long commands arrive at once");
            let _place = LONG_COMMANDS.try_acquire().map_err(busy)?;
            let most = (COMMAND_BYTES_MAX - SHORT_BYTES) as u64;
            body.take(most).read_until(b'\n', &mut line).await.map_err(invalid)?;
        }
        serde_json::from_slice(&line).map_err(|error| invalid(error.into()))
    };
    timeout(COMMAND_WITHIN, reading).await.map_err(late)?
}

fn begin(
    host: &Arc<Host>,
    command: Command,
    body: impl AsyncBufRead + Send + Unpin + 'static,
) -> Result<(crate::api::Carried, Option<AbortOnDropHandle<()>>), Failure> {
    if !command.api().about().takes_input {
        return Ok((host.begin(command, no_input(), std::future::pending())?, None));
    }
    let (pieces, input) = mpsc::channel(INPUT_WAITING_MAX);
    let carried = host.begin(command, input, std::future::pending())?;
    let feeding = async move {
        let read = ReaderStream::with_capacity(body, PIECE_BYTES);
        if feed(read, &pieces).await.is_err() {
            let _ = pieces.send(Piece::Failed("the input was cut off".to_owned())).await; // it may have ended
        }
    };
    Ok((carried, Some(AbortOnDropHandle::new(tokio::spawn(feeding)))))
}
