//! [`LocalPath`]: a path that can be sent to another process of this machine.

use std::{ffi::OsString, os::unix::ffi::OsStringExt, path::PathBuf};

use clap::builder::{MapValueParser, PathBufValueParser, TypedValueParser, ValueParserFactory};
use serde::{Deserialize, Serialize};

use crate::storage::place::is_said_folder;

/// A path of this machine. It travels as text, or as its bytes if these are not UTF-8.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Sent", into = "Sent")]
pub(crate) struct LocalPath(pub(crate) PathBuf);

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Sent {
    Text(String),
    Bytes(Vec<u8>),
}

impl LocalPath {
    /// Whether files are to stand in it: it is a folder, or is said to be one.
    pub(crate) fn is_folder(&self) -> bool {
        self.0.is_dir() || is_said_folder(&self.0)
    }
}

impl From<PathBuf> for LocalPath {
    fn from(path: PathBuf) -> Self {
        Self(path)
    }
}

impl From<Sent> for LocalPath {
    fn from(sent: Sent) -> Self {
        match sent {
            Sent::Text(text) => Self(text.into()),
            Sent::Bytes(bytes) => Self(OsString::from_vec(bytes).into()),
        }
    }
}

impl From<LocalPath> for Sent {
    fn from(path: LocalPath) -> Self {
        let path = path.0.into_os_string();
        path.into_string().map_or_else(|path| Self::Bytes(path.into_vec()), Self::Text)
    }
}

impl ValueParserFactory for LocalPath {
    type Parser = MapValueParser<PathBufValueParser, fn(PathBuf) -> Self>;

    fn value_parser() -> Self::Parser {
        PathBufValueParser::new().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_that_is_no_text_arrives_as_it_was() {
        for bytes in [&b"/shared/latin-\xe9"[..], b"/shared/\xc3\xa9"] {
            let path = LocalPath(OsString::from_vec(bytes.to_vec()).into());
            let sent = serde_json::to_string(&path).unwrap();
            assert_eq!(serde_json::from_str::<LocalPath>(&sent).unwrap(), path);
        }
    }
}
