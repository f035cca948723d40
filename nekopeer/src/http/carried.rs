//! Commands of HTTP requests, and their failures as [`Problem`]s.

use std::{sync::Arc, time::Instant};

use axum::http::StatusCode;
use nekoindexer::daemon::http::Problem;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use super::Inside;
use crate::{
    commands::{Answer, COMMANDS_MAX, Command, Done, Failure, FailureKind, Input, Reply, Row, carry_out},
    util::places::Place,
};

/// Rows that are gathered for one answer.
const ROWS_MAX: usize = 100_000;

/// Commands of HTTP requests carried out at once: fewer than [`COMMANDS_MAX`], so that readers who take their answers
/// slowly leave room for the commands of this host. They make room for each other too.
pub(super) const HTTP_COMMANDS_MAX: usize = 48;
const _: () = assert!(HTTP_COMMANDS_MAX < COMMANDS_MAX);

/// A command that is being carried out. Dropping it interrupts the command, as a caller that leaves the local
/// socket does: what came so far is kept.
pub(crate) struct Carried {
    replies: mpsc::Receiver<Reply>,
    /// `None`: a command that always has room.
    place: Option<Arc<Place>>,
    _working: AbortOnDropHandle<()>,
}

impl Inside {
    /// Has a command carried out on the runtime of the peer.
    pub(crate) fn carry_out(&self, command: Command, input: Input) -> Result<Carried, Problem> {
        let (at_host, place) = self.place(&command)?;
        let own = place.clone();
        let (answer, replies) = Answer::channel();
        let (host, closing) = (self.host.clone(), self.closing.clone());
        let working = self.node.spawn(async move {
            let _at_host = at_host;
            let displaced = async {
                match &own {
                    Some(place) => place.ended().cancelled().await,
                    None => std::future::pending().await,
                }
            };
            let result = tokio::select! {
                () = displaced => return, // nobody takes the answer
                result = carry_out(&host, command, input, &answer) => result,
                () = closing.cancelled() => Err(Failure::with(
                    FailureKind::Moved,
                    "the peer ends; what came so far is kept: ask again when it runs again",
                )),
            };
            drop(answer.0.send(Reply::Finished(result)).await); // the request may be gone
        });
        Ok(Carried { replies, place, _working: AbortOnDropHandle::new(working) })
    }

    /// A place among the commands of HTTP requests, and one among all.
    fn place(&self, command: &Command) -> Result<(impl Sized + Send + use<>, Option<Arc<Place>>), Problem> {
        let place = self.host.place(command).map_err(|failure| problem(&failure))?;
        if place.is_none() {
            return Ok((place, None)); // a command that always has room
        }
        let busy = || format!("{HTTP_COMMANDS_MAX} requests are carried out already: retry later");
        let here = self.commands.take(Instant::now()).ok_or_else(|| Problem::unavailable(busy()))?;
        Ok((place, Some(Arc::new(here))))
    }
}

impl Carried {
    /// The next reply but progress.
    ///
    /// # Cancel safety
    /// Safe.
    pub(crate) async fn next(&mut self) -> Reply {
        let is_slow = |since| {
            if let Some(place) = &self.place {
                place.is_slow(since);
            }
        };
        is_slow(None);
        loop {
            let reply = match self.replies.recv().await {
                Some(Reply::Progress(_) | Reply::Parts(_)) => continue,
                Some(reply) => reply,
                None => Reply::Finished(Err(Failure::new("the command ended without an answer"))),
            };
            is_slow(Some(Instant::now())); // until it is asked for the next one
            return reply;
        }
    }

    /// All rows and the end.
    pub(crate) async fn rows(mut self) -> Result<(Vec<Row>, Done), Problem> {
        let mut all = Vec::new();
        loop {
            match self.next().await {
                Reply::Rows(rows) => all.extend(rows),
                Reply::Finished(Ok(done)) => return Ok((all, done)),
                Reply::Finished(Err(failure)) => return Err(problem(&failure)),
                _ => {}
            }
            if all.len() > ROWS_MAX {
                let detail = format!("the answer has more than {ROWS_MAX} rows: ask for fewer at once");
                return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too much", detail));
            }
        }
    }
}

/// A failure as an error of HTTP.
pub(crate) fn problem(failure: &Failure) -> Problem {
    let (status, title) = match failure.kind {
        FailureKind::NotFound | FailureKind::NoSuchPath => (StatusCode::NOT_FOUND, "not found"),
        FailureKind::Conflict => (StatusCode::CONFLICT, "conflict"),
        FailureKind::Cancelled => (StatusCode::CONFLICT, "cancelled"),
        FailureKind::Invalid => (StatusCode::UNPROCESSABLE_ENTITY, "cannot be done"),
        FailureKind::Full => (StatusCode::INSUFFICIENT_STORAGE, "disk full"),
        FailureKind::Busy => (StatusCode::SERVICE_UNAVAILABLE, "busy"),
        FailureKind::Away => (StatusCode::SERVICE_UNAVAILABLE, "another node is away"),
        FailureKind::Moved => (StatusCode::SERVICE_UNAVAILABLE, "the peer ends"),
        FailureKind::Failed => (StatusCode::INTERNAL_SERVER_ERROR, "failed"),
    };
    Problem::new(status, title, failure.message.clone())
}
