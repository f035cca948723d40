//! Finds who carries out a command: the peer that runs on the data folder, or one started here.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use nekoproto::transport::Endpoint;
use tokio::time::{sleep, timeout};

use super::{
    args::NodeArgs,
    hosting::{Hosted, Serves},
    indexers::Indexers,
};
use crate::{
    api::{Command, Failure, FailureKind, Need},
    door::{Caller, Facts, knock},
    failure::Reason,
    storage::lock::DataLock,
    terminal::Output,
};

/// Time limit for a data folder that is locked by a process that takes no commands: one that has just started,
/// or is about to end.
pub(super) const LOCKED_MAX: Duration = Duration::from_secs(10);
const TRY_EVERY: Duration = Duration::from_millis(50);
/// A running peer that does not answer for this long is named.
const SILENT_AFTER: Duration = Duration::from_secs(2);

fn is_met_by(need: Need, facts: &Facts) -> bool {
    match need {
        Need::Running | Need::Catalogue | Need::Ticket => true,
        Need::Peers | Need::Indexer => !facts.indexers.is_empty(),
        Need::Serving => facts.serves_on.is_some(),
    }
}

/// Who carries out a command.
pub(super) enum Reached {
    Here(Box<Hosted>),
    There(Box<Caller>),
}

/// Finds the peer that runs on the data folder and can do what is needed, or starts one. Waits while a peer
/// runs that cannot. Nobody is asked and nothing is started where `command` names paths that cannot be.
pub(super) async fn reach(
    args: &NodeArgs,
    need: Need,
    command: Option<&Command>,
    output: Output,
) -> anyhow::Result<Reached> {
    let folder = args.data_dir();
    let mut locked_since = None;
    let mut waits_for = None;
    let mut is_told = false;
    command.map_or(Ok(()), check_paths)?;
    loop {
        match running(folder.clone(), output).await {
            Ok(caller) if is_met_by(need, &caller.facts) => return Ok(Reached::There(Box::new(caller))),
            Ok(caller) => {
                let process = caller.facts.process;
                if waits_for.replace(process) != Some(process) {
                    output.note(&format!("waits for process {process}, which runs a command on this folder"));
                }
                locked_since = None;
                sleep(TRY_EVERY).await;
                continue;
            }
            Err(Failure { reason: Reason::NoPeer, .. }) => {}
            Err(error) => return Err(error.into()),
        }
        match Hosted::prepare(args, false).await {
            Ok(prepared) => {
                let indexers = find_indexers(args, &prepared.endpoint, need, output).await?;
                let seeds = command.is_some_and(|command| command.api().about().seed_secs.is_some());
                let serves = match need {
                    Need::Serving => Serves::All,
                    _ if seeds => Serves::Downloads,
                    _ => Serves::Nothing,
                };
                let starting = Hosted::start(args, prepared, indexers, serves, output);
                let hosted = starting.await?;
                hosted.indexers.note(args, need == Need::Peers, hosted.facts.serves_on, output);
                return Ok(Reached::Here(Box::new(hosted)));
            }
            Err(Failure { kind: FailureKind::Busy, .. })
                if locked_since.get_or_insert_with(Instant::now).elapsed() < LOCKED_MAX =>
            {
                let is_long = locked_since.is_some_and(|since| since.elapsed() > SILENT_AFTER);
                if is_long && !std::mem::replace(&mut is_told, true) {
                    let most = LOCKED_MAX.as_secs();
                    output.note(&format!(
                        "the running peer of {} takes no commands; waits for its end, at most {most} s",
                        folder.display()
                    ));
                }
                sleep(TRY_EVERY).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// What is wrong with the paths that `command` names.
fn check_paths(command: &Command) -> Result<(), Failure> {
    // It would be taken in the folder of the peer that runs.
    let is_nowhere = |path: &&Path| path.is_relative() && *path != Path::new("-");
    match command.api().about().paths.into_iter().find(is_nowhere) {
        Some(path) => {
            let why = format!("the current folder is gone, so that {} names nothing", path.display());
            Err(Failure::with(FailureKind::NoSuchPath, format!("{why}: change to another folder")))
        }
        None => command.api().check_paths(),
    }
}

/// The peer that runs on the data folder. Says so if it does not answer.
pub(super) async fn running(folder: PathBuf, output: Output) -> Result<Caller, Failure> {
    let knocking = knock(&folder);
    tokio::pin!(knocking);
    if let Ok(knocked) = timeout(SILENT_AFTER, &mut knocking).await {
        return knocked;
    }
    let process = DataLock::holder(&folder).ok().flatten();
    let process = process.map_or_else(String::new, |process| format!(" (process {process})"));
    let folder = folder.display();
    output.note(&format!("the running peer of {folder}{process} does not answer; Ctrl-C ends the waiting"));
    knocking.await
}

async fn find_indexers(
    args: &NodeArgs,
    endpoint: &Arc<Endpoint>,
    need: Need,
    output: Output,
) -> anyhow::Result<Indexers> {
    match need {
        Need::Running | Need::Catalogue => Ok(Indexers::default()),
        Need::Ticket => Ok(Indexers::find_named(args, endpoint).await),
        Need::Peers | Need::Indexer => Ok(Indexers::find(args, endpoint).await.or_refusing()),
        Need::Serving => Indexers::find_or_start(args, endpoint, output).await,
    }
}

impl Reached {
    pub(super) const fn is_there(&self) -> bool {
        matches!(self, Self::There(_))
    }

    pub(super) const fn facts(&self) -> &Facts {
        match self {
            Self::Here(hosted) => &hosted.facts,
            Self::There(caller) => &caller.facts,
        }
    }

    pub(super) fn refusal(&self) -> Option<anyhow::Error> {
        match self {
            Self::Here(hosted) => hosted.refusal(),
            Self::There(_) => None,
        }
    }

    /// Ends what was started here, see [`Hosted::end`]; or the command on a peer that ran already, which goes
    /// on.
    pub(super) async fn end(self, is_patient: bool) {
        match self {
            Self::Here(hosted) => hosted.end(is_patient).await,
            Self::There(caller) => caller.interrupt().await,
        }
    }
}
