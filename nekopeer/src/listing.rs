//! Lists the files published and held here piece by piece, after asking their origins if that is wanted.

use std::{collections::HashSet, sync::Arc};

use nekoproto::NodeId;

use crate::{
    content::stamp::Looker,
    library::{ENTRIES_AT_ONCE, Library, status::FileStatus},
    peers::Peers,
    storage::catalogue::{CatalogueError, Entry, Page, PageStart},
};

/// Files whose origins are asked in one go: several calls over one connection.
const ASKED_AT_ONCE: usize = 1024;

/// Files by name, in pieces: what it takes does not grow with the number of files.
#[derive(Debug)]
pub struct Listing {
    library: Arc<Library>,
    /// Who asks the origins; `None`: they are not asked.
    peers: Option<Arc<Peers>>,
    /// Origins that did not answer; they are not asked again.
    away: HashSet<NodeId>,
    next: Option<PageStart>,
}

impl Listing {
    pub(crate) fn new(library: &Arc<Library>, peers: Option<&Arc<Peers>>) -> Self {
        let (library, peers) = (Arc::clone(library), peers.map(Arc::clone));
        Self { library, peers, away: HashSet::new(), next: Some(PageStart::default()) }
    }

    /// The next files, at most some thousand, with an error for each whose entry is damaged; `None` after the
    /// last.
    ///
    /// # Errors
    /// The catalogue failed; the next call tries again.
    ///
    /// # Cancel safety
    /// Safe: the next call returns the same files.
    pub async fn next(&mut self) -> Result<Option<Vec<Result<FileStatus, CatalogueError>>>, CatalogueError> {
        let Some(start) = self.next.clone() else { return Ok(None) };
        let Some(peers) = self.peers.clone() else {
            let read = move |library: &Arc<Library>| {
                let Page { entries, next } = library.catalogue.page(&start, ENTRIES_AT_ONCE)?;
                let mut looker = Looker::default();
                let status = |entry: Result<Entry, _>| Ok(library.status(entry?, &mut looker));
                let files: Vec<_> = entries.into_iter().map(status).collect();
                Ok::<_, CatalogueError>((files, next))
            };
            let (files, next) = self.library.blocking(read).await?;
            self.next = next;
            return Ok(Some(files));
        };
        let read = move |library: &Arc<Library>| library.catalogue.page(&start, ASKED_AT_ONCE);
        let Page { entries, next } = self.library.blocking(read).await?;
        self.ask(&peers, &entries).await;
        let look = move |library: &Arc<Library>| {
            let mut looker = Looker::default();
            let mut look = |entry: Entry| {
                // The origin may just have told of a newer version.
                let is_outdated = library.is_outdated(&entry.record.name);
                let now = is_outdated.then(|| library.catalogue.get(&entry.record.name)).flatten();
                library.status(now.map_or(entry, Arc::unwrap_or_clone), &mut looker)
            };
            entries.into_iter().map(|entry| entry.map(&mut look)).collect()
        };
        let files: Vec<Result<FileStatus, CatalogueError>> = self.library.blocking(look).await;
        if !self.library.is_serving {
            self.library.forget(files.iter().flatten().map(|file| &file.record.name));
        }
        self.next = next;
        Ok(Some(files))
    }

    /// Asks the origins of the copies among `entries`, except those that did not answer before.
    async fn ask(&mut self, peers: &Arc<Peers>, entries: &[Result<Entry, CatalogueError>]) {
        let (library, entries) = (&self.library, entries.iter().flatten());
        library.watch(entries.clone());
        let copies = entries.filter(|entry| !library.catalogue.is_own(entry));
        let newest = copies.map(|entry| entry.newest.as_ref().unwrap_or(&entry.record));
        let asked = newest.filter(|record| !self.away.contains(&record.origin));
        self.away.extend(peers.confirm(asked.cloned().collect()).await);
    }
}
