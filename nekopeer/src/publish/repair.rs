//! Brings back what a lost catalogue said: from the files, from what indexers list, and from what can still be read of
//! it. A file counts as what it was if its bytes are those that an origin signed for.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use nekoproto::{
    FileName, IdDigits, NodeId, Search, VerifiedRecord, Version,
    limits::{FOUND_MAX, TTL_DEFAULT},
};
use rayon::iter::{IntoParallelIterator, ParallelIterator};
use serde::Serialize;

use super::listing::{NamedFile, list_files};
use crate::{
    content::chunker::{Chunked, chunk_file},
    failure::Failure,
    indexers::{Indexers, via::Via},
    library::Library,
    storage::catalogue::{Entry, Restored, Salvaged},
};

const BATCH_FILES_MAX: usize = 1024;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Repaired {
    /// Published here, under the version that it had.
    pub(crate) shared: Vec<FileName>,
    pub(crate) copies: Vec<FileName>,
    /// Published here; the bytes in its place are others now. Its next version gets a number above the known ones.
    pub(crate) changed: Vec<FileName>,
    /// Published here, and not in its place; the same holds.
    pub(crate) missing: Vec<FileName>,
    pub(crate) unknown: usize,
    /// Whether every indexer in reach answered.
    pub(crate) complete: bool,
}

struct Knowledge {
    node: NodeId,
    /// What origins signed, in the order in which it is compared with the file.
    names: HashMap<FileName, Vec<VerifiedRecord>>,
    /// Own records that an indexer lists.
    listed: HashSet<(FileName, Version)>,
    /// Names that were withdrawn, or whose copies were given up.
    given_up: HashSet<(FileName, NodeId)>,
    complete: bool,
}

/// Brings back what is published and held. What the catalogue has is left as it is.
pub(crate) async fn repair(
    library: &Arc<Library>,
    indexers: &Indexers,
    salvaged: Salvaged,
) -> Result<Repaired, Failure> {
    let mut knowledge = Knowledge {
        node: library.node,
        names: HashMap::new(),
        listed: HashSet::new(),
        given_up: given_up(&salvaged),
        complete: true,
    };
    knowledge.ask_for_own(indexers).await;
    let elsewhere: Vec<_> = salvaged
        .entries
        .iter()
        .filter(|entry| !entry.path.starts_with(library.share.root()))
        .map(|entry| (entry.record.name.clone(), entry.path.clone()))
        .collect();
    let files = library.blocking(move |library| files_of(library, elsewhere)).await?;
    knowledge.ask_for_names(indexers, files.iter().map(|file| file.name.clone()).collect()).await;
    let Salvaged { entries, mut versions, floors, knows_numbers, .. } = salvaged;
    for record in entries.iter().flat_map(|entry| [Some(&entry.record), entry.newest.as_ref()]).flatten() {
        knowledge.add(record.clone());
    }
    versions.extend(knowledge.own().map(|record| (record.name.clone(), record.version)));
    library
        .blocking(move |library| {
            if !knows_numbers {
                library.catalogue.number_above_all()?;
            }
            library.catalogue.restore(Vec::new(), &versions, &floors)?;
            let repaired = store(library, &mut knowledge, files)?;
            library.catalogue.set_lost(!repaired.complete)?;
            Ok(repaired)
        })
        .await
}

/// The copies that the salvaged rows show to be dropped.
fn given_up(salvaged: &Salvaged) -> HashSet<(FileName, NodeId)> {
    let held: HashSet<&FileName> = salvaged.entries.iter().map(|entry| &entry.record.name).collect();
    let floors = salvaged.floors.iter().map(|floor| (floor.record.name.clone(), floor.record.origin));
    floors.filter(|(name, _)| !held.contains(name)).collect()
}

/// The files that the catalogue does not have: those of the share folder, and these if they exist. Blocking.
fn files_of(
    library: &Library,
    elsewhere: Vec<(FileName, std::path::PathBuf)>,
) -> Result<Vec<NamedFile>, Failure> {
    let root = library.share.root().to_owned();
    let listed = list_files(library, vec![root], None, None, &mut <_>::default()).unwrap_or_else(|error| {
        tracing::warn!(%error, "the files of the folder are not brought back");
        Vec::new()
    });
    let elsewhere = elsewhere.into_iter().filter_map(|(name, path)| {
        let size = std::fs::symlink_metadata(&path).ok().filter(std::fs::Metadata::is_file)?.len();
        Some(NamedFile { name, path, size })
    });
    let mut files: Vec<NamedFile> = elsewhere.collect();
    let named: HashSet<FileName> = files.iter().map(|file| file.name.clone()).collect();
    for file in listed.into_iter().map(super::listing::Listed::named) {
        if library.catalogue.entry(&file.name)?.is_none() && !named.contains(&file.name) {
            files.push(file);
        }
    }
    Ok(files)
}

impl Knowledge {
    fn add(&mut self, record: VerifiedRecord) {
        let known = self.names.entry(record.name.clone()).or_default();
        if !known.contains(&record) {
            known.push(record);
        }
    }

    fn own(&self) -> impl Iterator<Item = &VerifiedRecord> {
        let node = self.node;
        self.names.values().flatten().filter(move |record| record.origin == node)
    }

    async fn ask_for_own(&mut self, indexers: &Indexers) {
        let origin = IdDigits::try_from(self.node.to_string()).ok();
        let (search, mut after) = (Search { origin, ..Search::default() }, None);
        loop {
            let found =
                match indexers.find(&search, after.as_ref(), FOUND_MAX, TTL_DEFAULT, &Via::default()).await {
                    Ok(found) => found,
                    Err(error) => {
                        tracing::warn!(%error, "indexers do not say what this key has shared");
                        self.complete = false;
                        return;
                    }
                };
            self.complete &= found.complete;
            after = found.next;
            for record in found.matches.into_iter().map(|found| found.record) {
                self.listed.insert((record.name.clone(), record.version));
                self.add(record);
            }
            if after.is_none() {
                return;
            }
        }
    }

    async fn ask_for_names(&mut self, indexers: &Indexers, names: Vec<FileName>) {
        if names.is_empty() {
            return;
        }
        match indexers.search_all(&names, TTL_DEFAULT, &Via::default()).await {
            Ok(answers) => {
                for answer in answers {
                    self.complete &= answer.complete;
                    let found = answer.candidates.into_iter().map(|candidate| candidate.record);
                    for record in found.chain(answer.withdrawn) {
                        self.listed.insert((record.name.clone(), record.version));
                        self.add(record);
                    }
                }
            }
            Err(error) => {
                tracing::warn!(%error, "indexers do not say whose files these are");
                self.complete = false;
            }
        }
    }

    /// Withdrawals of names of which nothing later is known.
    fn withdrawn(&self) -> Vec<VerifiedRecord> {
        let newest = self.names.values().filter_map(|known| {
            let own = known.iter().filter(|record| record.origin == self.node);
            own.max_by_key(|record| record.version)
        });
        newest.filter(|record| record.is_withdrawal()).cloned().collect()
    }

    /// Puts own records first, the newest of them before the others.
    fn sort(&mut self) {
        let node = self.node;
        for known in self.names.values_mut() {
            known.sort_by_key(|record| (record.origin != node, std::cmp::Reverse(record.version)));
        }
    }

    /// The entry of `file`, if its bytes are those of a known record.
    fn recognise(&self, file: NamedFile) -> Result<Restored, NamedFile> {
        let Some(known) = self.names.get(&file.name) else { return Err(file) };
        let is_wanted = |record: &&VerifiedRecord| {
            record.size == file.size
                && !record.is_withdrawal()
                && !self.given_up.contains(&(record.name.clone(), record.origin))
        };
        let records: Vec<&VerifiedRecord> = known.iter().filter(is_wanted).collect();
        let Some(ideal) = records.first().map(|record| nekoproto::Cut::for_size(record.size).average) else {
            return Err(file);
        };
        // A later version keeps the average of the one before, up to half or twice the usual one.
        for average in [None, Some(ideal / 2), Some(ideal * 2)] {
            let Ok(chunked) = chunk_file(&file.path, average, &<_>::default(), &<_>::default()) else {
                return Err(file);
            };
            if records.iter().all(|record| record.content != chunked.content) {
                return Err(file);
            }
            // Its user may have made it executable or not since.
            for is_executable in [true, false] {
                let Ok(chunked) = chunked.clone().of_executable(is_executable) else { continue };
                let is_it = |record: &&&VerifiedRecord| {
                    record.content == chunked.content && record.manifest == chunked.manifest_hash
                };
                if let Some(record) = records.iter().find(is_it) {
                    return Ok(self.restored((*record).clone(), file, chunked));
                }
            }
        }
        Err(file)
    }

    fn restored(&self, record: VerifiedRecord, file: NamedFile, chunked: Chunked) -> Restored {
        let later = self.names.get(&record.name).into_iter().flatten();
        let newest = later.filter(|later| later.replaces(&record)).max_by_key(|later| later.version).cloned();
        let is_listed = self.listed.contains(&(record.name.clone(), record.version));
        let is_untold = record.origin == self.node && !is_listed;
        let (stamp, hashed_at_ns) = (chunked.stamp, chunked.hashed_at_ns);
        let entry = Entry { record, path: file.path, stamp, hashed_at_ns, newest, origin_addr: None };
        Restored { entry, chunked, is_untold }
    }
}

/// Reads the files that may be known, and stores those that are. Blocking.
fn store(library: &Library, knowledge: &mut Knowledge, files: Vec<NamedFile>) -> Result<Repaired, Failure> {
    knowledge.sort();
    let withdrawn = knowledge.withdrawn();
    library.catalogue.restore_withdrawals(&withdrawn)?;
    knowledge.given_up.extend(withdrawn.into_iter().map(|record| (record.name.clone(), record.origin)));
    let knowledge = &*knowledge;
    let mut repaired = Repaired { complete: knowledge.complete, ..Repaired::default() };
    let (mut files, mut there) = (files.into_iter().peekable(), HashSet::new());
    while files.peek().is_some() {
        let batch: Vec<NamedFile> = files.by_ref().take(BATCH_FILES_MAX).collect();
        let recognised: Vec<_> = batch.into_par_iter().map(|file| knowledge.recognise(file)).collect();
        let mut restored = Vec::new();
        for file in recognised {
            match file {
                Ok(file) => {
                    let name = file.entry.record.name.clone();
                    let is_own = file.entry.record.origin == knowledge.node;
                    there.insert(name.clone());
                    if is_own { &mut repaired.shared } else { &mut repaired.copies }.push(name);
                    restored.push(file);
                }
                Err(file) if knowledge.is_own(&file.name) => {
                    there.insert(file.name.clone());
                    repaired.changed.push(file.name);
                }
                Err(_) => repaired.unknown += 1,
            }
        }
        library.catalogue.restore(restored, &[], &[])?;
    }
    for record in knowledge.own().filter(|record| knowledge.is_own(&record.name)) {
        let name = &record.name;
        if library.catalogue.entry(name)?.is_none() && there.insert(name.clone()) {
            repaired.missing.push(name.clone());
        }
    }
    repaired.missing.sort();
    Ok(repaired)
}

impl Knowledge {
    /// Whether `name` was published here and not withdrawn.
    fn is_own(&self, name: &FileName) -> bool {
        let known = self.names.get(name).into_iter().flatten();
        let mut own = known.filter(|record| record.origin == self.node);
        own.next().is_some() && !self.given_up.contains(&(name.clone(), self.node))
    }
}
