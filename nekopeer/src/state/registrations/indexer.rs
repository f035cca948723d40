//! What one indexer lists, and what it is to be told next.

use std::collections::{HashMap, HashSet, VecDeque};

use nekoproto::{FileName, VerifiedRecord};

use super::offer::Mark;

/// Number of a change to the table; later changes have larger numbers.
pub(crate) type Generation = u64;

/// One indexer.
#[derive(Debug, Default)]
pub(super) struct Indexer {
    pub(super) is_connected: bool,
    /// What it acknowledged over the current connection.
    pub(super) listed: HashMap<FileName, Listing>,
    /// Names in failed calls: the indexer may or may not have processed them.
    pub(super) unsure: HashSet<FileName>,
    pub(super) counted: usize,
    /// Changes not registered yet, the oldest first.
    pub(super) changes: VecDeque<(Generation, FileName)>,
    pub(super) waiting: HashSet<FileName>,
    /// Names left of a full registration, which started at generation `began`.
    pub(super) rest: Vec<FileName>,
    pub(super) began: Generation,
    /// The oldest generation in the batch taken last.
    pub(super) in_flight: Option<Generation>,
    /// The latest change that could not be registered.
    pub(super) failed: Generation,
}

#[derive(Debug)]
pub(super) struct Listing {
    pub(super) mark: Mark,
    pub(super) is_partial: bool,
    /// Whether the indexer counts it for the lease, as far as this peer knows.
    pub(super) counts: bool,
    /// Whether the indexer may have lost it since: it is to be registered again, or withdrawn.
    pub(super) may_be_lost: bool,
}

/// The next calls to an indexer: first the withdrawals, then the registrations.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Batch {
    pub(crate) withdraw: Vec<FileName>,
    pub(crate) held: Vec<VerifiedRecord>,
    pub(crate) news: Vec<VerifiedRecord>,
    pub(crate) partial: Vec<VerifiedRecord>,
    pub(super) names: Vec<(Generation, FileName)>,
}

impl Indexer {
    /// Adds to `batch` what this indexer needs for `name`, now `offered`; returns whether it needed anything.
    pub(super) fn plan(
        &self,
        name: &FileName,
        offered: Option<(VerifiedRecord, bool)>,
        is_news: impl Fn(&VerifiedRecord) -> bool,
        batch: &mut Batch,
    ) -> bool {
        let (listed, is_unsure) = (self.listed.get(name), self.unsure.contains(name));
        let Some((record, is_partial)) = offered else {
            let is_listed = listed.is_some() || is_unsure;
            if is_listed {
                batch.withdraw.push(name.clone());
            }
            return is_listed;
        };
        let (mark, is_news) = (Mark::of(&record), !is_partial && is_news(&record));
        let is_same =
            |listed: &Listing| !listed.may_be_lost && listed.mark == mark && listed.is_partial == is_partial;
        if !is_unsure && !is_news && listed.is_some_and(is_same) {
            return false;
        }
        let is_older = |listed: &Listing| listed.mark != mark && !mark.replaces(&listed.mark);
        if is_unsure || listed.is_some_and(is_older) {
            // An indexer does not replace a listing by an older version: withdraw it first.
            batch.withdraw.push(name.clone());
        }
        let kind = match (is_partial, is_news) {
            (true, _) => &mut batch.partial,
            (false, true) => &mut batch.news,
            (false, false) => &mut batch.held,
        };
        kind.push(record);
        true
    }
}
