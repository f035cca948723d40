//! Looking through all names: searches by pattern, and the upkeep of the log that they read.

use std::{hash::BuildHasher, ops::ControlFlow, time::Instant};

use nekoproto::{PackedRecord, Position, Search};

use super::{Index, entry::Entry, name_hash::NameHash};
use crate::state::find::{Collecting, Matcher, Pace, Page, WHOLE};

/// What it takes to compare a name with a pattern, if to pass one over takes 1.
const COMPARED: usize = 64;

/// Memory of this many times the names is given back, from some on.
const SPARSE: usize = 4;
const SPARSE_FROM: usize = 64 * 1024;

impl<S: BuildHasher> Index<S> {
    /// The first `limit` files behind `after` that match and have holders whose lease runs. Looks at every name, some tens
    /// of nanoseconds each; for those that match it takes the read lock of a lookup. It asks now and then how much of its
    /// time is `spent`, in parts of [`WHOLE`]: if that is too much, the page ends earlier. Blocking.
    ///
    /// # Errors
    /// All is spent: names are missing anywhere on the page.
    pub fn find(
        &self,
        search: &Search,
        matcher: &Matcher,
        after: Option<&Position>,
        limit: usize,
        now: Instant,
        spent: impl Fn() -> u32,
    ) -> Result<Page, Page> {
        let (now_ms, mut page) = (self.millis(now), Collecting::new(after, limit));
        let (mut pace, mut is_over) = (Pace::default(), false);
        let at_once = matcher.names_at_once() * COMPARED;
        let mut left = at_once;
        self.log.each(matcher.needle(), |name, is_ascii, done| {
            let is_compared = pace.takes(name) && page.may_take(name);
            left = left.saturating_sub(if is_compared { COMPARED } else { 1 });
            if left == 0 {
                let spent = spent();
                is_over = spent >= WHOLE;
                if is_over {
                    return ControlFlow::Break(());
                }
                left = at_once;
                if is_compared && after.is_none_or(|after| name > after.name.as_str().as_bytes()) {
                    pace.keep(name, spent, done);
                }
            }
            if !is_compared || !matcher.matches(name, is_ascii) {
                return ControlFlow::Continue(());
            }
            let mut look = |entry: &Entry| {
                entry.each(now_ms, |record, found| {
                    let (size, published_ms) = record.size_and_time();
                    let is_wanted = record.name_bytes() == name
                        && page.takes(name, record.origin())
                        && search.takes(record.origin(), size, published_ms);
                    if let Some(found) = is_wanted.then(found).flatten() {
                        page.add(found);
                    }
                });
            };
            self.entries.view(&NameHash::of(name, &self.hash_key), |_, entry| look(entry));
            ControlFlow::Continue(())
        });
        let page = page.finish(pace.next().filter(|_| !is_over));
        if is_over { Err(page) } else { Ok(page) }
    }

    /// Drops the names that are gone from the log that searches read, once there are many, and gives back the memory that
    /// the table has for many more names than there are. Takes some hundred nanoseconds for each name. Blocking.
    pub fn renew_log(&self) {
        if self.entries.capacity() > SPARSE * self.entries.len().max(SPARSE_FROM) {
            self.entries.shrink_to_fit();
        }
        if self.log.is_worn() {
            self.log.begin_rebuild();
            let mut names = Vec::new();
            for entry in &self.entries {
                names.extend(entry.records().cloned());
            }
            names.dedup_by(|one, other| one.name_bytes() == other.name_bytes());
            self.log.end_rebuild(names.iter().map(PackedRecord::name_bytes));
        }
    }
}
