//! Publishes files by themselves when they change: watches files and folders, and has what is created, changed or
//! removed there published or withdrawn.
//!
//! What is done when is decided in [`state::changes`](crate::state::changes). Here are the events, the looks at files,
//! and the publishing. Events only say where to look: what no event told is found by rescans.

mod act;
mod folders;
mod links;
mod look;
mod set;
mod signs;
#[cfg(test)]
mod tests;
mod writers;

use std::{
    collections::{HashMap, HashSet},
    convert::Infallible,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use nekoproto::FileName;
use tokio::{sync::mpsc, time::sleep};

use self::{
    folders::{WatchedFolder, folders_of},
    set::Set,
    signs::{NO_WATCHES, Signs},
};
use crate::{
    content::stamp::Stamp,
    library::Library,
    publish::{PolicyChange, PublishError, PublishOptions, PublishOutcome, Publisher, tree::PublishedTree},
    rules::is_ignore_file,
    state::changes::{Changes, failures::Failures, rescans::Rescans},
    util::clock,
};

/// Interval between two looks at whether the folders are there.
const LOOK_EVERY: Duration = Duration::from_secs(2);
const GATHERED_FOR: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub(crate) enum Told {
    Published(PublishOutcome),
    Withdrawn(FileName, Result<(), PublishError>),
    Note(String),
}

#[derive(Debug)]
struct Left;

#[derive(Debug)]
pub(crate) struct Watching {
    library: Arc<Library>,
    publisher: Arc<Publisher>,
    trees: Arc<[PublishedTree]>,
    /// The paths as they were named, and where they led when they were watched first.
    named: Vec<(PathBuf, PathBuf)>,
    options: PublishOptions,
    policy: PolicyChange,
    set: Option<Set>,
    signs: Arc<Signs>,
    folders: Vec<WatchedFolder>,
    looked_at_folders: Instant,
    /// How long what is gone may come back before it is withdrawn.
    settle: Duration,
    /// The trees that links led to, and when what is in none of those that they lead to then is withdrawn.
    left_trees: Vec<(Instant, Arc<[PublishedTree]>)>,
    /// What the links led to that are gone.
    cut: HashSet<PathBuf>,
    changes: Changes<Stamp>,
    rescans: Rescans,
    /// The first rescan was done: what cannot be published was told before.
    was_scanned: bool,
    failures: Failures<Stamp>,
    /// Why not all events come, as far as it was told.
    told_blind: HashSet<String>,
    /// Published files that were missing before they were watched: nobody saw them being removed.
    excused: HashSet<PathBuf>,
    told: mpsc::Sender<Told>,
}

impl Watching {
    /// Watches what is at `paths`, or the one file or set that is called as the options say; what changes is published under
    /// its policy before, but for what they say; what is gone for the time `settle` is withdrawn. `told` gets what is done. It is
    /// done while [`run`](Self::run) is polled.
    pub(crate) async fn new(
        (library, publisher): (&Arc<Library>, &Arc<Publisher>),
        paths: Vec<PathBuf>,
        options: PublishOptions,
        settle: Duration,
        told: mpsc::Sender<Told>,
    ) -> Result<Self, PublishError> {
        let PublishOptions { name, is_set, policy, rules, .. } = options.clone();
        let (name, mut set) = if is_set { (None, Some(Set::new(name, rules.clone()))) } else { (name, None) };
        let open = move |library: &Arc<Library>| {
            let trees =
                paths.iter().map(|path| PublishedTree::of(library, path, name.as_ref(), Some(&rules)));
            let mut trees = trees.collect::<Result<Vec<_>, _>>()?;
            let roots = trees.iter().map(|tree| tree.root().to_owned());
            let named: Vec<_> = paths.iter().cloned().zip(roots).collect();
            trees.retain(|tree| is_set || !tree.is_excluded());
            Ok::<_, PublishError>((folders_of(&trees), Arc::new(Signs::new(trees.clone())), trees, named))
        };
        let (folders, signs, trees, named) = library.blocking(open).await?;
        if let (Some(set), Some(tree)) = (&mut set, trees.first()) {
            set.is_of(tree);
        }
        let (now, trees) = (clock::now(), trees.into());
        Ok(Self {
            library: Arc::clone(library),
            publisher: Arc::clone(publisher),
            trees,
            named,
            options,
            policy,
            set,
            signs,
            folders,
            looked_at_folders: now,
            settle,
            left_trees: Vec::new(),
            cut: HashSet::new(),
            changes: Changes::new(settle),
            rescans: Rescans::new(now),
            was_scanned: false,
            failures: Failures::default(),
            told_blind: HashSet::new(),
            excused: HashSet::new(),
            told,
        })
    }

    /// Watches until nobody takes what is told.
    ///
    /// # Cancel safety
    /// Dropping it ends the watching; what was published stays published.
    pub(crate) async fn run(mut self) {
        let told = self.told.clone();
        tokio::select! {
            () = told.closed() => {}
            _left = self.watch() => {}
        }
    }

    async fn watch(&mut self) -> Result<Infallible, Left> {
        for folder in 0..self.folders.len() {
            self.watch_folder(folder).await?;
        }
        loop {
            if clock::now() >= self.looked_at_folders + LOOK_EVERY {
                self.look_at_links().await?;
                self.look_at_folders(None).await?;
            }
            self.take_signs().await?;
            self.act().await?;
            if clock::now() >= self.rescans.next_at() {
                self.rescan().await?;
            }
            let others = [self.rescans.next_at(), self.looked_at_folders + LOOK_EVERY];
            let next = self.changes.next_at().into_iter().chain(others).min();
            let pause = next.map_or(LOOK_EVERY, |next| next.saturating_duration_since(clock::now()));
            tokio::select! {
                () = sleep(pause) => {}
                () = self.signs.came() => sleep(GATHERED_FOR).await,
            }
        }
    }

    async fn tell(&self, told: Told) -> Result<(), Left> {
        self.told.send(told).await.map_err(|_| Left)
    }

    async fn take_signs(&mut self) -> Result<(), Left> {
        let signs = self.signs.take();
        let now = clock::now();
        let (rules, paths): (HashMap<_, _>, HashMap<_, _>) =
            signs.paths.into_iter().partition(|(path, _)| is_ignore_file(path));
        if !rules.is_empty() {
            self.rescans.soon(now); // there may be files that are not skipped any more
        }
        let paths = if self.set.is_some() { self.of_set(paths).await } else { paths };
        for (path, sign) in paths {
            match self.folders.iter().position(|folder| folder.path == path) {
                // It may be another one by now, of which no event would tell.
                Some(folder) => self.look_at_folders(Some(folder)).await?,
                None => self.changes.note(path, sign, now),
            }
        }
        if signs.is_lost {
            self.changes.lost(now);
            self.rescans.soon(now);
        }
        if signs.is_blind {
            self.set_blind("new folders", NO_WATCHES).await?;
        }
        Ok(())
    }
}
