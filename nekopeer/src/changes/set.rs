//! A folder that is published as one version: watched as any, and published whole once all that changed in it is quiet.

use std::{
    collections::HashSet,
    fs::symlink_metadata,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use nekoproto::FileName;
use walkdir::WalkDir;

use super::{Left, Told, Watching};
use crate::{
    content::stamp::Stamp,
    library::Library,
    publish::{PublishOptions, PublishOutcome, tree::Tree},
    rules::{Ignores, Rules},
    state::changes::{Look, Sign, Verdict},
    util::{clock, progress::Progress},
};

/// What is known of the folder.
#[derive(Debug)]
pub(super) struct Set {
    /// The name of the set, if it is not that of the folder.
    name: Option<FileName>,
    rules: Rules,
    is_due: bool,
    /// The paths and stamps of the files, before it was published last, by their hash.
    taken: Option<blake3::Hash>,
    /// The number of file systems that it was on.
    disks: usize,
}

impl Set {
    /// Nothing is known of what is published: the first look finds it different.
    pub(super) const fn new(name: Option<FileName>, rules: Rules) -> Self {
        Self { name, rules, is_due: false, taken: None, disks: 0 }
    }
}

impl Watching {
    /// Those of these signs that are about files of the set: of one that is skipped nobody waits until it is quiet.
    pub(super) async fn of_set(&self, signs: Vec<(PathBuf, Sign)>) -> Vec<(PathBuf, Sign)> {
        let trees = Arc::clone(&self.trees);
        let of_set = move |_: &Arc<Library>| {
            let mut ignores = Ignores::new();
            let mut is_skipped = |path: &Path| {
                let skips = |tree: &Tree| tree.filter.skips(path, path.is_dir(), &mut ignores);
                // Where the rules cannot be read, the publishing says so.
                trees
                    .first()
                    .filter(|tree| tree.covers(path))
                    .map(skips)
                    .is_some_and(|skips| matches!(skips, Ok(Some(_))))
            };
            let mut signs = signs;
            signs.retain(|(path, _)| !is_skipped(path));
            signs
        };
        self.library.blocking(of_set).await
    }

    /// Looks at the paths that are due, and publishes the set if it is to be published and all is quiet.
    pub(super) async fn act_on_set(&mut self) -> Result<(), Left> {
        let due = self.changes.due(clock::now());
        let look =
            move |_: &Arc<Library>| due.into_iter().map(|path| (look(&path), path)).collect::<Vec<_>>();
        let found = self.library.blocking(look).await;
        let (now, mut is_due) = (clock::now(), false);
        for (look, path) in found {
            let Some(look) = look else {
                self.changes.forget(&path);
                self.rescans.soon(now); // what is in a new folder may have come before it was watched
                continue;
            };
            is_due |= self.changes.looked(&path, look, now) != Verdict::Wait;
        }
        let Some(set) = &mut self.set else { return Ok(()) };
        set.is_due |= is_due;
        if set.is_due && self.changes.next_at().is_none() { self.publish_set().await } else { Ok(()) }
    }

    /// Looks whether the files are those that were published last.
    pub(super) async fn rescan_set(&mut self) -> Result<(), Left> {
        let began = clock::now();
        self.look_at_folders(None).await?;
        let taken = self.taken().await;
        self.rescans.ended(began, clock::now());
        if let (Some(set), Some((taken, disks))) = (&mut self.set, taken) {
            set.is_due |= set.taken != Some(taken);
            set.disks = set.disks.max(disks);
        }
        Ok(())
    }

    /// Publishes the folder, unless it is gone, or a part of it with its file system. What cannot be published is tried again
    /// by a later rescan.
    async fn publish_set(&mut self) -> Result<(), Left> {
        self.look_at_folders(None).await?;
        let (taken, paths) = (self.taken().await, self.trees_here());
        let Some(set) = &mut self.set else { return Ok(()) };
        set.is_due = false;
        let paths: Vec<PathBuf> = paths.iter().map(|tree| tree.root().to_owned()).collect();
        if paths.is_empty() {
            return Ok(());
        }
        if taken.is_some_and(|(_, disks)| disks < set.disks) {
            let why = "a file system below it is not mounted any more: no version is shared until it is back";
            return match self.failures.note(&paths[0], None, why) {
                true => self.tell(Told::Note(format!("{}: {why}", paths[0].display()))).await,
                false => Ok(()),
            };
        }
        set.taken = taken.map(|(taken, _)| taken);
        let (name, rules) = (set.name.clone(), set.rules.clone());
        let (is_set, policy, keeps_unshared) = (true, self.policy, true);
        let options = PublishOptions { name, is_set, policy, rules, keeps_unshared, names_skipped: false };
        let mut publishing = self.publisher.publishing(paths.clone(), options, &Arc::<Progress>::default());
        loop {
            let mut outcome = match publishing.next().await {
                Ok(Some(outcome)) => outcome,
                Ok(None) => return Ok(()),
                Err(error) => PublishOutcome {
                    failed: paths.iter().cloned().zip([error]).collect(),
                    ..PublishOutcome::default()
                },
            };
            let has_failed = !outcome.failed.is_empty();
            outcome.failed.retain(|(path, error)| self.failures.note(path, None, &error.to_string()));
            if !(outcome.published.is_empty() && outcome.failed.is_empty()) {
                self.tell(Told::Published(outcome)).await?;
            }
            match &mut self.set {
                Some(set) if has_failed => {
                    set.taken = None;
                    return Ok(());
                }
                _ => paths.iter().for_each(|path| self.failures.forget(path)),
            }
        }
    }

    /// The hash of the paths and stamps of all files, and the number of file systems; `None` if there is no folder, or not
    /// all of it can be looked at.
    async fn taken(&self) -> Option<(blake3::Hash, usize)> {
        let trees = self.trees_here();
        let take = move |_: &Arc<Library>| trees.first().and_then(take);
        self.library.blocking(take).await
    }
}

fn take(tree: &Tree) -> Option<(blake3::Hash, usize)> {
    let (mut hasher, mut disks) = (blake3::Hasher::new(), HashSet::new());
    let mut ignores = Ignores::new();
    let mut walk = WalkDir::new(tree.root()).sort_by_file_name().into_iter();
    while let Some(found) = walk.next() {
        let found = found.ok()?;
        let (path, is_folder) = (found.path(), found.file_type().is_dir());
        if found.depth() > 0
            && (!tree.covers(path)
                || tree.filter.skips_in_folder(path, is_folder, &mut ignores).ok()?.is_some())
        {
            if is_folder {
                walk.skip_current_dir();
            }
            continue;
        }
        let path = found.path().as_os_str().as_encoded_bytes();
        let metadata = found.metadata().ok()?;
        disks.insert(metadata.dev());
        let stamp = match found.file_type().is_dir() {
            true => Stamp::default(), // what counts is in it
            false => Stamp::of(&metadata),
        };
        hasher.update(path).update(&[0]).update(format!("{stamp:?}").as_bytes());
    }
    Some((hasher.finalize(), disks.len()))
}

/// What is at `path`; `None`: a folder.
fn look(path: &Path) -> Option<Look<Stamp>> {
    match symlink_metadata(path) {
        Ok(found) if found.is_dir() => None,
        Ok(found) => Some(Look::File(Stamp::of(&found))),
        Err(_) => Some(Look::Missing),
    }
}
