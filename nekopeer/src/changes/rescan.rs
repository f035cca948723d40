//! Compares all files with what is published, and notes what differs.

use std::{
    mem::{replace, take},
    path::PathBuf,
};

use super::{
    Left, Told, Watching,
    folders::Folder,
    look::{self, Scan},
};
use crate::{publish::PublishOutcome, state::changes::Look, util::clock};

impl Watching {
    /// Compares all files with what is published.
    pub(super) async fn rescan(&mut self) -> Result<(), Left> {
        if self.set.is_some() {
            self.rescan_set().await?;
            return self.scanned(PublishOutcome::default()).await;
        }
        let began = clock::now();
        self.look_at_folders(None).await?;
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
            let above = |folder: &&Folder| path.starts_with(&folder.path);
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

    /// What is watched, in a few words.
    fn title(&self) -> String {
        match &*self.trees {
            [] => String::new(),
            [tree] => tree.root().display().to_string(),
            [first, others @ ..] => format!("{} and {} more", first.root().display(), others.len()),
        }
    }
}
