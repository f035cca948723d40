//! Follows the folders: whether each is there, and is watched.

use std::{path::PathBuf, sync::Arc};

use super::{
    Left, Told, Watching,
    folders::{self, Folder, is_remote},
};
use crate::{
    library::Library,
    publish::tree::Tree,
    state::changes::{presence::Turn, rescans::EVERY_BLIND},
    util::clock,
};

impl Watching {
    /// Has events told of this folder, from now on.
    pub(super) async fn watch_folder(&mut self, folder: usize) -> Result<(), Left> {
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

    pub(super) async fn set_blind(&mut self, folder: &str, why: &str) -> Result<(), Left> {
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

    /// Looks whether the folders are there, and watches `anew` one of them.
    pub(super) async fn look_at_folders(&mut self, anew: Option<usize>) -> Result<(), Left> {
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
                        "{shown} is gone: nothing in it is unshared, and it is watched again when it is back"
                    );
                    self.tell(Told::Note(note)).await?;
                    continue;
                }
                Turn::Back => Some(format!("{shown} is back, and is watched again")),
                Turn::Replaced => {
                    folder.excuses = true;
                    Some(format!(
                        "{shown} is another folder now, and is watched; what is missing in it stays shared"
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

    pub(super) fn trees_here(&self) -> Arc<[Tree]> {
        let is_here = |tree: &&Tree| {
            let folder = self.folders.iter().find(|folder| folder.path == tree.folder());
            folder.is_some_and(|folder| folder.presence.is_here())
        };
        self.trees.iter().filter(is_here).cloned().collect()
    }
}
