//! [`Pages`]: a search of the network for the names that match a pattern, which asks the indexers for one page at a time.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use nekoindexer::state::find::Matcher;
use nekoproto::{
    FileName, IdDigits, Position, Search, Term, Terms,
    limits::{FOUND_MAX, LISTED_MAX, QUERY_DEADLINE_DEFAULT},
};

use super::{escaped, wanted::Pattern};
use crate::{
    api::{Answer, Failure, Reply},
    download::Located,
    indexers::{Answer as SearchAnswer, Found, Indexers, via::Via},
    peer::PeerHandle,
};

/// Names that one pattern stands for at most.
const EXPANDED_MAX: usize = 100_000;

/// A page that comes within this time, an eighth of what a query has, is followed by one that is so many times as long.
const QUICK_PAGE: Duration = Duration::from_millis(250);
const PAGES_GROW_BY: usize = 4;
const _: () = assert!(QUICK_PAGE.as_millis() * 8 <= QUERY_DEADLINE_DEFAULT.as_millis());

/// Invariant: each name is in one page, with all its origins.
#[derive(Debug)]
pub(in crate::api) struct Pages {
    indexers: Arc<Indexers>,
    pattern: Pattern,
    search: Search,
    ttl_hops: u8,
    via: Via,
    /// Who is told that not every indexer answered.
    answer: Option<Answer>,
    after: Option<Position>,
    is_over: bool,
    is_complete: bool,
    /// As long as the link to the indexers brings in time.
    page: usize,
    page_max: usize,
    listed: usize,
    /// The last name of a page, of which the next may list further origins.
    last: Option<Located>,
}

impl Pages {
    /// The pages of what matches `pattern` in reach. `None`: it matches nothing, and is a name at most, as `a]b[` is.
    pub(in crate::api) fn of(
        peer: &PeerHandle,
        pattern: &Pattern,
        (ttl_hops, via): (u8, &Via),
        answer: Option<&Answer>,
    ) -> Result<Option<Self>, Failure> {
        let Some((search, _)) = pattern.search()? else { return Ok(None) };
        Ok(Some(Self {
            indexers: Arc::clone(&peer.indexers),
            pattern: pattern.clone(),
            search,
            ttl_hops,
            via: via.clone(),
            answer: answer.cloned(),
            after: None,
            is_over: false,
            is_complete: true,
            page: FOUND_MAX,
            page_max: LISTED_MAX,
            listed: 0,
            last: None,
        }))
    }

    /// Further names that match, in order; none after the last. A page that did not come in time is asked for once more.
    pub(in crate::api) async fn next(&mut self) -> Result<Vec<Located>, Failure> {
        let (mut names, mut is_again) = (Vec::new(), false);
        while names.is_empty() && !self.is_over {
            let (began, after) = (Instant::now(), self.after.as_ref());
            let found = self.indexers.find(&self.search, after, self.page, self.ttl_hops, &self.via).await;
            // It was too long for the link, or the link was down for a moment.
            let is_lost = !is_again && began.elapsed() >= QUICK_PAGE;
            if found.is_err() && (self.page > FOUND_MAX || is_lost) {
                is_again |= self.page == FOUND_MAX;
                (self.page, self.page_max) = (FOUND_MAX, FOUND_MAX);
                continue;
            }
            if began.elapsed() < QUICK_PAGE {
                self.page = self.page_max.min(self.page * PAGES_GROW_BY);
            }
            names = self.by_name(found?);
            self.listed += names.len();
            if self.listed > EXPANDED_MAX {
                return Err(self.pattern.invalid(format!("more than {EXPANDED_MAX} names match")));
            }
        }
        if let (true, false, Some(answer)) = (self.is_over, self.is_complete, self.answer.take()) {
            let note =
                format!("note: not every indexer in reach answered: more may match {}", self.pattern.text);
            drop(answer.0.send(Reply::Note(note)).await); // a caller that has left is noticed by the next row
        }
        Ok(names)
    }

    fn by_name(&mut self, found: Found) -> Vec<Located> {
        let mut names: Vec<Located> = self.last.take().into_iter().collect();
        self.is_complete &= found.complete;
        for file in found.matches.into_iter().filter(|found| !found.record.is_withdrawal()) {
            match names.last_mut().filter(|(name, _)| *name == file.record.name) {
                Some((_, of_others)) => of_others.candidates.push(file),
                None => {
                    let (complete, guests_unheard) = (found.complete, found.guests_unheard);
                    let (name, candidates) = (file.record.name.clone(), vec![file]);
                    let withdrawn = Vec::new();
                    names.push((name, SearchAnswer { candidates, withdrawn, complete, guests_unheard }));
                }
            }
        }
        (self.is_over, self.after) = (found.next.is_none(), found.next);
        if !self.is_over {
            self.last = names.pop();
        }
        // A folder's name may have signs that the glob could only guess.
        if self.pattern.is_folder() {
            names.retain(|(name, _)| name.as_str().starts_with(&self.pattern.text));
        }
        names
    }
}

impl Pattern {
    pub(super) fn is_folder(&self) -> bool {
        self.text.ends_with('/')
    }

    /// What is searched for, and what matches it; none for a name that is no glob.
    pub(super) fn search(&self) -> Result<Option<(Search, Matcher)>, Failure> {
        let glob = match self.is_folder() {
            true => format!("{}**", escaped(&self.text)),
            false => self.text.clone(),
        };
        let term = Term::new(&glob).map_err(|error| self.invalid(error.to_string()))?;
        let origin = self.origin.clone().map(IdDigits::try_from).transpose();
        let origin = origin.map_err(|error| self.invalid(error.to_string()))?;
        let search = Search { terms: Terms::first_of([term]), min_size: 0, published_from_ms: 0, origin };
        match Matcher::new(&search) {
            Err(_) if FileName::new(&self.text).is_ok() => Ok(None),
            Err(error) => Err(self.invalid(error.to_string())),
            Ok(matcher) => Ok(Some((search, matcher))),
        }
    }

    fn invalid(&self, why: String) -> Failure {
        Failure::invalid(format!("{}: {why}", self.text))
    }
}
