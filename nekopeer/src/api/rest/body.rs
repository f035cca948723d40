//! Answers of commands as JSON, sent as their rows come.

use axum::{
    body::{Body, Bytes},
    http::header,
    response::{IntoResponse, Response},
};
use futures::stream;
use nekoindexer::daemon::http::Problem;
use serde::Deserialize;

use super::{
    Inside,
    carried::{Carried, problem},
};
use crate::api::{Command, Done, Failure, Framed, Outcome, Reply, Shape, no_input};

struct Sending {
    carried: Carried,
    framed: Framed,
    /// A reply that came before the answer began.
    first: Option<Reply>,
    is_ended: bool,
}

/// Has `command` carried out and answers with its rows. A failure before the first row is an error; a later one cuts the
/// answer off.
pub(crate) async fn answered(inside: &Inside, command: impl Into<Command>) -> Result<Response, Problem> {
    let command = command.into();
    let shape = command.api().about().shape;
    framed(inside, command, shape).await
}

/// The same in another shape.
pub(crate) async fn framed(
    inside: &Inside,
    command: impl Into<Command>,
    shape: Shape,
) -> Result<Response, Problem> {
    sent(inside.carry_out(command, no_input())?, Framed::new(shape)).await
}

/// Answers with the rows of `carried`.
pub(crate) async fn sent(mut carried: Carried, framed: Framed) -> Result<Response, Problem> {
    let first = loop {
        match carried.next().await {
            Reply::Finished(Err(failure)) => return Err(problem(&failure)),
            Reply::Finished(Ok(done)) => match nothing_done(&done) {
                Some(nothing) => return Err(nothing),
                None => break Reply::Finished(Ok(done)),
            },
            rows @ Reply::Rows(_) => break rows,
            _ => {}
        }
    };
    let sending = Sending { carried, framed, first: Some(first), is_ended: false };
    let body = Body::from_stream(stream::try_unfold(sending, Sending::next));
    Ok(([(header::CONTENT_TYPE, "application/json")], body).into_response())
}

/// Where nothing was done because something failed, the first failure is the error.
fn nothing_done(done: &Done) -> Option<Problem> {
    #[derive(Deserialize)]
    struct Failed {
        failed: Vec<Failure>,
    }
    let failed = done.fields.parse::<Failed>().filter(|_| done.outcome != Outcome::All)?;
    failed.failed.first().map(problem)
}

impl Sending {
    /// The next bytes; `None` after the last.
    async fn next(mut self) -> Result<Option<(Bytes, Self)>, std::io::Error> {
        while !self.is_ended {
            let reply = match self.first.take() {
                Some(reply) => reply,
                None => self.carried.next().await,
            };
            let text = match reply {
                Reply::Rows(rows) => self.framed.rows(&rows),
                Reply::Finished(Ok(done)) => {
                    self.is_ended = true;
                    self.framed.end(&done.fields)
                }
                Reply::Finished(Err(failure)) => return Err(std::io::Error::other(failure)),
                _ => continue,
            };
            if !text.is_empty() {
                return Ok(Some((text.into(), self)));
            }
        }
        Ok(None)
    }
}
