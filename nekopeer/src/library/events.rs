//! Events of a peer, for programs that show them; and how often each came.

use std::{fmt, net::SocketAddr};

use nekoproto::{Cause, FileName, Label, NodeId, Remedy, Version, transport::shown};
use prometheus_client::metrics::counter::Counter;
use serde::{Deserialize, Serialize};
use tokio::sync::broadcast::{self, error::RecvError};

use super::subscribers::named;

/// Number of events kept for a slow receiver; it misses older ones.
pub(crate) const EVENTS_KEPT: usize = 1024;

/// Something that happened in the background.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// An indexer is connected.
    Connected(SocketAddr),
    /// An indexer cannot be reached; connecting is retried.
    Away {
        /// Which.
        indexer: SocketAddr,
        /// Why.
        why: Cause,
    },
    /// An indexer cannot list this peer: the address that it serves on is not the one that the indexer sees.
    NotListed(SocketAddr),
    /// An indexer refuses this peer: another process uses its key.
    KeyInUse {
        /// Which indexer.
        indexer: SocketAddr,
        /// Where the other one is connected from.
        at: SocketAddr,
        /// For how many seconds.
        for_secs: u64,
    },
    /// An indexer could not connect to this peer, which connects to those who look for it instead.
    NotReached {
        /// Which.
        indexer: SocketAddr,
        /// Where it tried.
        at: SocketAddr,
    },
    /// An indexer has no room for more names of this peer; those that it lists stay.
    Full {
        /// Which indexer.
        indexer: SocketAddr,
        /// How many files are not listed.
        files: usize,
    },
    /// This peer's files are listed at an indexer.
    Registered {
        /// Which indexer.
        indexer: SocketAddr,
        /// How many files.
        files: usize,
    },
    /// A newer version of a copy is known.
    Invalidated {
        /// Which file.
        name: FileName,
        /// The version on disk.
        held: Version,
        /// The newest version known.
        newest: Version,
    },
    /// A newer version was downloaded and replaced an outdated copy.
    Refreshed {
        /// Which file.
        name: FileName,
        /// The version now on disk.
        version: Version,
        /// Bytes received over the network for it.
        bytes_moved: u64,
    },
    /// The newest version of a followed name is in its place, and the command, if there is one, accepted it.
    Followed {
        /// Which file.
        name: FileName,
        /// Its version.
        version: Version,
    },
    /// The user put an earlier version back in its place.
    RolledBack {
        /// Which file.
        name: FileName,
        /// The version that is in its place now.
        version: Version,
    },
    /// The command of a follower failed on a version, which is passed over from now on.
    Refused {
        /// Which file.
        name: FileName,
        /// The version.
        version: Version,
        /// The version that was put back in its place; `None`: it stays there.
        put_back: Option<Version>,
        /// Why.
        why: String,
    },
    /// The command of a follower printed a line. Only that follower is told.
    Printed {
        /// Which file it ran on.
        name: FileName,
        /// The line, without control characters.
        line: String,
    },
    /// The command of a follower printed more lines than are shown. Only that follower is told.
    NotShown {
        /// Which file it ran on.
        name: FileName,
        /// How many.
        lines: u64,
    },
    /// An outdated copy was deleted, as configured.
    Dropped(FileName),
    /// The origin of a copy does not answer; the copy is kept.
    OriginAway(FileName),
    /// The origin of a copy no longer shares the file; the copy is kept.
    Withdrawn {
        /// Which file.
        name: FileName,
        /// The version that unshares it; `None`: the origin does not know the name.
        version: Option<Version>,
    },
    /// A shared file changed on disk and is no longer shared.
    Changed(FileName),
    /// A version shared here got a later number, because its number had been used with this key.
    Renumbered {
        /// Which file.
        name: FileName,
        /// The number used already.
        taken: Version,
        /// Its number now.
        version: Version,
    },
    /// Another data folder with this key shared a newer version; the file here is no longer shared.
    PublishedElsewhere {
        /// Which file.
        name: FileName,
        /// The version shared elsewhere.
        version: Version,
    },
    /// A command that ran in the background has ended.
    JobEnded {
        /// Its id.
        id: u64,
        /// What it did.
        what: String,
        /// How it ended.
        state: String,
        /// Why it did not end well.
        why: Option<Cause>,
    },
    /// A background operation failed.
    Failed {
        /// Which file.
        name: FileName,
        /// Why.
        why: String,
    },
    /// A reader of an own file has its newest version now, as it says.
    Read {
        /// Which file.
        name: FileName,
        /// The version.
        version: Version,
        /// How many more files it said that of.
        more: usize,
        /// The reader.
        reader: NodeId,
        /// What people call it, as it says.
        label: Option<Label>,
    },
}

impl Event {
    /// Whether to show it to a user: a registration of no files is not shown.
    pub const fn is_worth_showing(&self) -> bool {
        !matches!(self, Self::Registered { files: 0, .. })
    }

    /// Whether something went wrong that a user has to know of, also one who wants results only.
    pub(crate) const fn is_failure(&self) -> bool {
        matches!(
            self,
            Self::Away { .. }
                | Self::NotListed(_)
                | Self::KeyInUse { .. }
                | Self::Full { .. }
                | Self::Refused { .. }
                | Self::Changed(_)
                | Self::PublishedElsewhere { .. }
                | Self::JobEnded { why: Some(_), .. }
                | Self::Failed { .. }
        )
    }

    /// Whether another version took the place of one, or is to, or none is there any more.
    pub(crate) const fn replaces_version(&self) -> bool {
        matches!(
            self,
            Self::Invalidated { .. }
                | Self::Refreshed { .. }
                | Self::RolledBack { .. }
                | Self::Refused { put_back: Some(_), .. }
                | Self::Dropped(_)
        )
    }

    /// What helps, if a setting does.
    #[must_use]
    pub const fn remedy(&self) -> Option<Remedy> {
        match self {
            Self::Away { why, .. } | Self::JobEnded { why: Some(why), .. } => why.remedy,
            Self::NotListed(_) => Some(Remedy::Listen),
            _ => None,
        }
    }

    /// The name that it is about, if it is one.
    #[must_use]
    pub const fn name(&self) -> Option<&FileName> {
        match self {
            Self::Invalidated { name, .. }
            | Self::Refreshed { name, .. }
            | Self::Followed { name, .. }
            | Self::RolledBack { name, .. }
            | Self::Refused { name, .. }
            | Self::Printed { name, .. }
            | Self::NotShown { name, .. }
            | Self::Dropped(name)
            | Self::OriginAway(name)
            | Self::Withdrawn { name, .. }
            | Self::Changed(name)
            | Self::Renumbered { name, .. }
            | Self::PublishedElsewhere { name, .. }
            | Self::Failed { name, .. }
            | Self::Read { name, .. } => Some(name),
            _ => None,
        }
    }
}

/// What a peer has done so far, in numbers.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Bytes of files and of their lists of chunks that other peers got from here.
    pub(crate) bytes_up: Counter,
    /// Useful file bytes that came from other peers.
    pub(crate) bytes_down: Counter,
    /// Requests for bytes that were answered.
    pub(crate) requests: Counter,
    /// Requests for bytes that were refused, as too many were waiting.
    pub(crate) requests_refused: Counter,
    /// Files that were downloaded, newer versions of copies among them.
    pub(crate) downloads: Counter,
    /// Newer versions of copies that others told of.
    pub(crate) invalidations: Counter,
    /// Outdated copies that were replaced by their newest version.
    pub(crate) refetches: Counter,
    pub(crate) origins_away: Counter,
    /// Background operations that failed.
    pub(crate) failures: Counter,
    /// Leases on news of files published here that were given or renewed.
    pub(crate) leases: Counter,
    /// Times that a reader acknowledged a newer version that it was told of.
    pub(crate) acknowledged: Counter,
    /// New versions that the command of a follower refused.
    pub(crate) refused: Counter,
    pub(crate) rollbacks: Counter,
}

impl Counters {
    pub(super) fn note(&self, event: &Event) {
        let counter = match event {
            Event::Invalidated { .. } => &self.invalidations,
            Event::Refreshed { .. } => &self.refetches,
            Event::OriginAway(_) => &self.origins_away,
            Event::Failed { .. } => &self.failures,
            Event::Refused { .. } => &self.refused,
            Event::RolledBack { .. } => &self.rollbacks,
            _ => return,
        };
        counter.inc();
    }
}

/// Waits for an event that `is_wanted`, or until some were missed.
pub(crate) async fn until_event(
    events: &mut broadcast::Receiver<Event>,
    is_wanted: impl Fn(&Event) -> bool,
) -> Option<Event> {
    loop {
        match events.recv().await {
            Ok(event) if is_wanted(&event) => return Some(event),
            Ok(_) => {}
            Err(RecvError::Lagged(_)) => return None,
            Err(RecvError::Closed) => std::future::pending().await, // the peer has ended
        }
    }
}

/// What it means that another process uses the key of this peer, connected from `at`.
pub(crate) fn key_in_use(at: SocketAddr, for_secs: u64) -> String {
    format!("this key has been running at {at} for {for_secs} s: stop one of the two")
}

/// What it means that an indexer could not connect to this peer.
pub(crate) fn unreached(at: SocketAddr) -> String {
    format!(
        "others cannot connect to this machine at {at} (a firewall?), so it connects to them; open that port for direct \
         connections"
    )
}

fn fmt_read(event: &Event, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Event::Read { name, version, more, reader, label } = event else { return Ok(()) };
    write!(f, "{} has {name} at version {version}", named(label.as_ref(), &reader.short()))?;
    if *more > 0 { write!(f, ", and {more} more") } else { Ok(()) }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connected(indexer) => write!(f, "connected to indexer {indexer}"),
            Self::Full { indexer, files } => write!(
                f,
                "indexer {indexer} does not list {files} more names of this peer, so that nobody finds them there: it has too many of this peer, or of other origins for the same name; use another indexer too"
            ),
            Self::NotListed(indexer) => write!(
                f,
                "indexer {indexer} cannot list this peer, which does not serve on the address that reaches it"
            ),
            Self::KeyInUse { indexer, at, for_secs } => {
                write!(f, "indexer {indexer} refuses this peer: {}", key_in_use(*at, *for_secs))
            }
            Self::NotReached { indexer, at } => write!(f, "indexer {indexer}: {}", unreached(*at)),
            Self::Away { indexer, why } => {
                let how = if why.remedy.is_some() { "does not let this peer in" } else { "is away" };
                write!(f, "indexer {} {how}, trying again: {why}", shown(*indexer))
            }
            Self::Registered { indexer, files } => {
                write!(f, "registered {files} file{} with {indexer}", if *files == 1 { "" } else { "s" })
            }
            Self::Invalidated { name, held, newest } => {
                write!(f, "invalidated {name}: version {newest} is out, the copy here is version {held}")
            }
            Self::Refreshed { name, version, bytes_moved } => {
                write!(f, "refreshed {name} to version {version}, {bytes_moved} bytes moved")
            }
            Self::Followed { name, version } => write!(f, "{name} is at version {version}"),
            Self::RolledBack { name, version } => write!(f, "rolled {name} back to version {version}"),
            Self::Refused { name, version, put_back: Some(back), why } => {
                write!(
                    f,
                    "{name}: version {version} is refused, and version {back} is back in its place: {why}"
                )
            }
            Self::Refused { name, version, put_back: None, why } => {
                write!(f, "{name}: version {version} is refused, and none before can be put back: {why}")
            }
            Self::Printed { name, line } => write!(f, "{name}: {line}"),
            Self::NotShown { name, lines } => {
                write!(f, "{name}: {lines} more lines of the command are not shown")
            }
            Self::Dropped(name) => write!(f, "dropped the outdated copy of {name}"),
            Self::OriginAway(name) => write!(f, "the origin of {name} cannot be asked; nothing changes"),
            Self::Withdrawn { name, version: None } => {
                write!(f, "the origin of {name} no longer shares it; the copy is kept")
            }
            Self::Withdrawn { name, version: Some(version) } => {
                write!(f, "{name} was unshared by its origin as version {version}")
            }
            Self::Changed(name) => {
                write!(
                    f,
                    "{name} was changed or removed on disk, or may not be read, and is no longer shared: share it again, or unshare it; of a copy, move it away and get it again"
                )
            }
            Self::Renumbered { name, taken, version } => {
                write!(f, "shared {name} as version {version}: number {taken} was already used with this key")
            }
            Self::PublishedElsewhere { name, version } => write!(
                f,
                "version {version} of {name} was shared with this key elsewhere: share it again to replace that"
            ),
            Self::JobEnded { id, what, state, why: None } => write!(f, "job {id} {state}: {what}"),
            Self::JobEnded { id, what, state, why: Some(why) } => {
                write!(f, "job {id} {state}: {what}: {why}")
            }
            Self::Failed { name, why } => write!(f, "{name}: {why}"),
            Self::Read { .. } => fmt_read(self, f),
        }
    }
}
