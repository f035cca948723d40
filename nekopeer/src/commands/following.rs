//! Carries out the following of names, and going back to an earlier version.

use std::sync::Arc;

use nekoproto::{FileName, Version};
use tokio_util::sync::CancellationToken;

use super::{Answer, Failure, Host, Row, answer::pass_events_if, jobs::JobKind};
use crate::{download::DownloadOptions, follow::Hook, library::events::Event, peer::PeerHandle};

/// Follows names and tells what happens to them, until nobody listens or the peer has ended.
pub(super) async fn follow(
    peer: &PeerHandle,
    names: Vec<FileName>,
    hook: Option<Hook>,
    keep: Option<u32>,
    options: DownloadOptions,
    answer: &Answer,
) -> Result<(), Failure> {
    let (events, endless) = (peer.events(), CancellationToken::new());
    let followed = names.clone();
    let is_about = |event: &Event| event.name().is_none_or(|about| followed.contains(about));
    let is_wanted = |event: &Event| event.is_worth_showing() && is_about(event);
    tokio::select! {
        Err(error) = peer.follow(names, hook, keep, options) => Err(error.into()),
        () = pass_events_if(is_wanted, events, answer, &endless) => Ok(()),
    }
}

/// Puts an earlier version back in its place, as a job.
pub(super) async fn roll_back(
    host: &Arc<Host>,
    name: &FileName,
    version: Option<Version>,
    answer: &Answer,
) -> Result<(), Failure> {
    let job = host.jobs.begin(JobKind::Get, std::slice::from_ref(name), String::new(), false);
    let restoring = async {
        let done = answer.reporting(&job.progress, host.peer.rollback(name, version, &job.progress)).await?;
        answer.rows(vec![Row::downloaded(name, &Ok(done))]).await
    };
    job.unless_cancelled(restoring).await
}
