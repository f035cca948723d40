//! `NAME@ORIGIN`: the file of one origin under a name, by the first digits of its id.
//!
//! Names may contain `@`. What follows the last one counts as an origin if it is 6 to 64 hexadecimal digits and such
//! an origin offers or offered the name before it; otherwise the whole is the name. The origin goes first so that
//! nobody can stand in for it by publishing a file whose name ends like that.

use std::sync::Arc;

use nekoproto::FileName;

use super::{Failure, Wanted, wanted::Named};
use crate::{
    download::DownloadOptions,
    indexers::{Answer, SearchError, via::Via},
    peer::PeerHandle,
};

/// Digits of an origin after `@`: fewer would be part of many names.
const DIGITS_MIN: usize = 6;
const DIGITS_MAX: usize = 64;

/// The name and the digits of `NAME@DIGITS`.
fn split(whole: &FileName) -> Option<(FileName, String)> {
    let (name, digits) = whole.as_str().rsplit_once('@')?;
    let is_origin = (DIGITS_MIN..=DIGITS_MAX).contains(&digits.len())
        && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    Some((FileName::new(name).ok().filter(|_| is_origin)?, digits.to_ascii_lowercase()))
}

/// Takes the origins off `names`, and puts them into `wanted`.
pub(super) async fn resolve(
    peer: &PeerHandle,
    names: Vec<FileName>,
    wanted: &mut Wanted,
    via: &Via,
) -> Result<Vec<FileName>, Failure> {
    let splits: Vec<_> = names.iter().map(|name| split(name).filter(|_| wanted.of(name).is_none())).collect();
    let bare: Vec<FileName> = splits.iter().flatten().map(|(bare, _)| bare.clone()).collect();
    if bare.is_empty() {
        return Ok(names);
    }
    // Where nobody can be asked, what is held here decides.
    let answers = peer.query_via(&bare, wanted.ttl_hops, via).await.unwrap_or_default();
    let mut answers = answers.into_iter();
    let mut resolved = Vec::with_capacity(names.len());
    for (whole, split) in names.into_iter().zip(splits) {
        let Some((name, origin)) = split else {
            resolved.push(whole);
            continue;
        };
        let found = of_origin(answers.next().unwrap_or_default(), &origin);
        let is_held =
            peer.held_record(&name).is_some_and(|held| held.origin.to_string().starts_with(&origin));
        if found.candidates.is_empty() && !is_held && is_there(peer, &whole, wanted.ttl_hops, via).await {
            resolved.push(whole);
        } else {
            wanted.choose(name.clone(), Named { origin, version: None }).map_err(Failure::new)?;
            resolved.push(name);
        }
    }
    Ok(resolved)
}

async fn is_there(peer: &PeerHandle, name: &FileName, ttl_hops: u8, via: &Via) -> bool {
    let asked = async {
        let answers = peer.query_via(std::slice::from_ref(name), ttl_hops, via).await.unwrap_or_default();
        answers.iter().any(|answer| !answer.candidates.is_empty())
    };
    peer.held_record(name).is_some() || asked.await
}

/// The answer to each of `names`, from the own indexers or those within `ttl_hops`: of `NAME@ORIGIN` the hits of that
/// origin, unless it offers nothing and there is a file with the whole as its name.
pub(super) async fn search(
    peer: &PeerHandle,
    names: &[FileName],
    ttl_hops: Option<u8>,
) -> Result<Vec<Answer>, SearchError> {
    let mut answers = search_whole(peer, names, ttl_hops).await?;
    let splits: Vec<_> = names.iter().map(split).collect();
    let bare: Vec<FileName> = splits.iter().flatten().map(|(bare, _)| bare.clone()).collect();
    if bare.is_empty() {
        return Ok(answers);
    }
    let mut of_bare = search_whole(peer, &bare, ttl_hops).await?.into_iter();
    for (answer, split) in answers.iter_mut().zip(splits) {
        let Some((_, origin)) = split else { continue };
        let found = of_origin(of_bare.next().unwrap_or_default(), &origin);
        if !found.candidates.is_empty() || answer.candidates.is_empty() {
            *answer = found;
        }
    }
    Ok(answers)
}

async fn search_whole(
    peer: &PeerHandle,
    names: &[FileName],
    ttl_hops: Option<u8>,
) -> Result<Vec<Answer>, SearchError> {
    match ttl_hops {
        Some(ttl_hops) => peer.query_all(names, ttl_hops).await,
        None => peer.search_all(names).await,
    }
}

fn of_origin(mut answer: Answer, digits: &str) -> Answer {
    answer.candidates.retain(|found| found.record.origin.to_string().starts_with(digits));
    answer
}

/// The options of a download of what is wanted.
pub(super) fn options(wanted: &Wanted, via: &Via, force: bool) -> DownloadOptions {
    let origins = wanted.named.iter().map(|(name, named)| (name.clone(), named.origin.clone()));
    DownloadOptions {
        output: None,
        origin: wanted.origin.clone(),
        force,
        version: wanted.version,
        ttl_hops: wanted.ttl_hops,
        origins: Arc::new(origins.collect()),
        via: via.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_looks_like_an_origin_is_split_off_and_all_else_is_not() {
        let name = |text: &str| FileName::new(text).unwrap();
        let cases = [
            ("a@0123ab", Some(("a", "0123ab"))),
            ("icons/x@2x@0123ABcdef", Some(("icons/x@2x", "0123abcdef"))),
            ("icon@2x.png", None),
            ("a@1234", None),
            ("a@0123ag", None),
            ("@0123ab", None),
            ("../@0123ab", None),
        ];
        for (text, expected) in cases {
            let Ok(whole) = FileName::new(text) else { continue };
            let found = split(&whole);
            assert_eq!(found, expected.map(|(bare, digits)| (name(bare), digits.to_owned())), "{text}");
        }
        assert_eq!(split(&name(&format!("a@{}", "0".repeat(65)))), None);
    }
}
