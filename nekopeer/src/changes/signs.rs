//! Events of the file system, gathered: for each path the last sign of it, until somebody takes them.

use std::{
    collections::HashMap,
    fs::symlink_metadata,
    mem,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use notify::{
    Config, ErrorKind, Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher,
    event::{AccessKind, AccessMode, ModifyKind, RenameMode},
};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::{content::stamp::is_missing, publish::tree::PublishedTree, state::changes::Sign};

/// Paths that wait to be taken, at most. Beyond that a rescan finds what happened.
const PATHS_MAX: usize = 100_000;

pub(super) const NO_WATCHES: &str = "there are not enough inotify watches (fs.inotify.max_user_watches)";

/// The signs that came since they were taken last.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    pub(super) paths: HashMap<PathBuf, Sign>,
    /// Some did not come.
    pub(super) is_lost: bool,
    /// From now on not all come: there are not enough watches for new folders.
    pub(super) is_blind: bool,
}

/// Watches folders. Dropping it ends that.
#[derive(Debug)]
pub(super) struct Signs {
    inbox: Arc<Inbox>,
    watcher: Mutex<Option<RecommendedWatcher>>,
}

#[derive(Debug, Default)]
struct Inbox {
    gathered: Mutex<Gathered>,
    came: Notify,
}

impl Signs {
    /// Gathers signs of what these trees cover, once their folders are [watched](Self::watch).
    pub(super) fn new(trees: Vec<PublishedTree>) -> Self {
        let inbox = Arc::<Inbox>::default();
        let gather = {
            let inbox = Arc::clone(&inbox);
            move |event: notify::Result<Event>| inbox.note(event, &trees)
        };
        let config = Config::default().with_follow_symlinks(false);
        let watcher = RecommendedWatcher::new(gather, config);
        let watcher = watcher.inspect_err(|error| tracing::debug!(%error, "no events of files")).ok();
        Self { inbox, watcher: Mutex::new(watcher) }
    }

    /// Gathers nothing, as where no inotify instance is left.
    #[cfg(test)]
    pub(super) fn none() -> Self {
        Self { inbox: Arc::default(), watcher: Mutex::default() }
    }

    /// Watches `folder`, anew if it was watched before, and with `is_deep` all folders below it. Blocking.
    pub(super) fn watch(&self, folder: &Path, is_deep: bool) -> Result<(), String> {
        let mut watcher = self.watcher.lock();
        let Some(watcher) = &mut *watcher else {
            return Err("there are not enough inotify instances (fs.inotify.max_user_instances)".to_owned());
        };
        let mode = if is_deep { RecursiveMode::Recursive } else { RecursiveMode::NonRecursive };
        drop(watcher.unwatch(folder)); // it may not be watched
        watcher.watch(folder, mode).map_err(|error| match error.kind {
            ErrorKind::MaxFilesWatch => NO_WATCHES.to_owned(),
            _ => error.to_string(),
        })
    }

    pub(super) async fn came(&self) {
        self.inbox.came.notified().await;
    }

    pub(super) fn take(&self) -> Gathered {
        mem::take(&mut *self.inbox.gathered.lock())
    }
}

impl Inbox {
    fn note(&self, event: notify::Result<Event>, trees: &[PublishedTree]) {
        let mut gathered = self.gathered.lock();
        match event {
            Ok(event) => {
                gathered.is_lost |= event.need_rescan();
                let sign = sign_of(event.kind).map(|sign| match &*event.paths {
                    [path] if event.kind.is_create() && is_complete(path) => Sign::Complete,
                    _ => sign,
                });
                for (path, sign) in event.paths.into_iter().zip(sign.into_iter().cycle()) {
                    if trees.iter().any(|tree| tree.concerns(&path)) {
                        gathered.add(path, sign);
                    }
                }
            }
            Err(error) => {
                tracing::debug!(%error, "events of files were lost");
                gathered.is_lost = true;
                gathered.is_blind |= matches!(error.kind, ErrorKind::MaxFilesWatch);
            }
        }
        if gathered.is_lost || !gathered.paths.is_empty() {
            self.came.notify_one();
        }
    }
}

impl Gathered {
    fn add(&mut self, path: PathBuf, sign: Sign) {
        if self.paths.len() >= PATHS_MAX {
            self.paths.clear();
            self.is_lost = true;
        }
        // Other attributes of a file say nothing of who writes it.
        let last = self.paths.entry(path).or_insert(sign);
        if sign != Sign::Touched {
            *last = sign;
        }
    }
}

/// Whether nobody writes to what was created at `path` because of that: it is a link, a folder, or a further name of a file, or
/// gone already.
fn is_complete(path: &Path) -> bool {
    match symlink_metadata(path) {
        Ok(found) => !found.is_file() || found.nlink() > 1,
        Err(error) => is_missing(&error),
    }
}

/// What an event says; `None` if it is none of a change.
fn sign_of(kind: EventKind) -> Option<Sign> {
    match kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write))
        | EventKind::Modify(ModifyKind::Name(RenameMode::To)) => Some(Sign::Complete),
        EventKind::Access(_) | EventKind::Other => None,
        EventKind::Create(_) | EventKind::Modify(ModifyKind::Data(_) | ModifyKind::Any) => {
            Some(Sign::Written)
        }
        EventKind::Any | EventKind::Modify(_) | EventKind::Remove(_) => Some(Sign::Touched),
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    #[test]
    fn what_nobody_writes_to_because_it_was_created_is_complete() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::write(path("file"), "").unwrap();
        assert!(!is_complete(&path("file")), "its writer may go on");
        symlink("file", path("link")).unwrap();
        fs::create_dir(path("folder")).unwrap();
        assert!(["link", "folder", "gone"].iter().all(|name| is_complete(&path(name))));
        fs::hard_link(path("file"), path("further")).unwrap();
        assert!(is_complete(&path("further")));
    }
}
