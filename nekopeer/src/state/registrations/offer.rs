//! What is offered under one name.

use nekoproto::{FileName, NodeTag, Record, VerifiedRecord, Version};

/// The offer under one name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Offer {
    /// The version held completely.
    pub(super) whole: Option<Mark>,
    /// The version being downloaded; its chunks on disk are served.
    pub(super) part: Option<VerifiedRecord>,
}

/// Stands for a record under a known name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    origin: NodeTag,
    version: Version,
    /// The beginning of its signature.
    signature: [u8; 8],
}

impl Mark {
    pub(super) fn of(record: &VerifiedRecord) -> Self {
        let Record { origin, version, .. } = **record;
        Self { origin: origin.tag(), version, signature: record.signed().signature().mark() }
    }

    /// Whether its record replaces that of `other`, of the same name.
    pub(super) fn replaces(&self, other: &Self) -> bool {
        self.origin == other.origin && self.version > other.version
    }
}

impl Offer {
    /// The version to register, and whether it is partial. `held` has the complete versions. It may have a later
    /// one than is offered, which is about to be.
    pub(super) fn now(
        &self,
        name: &FileName,
        held: impl Fn(&FileName) -> Option<VerifiedRecord>,
    ) -> Option<(VerifiedRecord, bool)> {
        match (&self.part, &self.whole) {
            (Some(part), _) => Some((part.clone(), true)),
            (None, Some(_)) => Some((held(name)?, false)),
            (None, None) => None,
        }
    }

    pub(super) fn is_some(&self) -> bool {
        self.part.is_some() || self.whole.is_some()
    }
}
