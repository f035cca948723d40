//! [`Refusal`]: why a file is not sent, as an answer.

use axum::response::{IntoResponse, Response};
use headers::{ContentRange, HeaderMapExt};
use hyper::{
    HeaderMap, StatusCode,
    header::{HeaderName, HeaderValue, RETRY_AFTER},
};
use nekoindexer::daemon::http::Problem;
use nekoproto::NameError;

use crate::failure::{Failure, Reason};

/// After how many seconds what may pass by itself is worth another try.
const RETRY_AFTER_SECS: u16 = 5;

#[derive(Debug)]
pub(super) struct Refusal {
    problem: Problem,
    headers: Box<HeaderMap>,
}

impl Refusal {
    fn new(status: StatusCode, title: &'static str, detail: String) -> Self {
        Self { problem: Problem { status, title, detail }, headers: Box::default() }
    }

    fn with(mut self, name: HeaderName, value: impl Into<HeaderValue>) -> Self {
        self.headers.insert(name, value.into());
        self
    }

    pub(super) fn no_name(error: NameError) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "no name of a file", error.to_string())
    }

    pub(super) fn malformed(detail: String) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "malformed request", detail)
    }

    /// The client wants a version that is not there; `version` are the headers of the one that is.
    pub(super) fn another_version(version: HeaderMap) -> Self {
        let detail = "the file is at another version than the request names: ask again without the condition";
        let refusal = Self::new(StatusCode::PRECONDITION_FAILED, "another version", detail.to_owned());
        Self { headers: Box::new(version), ..refusal }
    }

    pub(super) fn bad_range(why: &str, size: u64) -> Self {
        let mut refusal =
            Self::new(StatusCode::RANGE_NOT_SATISFIABLE, "range not satisfiable", why.to_owned());
        refusal.headers.typed_insert(ContentRange::unsatisfied_bytes(size));
        refusal
    }

    pub(super) fn wrong_method() -> Self {
        let detail = "a file can be read here, by GET or HEAD; share through /api/v1".to_owned();
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "method not allowed", detail)
            .with(hyper::header::ALLOW, HeaderValue::from_static("GET, HEAD"))
    }
}

impl From<Failure> for Refusal {
    fn from(Failure { kind, message, reason, .. }: Failure) -> Self {
        let (status, title) = match reason {
            Reason::Withdrawn => (StatusCode::GONE, "unshared"),
            Reason::NoSource | Reason::OriginLies => (StatusCode::BAD_GATEWAY, "no source"),
            Reason::Unconfirmed => (StatusCode::GATEWAY_TIMEOUT, "not known to be the newest"),
            _ => kind.http_status(),
        };
        let detail = match reason {
            Reason::Ambiguous { name, origins } => {
                let all: Vec<String> = origins.iter().map(|origin| format!("?origin={origin}")).collect();
                format!("{} origins share {name}: choose one by {}", all.len(), all.join(" or "))
            }
            _ => message,
        };
        let refusal = Self::new(status, title, detail);
        if kind.is_retryable() { refusal.with(RETRY_AFTER, RETRY_AFTER_SECS) } else { refusal }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = self.problem.into_response();
        // The problem says that it is not to be kept, whatever holds for the version.
        for (name, value) in self.headers.iter() {
            response.headers_mut().entry(name).or_insert_with(|| value.clone());
        }
        response
    }
}
