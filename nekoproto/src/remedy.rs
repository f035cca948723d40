//! [`Remedy`]: what helps against an error. Each program has its own words for it: flags, fields of a request, or none.

use serde::{Deserialize, Serialize};

/// What helps against an error; most are settings, and named as these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Remedy {
    /// To add a node to the list of allowed nodes.
    Allow,
    /// Another data folder.
    DataDir,
    /// To replace what is there.
    Force,
    /// Another address for HTTP, or none.
    Http,
    /// An indexer that runs and can be reached.
    Indexer,
    /// TLS at both ends, or at neither.
    Insecure,
    /// To keep the versions that are replaced.
    Keep,
    /// Another address to listen on, or any.
    Listen,
    /// The same network at both ends.
    Network,
    /// The same secret of the network at both ends, or none.
    NetworkSecret,
    /// Another place for the file.
    Output,
    /// To leave something out of what is shared.
    Exclude,
    /// To share what links lead to.
    FollowLinks,
}

/// Why something failed, as text, and what helps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{text}")]
pub struct Cause {
    /// The error and its causes.
    pub text: String,
    /// `None`: nothing that could be set or asked for.
    pub remedy: Option<Remedy>,
}

impl<T: Into<String>> From<T> for Cause {
    fn from(text: T) -> Self {
        Self { text: text.into(), remedy: None }
    }
}
