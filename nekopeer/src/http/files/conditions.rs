//! The conditions of a request (RFC 9110, section 13): whether it is carried out, in whole or in part.

use std::{iter, time::SystemTime};

use headers::{
    ETag, Header, HeaderMapExt, IfMatch, IfModifiedSince, IfNoneMatch, IfRange, IfUnmodifiedSince,
};
use hyper::{
    HeaderMap,
    header::{self, HeaderValue},
};

/// What conditions are compared with.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Validators {
    /// The entity tag, a strong one.
    pub(super) tag: ETag,
    /// When it was modified, in whole seconds; `None` while that second may bring another version, which the same
    /// date would stand for.
    pub(super) modified: Option<SystemTime>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Proceed,
    /// The client has it: 304.
    NotModified,
    /// The client wants another version: 412.
    Failed,
}

impl Validators {
    /// What follows from the conditions of a GET or HEAD. Tags come before dates; a date that cannot be read is
    /// ignored.
    ///
    /// Only the exact date stands for the version: a later version may have an earlier date, if it arrived late or
    /// the clock of its origin was set back, and a client with the version before must not keep that.
    pub(super) fn outcome(&self, headers: &HeaderMap) -> Outcome {
        if headers.contains_key(header::IF_MATCH) {
            if !any(headers, |listed: IfMatch| listed.precondition_passes(&self.tag)) {
                return Outcome::Failed;
            }
        } else if let Some(date) = headers.typed_get::<IfUnmodifiedSince>()
            && self.modified.map(IfUnmodifiedSince::from) != Some(date)
        {
            return Outcome::Failed;
        }
        let is_known = if headers.contains_key(header::IF_NONE_MATCH) {
            any(headers, |listed: IfNoneMatch| !listed.precondition_passes(&self.tag))
        } else {
            let since = headers.typed_get::<IfModifiedSince>();
            since.is_some() && since == self.modified.map(IfModifiedSince::from)
        };
        if is_known { Outcome::NotModified } else { Outcome::Proceed }
    }

    /// Whether the `Range` of the request counts: not if its `If-Range` names another version.
    pub(super) fn ranges_count(&self, headers: &HeaderMap) -> bool {
        let own = [Some(IfRange::etag(self.tag.clone())), self.modified.map(IfRange::date)];
        let named = |line| IfRange::decode(&mut iter::once(line)).ok();
        !headers.contains_key(header::IF_RANGE)
            || headers
                .get(header::IF_RANGE)
                .filter(has_tags)
                .and_then(named)
                .is_some_and(|version| own.contains(&Some(version)))
    }
}

/// Whether one of the lines of this header passes, each read for itself: what is wrong in one spoils no other.
fn any<H: Header>(headers: &HeaderMap, passes: impl Fn(H) -> bool) -> bool {
    let mut lines = headers.get_all(H::name()).iter();
    lines.any(|line| has_tags(&line) && H::decode(&mut iter::once(line)).is_ok_and(&passes))
}

/// Whether no tag in it has a space or a tab (RFC 9110, section 8.8.3): a debug build of the library panics at one.
fn has_tags(line: &&HeaderValue) -> bool {
    let mut is_quoted = false;
    line.as_bytes().iter().all(|byte| {
        is_quoted ^= *byte == b'"';
        !is_quoted || *byte > b' '
    })
}

#[cfg(test)]
mod tests {
    use hyper::header::{
        HeaderName, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE,
    };

    use super::*;

    /// A line for each header. What lists this version among others is found.
    #[test]
    fn http_conditions() {
        const NAMES: [HeaderName; 5] =
            [IF_MATCH, IF_NONE_MATCH, IF_MODIFIED_SINCE, IF_UNMODIFIED_SINCE, IF_RANGE];
        let tag = r#""v2-ab""#.parse().unwrap();
        let validators = Validators { tag, modified: Some(SystemTime::UNIX_EPOCH) };
        testkit::fuzz("http_conditions", |bytes: &[u8]| {
            let lines = bytes.split(|byte| *byte == b'\n').zip(NAMES.into_iter().cycle());
            let pairs = lines.filter_map(|(line, name)| Some((name, HeaderValue::from_bytes(line).ok()?)));
            let headers = pairs.fold(HeaderMap::new(), |mut headers, (name, value)| {
                headers.append(name, value);
                headers
            });
            validators.ranges_count(&headers);
            let listed = headers.get_all(IF_MATCH).iter().any(|list| list == r#""v2-ab""#);
            assert!(validators.outcome(&headers) != Outcome::Failed || !listed);
        });
    }
}
