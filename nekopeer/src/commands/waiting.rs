//! Waits until a version is in its place, here or at all peers that have a lease on it.

use std::time::Duration;

use nekoproto::{FileName, Freshness, NodeId, Version};
use tokio::time::{Instant, sleep, timeout};

use super::{Failure, FailureKind};
use crate::{
    library::{
        events::Event,
        status::{Condition, FileStatus},
    },
    listing::Listing,
    peer::PeerHandle,
    state::freshness::Doubt,
};

/// Interval between two looks without an event.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Peers that a message names.
const NAMED_MAX: usize = 4;

/// What is waited for.
#[derive(Clone, Copy, Debug)]
pub(super) struct For {
    /// This or a later version; `None`: the newest, confirmed by its origin.
    pub(super) version: Option<Version>,
    /// At all peers that have a lease on it, not only here.
    pub(super) by_all: bool,
}

/// Waits, at most `within`; returns the version that is there.
///
/// # Cancel safety
/// Safe.
pub(super) async fn wait(
    peer: &PeerHandle,
    name: &FileName,
    wanted: For,
    within: Option<Duration>,
) -> Result<Version, Failure> {
    let until = within.map(|within| Instant::now() + within);
    let mut events = peer.events();
    loop {
        let why = match look(peer, name, wanted).await? {
            Ok(version) => return Ok(version),
            Err(why) => why,
        };
        let now = Instant::now();
        if until.is_some_and(|until| now >= until) {
            let secs = within.unwrap_or_default().as_secs();
            return Err(Failure::with(FailureKind::Failed, format!("after {secs} s {why}")));
        }
        let pause = until.map_or(LOOK_EVERY, |until| LOOK_EVERY.min(until - now));
        let is_news = async {
            while !matches!(events.recv().await, Ok(event) if may_matter(&event, name)) {
                // A closed channel has no news for ever.
                if events.is_closed() {
                    sleep(pause).await;
                }
            }
        };
        let _ = timeout(pause, is_news).await;
    }
}

fn may_matter(event: &Event, name: &FileName) -> bool {
    event.name() == Some(name)
}

/// The version that is there, or why what is waited for is not.
async fn look(peer: &PeerHandle, name: &FileName, wanted: For) -> Result<Result<Version, String>, Failure> {
    let asked = wanted.version.is_none().then_some(&peer.peers);
    let mut listing = Listing::of(&peer.library, asked, vec![name.clone()]);
    let found = listing.next().await?.unwrap_or_default();
    let Some(file) = found.into_iter().next().transpose()? else {
        return Ok(Err(format!("{name} is neither published nor held here")));
    };
    let FileStatus { record, own, condition, newest, .. } = &file;
    if wanted.by_all && !own {
        let why = format!(
            "{name} is a copy here: only its origin knows who has a lease on it, wait there with --all"
        );
        return Err(Failure::with(FailureKind::Invalid, why));
    }
    let version = record.version;
    if let Some(least) = wanted.version.filter(|least| *least > version) {
        return Ok(Err(format!("{name} is at version {version} here, not at {least}")));
    }
    match (*own, condition) {
        (true, _) => {}
        (false, Condition::Good(_)) if wanted.version.is_some() => {}
        (false, Condition::Good(Freshness::Fresh)) => {}
        _ => {
            let is_withdrawn = *condition == Condition::Doubtful(Doubt::Withdrawn);
            let newest = newest.map_or_else(String::new, |newest| match is_withdrawn {
                true => format!(" as version {newest}"),
                false => format!(", and version {newest} is out"),
            });
            return Ok(Err(format!("the copy of {name} here is version {version}, {condition}{newest}")));
        }
    }
    if !wanted.by_all {
        return Ok(Ok(version));
    }
    let missing = missing(peer, &file).await?;
    if missing.is_empty() {
        return Ok(Ok(version));
    }
    let named: Vec<String> = missing.iter().take(NAMED_MAX).map(NodeId::short).collect();
    let more = if missing.len() > NAMED_MAX { " and others" } else { "" };
    Ok(Err(format!(
        "{} of those that read {name} do not have version {version} yet: {}{more}",
        missing.len(),
        named.join(", ")
    )))
}

/// The peers with a lease on this own file that did not confirm to hold its newest version.
async fn missing(peer: &PeerHandle, file: &FileStatus) -> Result<Vec<NodeId>, Failure> {
    let read = peer.reading_of(&file.record.name).await?;
    let missing = read.readers.iter().filter(|reader| reader.holds < file.record.version);
    Ok(missing.map(|reader| reader.holder.node).collect())
}
