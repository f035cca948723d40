//! Resolves the symbolic links that the user named again every two seconds: where one leads elsewhere or was removed, watches the new
//! target, and withdraws after `--settle` the files that no target has.

use std::{collections::HashSet, fs::read_dir, mem::take, path::Path, sync::Arc};

use nekoproto::FileName;

use super::{Left, Told, Watching, look::names_of};
use crate::{content::stamp::is_missing, library::Library, publish::tree::PublishedTree, util::clock};

impl Watching {
    /// Looks where the paths lead now. What a link that leads elsewhere, or is gone, led to is withdrawn once that has settled.
    pub(super) async fn look_at_links(&mut self) -> Result<(), Left> {
        let named = self.named.clone();
        let look = move |_: &Arc<Library>| {
            let (mut has_moved, mut cut) = (false, HashSet::new());
            for (path, root) in named {
                match path.canonicalize() {
                    Ok(now) => has_moved |= now != root,
                    Err(_) if is_removed(&path) && root.exists() => drop(cut.insert(root)),
                    Err(_) => {} // about to be made anew; or what it leads to is gone, which its folder shows
                }
            }
            (has_moved, cut)
        };
        let (has_moved, cut) = self.library.blocking(look).await;
        if !cut.is_subset(&self.cut) {
            self.leave_trees();
            self.tell(Told::Note(self.note_of_cut())).await?;
        }
        if !self.cut.is_subset(&cut) {
            self.rescans.soon(clock::now());
        }
        self.cut = cut;
        if has_moved {
            self.follow_links().await?;
        }
        self.withdraw_left().await
    }

    fn note_of_cut(&self) -> String {
        let then = match self.set {
            Some(_) => "what it led to stays shared".to_owned(),
            None => {
                format!("what it led to is unshared unless it is back within {} s", self.settle.as_secs())
            }
        };
        format!("a link is gone: {then}")
    }

    /// Watches what the links lead to now.
    async fn follow_links(&mut self) -> Result<(), Left> {
        let paths = self.named.iter().map(|(path, _)| path.clone()).collect();
        let rooms = (&self.library, &self.publisher);
        let Ok(mut anew) =
            Self::new(rooms, paths, self.options.clone(), self.settle, self.told.clone()).await
        else {
            return Ok(()); // it changes just now
        };
        self.leave_trees();
        anew.left_trees = take(&mut self.left_trees);
        anew.told_blind = take(&mut self.told_blind);
        *self = anew;
        for folder in 0..self.folders.len() {
            self.watch_folder(folder).await?;
        }
        self.tell(Told::Note("a link leads elsewhere now, and what it leads to is watched".to_owned())).await
    }

    fn leave_trees(&mut self) {
        if self.set.is_none() {
            self.left_trees.push((clock::now() + self.settle, Arc::clone(&self.trees)));
        }
    }

    async fn withdraw_left(&mut self) -> Result<(), Left> {
        let now = clock::now();
        let left: Vec<_> = self.left_trees.extract_if(.., |(at, _)| *at <= now).collect();
        if left.is_empty() {
            return Ok(());
        }
        let trees = self.trees.iter().filter(|tree| !self.cut.contains(tree.root()));
        let trees: Vec<PublishedTree> = trees.cloned().collect();
        let gone = move |library: &Arc<Library>| {
            left.iter().flat_map(|(_, before)| gone(library, before, &trees)).collect()
        };
        let gone = self.library.blocking(gone).await;
        self.withdraw_names(gone).await
    }
}

/// Whether a link at `path` was removed: nothing is there, and its folder is, with something in it, as one whose disk is not mounted
/// has nothing.
fn is_removed(path: &Path) -> bool {
    let has_entries = |folder: &Path| read_dir(folder).is_ok_and(|mut entries| entries.next().is_some());
    path.symlink_metadata().is_err_and(|error| is_missing(&error)) && path.parent().is_some_and(has_entries)
}

/// What was published of the trees as they were `before`, and has no file in those that are there `now`. Blocking.
fn gone(library: &Library, before: &[PublishedTree], now: &[PublishedTree]) -> Vec<FileName> {
    let entries = library.catalogue.pages().map_while(Result::ok).flatten().flatten();
    let gone = entries.filter(|entry| library.catalogue.is_own(entry)).filter(|entry| {
        let name = &entry.record.name;
        let is_of = |trees| names_of(trees, &entry.path).contains(name);
        let has_file = || now.iter().filter_map(|tree| tree.path_of(name)).any(|path| path.is_file());
        is_of(before) && !is_of(now) && !has_file()
    });
    gone.map(|entry| entry.record.name.clone()).collect()
}
