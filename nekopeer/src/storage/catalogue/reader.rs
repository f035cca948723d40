//! What the reader of this data folder wants of a name, whoever its origin is: it outlives the process.

use nekoproto::{FileName, NodeId, Record, Version, codec};
use serde::{Deserialize, Serialize};

use super::{Catalogue, CatalogueError, schema::READERS};

/// What is wanted of one name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Reader {
    /// How many earlier versions are kept when a newer one takes their place.
    pub(crate) keep: u32,
    /// Which versions do not take the place by themselves.
    pub(crate) passed_over: Option<PassedOver>,
    /// The last version that the command of a follower accepted, and its origin.
    pub(crate) accepted: Option<(NodeId, Version)>,
}

/// Versions that do not take the place by themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PassedOver {
    /// Those of this origin,
    pub(crate) origin: NodeId,
    /// up to this one.
    pub(crate) version: Version,
    /// Why.
    pub(crate) why: Why,
}

/// Why a version is passed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Why {
    /// The command of a follower failed on it.
    Failed,
    /// The user went back to an earlier one.
    RolledBack,
}

impl Reader {
    /// Whether the version of `record` is passed over.
    pub(crate) fn passes_over(&self, record: &Record) -> bool {
        self.passed_over
            .is_some_and(|passed| passed.origin == record.origin && record.version <= passed.version)
    }

    /// Whether the command of a follower failed on this version.
    pub(crate) fn refused(&self, record: &Record) -> bool {
        self.passes_over(record) && self.passed_over.is_some_and(|passed| passed.why == Why::Failed)
    }

    /// The last version of this origin's file that the command of a follower accepted.
    pub(crate) fn accepted_of(&self, origin: &NodeId) -> Option<Version> {
        self.accepted.filter(|(accepted, _)| accepted == origin).map(|(_, version)| version)
    }
}

impl Catalogue {
    /// What is wanted of `name`.
    pub(crate) fn reader(&self, name: &FileName) -> Result<Reader, CatalogueError> {
        let decode = |row: &[u8]| codec::decode(row).unwrap_or_default(); // was stored here
        Ok(self.tables.value(READERS, name.as_str(), decode)?.unwrap_or_default())
    }

    /// Changes what is wanted of `name`; returns what is now. Blocking.
    pub(crate) fn change_reader(
        &self,
        name: &FileName,
        change: impl FnOnce(&mut Reader),
    ) -> Result<Reader, CatalogueError> {
        let write = self.tables.begin()?;
        let before = self.reader(name)?;
        let mut reader = before;
        change(&mut reader);
        if reader != before {
            let row = codec::encode(&reader).unwrap_or_default(); // some fifty bytes
            write.with(READERS, |table| table.insert(name.as_str(), row.as_slice()).map(drop))?;
            self.tables.commit(write)?;
        }
        Ok(reader)
    }
}
