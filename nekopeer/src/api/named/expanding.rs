//! Finds the names that words stand for: folders (`NAME/`), globs, and folders without their slash.

use std::{
    collections::HashSet,
    sync::Arc,
    time::{Duration, Instant},
};

use nekoindexer::state::find::Matcher;
use nekoproto::{
    FileName, IdDigits, Search, Term, Terms,
    limits::{FOUND_MAX, LISTED_MAX, QUERY_DEADLINE_DEFAULT},
};

use super::{
    Word,
    wanted::{Named, Pattern, Wanted},
};
use crate::{
    api::{Answer, Failure, Reply},
    indexers::{Answer as SearchAnswer, via::Via},
    library::Library,
    peer::PeerHandle,
    storage::catalogue::ENTRIES_AT_ONCE,
};

/// Names that the patterns of one command stand for at most.
const EXPANDED_MAX: usize = 100_000;

/// A page that comes within this time, an eighth of what a query has, is followed by one that is so many times as long.
const QUICK_PAGE: Duration = Duration::from_millis(250);
const PAGES_GROW_BY: usize = 4;
const _: () = assert!(QUICK_PAGE.as_millis() * 8 <= QUERY_DEADLINE_DEFAULT.as_millis());

#[derive(Clone, Copy, Debug)]
pub(in crate::api) enum Among<'a> {
    /// At the own indexers and these, and those within so many hops.
    Network(u8, &'a Via),
    Here,
}

/// A name, and what was found of it, if it was looked for.
pub(in crate::api) type Listed = (FileName, Option<SearchAnswer>);

/// `names` and those that the patterns of `wanted` stand for, each once.
pub(in crate::api) async fn expanded(
    peer: &PeerHandle,
    names: Vec<FileName>,
    (wanted, via): (&mut Wanted, &Via),
    answer: &Answer,
) -> Result<Vec<Listed>, Failure> {
    let mut known: HashSet<FileName> = names.iter().cloned().collect();
    let mut all: Vec<Listed> = names.into_iter().map(|name| (name, None)).collect();
    for pattern in wanted.patterns.clone() {
        let found = found_there(peer, &pattern, Among::Network(wanted.ttl_hops, via), answer).await?;
        if let Some(origin) = &pattern.origin {
            let of_origin = || Named { origin: origin.clone(), version: None };
            let mut chosen = found.iter().map(|(name, _)| wanted.choose(name.clone(), of_origin()));
            chosen.try_for_each(|chosen| chosen.map_err(Failure::conflict))?;
        }
        all.extend(found.into_iter().filter(|(name, _)| known.insert(name.clone())));
    }
    Ok(all)
}

/// The names that match; a pattern that matches nothing is a name, if it can be one.
pub(in crate::api) async fn found_there(
    peer: &PeerHandle,
    pattern: &Pattern,
    among: Among<'_>,
    answer: &Answer,
) -> Result<Vec<Listed>, Failure> {
    let found = matched(peer, pattern, among, Some(answer)).await?;
    match (found.is_empty(), FileName::new(&pattern.text)) {
        (false, _) => Ok(found.into_iter().map(|(name, answer)| (name, Some(answer))).collect()),
        (true, Ok(name)) => Ok(vec![(name, None)]),
        (true, Err(_)) => Err(nothing(&pattern.text, "search WORDS finds what is shared")),
    }
}

/// The names that `words` stand for, each once: a name that is here, or else what is below the folder of that name or
/// matches, here and `elsewhere`. A name that is neither stays, for the command to say what is wrong with it.
pub(in crate::api) async fn found_here(
    peer: &PeerHandle,
    words: Vec<Word>,
    elsewhere: Option<Among<'_>>,
    answer: &Answer,
) -> Result<Vec<FileName>, Failure> {
    let (mut known, mut all) = (HashSet::new(), Vec::new());
    for word in words {
        let text = match &word {
            Word::Wrong(why) => return Err(Failure::invalid(why.clone())),
            word => word.text(),
        };
        let name = FileName::new(&text).ok();
        if let Some(name) = name.clone().filter(|name| peer.library.catalogue.get(name).is_some()) {
            all.extend(Some(name).filter(|name| known.insert(name.clone())));
            continue;
        }
        let pattern = word.pattern();
        let mut found = matching(peer, &pattern, Among::Here, None).await?;
        if let Some(elsewhere) = elsewhere {
            match matching(peer, &pattern, elsewhere, Some(answer)).await {
                Ok(more) => found.extend(more),
                Err(error) if found.is_empty() && name.is_none() => return Err(error),
                Err(_) => {} // what is here is enough
            }
        }
        match (found.is_empty(), word.name().is_some(), name) {
            (true, true, Some(name)) => found.push(name),
            (true, _, _) => return Err(nothing(&text, "ls lists what is here")),
            _ => {}
        }
        all.extend(found.into_iter().filter(|name| known.insert(name.clone())));
    }
    Ok(all)
}

fn nothing(text: &str, help: &str) -> Failure {
    let what = if text.ends_with('/') { "is below" } else { "matches" };
    Failure::missing(format!("nothing {what} {text}: nekopeer {help}"))
}

/// The names that match, in order; that more may is told to `answer`.
pub(in crate::api) async fn matching(
    peer: &PeerHandle,
    pattern: &Pattern,
    among: Among<'_>,
    answer: Option<&Answer>,
) -> Result<Vec<FileName>, Failure> {
    Ok(matched(peer, pattern, among, answer).await?.into_iter().map(|(name, _)| name).collect())
}

/// The same, with what the network knows of each.
pub(in crate::api) async fn matched(
    peer: &PeerHandle,
    Pattern { text: pattern, origin }: &Pattern,
    among: Among<'_>,
    answer: Option<&Answer>,
) -> Result<Vec<(FileName, SearchAnswer)>, Failure> {
    let invalid = |why: String| Failure::invalid(format!("{pattern}: {why}"));
    let folder = pattern.ends_with('/').then(|| pattern.clone());
    if let (Among::Here, Some(folder)) = (among, folder.clone()) {
        return Ok(unknown(held(peer, folder, origin.clone(), |_| true).await?));
    }
    let glob = folder.as_ref().map_or_else(|| pattern.clone(), |folder| format!("{}**", escaped(folder)));
    let term = Term::new(&glob).map_err(|error| invalid(error.to_string()))?;
    let digits = origin.clone().map(IdDigits::try_from).transpose();
    let digits = digits.map_err(|error| invalid(error.to_string()))?;
    let search = Search { terms: Terms::first_of([term]), min_size: 0, published_from_ms: 0, origin: digits };
    let matcher = match Matcher::new(&search) {
        Err(_) if FileName::new(pattern).is_ok() => return Ok(Vec::new()), // a name such as `a]b[`
        matcher => matcher.map_err(|error| invalid(error.to_string()))?,
    };
    let Among::Network(ttl_hops, via) = among else {
        let is_match = move |name: &FileName| matcher.matches(name.as_str().as_bytes(), false);
        return Ok(unknown(held(peer, String::new(), origin.clone(), is_match).await?));
    };
    let (mut all, mut after, mut is_complete) = (Vec::<(FileName, SearchAnswer)>::new(), None, true);
    // As long as the link to the indexers brings in time.
    let (mut page, mut page_max) = (FOUND_MAX, LISTED_MAX);
    loop {
        let began = Instant::now();
        let found = match peer.indexers.find(&search, after.as_ref(), page, ttl_hops, via).await {
            Err(_) if page > FOUND_MAX => {
                (page, page_max) = (FOUND_MAX, FOUND_MAX);
                continue;
            }
            found => found?,
        };
        if began.elapsed() < QUICK_PAGE {
            page = page_max.min(page * PAGES_GROW_BY);
        }
        is_complete &= found.complete;
        after = found.next;
        for file in found.matches.into_iter().filter(|found| !found.record.is_withdrawal()) {
            match all.last_mut().filter(|(name, _)| *name == file.record.name) {
                Some((_, of_others)) => of_others.candidates.push(file),
                None => {
                    let (complete, guests_unheard) = (found.complete, found.guests_unheard);
                    let name = file.record.name.clone();
                    let answer = SearchAnswer {
                        candidates: vec![file],
                        complete,
                        guests_unheard,
                        ..SearchAnswer::default()
                    };
                    all.push((name, answer));
                }
            }
        }
        if all.len() > EXPANDED_MAX {
            return Err(invalid(format!("more than {EXPANDED_MAX} names match")));
        }
        if after.is_none() {
            break;
        }
    }
    // A folder's name may have signs that the glob could only guess.
    all.retain(|(name, _)| folder.as_ref().is_none_or(|folder| name.as_str().starts_with(folder)));
    if let (false, Some(answer)) = (is_complete, answer) {
        let note = format!("note: not every indexer in reach answered: more may match {pattern}");
        drop(answer.0.send(Reply::Note(note)).await); // a caller that has left is noticed by the next row
    }
    Ok(all)
}

fn unknown(names: Vec<FileName>) -> Vec<(FileName, SearchAnswer)> {
    names.into_iter().map(|name| (name, SearchAnswer::default())).collect()
}

async fn held(
    peer: &PeerHandle,
    start: String,
    origin: Option<String>,
    is_match: impl Fn(&FileName) -> bool + Send + 'static,
) -> Result<Vec<FileName>, Failure> {
    let look = move |library: &Arc<Library>| {
        let (mut found, mut last) = (Vec::new(), start.clone());
        loop {
            let mut names = library.catalogue.names_after(&last, ENTRIES_AT_ONCE)?;
            let Some(end) = names.last().map(|name| name.as_str().to_owned()) else { return Ok(found) };
            // A name that was withdrawn has no entry.
            let is_held = |name: &FileName| {
                let entry = library.catalogue.get(name);
                let digits = origin.as_deref().unwrap_or_default();
                entry.is_some_and(|entry| entry.record.origin.to_string().starts_with(digits))
            };
            names.retain(|name| name.as_str().starts_with(&start) && is_match(name) && is_held(name));
            found.extend(names);
            if !end.starts_with(&start) {
                return Ok(found);
            }
            last = end;
        }
    };
    peer.library.blocking(look).await
}

/// `text` as a glob that matches only itself.
pub(super) fn escaped(text: &str) -> String {
    text.replace(|c| "*?[]{},!\\".contains(c), "?")
}
