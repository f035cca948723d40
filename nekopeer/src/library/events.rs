//! What happens by itself, for whoever wants to show it.

use std::{fmt, net::SocketAddr};

use nekoproto::{FileName, Version};

/// Events kept for a slow listener; past that it misses the oldest.
pub(crate) const EVENTS_KEPT: usize = 1024;

/// Something that happened without being asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// An indexer is connected.
    Connected(SocketAddr),
    /// An indexer is out of reach; it is tried again and again.
    Away {
        /// Which.
        indexer: SocketAddr,
        /// Why.
        why: String,
    },
    /// This peer's files are listed at an indexer.
    Registered {
        /// Which indexer.
        indexer: SocketAddr,
        /// How many files.
        files: usize,
    },
    /// A copy is outdated: a newer version is out.
    Invalidated {
        /// Which file.
        name: FileName,
        /// The version on disk.
        held: Version,
        /// The newest version known.
        newest: Version,
    },
    /// A newer version was downloaded in place of an outdated copy.
    Refreshed {
        /// Which file.
        name: FileName,
        /// The version now on disk.
        version: Version,
        /// Bytes that came over the network for it.
        bytes_moved: u64,
    },
    /// An outdated copy was deleted, as configured.
    Dropped(FileName),
    /// The origin of a copy cannot be asked; the copy is kept.
    OriginAway(FileName),
    /// A published file changed on disk and is no longer offered.
    Changed(FileName),
    /// Something that was tried in the background failed.
    Failed {
        /// Which file.
        name: FileName,
        /// What happened.
        why: String,
    },
}

impl Event {
    /// Whether a person wants to read it: a session with nothing to register is no news.
    pub const fn is_worth_showing(&self) -> bool {
        !matches!(self, Self::Registered { files: 0, .. })
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connected(indexer) => write!(f, "connected to indexer {indexer}"),
            Self::Away { indexer, why } => write!(f, "indexer {indexer} is away, trying again: {why}"),
            Self::Registered { indexer, files } => {
                write!(f, "registered {files} file{} with {indexer}", if *files == 1 { "" } else { "s" })
            }
            Self::Invalidated { name, held, newest } => {
                write!(f, "invalidated {name}: version {newest} is out, the copy here is version {held}")
            }
            Self::Refreshed { name, version, bytes_moved } => {
                write!(f, "refreshed {name} to version {version}, {bytes_moved} bytes moved")
            }
            Self::Dropped(name) => write!(f, "dropped the outdated copy of {name}"),
            Self::OriginAway(name) => write!(f, "the origin of {name} cannot be asked; the copy is kept"),
            Self::Changed(name) => {
                write!(f, "{name} changed on disk and is not offered: register it again")
            }
            Self::Failed { name, why } => write!(f, "{name}: {why}"),
        }
    }
}
