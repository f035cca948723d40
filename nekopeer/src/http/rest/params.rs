//! [`Params`]: the parameters in the address of a request.

use std::str::FromStr;

use axum::{extract::FromRequestParts, http::request::Parts};
use nekoindexer::daemon::http::Problem;
use nekoproto::{
    FileName,
    limits::{TTL_DEFAULT, TTL_MAX},
};
use percent_encoding::percent_decode_str;

/// Names in one address.
const NAMES_MAX: usize = 1000;

/// The parameters in the address of a request, in order.
#[derive(Debug)]
pub(super) struct Params(Vec<(String, String)>);

impl<S: Sync> FromRequestParts<S> for Params {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        Self::read(parts.uri.query().unwrap_or_default())
    }
}

impl Params {
    fn read(query: &str) -> Result<Self, Problem> {
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        let decoded = pairs.map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            Ok((decoded(key)?, decoded(value)?))
        });
        decoded.collect::<Result<_, _>>().map(Self)
    }

    /// These, if each of them is known.
    pub(super) fn known(self, known: &[&str]) -> Result<Self, Problem> {
        match self.0.iter().find(|(key, _)| !known.contains(&key.as_str())) {
            None => Ok(self),
            Some((key, _)) => {
                let takes = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                Err(Problem::bad_request(format!("there is no parameter {key:?} here: this takes {takes}")))
            }
        }
    }

    /// The value of a parameter that may be given once.
    pub(super) fn text(&self, key: &str) -> Result<Option<&str>, Problem> {
        let mut values = self.0.iter().filter(|(given, _)| given == key).map(|(_, value)| value.as_str());
        let first = values.next();
        match values.next() {
            None => Ok(first),
            Some(_) => Err(Problem::bad_request(format!("the parameter {key} may be given once"))),
        }
    }

    /// The same, as a number of at most `most`.
    pub(super) fn number<T: FromStr + PartialOrd + std::fmt::Display>(
        &self,
        key: &str,
        least: T,
        most: T,
    ) -> Result<Option<T>, Problem> {
        let Some(text) = self.text(key)? else { return Ok(None) };
        let number = text.parse().ok().filter(|number| *number >= least && *number <= most);
        let wrong = || Problem::bad_request(format!("{key} is a number from {least} to {most}"));
        number.ok_or_else(wrong).map(Some)
    }

    /// The same, as `true` or `false`, which is the default.
    pub(super) fn flag(&self, key: &str) -> Result<bool, Problem> {
        match self.text(key)? {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(_) => Err(Problem::bad_request(format!("{key} is true or false"))),
        }
    }

    /// How far a query travels.
    pub(super) fn ttl(&self) -> Result<u8, Problem> {
        self.number("ttl", 0, TTL_MAX).map(|ttl| ttl.unwrap_or(TTL_DEFAULT))
    }

    /// A name that may be given once.
    pub(super) fn name_in(&self, key: &str) -> Result<Option<FileName>, Problem> {
        self.text(key)?.map(name).transpose()
    }

    /// The names, which may be none.
    pub(super) fn names(&self) -> Result<Vec<FileName>, Problem> {
        let given = self.0.iter().filter(|(key, _)| key == "name");
        let names: Vec<FileName> = given.map(|(_, text)| name(text)).collect::<Result<_, _>>()?;
        if names.len() > NAMES_MAX {
            return Err(Problem::bad_request(format!("at most {NAMES_MAX} names fit in one request")));
        }
        Ok(names)
    }

    /// The names, at least one.
    pub(super) fn some_names(&self) -> Result<Vec<FileName>, Problem> {
        let names = self.names()?;
        if names.is_empty() { Err(no_name()) } else { Ok(names) }
    }

    /// The only name.
    pub(super) fn name(&self) -> Result<FileName, Problem> {
        self.name_in("name")?.ok_or_else(no_name)
    }
}

fn no_name() -> Problem {
    Problem::bad_request("say which file: name=NAME, percent-encoded")
}

fn name(text: &str) -> Result<FileName, Problem> {
    FileName::new(text).map_err(|error| Problem::bad_request(error.to_string()))
}

fn decoded(text: &str) -> Result<String, Problem> {
    let spaced = text.replace('+', " ");
    let decoded = percent_decode_str(&spaced).decode_utf8();
    decoded.map(Into::into).map_err(|_| Problem::bad_request("the address is not valid UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded_and_checked() {
        let params = Params::read("name=a%2Fb+c&name=%C3%A9&ttl=3&force=true").unwrap();
        let names = params.names().unwrap();
        assert_eq!(names.iter().map(FileName::as_str).collect::<Vec<_>>(), ["a/b c", "é"]);
        assert_eq!((params.ttl().unwrap(), params.flag("force").unwrap()), (3, true));
        assert_eq!(params.name().unwrap_err().status, 400, "given twice");
        assert!(params.known(&["name", "ttl"]).unwrap_err().detail.contains("force"));
        for wrong in ["name=../a", "name=", "name=%ff", "name=%00", "ttl=99", "ttl=-1", "ttl=", "force=yes"] {
            let read = Params::read(wrong);
            let checked = read.and_then(|params| {
                params.names()?;
                params.ttl()?;
                params.flag("force")
            });
            assert_eq!(checked.unwrap_err().status, 400, "{wrong}");
        }
    }
}
