//! The rows of results.

use std::path::Path;

use nekoproto::{
    ContentHash, FileName, Freshness, Holder, Mode, NodeId, Policy, Position, Staleness, TraceReply,
    VerifiedRecord, Version,
};
use serde::{Deserialize, Serialize};

use super::{Failure, JobRow, LocalPath, in_one_line};
use crate::{
    download::{Delivery, DownloadError, Downloaded},
    indexers::Answer,
    library::{
        copies::Confirmed,
        status::{Condition, FileStatus},
    },
    state::freshness::Doubt,
    storage::catalogue::{CatalogueError, Preference, Why},
};

/// One row of a result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Row {
    /// A file that is published or held here.
    File(FileRow),
    /// An entry of the catalogue that cannot be read.
    Damaged {
        /// Why.
        why: String,
    },
    /// What was found under one name.
    Found(FoundRow),
    /// A download, or why it failed.
    Downloaded {
        /// The name.
        name: FileName,
        /// Its outcome.
        outcome: Result<Box<DownloadedRow>, Failure>,
    },
    /// What became of one file that was to be published.
    Published(PublishedRow),
    /// A name that was to be offered no longer.
    Withdrawn {
        /// The name.
        name: FileName,
        /// Why it still is.
        outcome: Result<(), Failure>,
    },
    /// What was waited for is there.
    Reached {
        /// The name.
        name: FileName,
        /// The version.
        version: Version,
    },
    /// A job.
    Job(JobRow),
    /// A job that was cancelled.
    Cancelled(JobRow),
    /// A ticket, or why there is none.
    Ticket {
        /// The name.
        name: FileName,
        /// Its text.
        outcome: Result<String, Failure>,
    },
    /// The way of a query from one own indexer on, which is its first hop.
    Trace(TraceReply),
    /// A file that matches a search.
    Match(MatchRow),
    /// The last row of a search.
    Further {
        /// Where further matches begin, if there are any.
        next: Option<Position>,
        /// Whether every indexer in reach answered.
        complete: bool,
    },
}

/// One version of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct VersionRow {
    pub(crate) name: FileName,
    pub(crate) origin: NodeId,
    pub(crate) version: Version,
    pub(crate) size: u64,
    pub(crate) content: ContentHash,
    pub(crate) mode: Mode,
    pub(crate) staleness: Staleness,
    /// Whether it is a folder.
    pub(crate) is_set: bool,
    /// When it was published, in milliseconds since 1970 by its origin's clock; 0 if that does not say.
    pub(crate) published_ms: u64,
}

/// A file that is published or held here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileRow {
    /// The version on disk.
    pub(crate) record: VersionRow,
    pub(crate) path: LocalPath,
    /// Whether this peer is its origin.
    pub(crate) own: bool,
    pub(crate) condition: Condition,
    /// The newest later version known.
    pub(crate) newest: Option<Version>,
    /// Of a copy: when its origin confirmed it last, and until when it counts as fresh for that.
    pub(crate) confirmed: Option<Confirmed>,
    /// The rest, if this name was asked about.
    pub(crate) detail: Option<Box<Detail>>,
}

/// What else is known of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Detail {
    /// The policy of its origin.
    pub(crate) policy: Policy,
    /// Of an own file: the peers that have a lease on news of it.
    pub(crate) readers: Vec<ReaderRow>,
    /// Earlier versions that are kept here, the last that was replaced first.
    pub(crate) kept: Vec<Version>,
    /// Up to this version none takes the place by itself, and why.
    pub(crate) passed_over: Option<(Version, Why)>,
    /// How the reader wants it to be kept coherent.
    pub(crate) preference: Preference,
}

/// A peer that has a lease on news of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ReaderRow {
    pub(crate) holder: Holder,
    /// The last version that it acknowledged.
    pub(crate) version: Version,
    /// Until its lease ends, and with it the time that an earlier version may count as fresh there, in milliseconds.
    pub(crate) ends_in_ms: u64,
}

/// What was found under one name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FoundRow {
    pub(crate) name: FileName,
    /// Whether every indexer in reach answered.
    pub(crate) complete: bool,
    /// The newest version of each origin, and its holders.
    pub(crate) hits: Vec<(VersionRow, Vec<Holder>)>,
}

/// A file that matches a search.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MatchRow {
    pub(crate) record: VersionRow,
    pub(crate) holders: Vec<Holder>,
    /// The copy or the own file here, of the same origin.
    pub(crate) held: Option<HeldRow>,
}

/// What is held here of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HeldRow {
    pub(crate) version: Version,
    /// Whether this peer is its origin.
    pub(crate) own: bool,
    pub(crate) condition: Condition,
}

/// A finished download.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DownloadedRow {
    pub(crate) record: VersionRow,
    pub(crate) path: LocalPath,
    /// File bytes received over the network.
    pub(crate) bytes_moved: u64,
    /// Whether this version stood in its place before.
    pub(crate) was_here: bool,
    pub(crate) took_us: u64,
    pub(crate) freshness: Freshness,
    pub(crate) doubt: Option<Doubt>,
    pub(crate) sources: Vec<Delivery>,
}

/// What became of one file that was to be published.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum PublishedRow {
    /// A new version, and its ticket.
    New(VersionRow, Option<String>),
    /// It equals the version already published; its ticket.
    Unchanged(VersionRow, Option<String>),
    /// It is a copy of another origin's file.
    Copy(FileName),
    /// It cannot be published.
    Failed {
        /// The file.
        path: LocalPath,
        /// Why.
        why: String,
    },
}

impl Row {
    /// The name of the file that it lists.
    pub(crate) fn name(&self) -> Option<&FileName> {
        match self {
            Self::File(file) => Some(&file.record.name),
            Self::Match(found) => Some(&found.record.name),
            _ => None,
        }
    }

    /// About how many bytes it has when encoded.
    pub(super) fn weight(&self) -> usize {
        /// Bytes of a row without its texts and lists.
        const BASE: usize = 256;
        let path = |path: &LocalPath| path.0.as_os_str().len();
        let record = |record: &VersionRow| BASE + record.name.as_str().len();
        match self {
            Self::File(file) => {
                let detail = file.detail.as_ref();
                let listed = detail.map_or(0, |detail| detail.readers.len() * 64 + detail.kept.len() * 8);
                record(&file.record) + path(&file.path) + listed
            }
            Self::Match(found) => record(&found.record) + found.holders.len() * 64,
            Self::Further { .. } | Self::Reached { .. } => BASE,
            Self::Damaged { why } => BASE + why.len(),
            Self::Found(found) => {
                let hits = found.hits.iter();
                BASE + hits.map(|(version, holders)| record(version) + holders.len() * 64).sum::<usize>()
            }
            Self::Downloaded { outcome: Ok(done), .. } => {
                record(&done.record) + path(&done.path) + done.sources.len() * 64
            }
            Self::Downloaded { name, outcome: Err(failure) }
            | Self::Withdrawn { name, outcome: Err(failure) }
            | Self::Ticket { name, outcome: Err(failure) } => {
                BASE + name.as_str().len() + failure.message.len()
            }
            Self::Ticket { name, outcome: Ok(ticket), .. } => BASE + name.as_str().len() + ticket.len(),
            Self::Published(
                PublishedRow::New(version, ticket) | PublishedRow::Unchanged(version, ticket),
            ) => record(version) + ticket.as_ref().map_or(0, String::len),
            Self::Published(PublishedRow::Copy(name)) | Self::Withdrawn { name, outcome: Ok(()) } => {
                BASE + name.as_str().len()
            }
            Self::Published(PublishedRow::Failed { path: at, why }) => BASE + path(at) + why.len(),
            Self::Job(job) | Self::Cancelled(job) => {
                BASE + job.name.len() + job.error.as_ref().map_or(0, String::len)
            }
            Self::Trace(reply) => BASE + reply.hops.len() * BASE,
        }
    }

    pub(super) fn listed(file: Result<FileStatus, CatalogueError>) -> Self {
        match file {
            Ok(file) => Self::File(FileRow {
                record: (&file.record).into(),
                path: file.path.into(),
                own: file.own,
                condition: file.condition,
                newest: file.newest,
                confirmed: file.confirmed,
                detail: None,
            }),
            Err(error) => Self::Damaged { why: in_one_line(&error) },
        }
    }

    pub(super) fn found(name: &FileName, answer: &Answer) -> Self {
        let held = answer.candidates.iter().filter(|found| !found.holders.is_empty());
        let hits = held.map(|found| ((&found.record).into(), found.holders.clone()));
        Self::Found(FoundRow { name: name.clone(), complete: answer.complete, hits: hits.collect() })
    }

    pub(super) fn downloaded(name: &FileName, outcome: &Result<Downloaded, DownloadError>) -> Self {
        let outcome = match outcome {
            Ok(done) => Ok(Box::new(DownloadedRow::from(done))),
            Err(error) => Err(error.into()),
        };
        Self::Downloaded { name: name.clone(), outcome }
    }
}

impl From<&VerifiedRecord> for VersionRow {
    fn from(record: &VerifiedRecord) -> Self {
        Self {
            name: record.name.clone(),
            origin: record.origin,
            version: record.version,
            size: record.size,
            content: record.content,
            mode: record.policy.mode(),
            staleness: record.policy.staleness(),
            is_set: record.policy.is_set(),
            published_ms: record.published_ms,
        }
    }
}

impl From<&Downloaded> for DownloadedRow {
    fn from(done: &Downloaded) -> Self {
        Self {
            record: (&done.record).into(),
            path: done.path.clone().into(),
            bytes_moved: done.bytes_moved,
            was_here: done.was_here,
            took_us: u64::try_from(done.took.as_micros()).unwrap_or(u64::MAX),
            freshness: done.freshness,
            doubt: done.doubt,
            sources: done.sources.clone(),
        }
    }
}

impl PublishedRow {
    pub(super) fn failed(path: &Path, why: String) -> Self {
        Self::Failed { path: path.to_owned().into(), why }
    }
}
