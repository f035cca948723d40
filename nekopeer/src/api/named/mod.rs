//! Which files words mean: names, tickets, patterns; and `NAME@ID`, the file of one origin under a name, by the first digits of the origin's id.
//!
//! The text alone decides: what follows the last `@` is an id if it is 10 to 64 hexadecimal digits, and 10 are what
//! lists show of one. A name that ends like that is named with its origin behind it, `NAME@ID@ID`.

pub(super) mod expanding;
pub(super) mod pages;
mod path;
pub(super) mod similar;
pub(super) mod tickets;
mod wanted;
mod word;

use std::{num::NonZeroU64, sync::Arc};

use nekoproto::{FileName, IdDigits, Version};

pub(in crate::api) use self::wanted::{ALL, Pattern};
pub(crate) use self::{path::LocalPath, wanted::Wanted, word::Word};
use crate::{
    download::DownloadOptions,
    failure::Failure,
    indexers::{Answer, via::Via},
    peer::PeerHandle,
};

/// Digits of an id after `@`: fewer, such as a date has, are part of the name.
const DIGITS_MIN: usize = 10;

/// The first digits of an id, in lower case.
pub(crate) fn id_digits(text: &str) -> Result<String, String> {
    let digits = IdDigits::try_from(text.to_ascii_lowercase());
    digits.map(String::from).map_err(|error| error.to_string())
}

/// The same, of enough digits to tell one node from another.
pub(super) fn long_id_digits(text: &str) -> Result<IdDigits, String> {
    let digits =
        id_digits(text).and_then(|digits| IdDigits::try_from(digits).map_err(|error| error.to_string()));
    if text.len() < DIGITS_MIN { Err(format!("give at least {DIGITS_MIN} digits of the id")) } else { digits }
}

/// A version, from 1 on.
pub(super) fn version(text: &str) -> Result<Version, String> {
    let number = text.parse::<NonZeroU64>().map_err(|error| error.to_string())?;
    Version::new(number.get()).ok_or_else(|| "versions count from 1".to_owned())
}

/// The name, and the digits of an origin if it ends with some.
pub(in crate::api) fn split(whole: &FileName) -> (FileName, Option<String>) {
    let of_origin = || {
        let (name, digits) = whole.as_str().rsplit_once('@').filter(|(_, text)| text.len() >= DIGITS_MIN)?;
        Some((FileName::new(name).ok()?, Some(id_digits(digits).ok()?)))
    };
    of_origin().unwrap_or_else(|| (whole.clone(), None))
}

/// The answer to each of `names`, from indexers within `ttl_hops`: of `NAME@ID` the hits of that origin.
pub(super) async fn search(
    peer: &PeerHandle,
    names: &[FileName],
    ttl_hops: u8,
) -> Result<Vec<Answer>, Failure> {
    let (names, origins): (Vec<FileName>, Vec<Option<String>>) = names.iter().map(split).unzip();
    let mut answers = peer.query_all(&names, ttl_hops).await?;
    for (answer, origin) in answers.iter_mut().zip(origins) {
        let Some(digits) = origin else { continue };
        answer.candidates.retain(|found| found.record.origin.to_string().starts_with(&digits));
    }
    Ok(answers)
}

pub(super) fn options(wanted: &Wanted, via: &Via, force: bool) -> DownloadOptions {
    let origins = wanted.named.iter().map(|(name, named)| (name.clone(), named.origin.clone()));
    DownloadOptions {
        output: None,
        origin: wanted.origin.clone(),
        force,
        unattended: false,
        version: wanted.version,
        ttl_hops: wanted.ttl_hops,
        origins: Arc::new(origins.collect()),
        via: via.clone(),
    }
}

/// `text` as a glob that matches only itself.
fn escaped(text: &str) -> String {
    text.replace(|c| "*?[]{},!\\".contains(c), "?")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_looks_like_an_id_is_split_off_and_all_else_is_not() {
        let name = |text: &str| FileName::new(text).unwrap();
        let long = format!("a@{}", "0".repeat(65));
        let cases = [
            ("a@0123456789", ("a", Some("0123456789"))),
            ("icons/x@2x@0123ABcdef", ("icons/x@2x", Some("0123abcdef"))),
            ("a@0123456789@fedcba9876", ("a@0123456789", Some("fedcba9876"))),
            ("icon@2x.png", ("icon@2x.png", None)),
            ("dump@20261122", ("dump@20261122", None)),
            ("a@012345678g", ("a@012345678g", None)),
            ("@0123456789", ("@0123456789", None)),
            (&long, (&long, None)),
        ];
        for (text, (bare, digits)) in cases {
            assert_eq!(split(&name(text)), (name(bare), digits.map(str::to_owned)), "{text}");
        }
    }
}
