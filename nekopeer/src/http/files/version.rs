//! What an answer says about the version that it carries: its validators, and how long it may be kept.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use headers::{AcceptRanges, Age, HeaderMapExt, LastModified};
use hyper::{
    HeaderMap,
    header::{CACHE_CONTROL, HeaderName, HeaderValue, WARNING},
};
use nekoproto::{Freshness, VerifiedRecord};

use super::conditions::Validators;
use crate::library::opened::Validity;

pub(super) const X_NEKO_VERSION: HeaderName = HeaderName::from_static("x-neko-version");
pub(super) const X_NEKO_ORIGIN: HeaderName = HeaderName::from_static("x-neko-origin");
/// `fresh`, `unverified` or `stale`.
pub(super) const X_NEKO_FRESHNESS: HeaderName = HeaderName::from_static("x-neko-freshness");
/// After this time the second of a date brings no other version, even if its origin's clock is a little off.
const DATE_SETTLES: Duration = Duration::from_secs(2);

/// `stored` is when its file was written, which stands in for the time of its publication where the record has none.
#[expect(clippy::expect_used, reason = "digits and letters")]
pub(super) fn validators(record: &VerifiedRecord, stored: Option<SystemTime>, now: SystemTime) -> Validators {
    let published = match record.published_ms {
        0 => stored,
        ms => UNIX_EPOCH.checked_add(Duration::from_millis(ms)),
    };
    let settled = published.filter(|at| now.duration_since(*at).is_ok_and(|since| since >= DATE_SETTLES));
    let modified = settled.and_then(|at| {
        let secs = at.duration_since(UNIX_EPOCH).ok()?.as_secs();
        UNIX_EPOCH.checked_add(Duration::from_secs(secs))
    });
    let tag = format!("\"v{}-{}\"", record.version, record.content);
    Validators { tag: tag.parse().expect("a tag"), modified }
}

/// The headers that every answer with or about this version has.
///
/// `max-age` is what is left of the time for which the version may be taken as the newest, so a fresh answer has no
/// `Age`, which caches would subtract once more. One that is not fresh has the time since its origin last confirmed
/// it, and a warning.
pub(super) fn headers(
    record: &VerifiedRecord,
    validators: &Validators,
    validity: Option<Validity>,
) -> HeaderMap {
    let (left, freshness) =
        validity.map_or((0, Freshness::Unverified), |held| (held.left.as_secs(), held.freshness));
    let mut texts = vec![
        (CACHE_CONTROL, format!("max-age={left}, must-revalidate")),
        (X_NEKO_VERSION, record.version.to_string()),
        (X_NEKO_ORIGIN, record.origin.to_string()),
        (X_NEKO_FRESHNESS, freshness.to_string()),
    ];
    let warning = match freshness {
        Freshness::Fresh => None,
        Freshness::Stale => Some(r#"110 - "Response is Stale""#),
        // What was just found in the network is not held, and its origin may not have been asked.
        Freshness::Unverified => validity.map(|_| r#"111 - "Revalidation Failed""#),
    };
    texts.extend(warning.map(|text| (WARNING, text.to_owned())));
    let mut headers = HeaderMap::new();
    headers.typed_insert(AcceptRanges::bytes());
    headers.typed_insert(validators.tag.clone());
    if let Some(at) = validators.modified {
        headers.typed_insert(LastModified::from(at));
    }
    if let Some(held) = validity.filter(|held| held.freshness != Freshness::Fresh) {
        headers.typed_insert(Age::from_secs(held.age.as_secs()));
    }
    for (name, text) in texts {
        if let Ok(value) = HeaderValue::from_str(&text) {
            headers.insert(name, value);
        }
    }
    headers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_is_said_once_its_second_brings_no_other_version_and_never_one_to_come() {
        let at = |ms| UNIX_EPOCH + Duration::from_millis(ms);
        let modified = |published, stored: Option<u64>, now| {
            let record = testkit::goods::record(1, "a", 7, |record| record.published_ms = published);
            validators(&record, stored.map(at), at(now)).modified
        };
        assert_eq!(modified(5_700, None, 90_000), Some(at(5_000)));
        assert_eq!(modified(5_700, None, 6_900), None);
        assert_eq!(modified(95_000, None, 90_000), None, "a clock that is ahead");
        assert_eq!(modified(u64::MAX, None, 90_000), None);
        assert_eq!(modified(0, Some(5_700), 90_000), Some(at(5_000)));
        assert_eq!(modified(0, None, 90_000), None);
    }
}
