//! [`Reply`]: one part of an answer.

use nekoproto::FileName;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Done, Failure};
use crate::{api::Row, library::events::Event, util::progress::Progress};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Reply {
    /// How far a long operation is. It may be left out, and is not sent before it has run for a while.
    Progress(Snapshot),
    Rows(Vec<Row>),
    /// Further bytes of the file that is read. They follow the line, which says how many they are.
    Bytes(#[serde(with = "followed")] Vec<u8>),
    Event(Event),
    /// This number of events were lost, because the caller was slow.
    EventsMissed(u64),
    Finished(Result<Done, Failure>),
    Note(String),
    /// How far each of the files is that are in work at the moment, at most [`PARTS_MAX`] of them. Sent as
    /// [`Reply::Progress`] is.
    Parts(Vec<(FileName, Snapshot)>),
    /// The only name is a folder's: the rows that follow are of its files.
    Many,
}

/// Files of one report.
pub(super) const PARTS_MAX: usize = 8;

/// The progress of an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Snapshot {
    /// Bytes done so far.
    #[serde(rename = "done_bytes")]
    pub(crate) done: u64,
    /// Those of them that were here before the operation began.
    #[serde(rename = "kept_bytes")]
    pub(crate) kept: u64,
    /// In total; 0 while unknown.
    #[serde(rename = "total_bytes")]
    pub(crate) total: u64,
}

impl Snapshot {
    pub(crate) fn of(progress: &Progress) -> Self {
        Self { done: progress.done(), kept: progress.kept(), total: progress.total() }
    }

    pub(crate) const fn plus(self, other: Self) -> Self {
        Self {
            done: self.done.saturating_add(other.done),
            kept: self.kept.saturating_add(other.kept),
            total: self.total.saturating_add(other.total),
        }
    }
}

/// Bytes as their number: they follow the line.
mod followed {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    use crate::api::PIECE_BYTES;

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(bytes.len() as u64)
    }

    /// As many zeros, to be replaced by what follows.
    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        match usize::deserialize(from)? {
            len if len <= PIECE_BYTES => Ok(vec![0; len]),
            len => Err(D::Error::custom(format!("{len} bytes at once"))),
        }
    }
}
