//! `stop`: ends the running peer.

use axum::http::StatusCode;

use super::prelude::*;

/// End the peer that runs on this folder
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, clap::Args)]
pub struct Stop {}

impl Api for Stop {
    async fn run(self, host: &Arc<Host>, _: Input, _: &Answer) -> Result<Done, Failure> {
        host.stop.cancel();
        Ok(Done::all())
    }

    fn about(&self) -> About<'_> {
        About::needing(Need::Catalogue)
    }
}

/// Ends the peer. It has begun to end when the answer arrives.
#[utoipa::path(
    post,
    path = "/api/v1/stop",
    responses(
        (status = 202, description = "It ends"),
        Refused,
    ),
    security(("token" = [])),
)]
pub(super) async fn stop(_: Authorized, State(inside): State<Arc<Inside>>) -> StatusCode {
    inside.host.stop.cancel(); // there is always room for it
    StatusCode::ACCEPTED
}
