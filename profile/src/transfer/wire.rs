//! What the profiler and a node's process say to each other: a JSON object in each line.

use std::{net::SocketAddr, path::PathBuf};

use serde::{Deserialize, Serialize};

use super::usage::Usage;

/// What a node is told to do, on its stdin. It ends when that closes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Command {
    /// Publish the file or the folder at `path`.
    Publish {
        /// Where it is.
        path: PathBuf,
    },
    /// Download these files into the share folder.
    Download {
        /// Their names.
        names: Vec<String>,
        /// When to begin, by [`now_s`](super::usage::now_s).
        at_s: f64,
    },
    /// What comes from now on counts.
    Reset,
    /// Say what was taken since then.
    Usage,
    /// Withdraw what was registered, and end. What is on disk stays.
    End,
}

/// What a node answers, on its stdout: one answer for each command, and one when it is ready.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Answer {
    /// It serves.
    Ready {
        /// Who it is.
        node: String,
        /// Where it serves.
        addr: SocketAddr,
    },
    /// It has published so many files in so many seconds.
    Published {
        /// How many.
        files: usize,
        /// Seconds.
        took_s: f64,
    },
    /// All downloads have ended.
    Downloaded(Downloads),
    /// What it took.
    Usage(Usage),
    /// It is done.
    Done,
    /// It could not do it.
    Failed(String),
}

/// What came of the downloads of one reader.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Downloads {
    /// When the last of them ended, by [`now_s`](super::usage::now_s).
    pub ended_s: f64,
    /// What each source sent for them.
    pub sources: Vec<Sent>,
    /// The bytes that had come by then, from moment to moment.
    pub moments: Vec<Moment>,
    /// Why single ones failed.
    pub failed: Vec<String>,
}

/// What a source sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sent {
    /// Who it is.
    pub node: String,
    /// File bytes, useless ones included.
    pub bytes: u64,
    /// It was proved to lie.
    pub banned: bool,
}

/// What had come from each source at a moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Moment {
    /// When, by [`now_s`](super::usage::now_s).
    pub at_s: f64,
    /// Nodes, and bytes so far.
    pub bytes: Vec<(String, u64)>,
}
