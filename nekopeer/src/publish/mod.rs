//! Publishing: chunk and hash, commit the next version durably, then register it: its number stands once an
//! indexer lists it.

mod asking;
mod bases;
mod contest;
mod error;
pub(crate) mod from_pipe;
pub(crate) mod listing;
mod policy;
mod read_files;
pub(crate) mod repair;
mod telling;
pub(crate) mod tree;

use std::{collections::HashSet, path::PathBuf, sync::Arc};

use nekoproto::{FileName, Policy, VerifiedRecord};
use serde::{Deserialize, Serialize};
use tokio::{sync::mpsc, task::JoinHandle};
use tokio_util::sync::DropGuard;

pub(crate) use self::error::{bad_name, same_name};
pub(crate) use self::read_files::What;
use self::{asking::Asking, bases::BaseKeeper, read_files::StoredBatch};
pub use self::{error::PublishError, policy::PolicyChange};
use crate::{
    config::Config,
    failure::{Failure, Reason},
    indexers::Indexers,
    library::Library,
    peers::Peers,
    rules::{Rules, Skipped},
    sets,
    storage::catalogue::{Gone, WITHDRAWALS_MAX, Withdrawal},
    util::{progress::Progress, tasks::finished},
};

/// Names that are withdrawn in one transaction, of some 2 KiB each.
pub(crate) const WITHDRAWN_AT_ONCE: usize = 1024;

/// How files are published.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublishOptions {
    /// The name of a single file, or of a set; `None`: derived from its path.
    pub name: Option<FileName>,
    /// The path is a folder, all of which becomes one version of one name.
    pub is_set: bool,
    /// What is said of the policy. The rest is that of the version before, or the peer's default.
    pub policy: PolicyChange,
    /// What in folders is published.
    pub rules: Rules,
    /// Whoever asked wants what is skipped named, and not only counted.
    pub names_skipped: bool,
    /// Nobody names the path now: what was unshared stays so, as what is in a folder always does.
    pub keeps_unshared: bool,
}

/// The outcome of a publish, or of a piece of one.
#[derive(Debug, Default)]
pub struct PublishOutcome {
    /// New versions, with their final numbers if `is_confirmed`.
    pub published: Vec<VerifiedRecord>,
    /// Files whose bytes and policy equal a version already published.
    pub unchanged: Vec<VerifiedRecord>,
    /// Copies of other origins' files in a published folder; they are not published.
    pub copies: Vec<FileName>,
    /// Files that were unshared by name, and not named now; they are not published.
    pub unshared: Vec<FileName>,
    /// Files of folders that were published before, and removed; they stay published until they are unshared.
    pub missing: Vec<FileName>,
    /// What in folders is not published; own data of this program is not listed.
    pub skipped: Vec<Skipped>,
    /// Files that cannot be published, and why.
    pub failed: Vec<(PathBuf, PublishError)>,
    /// Number of indexers that acknowledged; the others are told when they are connected again, or answer.
    pub indexers_told: usize,
    /// Whether each version is listed by an indexer. Until then its number may change; an
    /// [event](crate::Event::Renumbered) says so.
    pub is_confirmed: bool,
}

/// A publish whose outcome comes in pieces: what it takes grows with the list of files alone. Dropped, it reads no
/// further files; what was stored by then is announced.
#[derive(Debug)]
pub(crate) struct Publishing {
    pieces: mpsc::Receiver<PublishOutcome>,
    task: Option<JoinHandle<Result<(), PublishError>>>,
    _stop_reading: DropGuard,
}

impl Publishing {
    /// The outcome of the next files, at most some thousand; `None` after the last. What the last piece says of
    /// indexers and confirmation is true of all.
    ///
    /// # Cancel safety
    /// A piece is not lost; an error may be.
    pub(crate) async fn next(&mut self) -> Result<Option<PublishOutcome>, PublishError> {
        if let Some(piece) = self.pieces.recv().await {
            return Ok(Some(piece));
        }
        match self.task.take() {
            Some(task) => finished(task).await.map(|()| None),
            None => Ok(None),
        }
    }
}

impl PublishOutcome {
    pub(crate) fn add(&mut self, piece: Self) {
        let Self {
            published,
            unchanged,
            copies,
            unshared,
            missing,
            skipped,
            failed,
            indexers_told,
            is_confirmed,
        } = piece;
        self.published.extend(published);
        self.unchanged.extend(unchanged);
        self.copies.extend(copies);
        self.unshared.extend(unshared);
        self.missing.extend(missing);
        self.skipped.extend(skipped);
        self.failed.extend(failed);
        (self.indexers_told, self.is_confirmed) = (indexers_told, is_confirmed);
    }
}

#[derive(Debug)]
pub(crate) struct Publisher {
    library: Arc<Library>,
    indexers: Arc<Indexers>,
    peers: Arc<Peers>,
    policy: Policy,
    bases: BaseKeeper,
}

impl Publisher {
    pub(crate) fn new(
        library: &Arc<Library>,
        indexers: &Arc<Indexers>,
        peers: &Arc<Peers>,
        config: &Config,
    ) -> Arc<Self> {
        let (library, indexers, peers) = (Arc::clone(library), Arc::clone(indexers), Arc::clone(peers));
        let (policy, bases) = (config.policy, BaseKeeper::new(&library, config.keep_base));
        Arc::new(Self { library, indexers, peers, policy, bases })
    }

    /// As [`PeerHandle::publish`](crate::PeerHandle::publish); the outcome comes in pieces.
    pub(crate) fn publishing(
        self: &Arc<Self>,
        paths: Vec<PathBuf>,
        options: PublishOptions,
        progress: &Arc<Progress>,
    ) -> Publishing {
        let PublishOptions { name, is_set, policy, rules, keeps_unshared, .. } = options;
        let what = if is_set {
            What::Set(paths, name, rules, keeps_unshared)
        } else {
            What::Paths(paths, name, rules)
        };
        self.publishing_what(what, policy, progress)
    }

    pub(crate) fn publishing_what(
        self: &Arc<Self>,
        what: What,
        change: PolicyChange,
        progress: &Arc<Progress>,
    ) -> Publishing {
        let (publisher, progress) = (Arc::clone(self), Arc::clone(progress));
        let stop = self.library.tasks.stop.child_token();
        let stop_reading = stop.clone().drop_guard();
        let (taken, pieces) = mpsc::channel(1);
        let publishing = async move {
            let (asking, policies) = (Asking::new(&publisher.indexers), (change, publisher.policy));
            let (storing, mut stored) = mpsc::channel(1);
            let read = move |library: &Arc<Library>| {
                let each = |stored| drop(storing.blocking_send(stored)); // its receiver waits for the end
                let asking = asking.after_loss(library.catalogue.is_lost()?);
                read_files::read_and_store(library, &asking, what, policies, (&progress, &stop), each)
            };
            let announcing = async {
                let (mut files, mut is_confirmed) = (0, true);
                while let Some(stored) = stored.recv().await {
                    let outcome = publisher.announced(stored).await;
                    let stored = outcome.published.len() + outcome.unchanged.len();
                    files += stored;
                    is_confirmed &= outcome.is_confirmed || stored == 0;
                    drop(taken.send(outcome).await); // nobody may wait for it
                }
                (files, is_confirmed)
            };
            let (read, (files, is_confirmed)) = tokio::join!(publisher.library.blocking(read), announcing);
            read?;
            drop(taken.send(publisher.ended(files, is_confirmed).await).await);
            Ok(())
        };
        let task = Some(self.library.tasks.tracker.spawn(publishing));
        Publishing { pieces, task, _stop_reading: stop_reading }
    }

    /// Announces what was stored: to subscribers at once where its number cannot be another's, else once it stands.
    async fn announced(&self, stored: StoredBatch) -> PublishOutcome {
        let StoredBatch { mut outcome, newer, settling } = stored;
        if self.library.is_serving && !(outcome.published.is_empty() && outcome.unchanged.is_empty()) {
            let told: HashSet<_> = self.tell_subscribers(&outcome.published).into_iter().collect();
            self.settle(&mut outcome, &settling).await;
            drop(settling); // before others are told: what an indexer lists later is spread by the indexers
            self.tell_subscribers(outcome.published.iter().filter(|record| !told.contains(*record)));
            self.library.learn(newer).await; // what was published elsewhere since
            self.bases.keep(outcome.published.iter().chain(&outcome.unchanged));
        }
        outcome
    }

    /// The last piece of a publish of `files` files; `is_confirmed` says whether each was when it was announced.
    async fn ended(&self, files: usize, is_confirmed: bool) -> PublishOutcome {
        if !self.library.is_serving {
            return PublishOutcome::default();
        }
        let indexers_told = self.indexers.registered(files).await;
        let is_confirmed =
            is_confirmed || self.library.blocking(|library| !library.catalogue.has_pending()).await;
        PublishOutcome { indexers_told, is_confirmed, ..PublishOutcome::default() }
    }

    /// Withdraws `names`, all at once. Returns for each what [`PeerHandle::deregister`](crate::PeerHandle::deregister) does.
    pub(crate) async fn deregister(
        self: &Arc<Self>,
        names: Vec<FileName>,
        why: Withdrawal,
    ) -> Result<Vec<(FileName, Result<(), PublishError>)>, PublishError> {
        let publisher = Arc::clone(self);
        // To its end, also if the caller leaves.
        let deregistering = self.library.tasks.tracker.spawn(async move {
            let remove = move |library: &Arc<Library>| {
                let gone = library
                    .catalogue
                    .withdraw(&names, why, WITHDRAWALS_MAX, |name| library.end_writing(name))?;
                let (mut unlisted, mut withdrawn, mut outcomes) =
                    (Vec::new(), Vec::new(), Vec::with_capacity(names.len()));
                for (name, gone) in names.into_iter().zip(gone) {
                    match gone {
                        Ok(Gone::Withdrawn { record, oldest }) => {
                            withdrawn.push(record);
                            unlisted.extend(oldest);
                        }
                        Ok(Gone::Forgotten) => unlisted.push(name.clone()),
                        Ok(Gone::Unknown) => {
                            let why = format!("{name} is not shared here: ls lists what is");
                            outcomes.push((name, Err(Failure::missing(why).because(Reason::Unfit).into())));
                            continue;
                        }
                        Err(error) => {
                            outcomes.push((name, Err(error.into())));
                            continue;
                        }
                    }
                    outcomes.push((name, Ok(())));
                }
                let gone = outcomes.iter().filter(|(_, outcome)| outcome.is_ok()).map(|(name, _)| name);
                let gone: Vec<FileName> = gone.cloned().collect();
                library.forget(&gone);
                sets::forget(library, &gone);
                Ok::<_, PublishError>((outcomes, unlisted, withdrawn))
            };
            let (outcomes, unlisted, withdrawn) = publisher.library.blocking(remove).await?;
            publisher.indexers.withdraw(&unlisted).await;
            publisher.tell_withdrawals(withdrawn).await;
            Ok(outcomes)
        });
        finished(deregistering).await
    }

    /// Tells the indexers of versions that withdraw their names, then their subscribers. Whoever cannot be reached hears of
    /// them later: they are registered as long as the catalogue has them, and are the answer to every question.
    async fn tell_withdrawals(self: &Arc<Self>, records: Vec<VerifiedRecord>) {
        if !self.library.is_serving || records.is_empty() {
            return; // they are told when the peer serves again
        }
        let settling = self.library.settle(records.iter().map(|record| record.name.clone()).collect());
        let mut outcome = PublishOutcome { published: records, ..PublishOutcome::default() };
        self.settle(&mut outcome, &settling).await;
        drop(settling);
        self.tell_subscribers(&outcome.published);
    }
}
