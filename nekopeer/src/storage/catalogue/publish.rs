//! Publishing: each draft gets its version and signature and is stored.

use std::path::PathBuf;

use nekoproto::{Cut, FileName, Policy, Record, RecordError, VerifiedRecord, Version};
use rayon::iter::{IntoParallelIterator, ParallelIterator};

use super::{Catalogue, CatalogueError, Entry, write::Write};
use crate::content::chunker::Chunked;

/// A file to be published.
#[derive(Debug)]
pub(crate) struct Draft {
    /// The name to publish it under.
    pub name: FileName,
    /// The file's path.
    pub path: PathBuf,
    /// What was read from the file.
    pub chunked: Chunked,
    /// How fresh its copies must be.
    pub policy: Policy,
}

/// The outcome of a draft.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Published {
    /// A new version, stored and not yet announced.
    New(VerifiedRecord),
    /// The bytes and the policy equal those of the version already published.
    Unchanged(VerifiedRecord),
}

impl Published {
    /// The version published now.
    pub(crate) const fn record(&self) -> &VerifiedRecord {
        match self {
            Self::New(record) | Self::Unchanged(record) => record,
        }
    }
}

/// The version that a draft becomes.
pub(super) enum Next {
    Same(VerifiedRecord),
    /// Not signed yet.
    New(Record),
}

impl Catalogue {
    /// Whether `name` may be published here: it is not a copy of another origin's file.
    ///
    /// # Errors
    /// `CopyOfOther`, or the entry of the name is damaged.
    pub(crate) fn may_publish(&self, name: &FileName) -> Result<(), CatalogueError> {
        match self.entry(name)?.filter(|known| !self.is_own(known)) {
            Some(other) => {
                Err(CatalogueError::CopyOfOther { name: name.clone(), origin: other.record.origin })
            }
            None => Ok(()),
        }
    }

    /// The average chunk length in bytes of the last version of `name` published here, if any. Blocking.
    ///
    /// # Errors
    /// The database failed.
    pub(crate) fn last_average(&self, name: &FileName) -> Result<Option<u32>, CatalogueError> {
        let noted = self.tables.average(name)?;
        // Older versions of the program did not store it; they derived it from the file's size.
        Ok(noted.or_else(|| self.get(name).map(|known| Cut::for_size(known.record.size).average)))
    }

    /// Gives each draft its version, signs them on all cores, and stores all in one transaction.
    /// Blocking.
    ///
    /// # Errors
    /// Nothing was stored and no version number was used.
    pub(crate) fn publish(&self, drafts: Vec<Draft>) -> Result<Vec<Published>, CatalogueError> {
        let _changing = self.changing.lock();
        let write = self.tables.begin()?;
        let records = drafts.iter().map(|draft| self.next_record(&write, draft));
        let records = records.collect::<Result<Vec<Next>, CatalogueError>>()?;
        let results = records.into_par_iter().map(|next| match next {
            Next::Same(record) => Ok(Published::Unchanged(record)),
            Next::New(record) => record.sign(&self.identity).map(Published::New),
        });
        let results = results.collect::<Result<Vec<Published>, RecordError>>()?;
        let mut entries = Vec::with_capacity(drafts.len());
        for (Draft { path, chunked, .. }, published) in drafts.into_iter().zip(&results) {
            let record = published.record().clone();
            write.set_average(&record.name, chunked.average)?;
            let (stamp, hashed_at_ns) = (chunked.stamp, chunked.hashed_at_ns);
            let entry = Entry { record, path, stamp, hashed_at_ns, newest: None, origin_addr: None };
            if entry.stores_manifest() {
                write.put_manifest(&entry.record.manifest, &chunked.manifest, &chunked.outboard)?;
            }
            entries.push(entry);
        }
        write.put_entries(&entries)?;
        self.tables.commit(write)?;
        Ok(results)
    }

    /// The version that `draft` becomes; takes a version number if it needs one.
    pub(super) fn next_record(&self, write: &Write<'_>, draft: &Draft) -> Result<Next, CatalogueError> {
        let Draft { name, chunked, policy, .. } = draft;
        self.may_publish(name)?;
        let known = self.get(name);
        let counter = write.version(name)?;
        let unchanged = known.filter(|known| {
            Some(known.record.version) == counter // otherwise the counter was raised past it
                && known.record.content == chunked.content
                && known.record.manifest == chunked.manifest_hash
                && known.record.policy == *policy
        });
        if let Some(known) = unchanged {
            return Ok(Next::Same(known.record.clone()));
        }
        let version = match counter {
            Some(last) => last.next().ok_or_else(|| CatalogueError::VersionsUsedUp(name.clone()))?,
            None => Version::FIRST,
        };
        write.set_version(name, version)?;
        Ok(Next::New(Record {
            origin: self.identity.id(),
            name: name.clone(),
            version,
            size: chunked.stamp.size(),
            content: chunked.content,
            manifest: chunked.manifest_hash,
            policy: *policy,
        }))
    }

    /// Makes the next version of `name` later than `seen`. This node's own signature on a later version than
    /// its counter shows that the counter was lost. Blocking.
    ///
    /// # Errors
    /// The counter is as before.
    pub(crate) fn raise_version(&self, name: &FileName, seen: Version) -> Result<(), CatalogueError> {
        let _changing = self.changing.lock();
        let write = self.tables.begin()?;
        if write.version(name)?.is_none_or(|last| last < seen) {
            write.set_version(name, seen)?;
        }
        self.tables.commit(write)
    }
}
