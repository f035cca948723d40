//! [`LocalPath`]: a path that can be sent to another process of this machine.

use std::{ffi::OsString, os::unix::ffi::OsStringExt, path::PathBuf};

use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

/// A path of this machine. It travels as its bytes, which need not be UTF-8.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "ByteBuf", into = "ByteBuf")]
pub(crate) struct LocalPath(pub(crate) PathBuf);

impl From<PathBuf> for LocalPath {
    fn from(path: PathBuf) -> Self {
        Self(path)
    }
}

impl From<ByteBuf> for LocalPath {
    fn from(bytes: ByteBuf) -> Self {
        Self(OsString::from_vec(bytes.into_vec()).into())
    }
}

impl From<LocalPath> for ByteBuf {
    fn from(path: LocalPath) -> Self {
        Self::from(path.0.into_os_string().into_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_that_is_no_text_arrives_as_it_was() {
        let path = LocalPath(OsString::from_vec(b"/shared/latin-\xe9".to_vec()).into());
        let bytes = nekoproto::codec::encode(&path).unwrap();
        assert_eq!(nekoproto::codec::decode::<LocalPath>(&bytes).unwrap(), path);
    }
}
