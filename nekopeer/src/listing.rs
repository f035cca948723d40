//! Lists the files published and held here piece by piece, after asking their origins if that is wanted.

use std::{collections::HashSet, sync::Arc};

use nekoproto::{FileName, NodeId};

use crate::{
    content::stamp::Looker,
    failure::Failure,
    library::{
        Library,
        status::{Condition, FileStatus},
    },
    peers::Peers,
    sets,
    storage::catalogue::{ENTRIES_AT_ONCE, Entry, Page, PageStart},
};

/// Files whose origins are asked in one go: several calls over one connection.
const ASKED_AT_ONCE: usize = 1024;

/// Entries, and what is listed after them.
type Read = (Vec<Result<Entry, Failure>>, Option<Remainder>);

/// Files by name, in pieces: what it takes does not grow with the number of files.
#[derive(Debug)]
pub(crate) struct Listing {
    library: Arc<Library>,
    /// Who asks the origins; `None`: they are not asked.
    peers: Option<Arc<Peers>>,
    /// Origins that did not answer; they are not asked again.
    away: HashSet<NodeId>,
    next: Option<Remainder>,
    /// Files of one piece, at most.
    at_once: usize,
}

#[derive(Clone, Debug)]
enum Remainder {
    From(PageStart),
    Names(Vec<FileName>),
}

impl Listing {
    /// Those after this name in the order of their text. Pieces have at most `at_once` files.
    pub(crate) fn new(
        library: &Arc<Library>,
        peers: Option<&Arc<Peers>>,
        after: Option<&FileName>,
        at_once: usize,
    ) -> Self {
        Self::starting(library, peers, Remainder::From(PageStart::after(after)), at_once)
    }

    /// Those of these names that are published or held here.
    pub(crate) fn of(library: &Arc<Library>, peers: Option<&Arc<Peers>>, names: Vec<FileName>) -> Self {
        Self::starting(library, peers, Remainder::Names(names), usize::MAX)
    }

    fn starting(library: &Arc<Library>, peers: Option<&Arc<Peers>>, next: Remainder, at_once: usize) -> Self {
        let (library, peers) = (Arc::clone(library), peers.map(Arc::clone));
        let most = if peers.is_some() { ASKED_AT_ONCE } else { ENTRIES_AT_ONCE };
        Self { library, peers, away: HashSet::new(), next: Some(next), at_once: at_once.clamp(1, most) }
    }

    /// The next files, at most some thousand, with an error for each whose entry is damaged; `None` after the
    /// last.
    ///
    /// # Cancel safety
    /// Safe: the next call returns the same files.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<Result<FileStatus, Failure>>>, Failure> {
        let (Some(start), at_once) = (self.next.clone(), self.at_once) else { return Ok(None) };
        let Some(peers) = self.peers.clone() else {
            let read = move |library: &Arc<Library>| {
                let (entries, next) = start.read(library, at_once)?;
                let mut looker = Looker::default();
                let status = |entry: Result<Entry, _>| Ok(status(library, entry?, &mut looker));
                let files: Vec<_> = entries.into_iter().map(status).collect();
                Ok::<_, Failure>((files, next))
            };
            let (files, next) = self.library.blocking(read).await?;
            self.next = next;
            return Ok(Some(files));
        };
        let read = move |library: &Arc<Library>| start.read(library, at_once);
        let (entries, next) = self.library.blocking(read).await?;
        self.ask(&peers, &entries).await;
        let look = move |library: &Arc<Library>| {
            let mut looker = Looker::default();
            let mut look = |entry: Entry| {
                // The origin may just have told of a newer version.
                let is_outdated = library.is_outdated(&entry.record.name);
                let now = is_outdated.then(|| library.catalogue.get(&entry.record.name)).flatten();
                status(library, now.map_or(entry, Arc::unwrap_or_clone), &mut looker)
            };
            entries.into_iter().map(|entry| entry.map(&mut look)).collect()
        };
        let files: Vec<Result<FileStatus, Failure>> = self.library.blocking(look).await;
        if !self.library.is_serving {
            self.library.forget(files.iter().flatten().map(|file| &file.record.name));
        }
        self.next = next;
        Ok(Some(files))
    }

    /// Asks the origins of the copies among `entries`, except those that did not answer before.
    async fn ask(&mut self, peers: &Arc<Peers>, entries: &[Result<Entry, Failure>]) {
        let (library, entries) = (&self.library, entries.iter().flatten());
        library.watch(entries.clone());
        let copies = entries.filter(|entry| !library.catalogue.is_own(entry));
        let newest = copies.map(|entry| entry.newest.as_ref().unwrap_or(&entry.record));
        let asked = newest.filter(|record| !self.away.contains(&record.origin));
        self.away.extend(peers.confirm(asked.cloned().collect()).await);
    }
}

/// What is told of `entry`: of a copy of a set each file in its folder counts. Blocking.
fn status(library: &Library, entry: Entry, looker: &mut Looker) -> FileStatus {
    let is_copy_of_set = entry.record.policy.is_set() && !library.catalogue.is_own(&entry);
    let held = is_copy_of_set.then(|| entry.clone());
    let mut status = library.status(entry, looker);
    if let (Some(held), Condition::Good(_) | Condition::Unshared) = (held, status.condition)
        && !library.catalogue.is_placing(&held.record.name)
        && sets::is_as_it_came(library, &held).is_err()
    {
        let is_there = status.path.try_exists().unwrap_or(true);
        status.condition = if is_there { Condition::Changed } else { Condition::Missing };
    }
    status
}

impl Remainder {
    /// At most `most` entries, with an error for each that is damaged, and what comes after them. Blocking.
    fn read(mut self, library: &Library, most: usize) -> Result<Read, Failure> {
        match &mut self {
            Self::From(start) => {
                let Page { entries, next } = library.catalogue.page(start, most)?;
                Ok((entries, next.map(Self::From)))
            }
            Self::Names(names) => {
                let now: Vec<FileName> = names.drain(..names.len().min(most)).collect();
                let found = now.iter().filter_map(|name| library.catalogue.entry(name).transpose());
                let entries = found.map(|entry| entry.map(Arc::unwrap_or_clone)).collect();
                Ok((entries, (!names.is_empty()).then_some(self)))
            }
        }
    }
}
