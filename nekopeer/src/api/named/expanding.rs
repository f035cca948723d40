//! Finds the names that folders and globs stand for.

use std::collections::HashSet;

use nekoindexer::state::find::Matcher;
use nekoproto::{FileName, IdDigits, Search, Term, Terms, limits::FOUND_MAX};

use super::wanted::{Named, Pattern, Wanted};
use crate::{
    api::{Answer, Failure, Reply},
    indexers::via::Via,
    peer::PeerHandle,
};

/// Names that the patterns of one command stand for at most.
const EXPANDED_MAX: usize = 100_000;

/// `names` and those that the patterns of `wanted` stand for, each once. A pattern that matches nothing is a name, if it can
/// be one.
pub(in crate::api) async fn expanded(
    peer: &PeerHandle,
    names: Vec<FileName>,
    (wanted, via): (&mut Wanted, &Via),
    answer: &Answer,
) -> Result<Vec<FileName>, Failure> {
    let mut known: HashSet<FileName> = names.iter().cloned().collect();
    let mut all = names;
    for pattern in wanted.patterns.clone() {
        let found = matching(peer, &pattern, (wanted.ttl_hops, via), answer).await?;
        let found = match (found.is_empty(), FileName::new(&pattern.text)) {
            (false, _) => found,
            (true, Ok(name)) => vec![name],
            (true, Err(_)) => return Err(Failure::missing(format!("nothing matches {}", pattern.text))),
        };
        if let Some(origin) = &pattern.origin {
            let of_origin = || Named { origin: origin.clone(), version: None };
            let mut chosen = found.iter().map(|name| wanted.choose(name.clone(), of_origin()));
            chosen.try_for_each(|chosen| chosen.map_err(Failure::conflict))?;
        }
        all.extend(found.into_iter().filter(|name| known.insert(name.clone())));
    }
    Ok(all)
}

/// The names that match, in order.
async fn matching(
    peer: &PeerHandle,
    Pattern { text: pattern, origin }: &Pattern,
    (ttl_hops, via): (u8, &Via),
    answer: &Answer,
) -> Result<Vec<FileName>, Failure> {
    let invalid = |why: String| Failure::invalid(format!("{pattern}: {why}"));
    let glob = if pattern.ends_with('/') { format!("{}**", escaped(pattern)) } else { pattern.clone() };
    let term = Term::new(&glob).map_err(|error| invalid(error.to_string()))?;
    let origin = origin.clone().map(IdDigits::try_from).transpose();
    let origin = origin.map_err(|error| invalid(error.to_string()))?;
    let search = Search { terms: Terms::first_of([term]), min_size: 0, published_from_ms: 0, origin };
    match Matcher::new(&search) {
        Err(_) if FileName::new(pattern).is_ok() => return Ok(Vec::new()), // a name such as `a]b[`
        matcher => drop(matcher.map_err(|error| invalid(error.to_string()))?),
    }
    let (mut names, mut after, mut is_complete) = (Vec::new(), None, true);
    loop {
        let found = peer.indexers.find(&search, after.as_ref(), FOUND_MAX, ttl_hops, via).await?;
        is_complete &= found.complete;
        after = found.next;
        let files = found.matches.into_iter().filter(|found| !found.record.is_withdrawal());
        names.extend(files.map(|found| found.record.name.clone()));
        names.dedup(); // one name of several origins
        if names.len() > EXPANDED_MAX {
            return Err(invalid(format!("more than {EXPANDED_MAX} names match")));
        }
        if after.is_none() {
            break;
        }
    }
    if !is_complete {
        let note = format!("note: not every indexer in reach answered: more may match {pattern}");
        drop(answer.0.send(Reply::Note(note)).await); // a caller that has left is noticed by the next row
    }
    Ok(names)
}

/// `text` as a glob that matches only itself.
pub(super) fn escaped(text: &str) -> String {
    text.replace(|c| "*?[]{},!\\".contains(c), "?")
}
