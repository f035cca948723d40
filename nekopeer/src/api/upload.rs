//! `share -`: stores what comes on stdin, or in a request, as a file in the share folder and shares it.

use axum::{
    body::Body,
    http::{HeaderMap, StatusCode, header},
};
use futures::StreamExt;
use nekoindexer::daemon::http::is_stalled;
use tokio::sync::mpsc;

use super::{
    Framed, INPUT_PIECE_BYTES, INPUT_WAITING_MAX, Piece, answer::InputReader, job::JobKind, prelude::*,
    publishing::publish, share::Shared,
};
use crate::{
    api::rest::{described::Content, sent},
    api::views::published::PublishedView,
    publish::{PolicyChange, PublishOptions},
};

/// Store the input as a file in the share folder, and publish it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct Upload {
    /// The name, and the path within the share folder.
    #[param(value_type = Name)]
    pub(super) name: FileName,
    /// Replace a file that stands there and is not what was shared.
    #[param(required = false)]
    #[serde(default)]
    pub(super) force: bool,
    /// What was said about the policy.
    #[param(ignore)]
    #[serde(default)]
    pub(super) policy: PolicyChange,
}

impl Api for Upload {
    async fn run(self, host: &Arc<Host>, input: Input, answer: &Answer) -> Result<Done, Failure> {
        let Self { name, force, policy } = self;
        let job = host.jobs.begin(JobKind::Store, std::slice::from_ref(&name), String::new(), false);
        let begun = job.progress.mark();
        let storing = async {
            let storing = host.peer.store(&name, InputReader::new(input), force, &job.progress);
            let path = answer.reporting(&job.progress, storing).await?;
            job.progress.start_at(begun, 0); // the same bytes are read again
            let options = PublishOptions { name: Some(name.clone()), policy, ..PublishOptions::default() };
            publish(&host.peer, vec![path], options, &job, answer).await
        };
        job.unless_cancelled(storing).await
    }

    fn about(&self) -> About {
        About {
            shape: Shape::List("files"),
            takes_input: true,
            has_policy: true,
            stores_files: true,
            ..About::needing(Need::Serving)
        }
    }

    fn view(&self) -> Box<dyn View> {
        Box::<PublishedView>::default()
    }

    fn title(&self) -> String {
        "stdin".to_owned()
    }
}

/// Stores the body as a file in the share folder and shares it. A body that is cut off stores nothing; none at
/// all is an empty file.
#[utoipa::path(
    put,
    path = "/api/v1/files",
    params(Upload),
    request_body(content = Option<Content>, content_type = "application/octet-stream"),
    responses(
        (status = 200, description = "What became of it", body = Shared),
        Refused,
    ),
    security(("token" = [])),
)]
pub(super) async fn store(
    _: Authorized,
    State(inside): State<Arc<Inside>>,
    Asked(upload): Asked<Upload>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    for refused in
        [header::CONTENT_RANGE, header::IF_MATCH, header::IF_NONE_MATCH, header::IF_UNMODIFIED_SINCE]
    {
        if headers.contains_key(&refused) {
            let why = "a file is stored as a whole, and replaced only with force=true: leave out the header";
            return Err(Problem::bad_request(format!("{why} {refused}")));
        }
    }
    let encoding = headers.get(header::CONTENT_ENCODING);
    if encoding.is_some_and(|encoding| !encoding.as_bytes().eq_ignore_ascii_case(b"identity")) {
        let why = "a file is stored as it is sent: send it without `Content-Encoding`";
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported media type", why));
    }
    let (pieces, input) = mpsc::channel(INPUT_WAITING_MAX);
    let shape = Framed::new(upload.about().shape);
    let carried = inside.carry_out(upload, input)?;
    let feeding = async {
        match feed(body, pieces).await {
            Ok(()) => std::future::pending().await,
            Err(stalled) => stalled,
        }
    };
    tokio::select! {
        answer = sent(carried, shape) => answer,
        stalled = feeding => Err(stalled),
    }
}

/// Passes a body on to a command, as fast as that takes it. One that is cut off is no complete input.
async fn feed(body: Body, pieces: mpsc::Sender<Piece>) -> Result<(), Problem> {
    let mut body = body.into_data_stream();
    while let Some(bytes) = body.next().await {
        let is_taken = match bytes {
            Ok(mut bytes) => loop {
                let piece = bytes.split_to(bytes.len().min(INPUT_PIECE_BYTES));
                if piece.is_empty() {
                    break true;
                }
                if pieces.send(Piece::Bytes(piece.into())).await.is_err() {
                    break false;
                }
            },
            Err(error) if is_stalled(&error) => {
                let why = error.to_string();
                return Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "too slow", why));
            }
            Err(error) => {
                let _ = pieces.send(Piece::Failed(format!("the body was cut off: {error}"))).await;
                return Ok(());
            }
        };
        if !is_taken {
            return Ok(()); // the answer says why
        }
    }
    let _ = pieces.send(Piece::End).await; // the answer says why it is not taken
    Ok(())
}
