//! Carries out the following of names, and going back to an earlier version.

use std::sync::Arc;

use nekoproto::{FileName, Version};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{Answer, DownloadedRow, Failure, Host, answer::pass_events_if, jobs::JobKind};
use crate::{
    download::DownloadOptions,
    follow::{Follower, Hook, PRINTED_WAITING_MAX},
    library::events::Event,
    peer::PeerHandle,
};

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
    let (library, downloader) = (Arc::clone(&peer.library), Arc::clone(&peer.downloader));
    let (printed, lines) = mpsc::channel(PRINTED_WAITING_MAX);
    let following = Follower { library, downloader, hook, printed, keep, options };
    let followed = names.clone();
    let is_about = |event: &Event| event.name().is_none_or(|about| followed.contains(about));
    let is_wanted = |event: &Event| event.is_worth_showing() && is_about(event);
    tokio::select! {
        Err(error) = following.follow(names) => Err(error.into()),
        () = pass_events_if(is_wanted, (events, lines), answer, &endless) => Ok(()),
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
        let restoring = host.peer.downloader.restore(name, version, None, &job.progress);
        let done = answer.reporting(&job.progress, restoring).await?;
        answer.row(&DownloadedRow::of(&done)).await
    };
    job.unless_cancelled(restoring).await
}
