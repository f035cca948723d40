//! Withdrawing a name that was published here: its next version, which has no bytes and no file.

use std::{collections::HashSet, path::PathBuf, sync::Arc};

use nekoproto::{FileName, Record, VerifiedRecord};
use redb::ReadableTable;

use super::{
    Catalogue, Entry, error::versions_used_up, or_report, row::kind, schema::INDEX, untold::UNTOLD,
    write::Write,
};
use crate::{
    content::stamp::{Stamp, now_ns},
    failure::Failure,
};

/// Withdrawals that are kept and told of, some 400 bytes each. Beyond that the oldest are forgotten; their numbers are not.
pub(crate) const WITHDRAWALS_MAX: usize = 65_536;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Withdrawal {
    /// The user named it: it stays unshared until it is named again.
    Named,
    /// Its file is gone: it is shared again when that is back.
    FileGone,
}

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
    /// What this peer states of `name`: its entry, or the version that withdraws it, whose entry has no stamp, and a path
    /// only if the file is gone from there.
    pub(crate) fn stated(&self, name: &FileName) -> Result<Option<Arc<Entry>>, Failure> {
        Ok(self.tables.get(name.as_str())?.map(Arc::new))
    }

    /// As [`stated`](Self::stated). What is damaged is reported and counts as none.
    pub(crate) fn get_stated(&self, name: &FileName) -> Option<Arc<Entry>> {
        or_report(self.stated(name), "a name is left out")
    }

    /// Withdraws those of `names` that are published here, durably and in one transaction: the next version of each, pending
    /// like any other, of at most `most`, mostly [`WITHDRAWALS_MAX`]. Copies are removed. `before` is called before that
    /// changes anything of a name, if anything does. A number that is used up is an error of its name alone. Blocking.
    pub(crate) fn withdraw(
        &self,
        names: &[FileName],
        why: Withdrawal,
        most: usize,
        before: impl Fn(&FileName),
    ) -> Result<Vec<Result<Gone, Failure>>, Failure> {
        let write = self.tables.begin()?;
        let now_ms = u64::try_from(now_ns() / 1_000_000).unwrap_or_default();
        let (mut seen, mut entries) = (HashSet::with_capacity(names.len()), Vec::new());
        let withdraw = |name| {
            if !seen.insert(name) {
                return Ok(Ok(Gone::Unknown)); // it is gone by then
            }
            let entry = self.get(name);
            let Some(entry) = entry.as_ref().filter(|entry| self.is_own(entry)) else {
                let is_removed = self.forget_entry(&write, name, entry.as_deref())?;
                return Ok(Ok(if is_removed { Gone::Forgotten } else { Gone::Unknown }));
            };
            let Some(version) = self.next_number(entry, None)? else {
                return Ok(Err(versions_used_up(name)));
            };
            let terms = entry.record.policy;
            let record = Record::withdrawal(self.identity.id(), name.clone(), version, terms, now_ms);
            let record = record.sign(&self.identity)?;
            let path = if why == Withdrawal::FileGone { entry.path.clone() } else { PathBuf::new() };
            entries.push(entry_of(record.clone(), path));
            Ok(Ok(Gone::Withdrawn { record, oldest: Vec::new() }))
        };
        let mut gone = names.iter().map(withdraw).collect::<Result<Vec<_>, Failure>>()?;
        let is_gone = |gone: &Result<Gone, _>| gone.as_ref().is_ok_and(|gone| *gone != Gone::Unknown);
        let changed: Vec<&FileName> =
            names.iter().zip(&gone).filter(|(_, gone)| is_gone(gone)).map(|(name, _)| name).collect();
        if changed.is_empty() {
            return Ok(gone);
        }
        changed.iter().for_each(|name| before(name));
        write.end_placing(changed.iter().copied())?;
        let mut oldest = write.forget_oldest_withdrawals(most.saturating_sub(entries.len()))?;
        self.commit_published(write, entries, Vec::new())?;
        changed.into_iter().for_each(|name| self.end_of(name));
        if let Some(Gone::Withdrawn { oldest: made_room, .. }) =
            gone.iter_mut().flatten().find(|gone| matches!(gone, Gone::Withdrawn { .. }))
        {
            made_room.append(&mut oldest);
        }
        Ok(gone)
    }

    /// Removes what else is here of a name that is not stated any more.
    pub(super) fn end_of(&self, name: &FileName) {
        self.noted.lock().remove(name);
        or_report(self.trim_kept(name), "earlier versions stay on disk"); // until the name is held again
    }

    /// Removes `entry`, that of `name`, also if it is damaged; whether there was one.
    pub(super) fn forget_entry(
        &self,
        write: &Write<'_>,
        name: &FileName,
        entry: Option<&Entry>,
    ) -> Result<bool, Failure> {
        let is_withdrawn = entry.is_none() && self.stated(name).is_ok_and(|stated| stated.is_some());
        if is_withdrawn || !write.remove_entry(name)? {
            return Ok(false);
        }
        if let Some(copy) = entry.filter(|entry| !self.is_own(entry)) {
            write.put_floor(copy.clone())?;
        }
        write.remove(UNTOLD, [name.as_str()])?;
        Ok(true)
    }

    /// Brings back withdrawals of names of which nothing is stated, to be told once more. Blocking.
    pub(crate) fn restore_withdrawals(&self, records: &[VerifiedRecord]) -> Result<(), Failure> {
        let write = self.tables.begin()?;
        let is_lost = |record: &&VerifiedRecord| matches!(self.stated(&record.name), Ok(None));
        let lost = records.iter().filter(is_lost).take(WITHDRAWALS_MAX);
        // Why is not known: rather unshared than shared against the user's will.
        let entries = lost.map(|record| entry_of(record.clone(), PathBuf::new())).collect();
        self.commit_published(write, entries, Vec::new())
    }
}

fn entry_of(record: VerifiedRecord, path: PathBuf) -> Entry {
    Entry { record, path, stamp: Stamp::default(), hashed_at_ns: 0, newest: None, origin_addr: None }
}

impl Write<'_> {
    /// Removes the oldest withdrawals, so that at most `most` stay; returns their names.
    fn forget_oldest_withdrawals(&self, most: usize) -> Result<Vec<FileName>, Failure> {
        let oldest = self.with(INDEX, |index| {
            let withdrawn = || index.range((kind::WITHDRAWN, 0, "")..(kind::WITHDRAWN + 1, 0, ""));
            let superfluous = withdrawn()?.count().saturating_sub(most);
            let names = withdrawn()?.take(superfluous).map(|row| Ok(FileName::new(row?.0.value().2).ok()));
            names.filter_map(Result::transpose).collect::<Result<Vec<_>, _>>()
        })?;
        oldest.iter().try_for_each(|name| self.remove_entry(name).map(drop))?;
        self.remove(UNTOLD, oldest.iter().map(FileName::as_str))?;
        Ok(oldest)
    }
}
