//! Removes unchanged copies that occupy the path of a download, as a file where it needs a folder or as all that is in a folder
//! where it needs a file, if their origins, asked now, withdrew them.

use std::{
    collections::{HashMap, HashSet},
    path::Path,
    sync::Arc,
};

use nekoproto::{FileName, Holder, VerifiedRecord};
use walkdir::WalkDir;

use crate::{
    download::{Downloader, finding::Finding},
    library::{
        Library,
        events::Event,
        status::{Removed, remove_unchanged},
    },
    storage::catalogue::Entry,
};

/// Copies below one name that are looked at.
const BELOW_MAX: usize = 1024;

impl Downloader {
    /// Asks the origins of such copies above and below what was found whether they withdrew them, and removes those. What stays is
    /// in the way, which the download says.
    pub(in crate::download) async fn clear_way(&self, found: &[Finding]) {
        let names = found.iter().filter(|(_, target)| target.is_ok()).map(|(name, _)| name);
        let found: Vec<FileName> = names.cloned().collect();
        let mut above: Vec<&Path> =
            found.iter().flat_map(|name| name.as_path().ancestors().skip(1)).collect();
        above.sort_unstable();
        above.dedup();
        let above: Vec<FileName> =
            above.into_iter().filter_map(|path| FileName::from_path(path).ok()).collect();
        let groups = move |library: &Arc<Library>| {
            let above = above.into_iter().map(|name| copies(library, [name]));
            let below = found.iter().map(|name| fill_of(library, name));
            above.chain(below).collect::<Vec<_>>()
        };
        let groups = self.library.blocking(groups).await;
        let mut by_origin = HashMap::<Holder, Vec<VerifiedRecord>>::new();
        for copy in groups.iter().flatten() {
            let Some(addr) = copy.origin_addr else { continue };
            let known = copy.newest.clone().unwrap_or_else(|| copy.record.clone());
            by_origin.entry(Holder::new(copy.record.origin, addr)).or_default().push(known);
        }
        let mut withdrawn = HashSet::new();
        for (origin, known) in by_origin {
            let newest = self.peers.newest(origin, known).await.into_iter();
            let (names, records): (Vec<_>, Vec<_>) =
                newest.filter(|(_, newest)| newest.is_withdrawal()).unzip();
            self.library.learn(records).await;
            withdrawn.extend(names);
        }
        // Where one of a folder stays, the folder does, and nothing is won by removing the others.
        let names = groups.into_iter().map(|group| group.into_iter().map(|copy| copy.record.name.clone()));
        let names = names.filter(|group| group.clone().all(|name| withdrawn.contains(&name)));
        let names: Vec<FileName> = names.flatten().collect();
        let remove = |library: &Arc<Library>| {
            names.into_iter().filter(|name| remove_withdrawn(library, name)).collect::<Vec<_>>()
        };
        let removed = self.library.blocking(remove).await;
        self.indexers.withdraw(&removed).await;
        removed.into_iter().for_each(|name| self.library.tell(Event::Dropped(name)));
    }
}

/// The copies under these names that stand where downloads put them.
fn copies(library: &Library, names: impl IntoIterator<Item = FileName>) -> Vec<Arc<Entry>> {
    let found = names.into_iter().filter_map(|name| library.catalogue.get(&name));
    found.filter(|copy| is_in_the_way(library, copy)).collect()
}

/// The copies that the folder in the place of `name` is made of; none if there is no folder, or anything else in it.
fn fill_of(library: &Library, name: &FileName) -> Vec<Arc<Entry>> {
    let folder = library.share.path_of(name);
    if !folder.is_dir() {
        return Vec::new();
    }
    let copies = copies(library, library.catalogue.names_below(name, BELOW_MAX).unwrap_or_default());
    let paths: HashSet<&Path> = copies.iter().map(|copy| copy.path.as_path()).collect();
    let mut found = WalkDir::new(folder).into_iter();
    let is_all = found
        .all(|found| found.is_ok_and(|found| found.file_type().is_dir() || paths.contains(found.path())));
    if is_all { copies } else { Vec::new() }
}

fn is_in_the_way(library: &Library, copy: &Entry) -> bool {
    let is_in_place = || copy.path == library.share.path_of(&copy.record.name);
    !library.catalogue.is_own(copy) && !copy.record.policy.is_set() && is_in_place()
}

fn remove_withdrawn(library: &Arc<Library>, name: &FileName) -> bool {
    let Some(_reserved) = library.reserve(name, &Arc::default()) else { return false };
    let removed = library.catalogue.remove_if(name, |copy| {
        copy.is_some_and(|copy| {
            let is_withdrawn = copy.newest.as_ref().is_some_and(|newest| newest.is_withdrawal());
            is_in_the_way(library, copy) && is_withdrawn && remove_unchanged(copy) == Removed::Gone
        })
    });
    let is_removed = removed.unwrap_or_default(); // where the catalogue fails, the download says so
    if is_removed {
        library.forget([name]);
    }
    is_removed
}
