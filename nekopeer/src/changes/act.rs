//! Looks at what is due, and publishes or withdraws it; rescans all files now and then for what no event told.

use std::{
    collections::{HashMap, HashSet},
    mem::{replace, take},
    path::{Path, PathBuf},
    sync::Arc,
};

use nekoproto::FileName;

use super::{
    Left, Told, Watching,
    folders::WatchedFolder,
    look::{self, At, Scan},
    writers::open_for_writing,
};
use crate::{
    content::stamp::Stamp,
    failure::{Failure, Reason},
    library::Library,
    publish::{PublishError, PublishOutcome, Publishing, WITHDRAWN_AT_ONCE, What},
    rules::Ignores,
    state::changes::{Look, Sign},
    storage::catalogue::Withdrawal,
    util::clock,
};

impl Watching {
    /// Looks at the paths that are due, and does what is to be done. A set is published whole once nothing else is due.
    pub(super) async fn act(&mut self) -> Result<(), Left> {
        let due = self.changes.due(clock::now());
        let (trees, files) = (Arc::clone(&self.trees), self.set.as_ref().map(|set| Arc::clone(&set.files)));
        let look = move |library: &Arc<Library>| {
            let look = |path: &Path| match &files {
                Some(files) => look::look_in_set(files, path),
                None => look::look(library, &trees, path),
            };
            due.into_iter().map(|path| (look(&path), path)).collect::<Vec<_>>()
        };
        let (mut changed, mut gone, mut brief) = (Vec::new(), Vec::new(), Vec::new());
        let found = self.library.blocking(look).await;
        let now = clock::now();
        for (at, path) in found {
            let look = match at {
                At::Look(look) => look,
                At::Folder => {
                    self.changes.forget(&path);
                    self.rescans.soon(now); // what is in a new one may have come before it was watched
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
            let is_brief = self.changes.is_brief(&path);
            match self.changes.looked(&path, look, now) {
                None | Some(Look::Busy) => {}
                Some(Look::File(stamp)) => {
                    if is_brief { &mut brief } else { &mut changed }.push((path, stamp))
                }
                Some(Look::Missing) => gone.push(path),
            }
        }
        changed.extend(self.closed(brief).await);
        if let Some(set) = &mut self.set {
            set.is_due |= !(changed.is_empty() && gone.is_empty());
            let is_quiet = self.changes.next_at().is_none();
            return if set.is_due && is_quiet { self.publish_set().await } else { Ok(()) };
        }
        if !gone.is_empty() {
            self.withdraw(gone).await?;
        }
        if changed.is_empty() { Ok(()) } else { self.publish(changed).await }
    }

    /// Those that are not open for writing, as far as this user sees. The others wait for their writers: they were renamed, touched
    /// by somebody else, or opened before their folder was watched.
    async fn closed(&mut self, mut files: Vec<(PathBuf, Stamp)>) -> Vec<(PathBuf, Stamp)> {
        if files.is_empty() {
            return files;
        }
        let open = self.library.blocking(|_| open_for_writing()).await;
        let now = clock::now();
        files.retain(|(path, stamp)| {
            let is_open = open.contains(path);
            if is_open {
                self.changes.found_open(path.clone(), Look::File(*stamp), now);
            }
            !is_open
        });
        files
    }

    /// Withdraws the names of files that are gone, if their folders are not.
    pub(super) async fn withdraw(&mut self, paths: Vec<PathBuf>) -> Result<(), Left> {
        self.look_at_folders(None).await?;
        let trees = self.trees_here();
        let names = move |library: &Arc<Library>| {
            let names = |path: &PathBuf| look::to_withdraw(library, &trees, path);
            let has_folder = paths.iter().any(|path| path.is_dir());
            (paths.iter().flat_map(names).collect::<Vec<_>>(), has_folder)
        };
        let (names, has_folder) = self.library.blocking(names).await;
        if has_folder {
            self.rescans.soon(clock::now()); // what is in it may have come before it was watched
        }
        self.withdraw_names(names).await
    }

    pub(super) async fn withdraw_names(&mut self, names: Vec<FileName>) -> Result<(), Left> {
        for names in names.chunks(WITHDRAWN_AT_ONCE) {
            let withdrawn = match self.publisher.deregister(names.to_vec(), Withdrawal::FileGone).await {
                Ok(withdrawn) => withdrawn,
                Err(error) => return self.tell(Told::Note(format!("error: {error}"))).await,
            };
            for (name, withdrawn) in withdrawn {
                self.tell(Told::Withdrawn(name, withdrawn)).await?;
            }
        }
        Ok(())
    }

    /// Publishes files that were seen with these stamps. One that changes meanwhile waits again.
    pub(super) async fn publish(&mut self, changed: Vec<(PathBuf, Stamp)>) -> Result<(), Left> {
        let stamps: HashMap<PathBuf, Stamp> = changed.iter().cloned().collect();
        let trees = Arc::clone(&self.trees);
        let prepare = move |library: &Arc<Library>| {
            let (mut files, mut failed, mut ignores) = (Vec::new(), Vec::new(), Ignores::new());
            for (path, stamp) in changed {
                for file in look::to_publish(library, &trees, &path, stamp, &mut ignores) {
                    match file {
                        Ok(file) => files.push(file),
                        Err(error) => failed.push((path.clone(), error)),
                    }
                }
            }
            (files, failed)
        };
        let (files, failed) = self.library.blocking(prepare).await;
        let publishing = self.publisher.publishing_what(What::Seen(files), self.policy, &Arc::default());
        let failed = self.tell_published(publishing, failed, &stamps).await?;
        stamps.keys().filter(|path| !failed.contains(*path)).for_each(|path| self.failures.forget(path));
        Ok(())
    }

    /// Tells what is published, and what of it cannot be, with what `failed` before, if the user does not know; returns the
    /// paths of the latter. Of a set nobody is told that it is as before.
    pub(super) async fn tell_published(
        &mut self,
        mut publishing: Publishing,
        mut failed: Vec<(PathBuf, PublishError)>,
        stamps: &HashMap<PathBuf, Stamp>,
    ) -> Result<HashSet<PathBuf>, Left> {
        let mut failed_paths = HashSet::new();
        loop {
            let mut outcome = match publishing.next().await {
                Ok(Some(outcome)) => outcome,
                Ok(None) => return Ok(failed_paths),
                Err(error) => {
                    let roots = self.trees.iter().map(|tree| tree.root().to_owned());
                    PublishOutcome { failed: roots.zip([error]).collect(), ..PublishOutcome::default() }
                }
            };
            outcome.failed.append(&mut failed);
            failed_paths.extend(outcome.failed.iter().map(|(path, _)| path.clone()));
            outcome.failed.retain(|(path, error)| self.is_news(path, stamps.get(path).copied(), error));
            if self.set.is_none() || !(outcome.published.is_empty() && outcome.failed.is_empty()) {
                self.tell(Told::Published(outcome)).await?;
            }
        }
    }

    /// Whether the user is to be told that the file at `path` cannot be published.
    pub(super) fn is_news(&mut self, path: &Path, stamp: Option<Stamp>, error: &PublishError) -> bool {
        use PublishError::{Failed, NotStored, Rules, Unreadable};
        let tried = match error {
            // Its writer has only begun.
            Failed(Failure { reason: Reason::KeepsChanging, .. }) => {
                self.changes.note(path.to_owned(), Sign::Written, clock::now());
                return false;
            }
            Failed(Failure { reason: Reason::Stopped, .. }) => return false,
            Failed(Failure { reason: Reason::CopyOfOther | Reason::Unfit, .. }) | Rules(_) => stamp,
            Unreadable { .. } | NotStored { .. } | Failed(_) => None,
        };
        self.failures.note(path, tried, &error.to_string())
    }

    pub(super) async fn rescan(&mut self) -> Result<(), Left> {
        let began = clock::now();
        self.look_at_folders(None).await?;
        if self.set.is_some() {
            self.look_at_set().await;
            self.rescans.ended(began, clock::now());
            return self.scanned(PublishOutcome::default()).await;
        }
        let trees = self.trees_here();
        let scanned = self.library.blocking(move |library| look::scan(library, &trees)).await;
        let now = clock::now();
        self.rescans.ended(began, now);
        let Scan { changed, missing, failed } = match scanned {
            Ok(scan) => scan,
            Err(error) => return self.tell(Told::Note(format!("error: {error}"))).await,
        };
        let excusing = self.folders.iter_mut().filter(|folder| folder.presence.is_here());
        let excusing = excusing.filter_map(|folder| take(&mut folder.excuses).then(|| folder.path.clone()));
        let excusing: Vec<PathBuf> = excusing.collect();
        self.look_at_folders(None).await?; // what vanished meanwhile is not missing
        for (path, stamp) in changed {
            if self.failures.may_try(&path, stamp) {
                self.changes.found(path, Look::File(stamp), now);
            }
        }
        for path in missing {
            let above = |folder: &&WatchedFolder| path.starts_with(&folder.path);
            if self.folders.iter().filter(above).any(|folder| !folder.presence.is_here()) {
                continue; // it vanished meanwhile
            }
            let is_excused = excusing.iter().any(|folder| path.starts_with(folder));
            if is_excused || self.folders.iter().filter(above).any(|folder| folder.excuses) {
                self.excused.insert(path);
            } else if !self.excused.contains(&path) {
                self.changes.found(path, Look::Missing, now);
            }
        }
        let was_scanned = self.was_scanned;
        let mut outcome = PublishOutcome { failed, ..PublishOutcome::default() };
        outcome.failed.retain(|(path, error)| self.is_news(path, None, error) && was_scanned);
        self.scanned(outcome).await
    }

    /// Tells what a rescan found; after the first, that changes are seen from now on.
    async fn scanned(&mut self, outcome: PublishOutcome) -> Result<(), Left> {
        match replace(&mut self.was_scanned, true) {
            false => self.tell(Told::Note(format!("watching {} for changes", self.title()))).await,
            true if outcome.failed.is_empty() => Ok(()),
            true => self.tell(Told::Published(outcome)).await,
        }
    }

    fn title(&self) -> String {
        match &*self.trees {
            [] => String::new(),
            [tree] => tree.root().display().to_string(),
            [first, others @ ..] => format!("{} and {} more", first.root().display(), others.len()),
        }
    }
}
