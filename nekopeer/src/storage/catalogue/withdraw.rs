//! Withdrawing a name that was published here: its next version, which has no bytes and no file.

use std::{path::PathBuf, sync::Arc};

use nekoproto::{FileName, Record, VerifiedRecord, Version};
use redb::ReadableTableMetadata;

use super::{Catalogue, CatalogueError, Entry, schema::WITHDRAWN, write::Write};
use crate::content::stamp::{Stamp, now_ns};

/// Withdrawals that are kept and told of, some 400 bytes each. Beyond that the oldest are forgotten; their numbers are not.
pub(crate) const WITHDRAWALS_MAX: u64 = 65_536;

/// What became of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Gone {
    /// It was neither published nor held here.
    Unknown,
    /// A copy, or an entry that is damaged: it is not listed here any more.
    Forgotten,
    /// It was published here, and this version withdraws it.
    Withdrawn {
        /// Its last version.
        record: VerifiedRecord,
        /// The names of withdrawals that made room for it.
        oldest: Vec<FileName>,
    },
}

impl Catalogue {
    /// What this peer states of `name`: its entry, or the version that withdraws it, whose entry has neither a path nor
    /// a stamp.
    pub(crate) fn stated(&self, name: &FileName) -> Result<Option<Arc<Entry>>, CatalogueError> {
        Ok(self.tables.get(name.as_str())?.map(Arc::new))
    }

    /// As [`stated`](Self::stated). What is damaged is reported and counts as none.
    pub(crate) fn get_stated(&self, name: &FileName) -> Option<Arc<Entry>> {
        self.stated(name).unwrap_or_else(|error| {
            tracing::error!(%error, "a name is left out");
            None
        })
    }

    /// Withdraws `name` if it is published here, durably: the next version, pending like any other. A copy is removed.
    /// `before` is called before that changes anything, if anything does. Blocking.
    pub(crate) fn withdraw(&self, name: &FileName, before: impl Fn()) -> Result<Gone, CatalogueError> {
        self.withdraw_within(name, before, WITHDRAWALS_MAX)
    }

    /// The same, of at most `most` withdrawals.
    pub(super) fn withdraw_within(
        &self,
        name: &FileName,
        before: impl Fn(),
        most: u64,
    ) -> Result<Gone, CatalogueError> {
        if let Some(withdrawn) = self.withdraw_own(name, &before, most)? {
            return Ok(withdrawn);
        }
        let mut is_own = false;
        let is_removed = self.remove_if(name, |entry| {
            is_own = entry.is_some_and(|entry| self.is_own(entry)); // published meanwhile
            if !is_own {
                before();
            }
            !is_own
        })?;
        match (is_removed, is_own) {
            (true, _) => Ok(Gone::Forgotten),
            (false, true) => Err(CatalogueError::Overtaken(name.clone())),
            (false, false) => Ok(Gone::Unknown),
        }
    }

    /// The same of a name that is published here; `None` for any other.
    fn withdraw_own(
        &self,
        name: &FileName,
        before: impl Fn(),
        most: u64,
    ) -> Result<Option<Gone>, CatalogueError> {
        let write = self.tables.begin()?;
        let Some(entry) = self.get(name).filter(|entry| self.is_own(entry)) else { return Ok(None) };
        let newest = entry.newest.as_ref().map(|newest| newest.version);
        let last = write.version(name)?.max(self.above()?).max(newest).max(Some(entry.record.version));
        let version = last.and_then(Version::next);
        let version = version.ok_or_else(|| CatalogueError::VersionsUsedUp(name.clone()))?;
        let now_ms = u64::try_from(now_ns() / 1_000_000).unwrap_or_default();
        let terms = entry.record.policy;
        let record = Record::withdrawal(self.identity.id(), name.clone(), version, terms, now_ms);
        let record = record.sign(&self.identity)?;
        before();
        write.set_version(name, version)?;
        write.end_placing(std::iter::once(name))?;
        write.end_piped(std::iter::once(name))?;
        let oldest = write.forget_oldest_withdrawals(most.saturating_sub(1))?;
        self.commit_published(write, vec![record.clone()], vec![entry_of(record.clone())])?;
        if let Err(error) = self.trim_kept(name) {
            tracing::warn!(%error, "earlier versions stay on disk"); // until the name is held again
        }
        Ok(Some(Gone::Withdrawn { record, oldest }))
    }
}

impl Catalogue {
    /// Brings back withdrawals of names of which nothing is stated, to be told once more. Blocking.
    pub(crate) fn restore_withdrawals(&self, records: &[VerifiedRecord]) -> Result<(), CatalogueError> {
        let write = self.tables.begin()?;
        let most = usize::try_from(WITHDRAWALS_MAX).unwrap_or(usize::MAX);
        let is_lost = |record: &&VerifiedRecord| matches!(self.stated(&record.name), Ok(None));
        let lost: Vec<VerifiedRecord> = records.iter().filter(is_lost).take(most).cloned().collect();
        let entries = lost.iter().cloned().map(entry_of).collect();
        self.commit_published(write, lost, entries)
    }
}

/// The entry of a withdrawal.
fn entry_of(record: VerifiedRecord) -> Entry {
    let (path, stamp) = (PathBuf::new(), Stamp::default());
    Entry { record, path, stamp, hashed_at_ns: 0, newest: None, origin_addr: None }
}

impl Write<'_> {
    /// Removes the oldest withdrawals, so that at most `most` stay; returns their names.
    fn forget_oldest_withdrawals(&self, most: u64) -> Result<Vec<FileName>, CatalogueError> {
        let mut oldest = Vec::new();
        while self.with(WITHDRAWN, |table| table.len())? > most {
            let first = self
                .with(WITHDRAWN, |table| Ok(table.pop_first()?.map(|(key, _)| key.value().1.to_owned())))?;
            let Some(name) = first.and_then(|name| FileName::new(&name).ok()) else { break };
            self.remove_entry(&name)?;
            self.set_untold([(&name, None)].into_iter())?;
            oldest.push(name);
        }
        Ok(oldest)
    }
}
