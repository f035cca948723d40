//! [`Finding`]: what a search by name or pattern looks for, from the words of a user; and carrying it out.

use nekoindexer::state::find::Matcher;
use nekoproto::{
    FileName, IdDigits, Position, Search, Term, Terms,
    limits::{FOUND_MAX, TERMS_MAX, TTL_DEFAULT},
};
use serde::{Deserialize, Serialize};

use super::{Answer, Done, Failure, MatchRow, Outcome, named::split};
use crate::{library::status::FileStatus, peer::PeerHandle, state::choice::Candidate};

/// Matches of one search unless another number is asked for.
pub(crate) const MATCHES_DEFAULT: u32 = 50;
/// The largest number of matches of one search.
pub(crate) const MATCHES_MAX: u32 = 10_000;

/// A search by name or pattern.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Finding {
    search: Search,
    /// Only files behind this place.
    after: Option<Position>,
    limit: u32,
    ttl_hops: u8,
}

/// What is wanted of the files beside their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Filters {
    /// The least size in bytes.
    pub(crate) min_size: u64,
    /// The earliest time of publication, in milliseconds since 1970.
    pub(crate) published_from_ms: u64,
    /// The first digits of the origin's id, in any case.
    pub(crate) origin: Option<String>,
}

/// Which part of the matches is wanted, and how far they are looked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Part {
    /// Hops beyond the own indexers; as many as of a query if nothing is said.
    pub(crate) ttl_hops: Option<u8>,
    /// At most this many matches.
    pub(crate) limit: Option<u32>,
    /// Where the part before ended.
    pub(crate) after: Option<Position>,
}

impl Finding {
    /// A search for these words and globs, all of which must match.
    pub(crate) fn new(words: &[String], filters: Filters, part: Part) -> Result<Self, String> {
        if words.len() > TERMS_MAX {
            return Err(format!("a search has at most {TERMS_MAX} terms"));
        }
        let named = match words {
            [word] if filters.origin.is_none() => FileName::new(word).ok().as_ref().map(split),
            _ => None,
        };
        let (words, origin) = match named {
            Some((name, origin @ Some(_))) => (vec![name.to_string()], origin), // NAME@ID
            _ => (words.to_vec(), filters.origin.clone()),
        };
        let term = |word: &String| Term::new(word).map_err(|error| format!("'{word}': {error}"));
        let terms = words.iter().map(term).collect::<Result<Vec<_>, _>>()?;
        let Filters { min_size, published_from_ms, .. } = filters;
        let origin = origin.map(|digits| IdDigits::try_from(digits.to_ascii_lowercase()));
        let origin = origin.transpose().map_err(|error| error.to_string())?;
        let is_plain = min_size == 0 && published_from_ms == 0 && origin.is_none();
        if terms.is_empty() && is_plain {
            return Err("say what to look for: a name, words, a glob or a filter".to_owned());
        }
        let search = Search { terms: Terms::first_of(terms), min_size, published_from_ms, origin };
        Matcher::new(&search).map_err(|error| error.to_string().replace("error parsing glob", "the glob"))?;
        let limit = part.limit.unwrap_or(MATCHES_DEFAULT).clamp(1, MATCHES_MAX);
        Ok(Self { search, after: part.after, limit, ttl_hops: part.ttl_hops.unwrap_or(TTL_DEFAULT) })
    }

    /// Whether it goes no further than the own indexers.
    pub(crate) const fn is_for_own_indexers(&self) -> bool {
        self.ttl_hops == 0
    }

    /// The terms, for a user.
    pub(crate) fn text(&self) -> String {
        self.search.terms.iter().map(Term::as_str).collect::<Vec<_>>().join(" ")
    }
}

/// Answers with a row for each match, by name, and where further ones begin.
pub(super) async fn find(peer: &PeerHandle, finding: Finding, answer: &Answer) -> Result<Done, Failure> {
    let name = finding.text();
    let ended = |found: usize, complete: bool, next: Option<Position>| {
        let outcome = if found > 0 { Outcome::All } else { Outcome::NotFound };
        let next = next.map(|next| next.to_string());
        Done::with(outcome, &serde_json::json!({ "name": name, "complete": complete, "next": next }))
    };
    let Finding { search, mut after, limit, ttl_hops } = finding;
    let mut complete = true;
    let (mut left, mut shown) = (limit as usize, 0);
    let next = loop {
        let found = peer.find(&search, after.as_ref(), left.min(FOUND_MAX), ttl_hops).await?;
        complete &= found.complete;
        left = left.saturating_sub(found.matches.len());
        after = found.matches.last().map(|found| Position::of(&found.record));
        let files = found.matches.into_iter().filter(|found| !found.record.is_withdrawal());
        shown += show(peer, files.collect(), answer).await?;
        if !found.more || after.is_none() {
            break None;
        }
        if left == 0 {
            break after;
        }
    };
    Ok(ended(shown, complete, next))
}

async fn show(peer: &PeerHandle, matches: Vec<Candidate>, answer: &Answer) -> Result<usize, Failure> {
    let names = matches.iter().map(|found| found.record.name.clone()).collect();
    let held = peer.held(names).await;
    let row = |(found, held): (&Candidate, Option<FileStatus>)| {
        let held = held.filter(|held| held.record.origin == found.record.origin);
        MatchRow::of(found, held.as_ref())
    };
    answer.rows_of(matches.iter().zip(held), row).await?;
    Ok(matches.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(words: &[&str], filters: Filters, part: Part) -> Result<Finding, String> {
        Finding::new(&words.iter().map(ToString::to_string).collect::<Vec<_>>(), filters, part)
    }

    #[test]
    fn search_goes_as_far_as_a_query_unless_told() {
        let far = |words: &[&str], ttl_hops| {
            finding(words, Filters::default(), Part { ttl_hops, ..Part::default() }).unwrap().ttl_hops
        };
        assert_eq!(far(&["a.bin"], None), TTL_DEFAULT);
        assert_eq!([Some(0), Some(2)].map(|hops| far(&["*.bin"], hops)), [0, 2]);
        assert!(finding(&[], Filters { min_size: 1, ..Filters::default() }, Part::default()).is_ok());
    }

    #[test]
    fn what_cannot_be_searched_for_is_said() {
        let said = |words: &[&str], origin: Option<&str>| {
            let filters = Filters { origin: origin.map(str::to_owned), ..Filters::default() };
            finding(words, filters, Part::default()).unwrap_err()
        };
        for (words, origin, part) in [
            (&["[a"][..], None, "[a"),
            (&[], None, "glob"),
            (&["a\n"], None, "control"),
            (&["a"; TERMS_MAX + 1], None, "at most 16"),
            (&["a"], Some("xyz"), "hexadecimal"),
        ] {
            assert!(said(words, origin).contains(part), "{words:?}");
        }
    }
}
