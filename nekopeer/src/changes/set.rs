//! A folder that is published as one version: watched as any, and published whole once all that changed in it is quiet.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use nekoproto::FileName;

use super::{Left, Told, Watching};
use crate::{
    content::stamp::Stamp,
    library::Library,
    publish::{PublishOptions, tree::PublishedTree},
    rules::{Ignores, Rules},
    sets::{self, Fingerprint},
    state::changes::{Look, Sign},
    util::{clock, progress::Progress},
};

#[derive(Debug)]
pub(super) struct Set {
    /// The name of the set; none if that of the folder is no name.
    name: Option<FileName>,
    rules: Rules,
    pub(super) is_due: bool,
    /// The files as they were before it was published last, by their hash.
    published: Option<blake3::Hash>,
    pub(super) files: Arc<HashMap<PathBuf, Stamp>>,
    /// The number of file systems that it was on.
    disks: usize,
}

impl Set {
    /// Without a name it has that of the tree, wherever a link leads.
    pub(super) fn is_of(&mut self, tree: &PublishedTree) {
        self.name = self.name.take().or_else(|| tree.folder_name());
    }

    /// Nothing is known of what is published: the first look finds it different.
    pub(super) fn new(name: Option<FileName>, rules: Rules) -> Self {
        Self { name, rules, is_due: false, published: None, files: Arc::default(), disks: 0 }
    }
}

impl Watching {
    /// Leaves those of these signs that are about files of the set: of one that is skipped nobody waits until it is quiet.
    pub(super) async fn of_set(&self, mut signs: HashMap<PathBuf, Sign>) -> HashMap<PathBuf, Sign> {
        let trees = Arc::clone(&self.trees);
        let of_set = move |_: &Arc<Library>| {
            let mut ignores = Ignores::new();
            let mut is_skipped = |path: &Path| {
                let mut tree = trees.iter().filter(|tree| tree.covers(path));
                // Where the rules cannot be read, the publishing says so.
                tree.any(|tree| matches!(tree.filter.skips(path, path.is_dir(), &mut ignores), Ok(Some(_))))
            };
            signs.retain(|path, _| !is_skipped(path));
            signs
        };
        self.library.blocking(of_set).await
    }

    /// Looks whether the files are those that were published last. What is not waits until it is quiet, as with an event.
    pub(super) async fn look_at_set(&mut self) {
        let (fingerprint, now) = (self.fingerprint_of_set().await, clock::now());
        let (Some(set), Some(Fingerprint { hash, disks, files })) = (&mut self.set, fingerprint) else {
            return;
        };
        set.is_due |= set.published != Some(hash);
        set.disks = set.disks.max(disks.unwrap_or_default());
        if set.published.is_none() {
            set.files = Arc::new(files); // what is gone before the first version is missed as later
            return;
        }
        let changed = files.iter().filter(|(path, stamp)| set.files.get(*path) != Some(stamp));
        changed.for_each(|(path, stamp)| self.changes.found(path.clone(), Look::File(*stamp), now));
        let gone = set.files.keys().filter(|path| !files.contains_key(*path));
        gone.for_each(|path| self.changes.found(path.clone(), Look::Missing, now));
    }

    /// Publishes the folder, unless it is gone, or a part of it with its file system. What cannot be published is tried again
    /// by a later rescan.
    pub(super) async fn publish_set(&mut self) -> Result<(), Left> {
        self.look_at_folders(None).await?;
        let (fingerprint, trees) = (self.fingerprint_of_set().await, self.trees_here());
        let Some(set) = &mut self.set else { return Ok(()) };
        set.is_due = false;
        let (Some(tree), Some(Fingerprint { hash, disks, files })) = (trees.first(), fingerprint) else {
            return Ok(());
        };
        let path = tree.root().to_owned();
        if disks.is_some_and(|disks| disks < set.disks) {
            let why = "a file system below it is not mounted any more: no version is shared until it is back";
            return match self.failures.note(&path, None, why) {
                true => self.tell(Told::Note(format!("{}: {why}", path.display()))).await,
                false => Ok(()),
            };
        }
        let (name, rules) = (set.name.clone(), set.rules.clone());
        let (is_set, policy, keeps_unshared) = (true, self.policy, true);
        let options = PublishOptions { name, is_set, policy, rules, keeps_unshared, names_skipped: false };
        let publishing = self.publisher.publishing(vec![path.clone()], options, &Arc::<Progress>::default());
        let failed = self.tell_published(publishing, Vec::new(), &HashMap::new()).await?;
        if failed.is_empty() {
            self.failures.forget(&path);
        }
        if let Some(set) = &mut self.set {
            set.published = failed.is_empty().then_some(hash);
            set.files = Arc::new(files);
        }
        Ok(())
    }

    async fn fingerprint_of_set(&self) -> Option<Fingerprint> {
        let trees = self.trees_here();
        let list = move |_: &Arc<Library>| trees.first().map(|tree| sets::fingerprint(&tree.filter));
        self.library.blocking(list).await
    }
}
