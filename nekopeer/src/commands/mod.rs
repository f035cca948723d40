//! Commands as values: what a user, a script or another program asks of a peer, and what it answers.
//!
//! A [`Command`] is carried out by [`carry_out`] on the [`Host`] of a running peer. Its answer is a sequence of
//! [`Reply`]s, bounded in size each, and ends with [`Done`] or a [`Failure`]. All of them are plain values
//! without text for a terminal, so that they can travel to another process.

mod answer;
mod carry_out;
mod done;
mod expanding;
mod failure;
mod finding;
mod following;
mod input;
mod jobs;
mod named;
mod path;
mod publishing;
mod rows;
mod similar;
mod tickets;
mod waiting;
mod wanted;
mod watching;
mod word;

use std::sync::Arc;

use nekoproto::{FileName, Version};
use serde::{Deserialize, Serialize};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use utoipa::ToSchema;

pub(crate) use self::{
    answer::{Answer, pass_events, rows_of},
    carry_out::{carry_out, own_places},
    done::{Done, Framed, Outcome, Shape},
    failure::{Failure, FailureKind, in_one_line},
    finding::{Filters, Finding, MATCHES_DEFAULT, MATCHES_MAX, Part},
    input::{INPUT_PIECE_BYTES, INPUT_WAITING_MAX, Input, Piece, no_input},
    jobs::{JobRow, JobState, Jobs},
    named::id_digits,
    path::LocalPath,
    publishing::{PublishedFields, SkippedFields, UnpublishedRow},
    rows::{
        Detail, DownloadedRow, EventRow, FailedRow, FileRow, FoundRow, HopRow, MatchRow, PublishedRow,
        ReachedRow, Row, ThrottleRow, TicketRow, Ticketed, TraceRow, Unasked, VersionRow,
    },
    wanted::Wanted,
    word::Word,
};
use crate::{
    library::events::Event,
    peer::PeerHandle,
    publish::{PolicyChange, PublishOptions},
    storage::catalogue::PreferenceChange,
    util::progress::Progress,
};

/// Commands carried out at once. One whose caller does not take the answer counts until the caller leaves.
pub(crate) const COMMANDS_MAX: usize = 64;

/// What a peer is asked to do. Paths are absolute: the peer may have another current folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Command {
    /// Publish files and folders.
    Publish {
        /// Files and folders.
        paths: Vec<LocalPath>,
        /// How.
        options: PublishOptions,
    },
    /// Store the input as a file in the share folder, and publish it.
    Store {
        /// The name, and the path within the share folder.
        name: FileName,
        /// Replace a file that stands there.
        force: bool,
        /// What was said about the policy.
        policy: PolicyChange,
    },
    /// Offer these names no longer.
    Withdraw {
        /// The names.
        names: Vec<FileName>,
    },
    /// Ask the network. Answers with one [`Row::Found`] per name, in order.
    Query {
        /// The names.
        names: Vec<FileName>,
        /// Hops beyond the own indexers.
        ttl_hops: u8,
    },
    /// Download files. One name: answers with [`Row::Downloaded`] or fails. Several: one row per name.
    Download {
        /// The names.
        names: Vec<FileName>,
        /// Where a single file is to stand; `None`: in the share folder.
        output: Option<LocalPath>,
        /// Replace an existing file.
        force: bool,
        /// Which file, and how far it is looked for.
        wanted: Wanted,
        /// How the copies are kept coherent from now on.
        preference: PreferenceChange,
        /// Answer with [`Row::Job`] at once, and go on; only a peer that keeps serving does.
        background: bool,
    },
    /// Read one file in order; no copy is kept. Answers with [`Reply::Bytes`], then [`Row::Downloaded`].
    Read {
        /// The name.
        name: FileName,
        /// Which file, and how far it is looked for.
        wanted: Wanted,
    },
    /// List what is published and held here.
    List {
        /// At most this many; `None`: all.
        first: Option<u32>,
        /// Those after this name; `None`: from the first.
        after: Option<FileName>,
    },
    /// Ask the origins of copies, then list as [`Command::List`] does.
    Check {
        /// These names; none: all.
        names: Vec<FileName>,
        /// At most this many; `None`: all.
        first: Option<u32>,
        /// Those after this name; `None`: from the first.
        after: Option<FileName>,
    },
    /// Tell what happens in the background, until the caller leaves. Answers with [`Reply::Event`].
    Events,
    /// End the peer. It has begun to end when the answer arrives.
    Stop,
    /// List the long commands that run, and those that ended lately.
    Jobs,
    /// Interrupt a job as its caller would.
    Cancel {
        /// Its id, or the name it is about.
        what: String,
    },
    /// Change how fast the peer sends and fetches, and whether it fetches; answers with what holds then.
    Throttle {
        /// Bytes a second that are sent at most; 0: no limit; `None`: as before.
        up: Option<u64>,
        /// The same of what is fetched.
        down: Option<u64>,
        /// Whether downloads are paused; `None`: as before.
        pauses: Option<bool>,
    },
    /// Make tickets for files that are published or held here.
    Ticket {
        /// The names.
        names: Vec<FileName>,
        /// The user wants them drawn.
        as_qr: bool,
    },
    /// Follow a query through the network. Answers with one [`Row::Trace`] per own indexer.
    Trace {
        /// The name.
        name: FileName,
        /// Hops beyond the own indexers.
        ttl_hops: u8,
    },
    /// Follow names until the caller leaves. Answers with [`Reply::Event`] about them.
    Follow {
        /// The names.
        names: Vec<FileName>,
        /// A command of a shell that is run on each new version.
        exec: Option<String>,
        /// Where it runs.
        folder: LocalPath,
        /// How long it may take, in seconds.
        exec_secs: u32,
        /// How many earlier versions are kept; `None`: as many as before.
        keep: Option<u32>,
        /// Replace an existing file.
        force: bool,
        /// Which files, and how far they are looked for.
        wanted: Wanted,
        /// How the copies are kept coherent from now on.
        preference: PreferenceChange,
    },
    /// Wait until a version is in its place.
    Wait {
        /// The name.
        name: FileName,
        /// This or a later one; `None`: the newest.
        version: Option<Version>,
        /// At the origin: at all peers that have a lease on it.
        by_all: bool,
        /// Fail after this time, in seconds.
        within_secs: Option<u32>,
    },
    /// Put an earlier version that is kept here back in its place.
    Rollback {
        /// The name.
        name: FileName,
        /// The version; `None`: the last one that was replaced.
        version: Option<Version>,
    },
    /// Find files by name or pattern. Answers with [`Row::Match`] by name, then [`Row::Further`].
    Find(Finding),
    /// Watch files and folders, and publish or withdraw what changes there, until the caller leaves. Answers with
    /// [`Row::Published`] and [`Row::Withdrawn`].
    Watch {
        /// Files and folders.
        paths: Vec<LocalPath>,
        /// How.
        options: PublishOptions,
    },
}

impl Command {
    /// How its answer looks as JSON.
    pub(crate) fn shape(&self) -> Shape {
        match self {
            Self::Publish { .. } | Self::Store { .. } | Self::List { .. } | Self::Check { .. } => {
                Shape::List("files")
            }
            Self::Download { background: false, names, wanted, .. } if wanted.are_many(names) => {
                Shape::List("files")
            }
            Self::Query { names, .. } if names.len() != 1 => Shape::List("answers"),
            Self::Find(_) => Shape::List("hits"),
            Self::Jobs => Shape::List("jobs"),
            Self::Ticket { .. } => Shape::List("tickets"),
            Self::Withdraw { .. } => Shape::List("withdrawn"),
            Self::Watch { .. } | Self::Follow { .. } | Self::Events | Self::Cancel { .. } => Shape::Lines,
            Self::Download { .. }
            | Self::Query { .. }
            | Self::Read { .. }
            | Self::Stop
            | Self::Throttle { .. }
            | Self::Trace { .. }
            | Self::Wait { .. }
            | Self::Rollback { .. } => Shape::Object,
        }
    }

    /// Whether it reads its input.
    pub(crate) const fn takes_input(&self) -> bool {
        matches!(self, Self::Store { .. })
    }

    /// Whether it goes on until its caller leaves. The peer does not wait for its end, and where the peer ends, it can be
    /// begun anew elsewhere.
    pub(crate) const fn is_endless(&self) -> bool {
        matches!(self, Self::Events | Self::Watch { .. } | Self::Follow { .. })
    }

    /// What publishes and then watches: the second command. `None` if this publishes no files.
    pub(crate) fn watching(&self) -> Option<Self> {
        match self.clone() {
            Self::Publish { paths, options } => Some(Self::Watch { paths, options }),
            _ => None,
        }
    }
}

/// One part of an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Reply {
    /// How far a long operation is. It may be left out, and is not sent before it has run for a while.
    Progress(Snapshot),
    /// Further rows of the result.
    Rows(Vec<Row>),
    /// Further bytes of the file that is read.
    Bytes(#[serde(with = "serde_bytes")] Vec<u8>),
    /// Something happened in the background.
    Event(Event),
    /// This number of events were lost, because the caller was slow.
    EventsMissed(u64),
    /// The last reply.
    Finished(Result<Done, Failure>),
    /// Something that the user should know.
    Note(String),
    /// How far each of the files is that are in work at the moment, at most [`PARTS_MAX`] of them. Sent as
    /// [`Reply::Progress`] is.
    Parts(Vec<(FileName, Snapshot)>),
}

/// Files of one report.
pub(crate) const PARTS_MAX: usize = 8;

/// The progress of an operation, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Snapshot {
    /// Done so far.
    pub(crate) done: u64,
    /// Those of `done` that were here before the operation began.
    pub(crate) kept: u64,
    /// In total; 0 while unknown.
    pub(crate) total: u64,
}

impl Snapshot {
    /// Where `progress` is now.
    pub(crate) fn of(progress: &Progress) -> Self {
        Self { done: progress.done(), kept: progress.kept(), total: progress.total() }
    }
}

/// A running peer that carries out commands.
#[derive(Debug)]
pub(crate) struct Host {
    /// The peer.
    pub(crate) peer: PeerHandle,
    /// Cancelled when a command asks the peer to end.
    pub(crate) stop: CancellationToken,
    /// Its long commands.
    pub(crate) jobs: Arc<Jobs>,
    /// Commands that may still be begun, at all doors together.
    pub(crate) commands: Arc<Semaphore>,
}

impl Host {
    /// Carries out commands on `peer`.
    pub(crate) fn new(peer: PeerHandle) -> Arc<Self> {
        let (jobs, commands) = (Arc::default(), Arc::new(Semaphore::new(COMMANDS_MAX)));
        Arc::new(Self { peer, stop: CancellationToken::new(), jobs, commands })
    }

    /// A place among those of commands, which `command` keeps while it is carried out for another process.
    pub(crate) fn place(&self, command: &Command) -> Result<Option<OwnedSemaphorePermit>, Failure> {
        if *command == Command::Stop {
            return Ok(None);
        }
        Arc::clone(&self.commands).try_acquire_owned().map(Some).map_err(|_| {
            Failure::with(
                FailureKind::Busy,
                format!("the running peer carries out {COMMANDS_MAX} commands already"),
            )
        })
    }
}
