//! Long answers: a JSON object whose list is sent as its rows come.

use axum::{
    body::{Body, Bytes},
    http::header,
    response::{IntoResponse, Response},
};
use futures::stream;
use nekoindexer::http::Problem;
use serde::Serialize;
use serde_json::Value;

use crate::{
    commands::{Reply, Row},
    http::carried::{Carried, problem},
};

/// Turns rows into the elements of a list.
pub(super) trait Listed: Send + 'static {
    /// The key of the list.
    const KEY: &'static str;

    /// Appends an element to `elements`, if `row` is one.
    fn add(&mut self, row: &Row, elements: &mut Elements);

    /// The fields after the list.
    fn end(self) -> Vec<(&'static str, Value)>;
}

/// Elements of a list as JSON, each after a comma but the first.
pub(super) struct Elements {
    text: Vec<u8>,
    is_begun: bool,
}

impl Elements {
    pub(super) fn add(&mut self, element: &impl Serialize) {
        if std::mem::replace(&mut self.is_begun, true) {
            self.text.push(b',');
        }
        // Plain fields into memory: it cannot fail.
        let _ = serde_json::to_writer(&mut self.text, element);
    }
}

struct Sending<L> {
    carried: Carried,
    elements: Elements,
    listed: Option<L>,
    /// A reply that came before the answer began.
    first: Option<Reply>,
}

/// Answers with the rows of `carried`. A failure before the first row is an error; a later one cuts the answer off.
pub(super) async fn list<L: Listed>(mut carried: Carried, listed: L) -> Result<Response, Problem> {
    let first = carried.next().await;
    if let Reply::Finished(Err(failure)) = &first {
        return Err(problem(failure));
    }
    let text = format!("{{\"{}\":[", L::KEY).into_bytes();
    let elements = Elements { text, is_begun: false };
    let sending = Sending { carried, elements, listed: Some(listed), first: Some(first) };
    let body = Body::from_stream(stream::try_unfold(sending, Sending::next));
    Ok(([(header::CONTENT_TYPE, "application/json")], body).into_response())
}

impl<L: Listed> Sending<L> {
    /// The next bytes; `None` after the last.
    async fn next(mut self) -> Result<Option<(Bytes, Self)>, std::io::Error> {
        loop {
            let Some(listed) = &mut self.listed else { return Ok(None) };
            let reply = match self.first.take() {
                Some(reply) => reply,
                None => self.carried.next().await,
            };
            match reply {
                Reply::Rows(rows) => rows.iter().for_each(|row| listed.add(row, &mut self.elements)),
                Reply::Finished(Ok(_)) => {
                    let fields = self.listed.take().map(Listed::end).unwrap_or_default();
                    let fields = fields.into_iter().map(|(key, value)| format!(",\"{key}\":{value}"));
                    let end = format!("]{}}}", fields.collect::<String>());
                    self.elements.text.extend_from_slice(end.as_bytes());
                }
                Reply::Finished(Err(failure)) => return Err(std::io::Error::other(failure)),
                _ => {}
            }
            if !self.elements.text.is_empty() {
                let text = std::mem::take(&mut self.elements.text);
                return Ok(Some((text.into(), self)));
            }
        }
    }
}
