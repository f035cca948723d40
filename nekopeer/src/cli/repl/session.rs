//! Who carries out the lines of a REPL.

use std::{path::PathBuf, sync::Arc, time::Duration};

use futures::FutureExt;
use nekoindexer::daemon::signals::Stop;
use parking_lot::Mutex;
use tokio::time::timeout;

use super::editor::Names;
use crate::{
    api::{Command, Ls, Need, Row, Saying, Search},
    cli::{
        Ended,
        args::{NodeArgs, PolicyArgs},
        events::{self, EventSource, Showing},
        flags, one_shot,
        reach::{Reached, reach, running},
        run::run,
        unless_stopped,
        verbs::Verb,
    },
    door::Facts,
    terminal::Output,
};

const COMPLETED_MAX: u32 = 1000;
const NAMES_FOUND_MAX: u32 = 200;
const COMPLETED_WITHIN: Duration = Duration::from_millis(300);

/// Who carries out the lines: a peer of this process, or for each line the one that runs on the folder. If
/// that one is gone, a peer is started here for the next line.
pub(super) struct Session<'a> {
    args: &'a NodeArgs,
    output: Output,
    /// The process whose events are shown; 0: none.
    watched: u32,
    /// A peer of this process, or a connection for the next line.
    reached: Option<Reached>,
    show: Option<Show>,
    showing: Option<Showing>,
}

/// Shows an event; returns whether it could.
pub(super) type Show = Arc<Mutex<dyn FnMut(String) -> bool + Send>>;

impl<'a> Session<'a> {
    pub(super) async fn open(args: &'a NodeArgs, output: Output) -> anyhow::Result<Self> {
        let mut session = Self { args, output, watched: 0, reached: None, show: None, showing: None };
        session.reached = Some(session.reach_again().await?);
        Ok(session)
    }

    pub(super) fn greeting(&self) -> String {
        let Some(reached) = &self.reached else { return String::new() };
        let facts @ Facts { node, dir, process, .. } = reached.facts();
        let there = match reached {
            Reached::There(_) => format!(" in process {process}"),
            Reached::Here(_) => String::new(),
        };
        let (node, dir, addr) = (node.short(), dir.0.display(), facts.addr());
        format!("peer {node} serves {dir} on {addr}{there}; help lists the commands")
    }

    pub(super) fn data_dir(&self) -> PathBuf {
        self.args.data_dir()
    }

    /// Shows events from now on, those of the start included.
    pub(super) fn show_events(&mut self, show: Show) {
        self.show = Some(show);
        self.watch();
    }

    /// Shows the events of the peer that was reached. A connection is used up by that.
    fn watch(&mut self) {
        let Some(show) = self.show.clone() else { return };
        let source = match self.reached.take() {
            Some(Reached::Here(mut hosted)) => {
                let events = hosted.events();
                self.reached = Some(Reached::Here(hosted));
                EventSource::Here(events)
            }
            Some(Reached::There(caller)) => EventSource::There(caller),
            None => return,
        };
        self.showing = Some(events::show(source, |_| true, move |text, _| show.lock()(text)));
    }

    /// Waits until the first attempt to connect to each indexer of a peer of this process has ended.
    pub(super) async fn indexers_tried(&self) {
        if let Some(Reached::Here(hosted)) = &self.reached {
            hosted.host.peer.indexers_tried().await;
        }
    }

    /// Whether a job in the background of a peer of this process has failed, or goes on and would end with it.
    pub(super) fn background_is_undone(&self) -> bool {
        let Some(Reached::Here(hosted)) = &self.reached else { return false };
        hosted.host.jobs.background_ended().now_or_never().unwrap_or(true)
    }

    /// Waits until the jobs in the background of a peer of this process have ended, as they end with it, and what
    /// happened is shown; returns whether one failed.
    pub(super) async fn background_ended(&mut self) -> bool {
        let Some(Reached::Here(hosted)) = &self.reached else { return false };
        let has_failed = hosted.host.jobs.background_ended().await;
        if let Some(showing) = self.showing.take() {
            showing.end().await;
        }
        has_failed
    }

    /// Completes when another process has ended the peer of this one.
    pub(super) async fn stopped(&self) {
        match &self.reached {
            Some(Reached::Here(hosted)) => hosted.stopped().await,
            _ => std::future::pending().await,
        }
    }

    pub(super) fn is_stopped(&self) -> bool {
        matches!(&self.reached, Some(Reached::Here(hosted)) if hosted.host.stop.is_cancelled())
    }

    pub(super) fn refusal(&self) -> Option<anyhow::Error> {
        self.reached.as_ref()?.refusal()
    }

    pub(super) async fn verb(
        &mut self,
        verb: Verb,
        policy: PolicyArgs,
        stop: &mut Stop,
    ) -> anyhow::Result<Ended> {
        let line = Some(policy.change());
        let saying = Saying { dir: &self.args.dir, policy: self.args.policy.change(), line };
        let Some(command) = verb.command(saying, self.output)? else { return Ok(Ended::Usage) };
        match (&command, &self.reached) {
            (Command::Stop(_), Some(Reached::Here(hosted))) => {
                hosted.host.stop.cancel();
                return Ok(Ended::Interrupted);
            }
            (Command::Stop(_), _) => {
                let stopped = unless_stopped(stop, one_shot::stop_peer(self.args, self.output)).await;
                return stopped.unwrap_or(Ok(Ended::Interrupted));
            }
            _ => {}
        }
        loop {
            let mut reached = match self.reached.take() {
                Some(reached) => reached,
                None => match unless_stopped(stop, self.reach_again()).await {
                    Some(reached) => reached?,
                    None => return Ok(Ended::Interrupted),
                },
            };
            let ended = run(&mut reached, &command, self.output, stop).await;
            match reached {
                Reached::Here(_) => self.reached = Some(reached),
                Reached::There(_) => reached.end(false).await,
            }
            if let Some(ended) = ended? {
                return Ok(ended);
            }
        }
    }

    /// Finds who carries out the first or the next line. From now on its events are shown, if it is another than before.
    async fn reach_again(&mut self) -> anyhow::Result<Reached> {
        loop {
            let reached = reach(self.args, Need::Serving, None, self.output).await?;
            if let Reached::There(caller) = &reached {
                if caller.facts.process == self.watched {
                    return Ok(reached);
                }
                flags::check(self.args, &caller.facts, Need::Serving, true, self.output)?;
            }
            self.watched = reached.facts().process;
            self.reached = Some(reached);
            self.watch();
            if let Some(here) = self.reached.take() {
                return Ok(here);
            }
        }
    }

    /// Names for completion: those held here, and then those typed before, which are `named`, the latest last.
    pub(super) async fn names(&self, named: &[String]) -> Names {
        let list = Ls { first: Some(COMPLETED_MAX), ..Ls::default() }.into();
        let mut all = timeout(COMPLETED_WITHIN, self.names_of(list)).await.unwrap_or_default();
        all.retain(|name| !named.contains(name));
        all.extend_from_slice(named);
        Names { all, recent: named.len() }
    }

    /// Names that begin with `prefix`, as far as they are found within [`COMPLETED_WITHIN`].
    pub(super) async fn names_like(&self, prefix: &str) -> Vec<String> {
        let Some(find) = names_like(prefix) else { return Vec::new() };
        timeout(COMPLETED_WITHIN, self.names_of(find)).await.unwrap_or_default()
    }

    /// The names in the answer to `command`. There are none if it fails: completion is no more than a help.
    async fn names_of(&self, command: Command) -> Vec<String> {
        let caller = match &self.reached {
            Some(Reached::Here(hosted)) => Ok(hosted.caller()),
            _ => running(self.data_dir(), self.output).await,
        };
        let Ok(mut caller) = caller else { return Vec::new() };
        names_of(&caller.rows(command).await.1)
    }

    /// Completes when a peer of this process carries out no command of another shell.
    pub(super) async fn others_ended(&self) {
        if let Some(Reached::Here(hosted)) = &self.reached {
            hosted.host.idle().await;
        }
    }

    /// Ends the peer of this process. If `is_patient`, what other shells have just asked for is done first.
    pub(super) async fn close(self, is_patient: bool) {
        drop(self.showing);
        if let Some(reached) = self.reached {
            reached.end(is_patient).await;
        }
    }
}

pub(in crate::cli) fn names_of(rows: &[Row]) -> Vec<String> {
    #[derive(serde::Deserialize)]
    struct Named {
        name: String,
    }
    rows.iter().filter_map(|row| Some(row.parse::<Named>()?.name)).collect()
}

/// What finds names that begin with `prefix`, at the own indexers; `None` if no name does.
fn names_like(prefix: &str) -> Option<Command> {
    // What a glob gives a meaning to stands for any byte here. A glob with a slash is about the whole name.
    let begin = prefix.replace(|c| "*?[]{},!\\".contains(c), "?");
    let glob = format!("{{{begin}*,{begin}*/**}}");
    let search = Search::near(glob, NAMES_FOUND_MAX);
    search.checked().is_ok().then(|| search.into())
}
