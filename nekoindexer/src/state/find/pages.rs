//! Pages of several indexers: each is checked, and all are merged by position.

use std::collections::BTreeMap;

use nekoproto::{
    FindReply, FindRequest, List, ListedHolder, ListedRecord, Position, SignedRecord, limits::HOLDERS_MAX,
};

use super::{Matcher, Page};
use crate::state::{
    holders::{Listed, add_holders},
    merge::Found,
};

/// A page that is not what was asked for; none of it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WrongPage {
    /// More hits than were asked for.
    #[error("the page is too long")]
    Length,
    /// The hits do not follow each other, or the place asked for, or the next page begins before the last of them.
    #[error("the hits are not in their order")]
    Order,
    /// A file that was not searched for.
    #[error("a hit does not match")]
    Foreign,
    /// A record that its origin did not sign. An honest indexer lists it, and shows it to nobody.
    #[error("a hit is not signed by its origin")]
    Forged,
}

/// The page in `reply` to `request`, none of which is believed before.
///
/// # Errors
/// It is not what was asked for.
pub fn checked(
    reply: FindReply,
    request: &FindRequest,
    matcher: &Matcher,
    verify: impl Fn(SignedRecord) -> Option<ListedRecord>,
    believed: impl Fn(List<ListedHolder, HOLDERS_MAX>) -> Vec<Listed>,
) -> Result<Page, WrongPage> {
    if reply.hits.len() > request.limit() {
        return Err(WrongPage::Length);
    }
    let mut last = request.after.clone();
    let mut found = Vec::with_capacity(reply.hits.len());
    for hit in reply.hits {
        let record = hit.record.unverified();
        let position = Position::of(record);
        if last.is_some_and(|last| position <= last) {
            return Err(WrongPage::Order);
        }
        let is_wanted = request.search.takes(&record.origin, record.size, record.published_ms);
        if !is_wanted || !matcher.matches(record.name.as_str().as_bytes(), false) {
            return Err(WrongPage::Foreign);
        }
        let record = verify(hit.record).ok_or(WrongPage::Forged)?;
        found.push(Found { record, holders: believed(hit.holders) });
        last = Some(position);
    }
    // It goes on behind the last hit, or with it, but not where it began.
    match &reply.next {
        Some(next) if request.after.as_ref().is_some_and(|after| next <= after) => Err(WrongPage::Order),
        Some(next) if last.is_some_and(|last| *next < last) => Err(WrongPage::Order),
        _ => Ok(Page { found, next: reply.next }),
    }
}

/// The first `limit` of the files on `pages`, as far as each of these goes. Of a file that is on several, the newest version counts, and of two under one number the one that all prefer.
#[must_use]
pub fn merged(pages: impl IntoIterator<Item = Page>, limit: usize) -> Page {
    let (mut files, mut end) = (BTreeMap::<Position, Found>::new(), None::<Position>);
    for page in pages {
        end = [end, page.next].into_iter().flatten().min();
        for found in page.found {
            match files.get_mut(&Position::of(&found.record)) {
                None => drop(files.insert(Position::of(&found.record), found)),
                Some(known) if found.record.replaces(&known.record) => *known = found,
                Some(known) if known.record.replaces(&found.record) => {}
                Some(known) if !found.record.contradicts(&known.record) => {
                    add_holders(&mut known.holders, found.holders);
                }
                Some(known) if found.record.outranks(&known.record) => *known = found,
                Some(_) => {}
            }
        }
    }
    Page::first_of(files, end, limit)
}

#[cfg(test)]
mod tests;
