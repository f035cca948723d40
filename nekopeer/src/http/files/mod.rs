//! `GET /f/NAME`: files by name, for programs that speak HTTP.
//!
//! What is read is decided in [`reading`](crate::reading). Here requests and answers are put into the terms of HTTP:
//! [`range`] and [`conditions`] read requests, [`version`] and [`kind`] describe what is sent, [`body`] sends
//! it, [`refusal`] says why not.

mod body;
mod conditions;
mod kind;
mod range;
mod refusal;
mod version;

use std::{ops::Range, sync::Arc, time::SystemTime};

use axum::{
    Extension, Router,
    body::Body,
    extract::{
        Path, Query, State,
        rejection::{PathRejection, QueryRejection},
    },
    response::{IntoResponse, Response},
    routing::get,
};
use futures::stream;
use headers::{ContentLength, ContentRange, HeaderMapExt};
use hyper::{HeaderMap, Method, StatusCode, header::RANGE};
use nekoindexer::daemon::http::FileSender;
use nekoproto::{FileName, VerifiedRecord};
use serde::Deserialize;

use self::{body::FileBody, conditions::Outcome, conditions::Validators, refusal::Refusal};
use crate::{
    failure::Failure,
    library::opened::OpenFile,
    peer::PeerHandle,
    reading::{Elsewhere, Fetch, ReadSource, Reading, in_spite},
};

/// The routes `GET /f/NAME` and `HEAD /f/NAME` of `peer`, for any HTTP server. To be called on the runtime of the
/// peer, which drives the connections to other nodes; the server may run on another one.
pub fn routes(peer: &PeerHandle) -> Router {
    let reading = Arc::new(Reading::new(&peer.library, &peer.peers, &peer.downloader));
    let methods = get(file).fallback(async || Refusal::wrong_method());
    Router::new().route("/f/{*name}", methods).with_state(reading)
}

#[derive(Debug, Deserialize)]
struct Wanted {
    /// The first digits of the origin's id.
    origin: Option<String>,
}

async fn file(
    State(reading): State<Arc<Reading>>,
    name: Result<Path<String>, PathRejection>,
    wanted: Result<Query<Wanted>, QueryRejection>,
    sender: Option<Extension<FileSender>>,
    method: Method,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let Path(name) = name.map_err(|error| Refusal::malformed(error.body_text()))?;
    let Query(wanted) = wanted.map_err(|error| Refusal::malformed(error.body_text()))?;
    let name = FileName::new(&name).map_err(Refusal::no_name)?;
    let request = Request { method, headers, sender: sender.map(|Extension(sender)| sender) };
    let origin = wanted.origin.map(|digits| digits.to_ascii_lowercase());
    match reading.find(&name, origin.as_deref()).await? {
        ReadSource::Held(file) => request.answer_held(*file),
        ReadSource::Elsewhere(found) => request.answer_elsewhere(&reading, found).await,
    }
}

struct Request {
    method: Method,
    headers: HeaderMap,
    /// Sends held files, if the server can do that.
    sender: Option<FileSender>,
}

struct Head {
    status: StatusCode,
    headers: HeaderMap,
    /// The bytes to send; `None`: no body.
    range: Option<Range<u64>>,
}

impl Request {
    /// Decides what is answered about `record`; `version` are the headers that describe it.
    fn head(
        &self,
        record: &VerifiedRecord,
        validators: &Validators,
        version: HeaderMap,
    ) -> Result<Head, Refusal> {
        let mut headers = version;
        match validators.outcome(&self.headers) {
            Outcome::NotModified => {
                kind::describe(&record.name, &mut headers); // a cache replaces by these what it has
                return Ok(Head { status: StatusCode::NOT_MODIFIED, headers, range: None });
            }
            Outcome::Failed => return Err(Refusal::another_version(headers)),
            Outcome::Proceed => {}
        }
        let is_get = self.method == Method::GET; // ranges are defined for nothing else
        let asked = match self.headers.get(RANGE).filter(|_| is_get && validators.ranges_count(&self.headers))
        {
            Some(_) if self.headers.get_all(RANGE).iter().count() > 1 => None, // several ranges
            None => None,
            Some(header) => {
                let asked = header.to_str().map_err(|_| range::MALFORMED);
                let asked = asked.and_then(|header| range::asked(header, record.size));
                asked.map_err(|why| Refusal::bad_range(why, record.size))?
            }
        };
        kind::describe(&record.name, &mut headers);
        let (status, range) = match asked {
            Some(range) => {
                if let Ok(said) = ContentRange::bytes(range.clone(), record.size) {
                    headers.typed_insert(said);
                }
                (StatusCode::PARTIAL_CONTENT, range)
            }
            None => (StatusCode::OK, 0..record.size),
        };
        headers.typed_insert(ContentLength(range.end - range.start));
        Ok(Head { status, headers, range: Some(range).filter(|_| is_get) })
    }

    fn answer_held(&self, file: OpenFile) -> Result<Response, Refusal> {
        let OpenFile { entry, file, validity } = file;
        let stored = file.metadata().and_then(|metadata| metadata.modified()).ok();
        let validators = version::validators(&entry.record, stored, SystemTime::now());
        let version = version::headers(&entry.record, &validators, Some(validity));
        let head = self.head(&entry.record, &validators, version)?;
        let range = head.range.clone();
        let body = range.map(|range| Body::new(FileBody::new(file, entry, range, self.sender.clone())));
        Ok(head.with(body))
    }

    /// Sends what others hold; if nobody delivers it, what is held here, if that may be sent.
    async fn answer_elsewhere(&self, reading: &Reading, mut found: Elsewhere) -> Result<Response, Refusal> {
        let record = &found.target.record;
        let validators = version::validators(record, None, SystemTime::now());
        let version = version::headers(record, &validators, found.validity);
        let head = self.head(record, &validators, version)?;
        let Some(range) = head.range.clone() else { return Ok(head.with(None)) };
        let held = found.held.take();
        let body = async { body_of(reading.fetch(found, range)?).await };
        match (body.await, held) {
            (Ok(body), _) => Ok(head.with(Some(body))),
            (Err(_), Some(held)) => self.answer_held(*in_spite(*held)?),
            (Err(error), None) => Err(error.into()),
        }
    }
}

impl Head {
    fn with(self, body: Option<Body>) -> Response {
        (self.status, self.headers, body.unwrap_or_default()).into_response()
    }
}

/// Waits for the first bytes of `fetch`, so that a file that nobody delivers is an error and no broken answer, and
/// returns the body. Each piece is sent when the next one is there, and the last one once all was verified: if the
/// fetch fails, the body fails before its end, and with it the connection.
async fn body_of(mut fetch: Fetch) -> Result<Body, Failure> {
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
