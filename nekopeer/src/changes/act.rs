//! Looks at what is due, and publishes or withdraws it.

use std::{
    collections::{HashMap, HashSet},
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    Left, Told, Watching,
    look::{self, At},
};
use crate::{
    content::{chunker::ChunkError, stamp::Stamp},
    library::Library,
    publish::{PublishError, WITHDRAWN_AT_ONCE},
    rules::Ignores,
    state::changes::{Look, Sign, Verdict},
    storage::catalogue::{CatalogueError, Withdrawal},
    util::{clock, progress::Progress},
};

impl Watching {
    /// Looks at the paths that are due, and does what is to be done.
    pub(super) async fn act(&mut self) -> Result<(), Left> {
        if self.set.is_some() {
            return self.act_on_set().await;
        }
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
    pub(super) fn is_news(&mut self, path: &Path, stamp: Option<Stamp>, error: &PublishError) -> bool {
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
}
