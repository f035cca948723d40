//! Compares where the symbolic links that the user named lead with where they led, and watches the new target of one that moved.

use std::sync::Arc;

use nekoproto::FileName;

use super::{Left, Told, Watching, look::names_of};
use crate::{library::Library, publish::tree::PublishedTree};

impl Watching {
    /// Looks where the paths lead now. A link that leads nowhere is about to be made anew.
    pub(super) async fn look_at_links(&mut self) -> Result<(), Left> {
        let named = self.named.clone();
        let is_moved = move |_: &Arc<Library>| {
            named.iter().any(|(path, root)| path.canonicalize().is_ok_and(|now| now != *root))
        };
        if !self.library.blocking(is_moved).await {
            return Ok(());
        }
        let paths = self.named.iter().map(|(path, _)| path.clone()).collect();
        let rooms = (&self.library, &self.publisher);
        let Ok(mut anew) =
            Self::new(rooms, paths, self.options.clone(), self.settle, self.told.clone()).await
        else {
            return Ok(()); // it changes just now
        };
        let (before, now) = (Arc::clone(&self.trees), Arc::clone(&anew.trees));
        let is_set = self.options.is_set;
        let gone =
            move |library: &Arc<Library>| if is_set { Vec::new() } else { gone(library, &before, &now) };
        let gone = self.library.blocking(gone).await;
        anew.told_blind = std::mem::take(&mut self.told_blind);
        *self = anew;
        for folder in 0..self.folders.len() {
            self.watch_folder(folder).await?;
        }
        self.tell(Told::Note("a link leads elsewhere now, and what it leads to is watched".to_owned()))
            .await?;
        self.withdraw_names(gone).await
    }
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
