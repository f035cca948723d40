//! The conditions of a request (RFC 9110, section 13): whether it is carried out, in whole or in part.

use std::time::SystemTime;

use hyper::{HeaderMap, header, header::HeaderName};

/// What conditions are compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Validators {
    /// The entity tag, without its quotes; a strong one.
    pub(super) tag: String,
    /// When it was modified, in whole seconds; `None` while that second may bring another version, which the same
    /// date would stand for.
    pub(super) modified: Option<SystemTime>,
}

/// What follows from the conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The request is carried out.
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
            if !self.is_listed(headers, header::IF_MATCH, false) {
                return Outcome::Failed;
            }
        } else if let Some(date) = date(headers, header::IF_UNMODIFIED_SINCE)
            && self.modified != Some(date)
        {
            return Outcome::Failed;
        }
        let is_known = if headers.contains_key(header::IF_NONE_MATCH) {
            self.is_listed(headers, header::IF_NONE_MATCH, true)
        } else {
            let since = date(headers, header::IF_MODIFIED_SINCE);
            since.is_some() && since == self.modified
        };
        if is_known { Outcome::NotModified } else { Outcome::Proceed }
    }

    /// Whether the `Range` of the request counts: not if its `If-Range` names another version.
    pub(super) fn ranges_count(&self, headers: &HeaderMap) -> bool {
        let Some(version) = headers.get(header::IF_RANGE) else { return true };
        let Ok(version) = version.to_str() else { return false };
        if version.contains('"') {
            return lists(version, &self.tag, false);
        }
        httpdate::parse_http_date(version).ok().is_some_and(|date| self.modified == Some(date))
    }

    /// Whether one of the lists under `name` has the tag, compared weakly if `weak`.
    fn is_listed(&self, headers: &HeaderMap, name: HeaderName, weak: bool) -> bool {
        let lists_tag = |list: &str| list.trim() == "*" || lists(list, &self.tag, weak);
        headers.get_all(name).iter().any(|list| list.to_str().is_ok_and(lists_tag))
    }
}

/// Whether `list` has `wanted`. It is read until it breaks the grammar.
fn lists(list: &str, wanted: &str, weak: bool) -> bool {
    let mut rest = list;
    loop {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        let strong = rest.strip_prefix("W/");
        let Some((tag, after)) = strong.unwrap_or(rest).strip_prefix('"').and_then(|tag| tag.split_once('"'))
        else {
            return false;
        };
        if tag == wanted && (weak || strong.is_none()) {
            return true;
        }
        rest = after;
    }
}

fn date(headers: &HeaderMap, name: HeaderName) -> Option<SystemTime> {
    httpdate::parse_http_date(headers.get(name)?.to_str().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use hyper::header::{
        HeaderName, HeaderValue, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE,
    };

    use super::*;

    const BEFORE: &str = "Sun, 22 Nov 2026 08:00:00 GMT";
    const AT: &str = "Sun, 22 Nov 2026 09:00:00 GMT";
    const AFTER: &str = "Sun, 22 Nov 2026 10:00:00 GMT";

    fn validators() -> Validators {
        Validators { tag: "v2-ab".to_owned(), modified: httpdate::parse_http_date(AT).ok() }
    }

    fn headers(pairs: &[(HeaderName, &'static str)]) -> HeaderMap {
        let pairs = pairs.iter();
        pairs.map(|(name, value)| (name.clone(), HeaderValue::from_static(value))).collect()
    }

    fn outcome(pairs: &[(HeaderName, &'static str)]) -> Outcome {
        validators().outcome(&headers(pairs))
    }

    /// A line for each header. What lists this version among others is found.
    #[test]
    fn http_conditions() {
        const NAMES: [HeaderName; 5] =
            [IF_MATCH, IF_NONE_MATCH, IF_MODIFIED_SINCE, IF_UNMODIFIED_SINCE, IF_RANGE];
        testkit::fuzz("http_conditions", |bytes: &[u8]| {
            let lines = bytes.split(|byte| *byte == b'\n').zip(NAMES.into_iter().cycle());
            let pairs = lines.filter_map(|(line, name)| Some((name, HeaderValue::from_bytes(line).ok()?)));
            let headers = pairs.fold(HeaderMap::new(), |mut headers, (name, value)| {
                headers.append(name, value);
                headers
            });
            validators().ranges_count(&headers);
            let listed = headers.get_all(IF_MATCH).iter().any(|list| list == r#""v2-ab""#);
            assert!(validators().outcome(&headers) != Outcome::Failed || !listed);
        });
    }

    #[test]
    fn a_version_that_the_client_has_is_not_sent_again() {
        for tags in [r#""v2-ab""#, "*", r#"W/"v2-ab""#, r#""x","v2-ab""#, r#" "a,b" , W/"c", "v2-ab" "#] {
            assert_eq!(outcome(&[(IF_NONE_MATCH, tags)]), Outcome::NotModified, "{tags}");
        }
        for tags in [r#""v1-ab""#, "", "v2-ab", r#""v2-ab"#, r#""x" y "v2-ab""#, r#"w/"v2-ab""#] {
            assert_eq!(outcome(&[(IF_NONE_MATCH, tags)]), Outcome::Proceed, "{tags}");
        }
        let two = HeaderMap::from_iter([(IF_NONE_MATCH, HeaderValue::from_static(r#""x""#))]);
        let mut two = two;
        two.append(IF_NONE_MATCH, HeaderValue::from_static(r#""v2-ab""#));
        assert_eq!(validators().outcome(&two), Outcome::NotModified, "a list in two lines");
    }

    #[test]
    fn dates_count_where_no_tag_is_given() {
        let cases = [
            (IF_MODIFIED_SINCE, BEFORE, Outcome::Proceed),
            (IF_MODIFIED_SINCE, AT, Outcome::NotModified),
            (IF_MODIFIED_SINCE, AFTER, Outcome::Proceed),
            (IF_MODIFIED_SINCE, "yesterday", Outcome::Proceed),
            (IF_UNMODIFIED_SINCE, BEFORE, Outcome::Failed),
            (IF_UNMODIFIED_SINCE, AT, Outcome::Proceed),
            (IF_UNMODIFIED_SINCE, AFTER, Outcome::Failed),
            (IF_UNMODIFIED_SINCE, "yesterday", Outcome::Proceed),
        ];
        for (name, value, expected) in cases {
            assert_eq!(outcome(&[(name.clone(), value)]), expected, "{name}: {value}");
        }
        let other = r#""v1-ab""#;
        assert_eq!(outcome(&[(IF_NONE_MATCH, other), (IF_MODIFIED_SINCE, AFTER)]), Outcome::Proceed);
        assert_eq!(outcome(&[(IF_MATCH, "*"), (IF_UNMODIFIED_SINCE, BEFORE)]), Outcome::Proceed);
        let undated = Validators { modified: None, ..validators() };
        assert_eq!(undated.outcome(&headers(&[(IF_MODIFIED_SINCE, AFTER)])), Outcome::Proceed);
        assert_eq!(undated.outcome(&headers(&[(IF_UNMODIFIED_SINCE, BEFORE)])), Outcome::Failed);
    }

    #[test]
    fn a_client_that_wants_another_version_gets_none() {
        assert_eq!(outcome(&[(IF_MATCH, r#""v2-ab""#)]), Outcome::Proceed);
        assert_eq!(outcome(&[(IF_MATCH, r#"W/"v2-ab""#)]), Outcome::Failed, "weak tags name no bytes");
        assert_eq!(
            outcome(&[(IF_MATCH, r#""v1-ab""#), (IF_NONE_MATCH, "*")]),
            Outcome::Failed,
            "comes first"
        );
        assert_eq!(outcome(&[(IF_MATCH, "*"), (IF_NONE_MATCH, "*")]), Outcome::NotModified);
    }

    #[test]
    fn a_range_counts_for_the_version_that_the_client_has_begun() {
        let counts = |value| validators().ranges_count(&headers(&[(IF_RANGE, value)]));
        assert!(validators().ranges_count(&HeaderMap::new()));
        assert!(counts(r#""v2-ab""#) && counts(AT));
        for other in [r#""v1-ab""#, r#"W/"v2-ab""#, BEFORE, AFTER, "*", ""] {
            assert!(!counts(other), "{other}");
        }
        let undated = Validators { modified: None, ..validators() };
        assert!(!undated.ranges_count(&headers(&[(IF_RANGE, AT)])));
    }
}
