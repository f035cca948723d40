//! [`Asked`]: a request that stands in the address, as `name=a&name=b&ttl=3`.

use axum::{extract::FromRequestParts, http::request::Parts};
use nekoindexer::daemon::http::Problem;
use percent_encoding::percent_decode_str;
use serde::de::DeserializeOwned;
use serde_html_form::Deserializer;

/// What the parameters in the address of a request say.
#[derive(Debug)]
pub(crate) struct Asked<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Sync> FromRequestParts<S> for Asked<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        read(parts.uri.query().unwrap_or_default()).map(Self)
    }
}

fn read<T: DeserializeOwned>(query: &str) -> Result<T, Problem> {
    if percent_decode_str(query).decode_utf8().is_err() {
        return Err(Problem::bad_request("the address is not valid UTF-8"));
    }
    let read = serde_path_to_error::deserialize(Deserializer::from_bytes(query.as_bytes()));
    let how = "parameters are percent-encoded, as in name=NAME";
    read.map_err(|error| Problem::bad_request(format!("{error}; {how}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{Query, Word};

    #[test]
    fn parameters_are_decoded_and_checked() {
        let query: Query = read("name=a%2Fb+c&name=%C3%A9&ttl=3").unwrap();
        assert_eq!(query.names.iter().map(Word::text).collect::<Vec<_>>(), ["a/b c", "é"]);
        assert_eq!((query.ttl, read::<Query>("name=a").unwrap().ttl), (3, 3));
        for wrong in ["", "name=../a", "name=", "name=%ff", "name=%00", "name=a&ttl=99", "name=a&ttl=-1"] {
            assert_eq!(read::<Query>(wrong).unwrap_err().status, 400, "{wrong}");
        }
        let unknown = read::<Query>("name=a&froce=true").unwrap_err().detail;
        assert!(unknown.contains("froce") && unknown.contains("ttl"), "{unknown}");
    }
}
