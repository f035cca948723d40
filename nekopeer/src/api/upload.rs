//! `share -`, `share --version`: stores what comes on stdin or in a request, or an earlier version, as a file in its place and
//! shares it.

use std::path::PathBuf;

use axum::{
    body::Body,
    http::{HeaderMap, StatusCode, header},
};
use nekoindexer::daemon::http::is_stalled;
use nekoproto::Version;
use tokio::sync::mpsc;

use super::{
    Framed, INPUT_WAITING_MAX, Piece, PieceWriter, answer::InputReader, feed, job::JobKind, prelude::*,
    publishing::publish, share::Shared,
};
use crate::{
    api::rest::{described::Content, sent},
    api::views::published::PublishedView,
    download::DownloadOptions,
    publish::{PolicyChange, PublishOptions, from_pipe::PlaceOfFile},
    util::progress::Progress,
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
    /// Instead of the input: this earlier version, from a reader that holds or keeps it.
    #[param(ignore)]
    #[serde(default)]
    pub(super) version: Option<Version>,
    /// What was said about the policy.
    #[param(ignore)]
    #[serde(default)]
    pub(super) policy: PolicyChange,
}

impl Api for Upload {
    async fn run(self, host: &Arc<Host>, input: Input, answer: &Answer) -> Result<Done, Failure> {
        let Self { name, force, version, policy } = self;
        let job = host.jobs.begin(JobKind::Store, std::slice::from_ref(&name), String::new(), false);
        let begun = job.progress.mark();
        let storing = async {
            let storing = async {
                match version {
                    None => host.peer.store(&name, InputReader::new(input), force, &job.progress).await,
                    Some(version) => fetched(host, &name, version, force, &job.progress).await,
                }
            };
            let path = answer.reporting(&job.progress, storing).await?;
            job.progress.start_at(begun, 0); // the same bytes are read again
            let options = PublishOptions { name: Some(name.clone()), policy, ..PublishOptions::default() };
            publish(&host.peer, vec![path], options, &job, answer).await
        };
        job.unless_cancelled(storing).await
    }

    fn about(&self) -> About<'_> {
        About {
            shape: Shape::List("files"),
            takes_input: self.version.is_none(),
            has_policy: true,
            stores_files: true,
            title: if self.version.is_some() { self.name.to_string() } else { "stdin".to_owned() },
            ..About::needing(Need::Serving)
        }
    }

    fn view(&self) -> Box<dyn View> {
        Box::<PublishedView>::default()
    }
}

/// Stores an earlier version of a file shared here in its place, as it comes from those who have it. What is cut off is not
/// stored.
async fn fetched(
    host: &Arc<Host>,
    name: &FileName,
    version: Version,
    force: bool,
    progress: &Arc<Progress>,
) -> Result<PathBuf, Failure> {
    let (peer, options) = (&host.peer, DownloadOptions::default());
    let (plan, path) = peer.downloader.find_published(name, version, &options, progress).await?;
    let place = PlaceOfFile { path, is_executable: plan.is_executable() };
    let (pieces, input) = mpsc::channel(INPUT_WAITING_MAX);
    let out = PieceWriter(pieces.clone(), Piece::Bytes);
    let stored = Arc::default();
    let storing = peer.publisher.store(name, Some(place), InputReader::new(input), force, &stored);
    let fetching = async {
        let whole = 0..plan.target.record.size;
        peer.downloader.read_planned(plan, whole, &options, out, progress).await?;
        let _ = pieces.send(Piece::End).await; // if it is not taken, the storing says why
        Ok(())
    };
    tokio::try_join!(storing, fetching).map(|(path, ())| path)
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
        match feed(body.into_data_stream(), &pieces).await {
            Ok(()) => {}
            Err(error) if is_stalled(&error) => {
                return Problem::new(StatusCode::REQUEST_TIMEOUT, "too slow", error.to_string());
            }
            Err(error) => drop(pieces.send(Piece::Failed(format!("the body was cut off: {error}"))).await),
        }
        std::future::pending().await
    };
    tokio::select! {
        answer = sent(carried, shape) => answer,
        stalled = feeding => Err(stalled),
    }
}
