//! Why a download failed.

use std::{path::PathBuf, sync::Arc};

use nekoproto::{FileName, NodeId, Record, VerifiedRecord, Version};

use crate::{
    indexers::SearchError,
    sets::SetError,
    storage::{StoreError, catalogue::CatalogueError},
};

/// Origins that a message names.
const NAMED_MAX: usize = 8;

/// Why there is no earlier version, and which there are.
fn not_kept(name: &FileName, version: Option<Version>, kept: &[Version]) -> String {
    let kept: Vec<String> = kept.iter().map(Version::to_string).collect();
    match (version, kept.is_empty()) {
        (Some(version), false) => {
            format!("version {version} of {name} is not kept here, but {}", kept.join(", "))
        }
        (version, _) => {
            let which = version.map_or("no earlier version".to_owned(), |version| {
                format!("version {version} is not kept, and none")
            });
            format!("{name}: {which} is kept here")
        }
    }
}

fn ambiguous(name: &FileName, origins: &[VerifiedRecord]) -> String {
    let is_same = origins.windows(2).all(|two| two[0].content == two[1].content);
    let (files, why) = match is_same {
        true => ("the same bytes", ", and each publishes its own next version"),
        false => ("different files", ""),
    };
    let each = of_each(name, origins.iter().map(|record| &record.origin));
    format!("{} origins share {files} as {name}{why}: say which, {each}", origins.len())
}

/// What to type for the file of each of these origins.
fn of_each<'a>(name: &FileName, origins: impl IntoIterator<Item = &'a NodeId>) -> String {
    let mut origins = origins.into_iter();
    let named = origins.by_ref().take(NAMED_MAX).map(|origin| format!("{name}@{}", origin.short()));
    let named: Vec<String> = named.collect();
    format!("{}{}", named.join(" or "), if origins.next().is_some() { " or another" } else { "" })
}

/// Why the origin that was asked for has no such file.
fn not_of_origin(name: &FileName, origin: &str, others: &[NodeId]) -> String {
    let short = origin.get(..10).unwrap_or(origin); // as lists show it
    match (others.is_empty(), origin.len()) {
        (false, _) => format!("no origin {short} shares {name}, but there is {}", of_each(name, others)),
        (true, 10..64) => format!(
            "nobody shares {name} of origin {short}: check both, or try again when its holders are back; what is called \
             {name}@{origin} is {name}@{origin}@ID"
        ),
        (true, _) => {
            format!(
                "nobody shares {name} of origin {short}: check both, or try again when its holders are back"
            )
        }
    }
}

/// Why a download failed. The file that was in the destination is unchanged, and the verified chunks of
/// the new one are kept for the next attempt.
#[derive(Debug, thiserror::Error)]
pub enum DownloadError {
    /// No indexer could be asked.
    #[error(transparent)]
    Search(#[from] SearchError),
    /// No node shares the file.
    #[error("nobody shares {name}{}: check the name, or try again when its holders are back", if *.complete { "" } else { " (but not every indexer answered)" })]
    NotFound {
        /// The name.
        name: FileName,
        /// Whether every indexer in reach answered.
        complete: bool,
    },
    /// Its origin unshared the file.
    #[error("{name} was unshared by its origin {} as version {version}: nobody shares it until the origin does \
        again; {name}@ID takes the file of another origin, if there is one", .origin.short())]
    Withdrawn {
        /// The name.
        name: FileName,
        /// The origin.
        origin: NodeId,
        /// The version that unshares it.
        version: Version,
    },
    /// Several origins share files under the name: different ones, or what follows goes on by itself.
    #[error("{}", ambiguous(.name, .origins))]
    Ambiguous {
        /// The name.
        name: FileName,
        /// The origins' records.
        origins: Vec<VerifiedRecord>,
    },
    /// The origin of the copy here no longer shares the file; others do.
    #[error("origin {}, whose {name} is or was here, no longer shares it; {} takes the one of another", .origin.short(),
        of_each(.name, .others))]
    OriginGone {
        /// The name.
        name: FileName,
        /// The origin of the copy.
        origin: NodeId,
        /// Those that share a file under the name.
        others: Vec<NodeId>,
    },
    /// The origin that was asked for does not share the file; others may.
    #[error("{}{}", not_of_origin(.name, .origin, .others),
        if *.complete { "" } else { " (the answer is incomplete: not all that share it are listed)" })]
    NotOfOrigin {
        /// The name.
        name: FileName,
        /// The first digits of the id that was asked for.
        origin: String,
        /// Those that share a file under the name.
        others: Vec<NodeId>,
        /// Whether every indexer in reach answered with all that it knows.
        complete: bool,
    },
    /// This peer is the file's origin.
    #[error("{0} is shared by this peer itself: it is here already, ls says where")]
    Own(FileName),
    /// The name is being downloaded already.
    #[error("{0} is being downloaded already: wait for that")]
    AlreadyRunning(FileName),
    /// The destination holds a file that is not an unchanged copy of this peer's.
    #[error("{0} exists and is not a copy from here: move it away")]
    Exists(PathBuf),
    /// What comes from a pipe was to replace a file that is not the shared one.
    #[error("{} exists and is not what was shared: share it", .0.display())]
    NotPublished(PathBuf),
    /// Every version found is older than one that is or was held.
    #[error(
        "only version {found} of {name} can be found, and version {held} is or was here: try again when who has a newer one is back"
    )]
    Older {
        /// The name.
        name: FileName,
        /// The newest version found.
        found: Version,
        /// The version that is or was here.
        held: Version,
    },
    /// The command of a follower is running on the version in its place.
    #[error(
        "the command of follow is running on {0}, and its exit code decides what stays in its place: try again when it \
        has ended"
    )]
    Judged(FileName),
    /// An earlier version is not kept here.
    #[error("{}", not_kept(.name, *.version, .kept))]
    NotKept {
        /// The name.
        name: FileName,
        /// The version that was asked for; `None`: the one before.
        version: Option<Version>,
        /// Those that are kept.
        kept: Vec<Version>,
    },
    /// Nobody who was asked has that version.
    #[error("version {version} of {name} is not here, and {}{}", match .asked {
        0 => "nobody else holds the file".to_owned(),
        1 => "the one other holder does not keep it".to_owned(),
        more => format!("none of {more} other holders keeps it"),
    }, match .silent {
        0 => String::new(),
        silent => format!(" ({silent} did not answer: try again later)"),
    })]
    NobodyKeeps {
        /// The name.
        name: FileName,
        /// The version that was asked for.
        version: Version,
        /// Holders that were asked,
        asked: usize,
        /// and those among them that did not answer.
        silent: usize,
    },
    /// Its origin did not confirm that the version found is the newest, as its policy asks for.
    #[error(
        "the policy of {0} is strict, and its origin does not confirm that this is the newest version: try again when \
        the origin is reachable"
    )]
    Unconfirmed(FileName),
    /// No source delivered all chunks.
    #[error("no source delivers {name} to its end: {why}; what came is kept, run it again to go on")]
    SourcesExhausted {
        /// The name.
        name: FileName,
        /// The last source's failure.
        why: String,
    },
    /// The origin's record contradicts itself.
    #[error("{0}: the origin signed a content hash that its own chunks do not have: it must be shared again")]
    OriginLies(FileName),
    /// In a bulk download, no indexer could be asked.
    #[error("{name} cannot be looked for: {source}")]
    NobodyAsked {
        /// The name.
        name: FileName,
        /// Why.
        source: Arc<SearchError>,
    },
    /// In a bulk download, the batch of this file could not be stored.
    #[error("{name} cannot be stored: {source}")]
    NotStored {
        /// The name.
        name: FileName,
        /// Why.
        source: Arc<DownloadError>,
    },
    /// The pipe that it is written to or read from broke.
    #[error("{name}: the pipe broke: {why}")]
    Pipe {
        /// The name.
        name: FileName,
        /// The system's error.
        why: std::io::Error,
    },
    /// The file cannot be stored.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The catalogue cannot store it.
    #[error(transparent)]
    Catalogue(#[from] CatalogueError),
    /// The folder of a set cannot be changed.
    #[error(transparent)]
    Set(#[from] SetError),
}

impl DownloadError {
    /// Whether an answer with room for more might have had it.
    pub(super) const fn is_incomplete(&self) -> bool {
        matches!(self, Self::NotFound { complete: false, .. } | Self::NotOfOrigin { complete: false, .. })
    }

    pub(super) fn withdrawn(withdrawal: &VerifiedRecord) -> Self {
        let Record { name, origin, version, .. } = &**withdrawal;
        Self::Withdrawn { name: name.clone(), origin: *origin, version: *version }
    }

    /// Whether it may be found where no indexer looks.
    pub(super) const fn is_not_found(&self) -> bool {
        matches!(
            self,
            Self::Search(_)
                | Self::NotFound { .. }
                | Self::OriginGone { .. }
                | Self::NotOfOrigin { .. }
                | Self::NobodyAsked { .. }
                | Self::Older { .. }
        )
    }

    /// Whether a later attempt may succeed although the user does nothing.
    #[must_use]
    pub const fn may_pass(&self) -> bool {
        match self {
            Self::Search(_)
            | Self::NotFound { .. }
            | Self::OriginGone { .. }
            | Self::NotOfOrigin { .. }
            | Self::NobodyAsked { .. }
            | Self::AlreadyRunning(_)
            | Self::Judged(_)
            | Self::Older { .. }
            | Self::Withdrawn { .. }
            | Self::Unconfirmed(_)
            | Self::SourcesExhausted { .. }
            | Self::NotStored { .. } => true,
            Self::Ambiguous { .. }
            | Self::NotKept { .. }
            | Self::NobodyKeeps { .. }
            | Self::Own(_)
            | Self::Exists(_)
            | Self::NotPublished(_)
            | Self::OriginLies(_)
            | Self::Pipe { .. } => false,
            Self::Store(error) | Self::Set(SetError::Store(error)) => store_may_pass(error),
            Self::Catalogue(error) | Self::Set(SetError::Catalogue(error)) => catalogue_may_pass(error),
            Self::Set(error) => matches!(error, SetError::Stopped | SetError::Write(_) | SetError::Read(_)),
        }
    }
}

const fn store_may_pass(error: &StoreError) -> bool {
    !matches!(
        error,
        StoreError::Escapes(_)
            | StoreError::InDataFolder(_)
            | StoreError::NotAPlace { .. }
            | StoreError::NotAFolder(_)
            | StoreError::ChangedMeanwhile(_)
    )
}

const fn catalogue_may_pass(error: &CatalogueError) -> bool {
    matches!(
        error,
        CatalogueError::Full(_) | CatalogueError::NotKept { .. } | CatalogueError::Database { .. }
    )
}

/// The sources of `record` are exhausted; `why` is the last one's failure.
pub(super) fn exhausted(record: &VerifiedRecord, why: Option<String>) -> DownloadError {
    let why = why.unwrap_or_else(|| "it has no source that other machines can connect to".to_owned());
    DownloadError::SourcesExhausted { name: record.name.clone(), why }
}

#[cfg(test)]
mod tests {
    use nekoproto::ContentHash;
    use testkit::goods;

    use super::*;

    #[test]
    fn what_only_a_user_can_change_is_not_tried_again_and_all_else_is() {
        let (name, path) = (FileName::new("a").unwrap(), PathBuf::from("a"));
        let passing = [
            DownloadError::Older { name: name.clone(), found: Version::FIRST, held: Version::FIRST },
            StoreError::Busy(path.clone()).into(),
            StoreError::Io { path: path.clone(), source: std::io::ErrorKind::TimedOut.into() }.into(),
            StoreError::Full(path.clone()).into(),
            CatalogueError::Full(path.clone()).into(),
        ];
        assert!(passing.iter().all(DownloadError::may_pass), "{passing:?}");
        let lasting = [
            DownloadError::Exists(path.clone()),
            DownloadError::OriginLies(name.clone()),
            DownloadError::Own(name),
            StoreError::ChangedMeanwhile(path).into(),
        ];
        assert!(!lasting.iter().any(DownloadError::may_pass), "{lasting:?}");
    }

    #[test]
    fn of_many_origins_few_are_named() {
        let content = |n: u16| ContentHash::from_bytes(*blake3::hash(&n.to_be_bytes()).as_bytes());
        let record = |n| goods::record(n, "a", 1, |record| record.content = content(n));
        let said = |count| {
            let origins: Vec<_> = (0..count).map(record).collect();
            let ids: Vec<_> = origins.iter().map(|record| record.origin).collect();
            (DownloadError::Ambiguous { name: FileName::new("a").unwrap(), origins }.to_string(), ids)
        };
        let (all, ids) = said(8);
        assert!(ids.iter().all(|id| all.contains(&format!("a@{}", id.short()))), "{all}");
        assert!(!all.contains("another"), "{all}");
        let many = said(500).0;
        assert!(many.len() < 250 && many.contains("500") && many.ends_with("or another"), "{many}");
    }
}
