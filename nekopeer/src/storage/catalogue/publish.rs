//! Publishing: each draft gets its version and signature and is stored.

use std::{collections::HashSet, path::PathBuf, sync::LazyLock};

use nekoproto::{FileName, Policy, Record, VerifiedRecord, Version};
use rayon::{
    ThreadPool, ThreadPoolBuilder,
    iter::{IntoParallelIterator, ParallelIterator},
};

use super::{
    Catalogue, Entry,
    error::{overtaken, versions_used_up},
    numbering::{Known, Numbered, Substance},
    schema::{AVERAGES, PIPED, VERSIONS},
    untold::{UNTOLD, Untold},
    write::Write,
};
use crate::{
    content::{
        chunker::Chunked,
        stamp::{Stamp, now_ns},
    },
    failure::{Failure, Reason},
};

/// Threads that only sign: in the pool that hashes, a signature would wait for a file, and whatever writes for it.
static SIGNERS: LazyLock<Option<ThreadPool>> =
    LazyLock::new(|| ThreadPoolBuilder::new().thread_name(|n| format!("sign-{n}")).build().ok());

#[derive(Debug)]
pub(crate) struct Draft {
    pub name: FileName,
    pub path: PathBuf,
    pub chunked: Chunked,
    pub policy: Policy,
    /// The newest version of this name and origin that the network knows, if it was asked.
    pub known: Option<VerifiedRecord>,
    /// The user names it, and not its folder: it is published even if its name was unshared.
    pub is_named: bool,
}

impl Draft {
    /// Whether another file is there now, or the same with other bytes. Blocking.
    fn is_outdated(&self) -> bool {
        let now = std::fs::metadata(&self.path).map(|metadata| Stamp::of(&metadata));
        now.is_ok_and(|now| !self.chunked.stamp.is_moved_to(&now))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Published {
    /// A new version, stored and not yet announced.
    New(VerifiedRecord),
    /// The bytes and the policy equal those of a version already published.
    Unchanged(VerifiedRecord),
}

impl Published {
    pub(crate) const fn record(&self) -> &VerifiedRecord {
        match self {
            Self::New(record) | Self::Unchanged(record) => record,
        }
    }
}

pub(super) enum NextRecord {
    Same(VerifiedRecord),
    /// Not signed yet.
    New(Record),
}

impl Catalogue {
    /// Whether `name` may be published here: it is not a copy of another origin's file.
    pub(crate) fn may_publish(&self, name: &FileName) -> Result<(), Failure> {
        match self.entry(name)?.filter(|known| !self.is_own(known)) {
            Some(other) => {
                let origin = other.record.origin.short();
                let help = "share it under another name, or unshare the copy first";
                let message = format!("{name} is this peer's copy of a file of origin {origin}: {help}");
                Err(Failure::conflict(message).because(Reason::CopyOfOther))
            }
            None => Ok(()),
        }
    }

    /// The average chunk length in bytes of the last version of `name` published here, if any. Blocking.
    pub(crate) fn last_average(&self, name: &FileName) -> Result<Option<u32>, Failure> {
        self.tables.value(AVERAGES, name.as_str(), |average| average)
    }

    /// Gives each draft its version, signs them on all cores, and stores all in one transaction. New versions
    /// are pending. A draft that cannot be published has its error as its result; the others are stored. One whose
    /// file was changed since it was read gets no number: what is there now may have been published already. Blocking.
    pub(crate) fn publish(&self, drafts: Vec<Draft>) -> Result<Vec<Result<Published, Failure>>, Failure> {
        let write = self.tables.begin()?;
        let mut names = HashSet::with_capacity(drafts.len());
        let next = drafts.iter().map(|draft| match names.insert(&draft.name) {
            true if draft.is_outdated() => {
                let what = "was changed while it was shared: share it again when it is complete";
                let message = format!("{} {what}", draft.path.display());
                Err(Failure::new(message).because(Reason::ChangedSince))
            }
            true => self.next_record(draft),
            false => Err(overtaken(&draft.name)), // by the draft before
        });
        let next = next.collect::<Vec<_>>();
        let sign = |next: Result<NextRecord, Failure>| match next? {
            NextRecord::Same(record) => Ok(Published::Unchanged(record)),
            NextRecord::New(record) => Ok(Published::New(record.sign(&self.identity)?)),
        };
        let results: Vec<Result<Published, Failure>> = match &*SIGNERS {
            Some(signers) => signers.install(|| next.into_par_iter().map(sign).collect()),
            None => next.into_iter().map(sign).collect(),
        };
        let stored = drafts.iter().zip(&results).filter(|(_, published)| published.is_ok());
        write.put(AVERAGES, stored.map(|(draft, _)| (draft.name.as_str(), draft.chunked.average)))?;
        let (mut new, mut unchanged) = (Vec::with_capacity(drafts.len()), Vec::new());
        for (Draft { path, chunked, .. }, published) in drafts.into_iter().zip(&results) {
            let Ok(published) = published else { continue };
            let record = published.record().clone();
            let (stamp, hashed_at_ns) = (chunked.stamp, chunked.hashed_at_ns);
            let entry = Entry { record, path, stamp, hashed_at_ns, newest: None, origin_addr: None };
            write.put_manifest(&entry, &chunked.manifest, &chunked.outboard)?;
            match published {
                Published::New(_) => new.push(entry),
                Published::Unchanged(_) => unchanged.push(entry),
            }
        }
        self.commit_published(write, new, unchanged)?;
        Ok(results)
    }

    pub(super) fn next_record(&self, draft: &Draft) -> Result<NextRecord, Failure> {
        let Draft { name, chunked, policy, known, is_named, .. } = draft;
        self.may_publish(name)?;
        let entry = self.get_stated(name);
        if !is_named && entry.as_ref().is_some_and(|entry| entry.is_unshared()) {
            return Err(overtaken(name)); // while it was read
        }
        let substance =
            Substance { content: chunked.content, manifest: chunked.manifest_hash, policy: *policy };
        let known_versions = Known {
            counter: self.last_number(name)?,
            floor: self.above()?,
            entry: entry.as_ref().map(|entry| &entry.record),
            newest: entry.as_ref().and_then(|entry| entry.newest.as_ref()),
            network: known.as_ref(),
        };
        match known_versions.number(substance) {
            Numbered::Old(record) => Ok(NextRecord::Same(record.clone())),
            Numbered::New(version) => Ok(NextRecord::New(Record {
                origin: self.identity.id(),
                name: name.clone(),
                version,
                size: chunked.stamp.size(),
                content: chunked.content,
                manifest: chunked.manifest_hash,
                policy: *policy,
                published_ms: u64::try_from(now_ns() / 1_000_000).unwrap_or_default(),
            })),
            Numbered::UsedUp => Err(versions_used_up(name)),
        }
    }

    /// Publishes the bytes of each name in `above` once more, under a number above that record and above
    /// every number used here; returns the new versions, which are pending, each with the number before. A
    /// name that was withdrawn, or is above already, is left out. Blocking.
    pub(crate) fn renumber(
        &self,
        above: &[VerifiedRecord],
    ) -> Result<Vec<(Version, VerifiedRecord)>, Failure> {
        let write = self.tables.begin()?;
        let (mut records, mut entries) = (Vec::new(), Vec::new());
        for seen in above {
            let own = self.get_stated(&seen.name).filter(|entry| self.is_own(entry));
            let Some(entry) = own.filter(|entry| !entry.record.replaces(seen)) else { continue };
            let Some(version) = self.next_number(&entry, Some(seen.version))? else {
                tracing::warn!(name = %seen.name, "no version number is left");
                continue;
            };
            let record = Record { version, ..Record::clone(&entry.record) }.sign(&self.identity)?;
            let taken = entry.record.version;
            let entry = Entry { record: record.clone(), newest: None, ..Entry::clone(&entry) };
            records.push((taken, record));
            entries.push(entry);
        }
        self.commit_published(write, entries, Vec::new())?;
        Ok(records)
    }

    /// The number of the next version of `entry`, which is also above `seen`; `None` if none is left.
    pub(super) fn next_number(
        &self,
        entry: &Entry,
        seen: Option<Version>,
    ) -> Result<Option<Version>, Failure> {
        let newest = entry.newest.as_ref().map(|newest| newest.version);
        let last = self.last_number(&entry.record.name)?.max(self.above()?).max(newest).max(seen);
        Ok(last.max(Some(entry.record.version)).and_then(Version::next))
    }

    fn last_number(&self, name: &FileName) -> Result<Option<Version>, Failure> {
        Ok(self.tables.value(VERSIONS, name.as_str(), Version::new)?.flatten())
    }

    /// Takes over `records`, which this key published elsewhere, as the versions of the same bytes here;
    /// returns those that it took. Blocking.
    pub(crate) fn adopt(&self, records: &[VerifiedRecord]) -> Result<Vec<VerifiedRecord>, Failure> {
        let write = self.tables.begin()?;
        let (mut adopted, mut entries) = (Vec::new(), Vec::new());
        for record in records {
            let own = self.get_stated(&record.name).filter(|entry| self.is_own(entry));
            let Some(entry) = own.filter(|entry| {
                record.replaces(&entry.record) && Substance::of(record) == Substance::of(&entry.record)
            }) else {
                continue;
            };
            let newest = entry.newest.clone().filter(|newest| newest.replaces(record));
            let entry = Entry { record: record.clone(), newest, ..Entry::clone(&entry) };
            adopted.push(record.clone());
            entries.push(entry);
        }
        self.commit_published(write, Vec::new(), entries)?;
        Ok(adopted)
    }

    /// The file of `seen` is there now and has this stamp, and its bytes were read and are the same. Nothing is noted if another entry has
    /// taken the place of `seen`. Blocking.
    pub(crate) fn restamp(
        &self,
        seen: &Entry,
        path: PathBuf,
        stamp: Stamp,
        hashed_at_ns: i128,
    ) -> Result<(), Failure> {
        let name = &seen.record.name;
        let restamp = |now: &mut Entry| {
            let is_seen = !self.is_placing(name) && *now == *seen;
            if is_seen {
                // Of a copy the time says how old it is.
                let hashed_at_ns = if self.is_own(seen) { hashed_at_ns } else { seen.hashed_at_ns };
                *now = Entry { path, stamp, hashed_at_ns, ..seen.clone() };
            }
            is_seen
        };
        self.update(name, restamp).map(drop)
    }

    /// Commits entries of `new` versions, of which no indexer was told, and of others. Their numbers are used up.
    pub(super) fn commit_published(
        &self,
        write: Write<'_>,
        new: Vec<Entry>,
        others: Vec<Entry>,
    ) -> Result<(), Failure> {
        for Entry { record, .. } in &others {
            if self.tables.untold(&record.name)?.is_some_and(|row| !row.is_of(record)) {
                write.remove(UNTOLD, [record.name.as_str()])?;
            }
        }
        let is_new = |name: &FileName| {
            let before = self.get_stated(name).filter(|entry| self.is_own(entry));
            before.is_none_or(|before| self.pending(&before.record).is_some_and(|pending| pending.is_new))
        };
        let row = |Entry { record, .. }: &Entry| Some(Untold::of(record, is_new(&record.name)));
        write.put(UNTOLD, new.iter().map(|entry| (entry.record.name.as_str(), row(entry))))?;
        let entries: Vec<Entry> = new.into_iter().chain(others).collect();
        let own = entries.iter().filter(|entry| self.is_own(entry)).map(|entry| &entry.record);
        write.use_up(own.clone().map(|record| (&record.name, record.version)))?;
        write.remove(PIPED, own.map(|record| record.name.as_str()))?;
        write.put_entries(entries)?;
        // The rows are visible with the entries: a session that registers them must know that they are news.
        self.tables.commit(write)
    }
}
