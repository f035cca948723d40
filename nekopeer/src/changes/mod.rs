//! Publishes files by themselves when they change: watches files and folders, and has what is created, changed or
//! removed there published or withdrawn.
//!
//! What is done when is decided in [`state::changes`](crate::state::changes). Here are the events, the looks at files,
//! and the publishing. Events only say where to look: what no event told is found by rescans.

mod folders;
mod look;
mod signs;
#[cfg(test)]
mod tests;

use std::{
    collections::{HashMap, HashSet},
    convert::Infallible,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use nekoproto::FileName;
use tokio::{sync::mpsc, time::sleep};

use self::{
    folders::{Folder, folders_of, is_remote},
    look::{At, Scan},
    signs::Signs,
};
use crate::{
    content::{chunker::ChunkError, stamp::Stamp},
    library::Library,
    publish::{PolicyChange, PublishError, PublishOutcome, Publisher, tree::Tree},
    state::changes::{
        Changes, Look, Sign, Verdict,
        failures::Failures,
        presence::Turn,
        rescans::{EVERY_BLIND, Rescans},
    },
    storage::catalogue::CatalogueError,
    util::{clock, progress::Progress},
};

/// Interval between two looks at whether the folders are there.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// Time in which events are gathered.
const GATHERED_FOR: Duration = Duration::from_millis(20);

/// What the watching did, or has to say.
#[derive(Debug)]
pub(crate) enum Told {
    /// Files were published, or cannot be.
    Published(PublishOutcome),
    /// A file is gone, and its name was withdrawn, or could not be.
    Withdrawn(FileName, Result<(), PublishError>),
    /// Something that the user should know.
    Note(String),
}

/// Who waits for what is told has left.
#[derive(Debug)]
struct Left;

/// Watches files and folders.
#[derive(Debug)]
pub(crate) struct Watching {
    library: Arc<Library>,
    publisher: Arc<Publisher>,
    trees: Arc<[Tree]>,
    policy: PolicyChange,
    signs: Arc<Signs>,
    folders: Vec<Folder>,
    looked_at_folders: Instant,
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
    /// Watches what is at `paths`, or the one file that is called `name`; what changes is published under its policy
    /// before, but for what `policy` says. `told` gets what is done. It is done while [`run`](Self::run) is polled.
    ///
    /// # Errors
    /// A path cannot be published as requested.
    pub(crate) async fn new(
        (library, publisher): (&Arc<Library>, &Arc<Publisher>),
        paths: Vec<PathBuf>,
        (name, policy): (Option<FileName>, PolicyChange),
        told: mpsc::Sender<Told>,
    ) -> Result<Self, PublishError> {
        let open = move |library: &Arc<Library>| {
            let trees = paths.iter().map(|path| Tree::of(library, path, name.as_ref()));
            let trees = trees.collect::<Result<Vec<_>, _>>();
            trees.map(|trees| (folders_of(&trees), Arc::new(Signs::new(trees.clone())), trees))
        };
        let (folders, signs, trees) = library.blocking(open).await?;
        let (now, trees) = (clock::now(), trees.into());
        Ok(Self {
            library: Arc::clone(library),
            publisher: Arc::clone(publisher),
            trees,
            policy,
            signs,
            folders,
            looked_at_folders: now,
            changes: Changes::default(),
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
            Left = self.until_left() => {}
        }
    }

    async fn until_left(&mut self) -> Left {
        match self.watch().await {
            Err(left) => left,
            Ok(never) => match never {},
        }
    }

    async fn watch(&mut self) -> Result<Infallible, Left> {
        for folder in 0..self.folders.len() {
            self.watch_folder(folder).await?;
        }
        loop {
            if clock::now() >= self.looked_at_folders + LOOK_EVERY {
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

    /// Has events told of this folder, from now on.
    async fn watch_folder(&mut self, folder: usize) -> Result<(), Left> {
        let Folder { path, is_deep, is_covered, .. } = &self.folders[folder];
        let (path, is_deep, is_covered, signs) =
            (path.clone(), *is_deep, *is_covered, Arc::clone(&self.signs));
        let shown = path.display().to_string();
        let why_blind = move |_: &Arc<Library>| match signs.watch(&path, is_deep) {
            _ if is_covered => None, // with the folder above
            Err(why) => Some(why),
            Ok(()) if is_remote(&path) => Some("other machines may change them".to_owned()),
            Ok(()) => None,
        };
        if let Some(why) = self.library.blocking(why_blind).await {
            self.set_blind(&shown, &why).await?;
        }
        Ok(())
    }

    async fn set_blind(&mut self, folder: &str, why: &str) -> Result<(), Left> {
        self.rescans.set_blind(clock::now());
        if !self.told_blind.insert(why.to_owned()) {
            return Ok(());
        }
        let every = EVERY_BLIND.as_secs();
        let note = format!(
            "note: no event tells of all changes of files in {folder}: {why}; all are looked at every {every} s"
        );
        self.tell(Told::Note(note)).await
    }

    async fn take_signs(&mut self) -> Result<(), Left> {
        let signs = self.signs.take();
        let now = clock::now();
        for (path, sign) in signs.paths {
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
            self.set_blind(
                "new folders",
                "there are not enough inotify watches (fs.inotify.max_user_watches)",
            )
            .await?;
        }
        Ok(())
    }

    /// Looks whether the folders are there, and watches `anew` one of them.
    async fn look_at_folders(&mut self, anew: Option<usize>) -> Result<(), Left> {
        let paths: Vec<PathBuf> = self.folders.iter().map(|folder| folder.path.clone()).collect();
        let look = move |_: &Arc<Library>| paths.iter().map(|path| folders::look(path)).collect::<Vec<_>>();
        let found = self.library.blocking(look).await;
        self.looked_at_folders = clock::now();
        for (place, found) in found.into_iter().enumerate() {
            let folder = &mut self.folders[place];
            let (turn, path) = (folder.presence.looked(found), folder.path.clone());
            let shown = path.display();
            let note = match turn {
                Turn::Away => continue,
                Turn::Here if anew == Some(place) => None,
                Turn::Here => continue,
                Turn::Vanished => {
                    self.changes.forget_below(&path);
                    let note = format!(
                        "{shown} is gone: nothing in it is withdrawn, and it is watched again when it is back"
                    );
                    self.tell(Told::Note(note)).await?;
                    continue;
                }
                Turn::Back => Some(format!("{shown} is back, and is watched again")),
                Turn::Replaced => {
                    folder.excuses = true;
                    Some(format!(
                        "{shown} is another folder now, and is watched; what is missing in it stays published"
                    ))
                }
            };
            self.watch_folder(place).await?;
            self.rescans.soon(clock::now());
            if let Some(note) = note {
                self.tell(Told::Note(note)).await?;
            }
        }
        Ok(())
    }

    /// What is watched, in a few words.
    fn title(&self) -> String {
        match &*self.trees {
            [] => String::new(),
            [tree] => tree.root().display().to_string(),
            [first, others @ ..] => format!("{} and {} more", first.root().display(), others.len()),
        }
    }

    /// The trees whose folders are there.
    fn trees_here(&self) -> Arc<[Tree]> {
        let is_here = |tree: &&Tree| {
            let folder = self.folders.iter().find(|folder| folder.path == tree.folder());
            folder.is_some_and(|folder| folder.presence.is_here())
        };
        self.trees.iter().filter(is_here).cloned().collect()
    }

    /// Looks at the paths that are due, and does what is to be done.
    async fn act(&mut self) -> Result<(), Left> {
        let due = self.changes.due(clock::now());
        if due.is_empty() {
            return Ok(());
        }
        let trees = Arc::clone(&self.trees);
        let look = move |library: &Arc<Library>| {
            let look = |path: PathBuf| (look::look(library, &trees, &path), path);
            due.into_iter().map(look).collect::<Vec<_>>()
        };
        let (mut changed, mut gone) = (Vec::new(), Vec::new());
        let found = self.library.blocking(look).await;
        let now = clock::now();
        for (at, path) in found {
            let look = match at {
                At::Look(look) => look,
                At::Folder => {
                    self.changes.forget_below(&path);
                    self.rescans.soon(now);
                    continue;
                }
                At::Other => {
                    self.changes.forget(&path);
                    self.failures.forget(&path);
                    continue;
                }
            };
            if let Look::File(_) = look {
                self.excused.remove(&path);
            }
            match self.changes.looked(&path, look, now) {
                Verdict::Wait => {}
                Verdict::Publish(stamp) => changed.push((path, stamp)),
                Verdict::Withdraw => gone.push(path),
            }
        }
        if !gone.is_empty() {
            self.withdraw(gone).await?;
        }
        if changed.is_empty() { Ok(()) } else { self.publish(changed).await }
    }

    /// Withdraws the names of files that are gone, if their folders are not.
    async fn withdraw(&mut self, paths: Vec<PathBuf>) -> Result<(), Left> {
        self.look_at_folders(None).await?;
        let trees = self.trees_here();
        let names = move |library: &Arc<Library>| {
            let names = |path: &PathBuf| look::to_withdraw(library, &trees, path);
            paths.iter().flat_map(names).collect::<Vec<_>>()
        };
        for name in self.library.blocking(names).await {
            let withdrawn = self.publisher.deregister(&name).await;
            self.tell(Told::Withdrawn(name, withdrawn)).await?;
        }
        Ok(())
    }

    /// Publishes files that were seen with these stamps. One that changes meanwhile waits again.
    async fn publish(&mut self, changed: Vec<(PathBuf, Stamp)>) -> Result<(), Left> {
        let stamps: HashMap<PathBuf, Stamp> = changed.iter().cloned().collect();
        let trees = Arc::clone(&self.trees);
        let prepare = move |library: &Arc<Library>| {
            let (mut files, mut failed) = (Vec::new(), Vec::new());
            for (path, stamp) in changed {
                for file in look::to_publish(library, &trees, &path, stamp) {
                    match file {
                        Ok(file) => files.push(file),
                        Err(error) => failed.push((path.clone(), error)),
                    }
                }
            }
            (files, failed)
        };
        let (files, mut failed) = self.library.blocking(prepare).await;
        let mut publishing = self.publisher.publishing_seen(files, self.policy, &Arc::<Progress>::default());
        let mut failed_paths = HashSet::new();
        loop {
            let mut outcome = match publishing.next().await {
                Ok(Some(outcome)) => outcome,
                Ok(None) => break,
                Err(error) => return self.tell(Told::Note(format!("error: {error}"))).await,
            };
            outcome.failed.append(&mut failed);
            failed_paths.extend(outcome.failed.iter().map(|(path, _)| path.clone()));
            outcome.failed.retain(|(path, error)| self.is_news(path, stamps.get(path).copied(), error));
            self.tell(Told::Published(outcome)).await?;
        }
        stamps
            .keys()
            .filter(|path| !failed_paths.contains(*path))
            .for_each(|path| self.failures.forget(path));
        Ok(())
    }

    /// Whether the user is to be told that the file at `path` cannot be published.
    fn is_news(&mut self, path: &Path, stamp: Option<Stamp>, error: &PublishError) -> bool {
        use PublishError::{Catalogue, Chunk, NotStored, Unreadable};
        let tried = match error {
            // Its writer has only begun.
            Chunk(ChunkError::KeepsChanging(_)) => {
                self.changes.note(path.to_owned(), Sign::Written, clock::now());
                return false;
            }
            Chunk(ChunkError::Stopped) => return false,
            Catalogue(CatalogueError::CopyOfOther { .. }) => stamp,
            Unreadable { .. } | Chunk(ChunkError::Unreadable { .. }) | NotStored { .. } | Catalogue(_) => {
                None
            }
            _ => stamp,
        };
        self.failures.note(path, tried, &error.to_string())
    }

    /// Compares all files with what is published.
    async fn rescan(&mut self) -> Result<(), Left> {
        let began = clock::now();
        self.look_at_folders(None).await?;
        let trees = self.trees_here();
        let scanned = self.library.blocking(move |library| look::scan(library, &trees)).await;
        self.look_at_folders(None).await?; // what vanished meanwhile is not missing
        let now = clock::now();
        self.rescans.ended(began, now);
        let Scan { changed, missing, failed } = match scanned {
            Ok(scan) => scan,
            Err(error) => return self.tell(Told::Note(format!("error: {error}"))).await,
        };
        for (path, stamp) in changed {
            if self.failures.may_try(&path, stamp) {
                self.changes.found(path, Look::File(stamp), now);
            }
        }
        for path in missing {
            let above = |folder: &&Folder| path.starts_with(&folder.path);
            if self.folders.iter().filter(above).any(|folder| !folder.presence.is_here()) {
                continue; // it vanished meanwhile
            }
            if self.folders.iter().filter(above).any(|folder| folder.excuses) {
                self.excused.insert(path);
            } else if !self.excused.contains(&path) {
                self.changes.found(path, Look::Missing, now);
            }
        }
        let here = self.folders.iter_mut().filter(|folder| folder.presence.is_here());
        here.for_each(|folder| folder.excuses = false);
        let was_scanned = std::mem::replace(&mut self.was_scanned, true);
        let mut outcome = PublishOutcome { failed, ..PublishOutcome::default() };
        outcome.failed.retain(|(path, error)| self.is_news(path, None, error) && was_scanned);
        match was_scanned {
            false => self.tell(Told::Note(format!("watching {} for changes", self.title()))).await,
            true if outcome.failed.is_empty() => Ok(()),
            true => self.tell(Told::Published(outcome)).await,
        }
    }
}
