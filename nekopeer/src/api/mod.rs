//! What a peer can be asked to do: one file a command. The structure of a command is its words on the command line, the
//! body of its REST route and what travels to the running peer; [`Api`] says how it is carried out and shown.
//!
//! An answer is a sequence of [`Reply`]s, bounded in size each, and ends with [`Done`] or a [`Failure`].

mod answer;
mod cancel;
mod downloading;
mod events;
mod follow;
mod forget;
mod get;
mod host;
mod job;
mod jobs;
mod limit;
mod ls;
mod named;
mod prelude;
mod publishing;
mod query;
pub(crate) mod rest;
mod rollback;
mod rows;
mod said;
mod search;
mod share;
mod status;
mod stop;
mod ticket;
mod trace;
mod unshare;
mod upload;
mod views;
mod wait;
mod watch;

use std::{fmt::Debug, path::Path, sync::Arc};

use nekoproto::{FileName, IndexerAddr};
use serde::{Deserialize, Serialize};
use utoipa_axum::{router::OpenApiRouter, routes};

use self::views::{Lines, View};
pub(crate) use self::{
    answer::{
        Answer, Done, Failure, FailureKind, Framed, INPUT_WAITING_MAX, Input, Outcome, PIECE_BYTES, Piece,
        PieceWriter, Reply, Shape, Snapshot, feed, in_one_line, no_input, pass_events,
    },
    host::{COMMANDS_MAX, Carried, Ending, Host},
    job::{JobRow, JobState, Jobs as JobTable},
    named::{LocalPath, Wanted, Word},
    rows::{
        Detail, DownloadedRow, EarlierRow, EventRow, FailedRow, FileRow, FoundRow, HopRow, IndexersRow,
        MatchRow, Matches, PublishedFields, PublishedRow, Row, SkippedFields, Ticketed, TraceRow, Unasked,
        VersionRow,
    },
    said::{NoCommand, Saying, seconds},
};
use crate::storage::remembered::Home;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Need {
    Running,
    #[default]
    Catalogue,
    /// Indexers that the command names; others help.
    Ticket,
    /// Other peers, too, if it has indexers.
    Peers,
    /// An indexer; none is started for it.
    Indexer,
    /// To be served after the command has ended, by an indexer that is started if there is none.
    Serving,
}

/// What has to be known of a command before it is carried out.
#[derive(Debug, Default)]
pub(crate) struct About<'a> {
    pub(crate) need: Need,
    pub(crate) shape: Shape,
    pub(crate) takes_input: bool,
    /// Whether it goes on until its caller leaves. The peer does not wait for its end, and where the peer ends, it can be
    /// begun anew elsewhere.
    pub(crate) is_endless: bool,
    /// Whether it means something else once it was carried out: it is not begun anew elsewhere.
    pub(crate) is_once: bool,
    /// Whether it shares, so that something is said of the policy.
    pub(crate) has_policy: bool,
    /// Whether it names or places files by the share folder.
    pub(crate) stores_files: bool,
    pub(crate) is_bytes: bool,
    /// What the progress bar is about.
    pub(crate) title: String,
    /// The names that it mentions, to be completed later.
    pub(crate) names: Vec<&'a FileName>,
    pub(crate) paths: Vec<&'a Path>,
    /// The network of its tickets, and the indexers that they name.
    pub(crate) by_ticket: Option<(Home, Vec<IndexerAddr>)>,
    /// What is carried out after it, until the caller leaves.
    pub(crate) then: Option<Command>,
    /// Seconds at most that large files which it downloads are served afterwards, where others download them; `None`: they are
    /// served to nobody.
    pub(crate) seed_secs: Option<u32>,
}

impl About<'_> {
    /// The usual: one row, and nothing of all that.
    fn needing(need: Need) -> Self {
        Self { need, ..Self::default() }
    }
}

pub(crate) trait Api: Debug {
    /// Carries it out; all of the answer but its end goes to `answer`.
    ///
    /// # Cancel safety
    /// Dropping the future interrupts the command: what came so far is kept.
    fn run(
        self,
        host: &Arc<Host>,
        input: Input,
        answer: &Answer,
    ) -> impl Future<Output = Result<Done, Failure>> + Send
    where
        Self: Sized;

    /// The command that travels, from the words of a user; reads the files of names that they mention.
    fn said(self, _: Saying) -> Result<Command, NoCommand>
    where
        Self: Sized + Into<Command>,
    {
        Ok(self.into())
    }

    fn about(&self) -> About<'_>;

    /// How its answer looks as text; as none, unless it says.
    fn view(&self) -> Box<dyn View> {
        Lines::of(|(), _| Ok(()))
    }

    /// What is wrong with the paths that it names, said before an indexer is looked for.
    fn check_paths(&self) -> Result<(), Failure> {
        Ok(())
    }

    /// What it answers where it needs a peer that runs, and none does: why its answer is empty, or a failure.
    fn without_peer(&self, folder: &str) -> Result<String, Failure> {
        Err(Failure::missing(format!("no peer runs on the data folder {folder}")))
    }
}

/// The commands, as one type. A new one is named here and, with its route, in [`routes`].
macro_rules! commands {
    ($($(#[$meta:meta])* $file:ident::$name:ident,)*) => {
        $(pub(crate) use self::$file::$name;)*

        /// What a peer is asked to do. Paths are absolute: the peer may have another current folder.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, clap::Subcommand)]
        #[serde(rename_all = "lowercase")]
        pub enum Command {
            $(
                #[allow(missing_docs, reason = "the structure has them")]
                $(#[$meta])*
                $name($name),
            )*
        }

        $(impl From<$name> for Command {
            fn from(command: $name) -> Self {
                Self::$name(command)
            }
        })*

        impl Command {
            pub(crate) fn api(&self) -> &dyn Api {
                match self { $(Self::$name(command) => command,)* }
            }

            pub(crate) fn said(self, saying: Saying) -> Result<Self, NoCommand> {
                match self { $(Self::$name(command) => command.said(saying),)* }
            }
        }

        pub(crate) async fn carry_out(
            host: &Arc<Host>,
            command: Command,
            input: Input,
            answer: &Answer,
        ) -> Result<Done, Failure> {
            // Dropped where it is not read, so that a caller who sends it does not wait.
            let input = if command.api().about().takes_input { input } else { no_input() };
            match command { $(Command::$name(command) => Box::pin(command.run(host, input, answer)).await,)* }
        }
    };
}

commands! {
    share::Share,
    #[command(skip)]
    upload::Upload,
    #[command(skip)]
    watch::Watch,
    #[command(alias = "deregister")]
    unshare::Unshare,
    #[command(alias = "download")]
    get::Get,
    follow::Follow,
    rollback::Rollback,
    search::Search,
    query::Query,
    trace::Trace,
    ls::Ls,
    status::Status,
    wait::Wait,
    forget::Forget,
    ticket::Ticket,
    stop::Stop,
    jobs::Jobs,
    limit::Limit,
    cancel::Cancel,
    #[command(skip)]
    events::Events,
}

fn routes() -> OpenApiRouter<Arc<rest::Inside>> {
    OpenApiRouter::new()
        .routes(routes!(search::search))
        .routes(routes!(ticket::ticket))
        .routes(routes!(query::query))
        .routes(routes!(trace::trace))
        .routes(routes!(ls::catalogue))
        .routes(routes!(status::status))
        .routes(routes!(share::share))
        .routes(routes!(upload::store, unshare::unshare))
        .routes(routes!(get::get))
        .routes(routes!(rollback::rollback))
        .routes(routes!(jobs::jobs))
        .routes(routes!(jobs::job, cancel::cancel))
        .routes(routes!(limit::throttle))
        .routes(routes!(stop::stop))
        .routes(routes!(events::events))
}
