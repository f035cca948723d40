//! Finds the names that words stand for: folders (`NAME/`), globs, and folders without their slash.

use std::{collections::HashSet, sync::Arc};

use nekoproto::FileName;

use super::{
    Word,
    pages::Pages,
    wanted::{Named, Pattern, Wanted},
};
use crate::{
    api::{Answer, Failure},
    download::Located,
    indexers::{Answer as SearchAnswer, via::Via},
    library::Library,
    peer::PeerHandle,
    storage::catalogue::ENTRIES_AT_ONCE,
};

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
        let found = found_there(peer, &pattern, (wanted.ttl_hops, via), answer).await?;
        if let Some(origin) = &pattern.origin {
            let of_origin = || Named { origin: origin.clone(), version: None };
            let mut chosen = found.iter().map(|(name, _)| wanted.choose(name.clone(), of_origin()));
            chosen.try_for_each(|chosen| chosen.map_err(Failure::conflict))?;
        }
        all.extend(found.into_iter().filter(|(name, _)| known.insert(name.clone())));
    }
    Ok(all)
}

/// The first names that match, and the pages of the others; a pattern that matches nothing is a name, if it can be one.
pub(in crate::api) async fn found_first(
    peer: &PeerHandle,
    pattern: &Pattern,
    network: (u8, &Via),
    answer: &Answer,
) -> Result<(Vec<Listed>, Option<Pages>), Failure> {
    let mut pages = Pages::of(peer, pattern, network, Some(answer))?;
    let first = match &mut pages {
        Some(pages) => pages.next().await?,
        None => Vec::new(),
    };
    match (first.is_empty(), FileName::new(&pattern.text)) {
        (false, _) => Ok((first.into_iter().map(|(name, answer)| (name, Some(answer))).collect(), pages)),
        (true, Ok(name)) => Ok((vec![(name, None)], None)),
        (true, Err(_)) => Err(nothing(&pattern.text, "search WORDS finds what is shared")),
    }
}

/// All of them.
pub(in crate::api) async fn found_there(
    peer: &PeerHandle,
    pattern: &Pattern,
    network: (u8, &Via),
    answer: &Answer,
) -> Result<Vec<Listed>, Failure> {
    let (mut all, pages) = found_first(peer, pattern, network, answer).await?;
    let others = all_of(pages).await?;
    all.extend(others.into_iter().map(|(name, answer)| (name, Some(answer))));
    Ok(all)
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
    pattern: &Pattern,
    among: Among<'_>,
    answer: Option<&Answer>,
) -> Result<Vec<Located>, Failure> {
    if let Among::Network(ttl_hops, via) = among {
        return all_of(Pages::of(peer, pattern, (ttl_hops, via), answer)?).await;
    }
    let origin = pattern.origin.clone();
    let names = match pattern.is_folder() {
        true => held(peer, pattern.text.clone(), origin, |_| true).await?,
        false => {
            let Some((_, matcher)) = pattern.search()? else { return Ok(Vec::new()) };
            let is_match = move |name: &FileName| matcher.matches(name.as_str().as_bytes(), false);
            held(peer, String::new(), origin, is_match).await?
        }
    };
    Ok(names.into_iter().map(|name| (name, SearchAnswer::default())).collect())
}

async fn all_of(pages: Option<Pages>) -> Result<Vec<Located>, Failure> {
    let (Some(mut pages), mut all) = (pages, Vec::new()) else { return Ok(Vec::new()) };
    loop {
        let page = pages.next().await?;
        if page.is_empty() {
            return Ok(all);
        }
        all.extend(page);
    }
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
