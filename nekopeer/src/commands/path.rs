//! [`LocalPath`]: a path that can be sent to another process of this machine.

use std::{
    ffi::OsString,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::PathBuf,
};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A path of this machine. In binary formats it is its bytes, which need not be UTF-8; in text formats only
/// paths in UTF-8 are preserved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LocalPath(pub(crate) PathBuf);

impl From<PathBuf> for LocalPath {
    fn from(path: PathBuf) -> Self {
        Self(path)
    }
}

impl Serialize for LocalPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.serialize_str(&self.0.to_string_lossy())
        } else {
            serde_bytes::serialize(self.0.as_os_str().as_bytes(), serializer)
        }
    }
}

impl<'de> Deserialize<'de> for LocalPath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            return String::deserialize(deserializer).map(|text| Self(text.into()));
        }
        let bytes: Vec<u8> = serde_bytes::deserialize(deserializer)?;
        Ok(Self(OsString::from_vec(bytes).into()))
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
        let text = LocalPath("/a/b".into());
        let json = serde_json::to_string(&text).unwrap();
        assert_eq!((json.as_str(), serde_json::from_str::<LocalPath>(&json).unwrap()), ("\"/a/b\"", text));
    }
}
