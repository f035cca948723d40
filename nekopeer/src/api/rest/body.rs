//! Answers of commands as JSON, sent as their rows come.

use axum::{
    body::Body,
    http::header,
    response::{IntoResponse, Response},
};
use futures::{StreamExt, TryStreamExt, stream};
use nekoindexer::daemon::http::Problem;
use serde::Deserialize;

use super::{
    Inside,
    carried::{Carried, problem},
};
use crate::api::{Command, Done, Failure, Framed, Outcome, Reply, no_input};

/// A failure before the first row is an error; a later one cuts the answer off.
pub(crate) async fn answered(inside: &Inside, command: impl Into<Command>) -> Result<Response, Problem> {
    let command = command.into();
    let framed = Framed::new(command.api().about().shape);
    sent(inside.carry_out(command, no_input())?, framed).await
}

pub(crate) async fn sent(carried: Carried, framed: Framed) -> Result<Response, Problem> {
    let texts = stream::try_unfold(Some((carried, framed)), async |state| {
        let Some((mut carried, mut framed)) = state else { return Ok(None) };
        loop {
            match carried.next().await {
                Reply::Rows(rows) if !rows.is_empty() => {
                    return Ok(Some((framed.rows(&rows), Some((carried, framed)))));
                }
                Reply::Finished(Ok(done)) => {
                    return match nothing_done(&done).filter(|_| !framed.is_begun) {
                        Some(nothing) => Err(nothing),
                        None => Ok(Some((framed.end(&done.fields), None))),
                    };
                }
                Reply::Finished(Err(failure)) => return Err(problem(&failure)),
                _ => {}
            }
        }
    });
    let mut texts = Box::pin(texts.peekable());
    if let Some(Err(problem)) = texts.as_mut().next_if(Result::is_err).await {
        return Err(problem);
    }
    let body = Body::from_stream(texts.map_err(|problem| std::io::Error::other(problem.detail)));
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
