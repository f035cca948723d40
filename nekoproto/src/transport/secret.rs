//! [`NetworkSecret`]: what the nodes of a private network share, and prove to each other without sending it.

use std::{
    fmt,
    io::{self, Read},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use crate::{
    limits::{SECRET_BYTES_MAX, SECRET_BYTES_MIN},
    small_file::open_at_once,
};

/// Makes the key from the secret; it is used for nothing else.
const KEY_CONTEXT: &str = "nekop2p 2026 network secret v1";
const MARK_CONTEXT: &[u8] = b"nekop2p 2026 mark of a network secret v1";

/// The secret of a private network, kept as a key derived from it. It is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct NetworkSecret {
    key: blake3::Hash, // compares in constant time
}

/// The side that proves: a proof of one side is not valid as the other's.
#[derive(Clone, Copy)]
pub(super) enum Side {
    Connecting = 0,
    Accepting = 1,
}

/// What a proof is bound to, so that it is worth nothing on any other connection.
pub(super) struct Binding<'a> {
    /// Of TLS: the value that both ends export from their session. In the clear: none.
    pub(super) exported: Option<[u8; 32]>,
    /// The hash of both hellos, with a nonce of each side.
    pub(super) hellos: &'a blake3::Hash,
}

/// Why there is no secret.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// The file cannot be read.
    #[error("cannot read the network's secret in {path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It is a folder, a pipe or a device.
    #[error("the network's secret is to be in a file, and {0} is none: name a file that holds it")]
    NoFile(PathBuf),
    /// Others may read the file.
    #[error("others may read the network's secret in {0}; run: chmod 600 {0}")]
    Exposed(PathBuf),
    /// It could be guessed, or is no secret.
    #[error(
        "a network's secret has {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX} bytes, this one has {0}; make one with: openssl rand -hex 32"
    )]
    Length(usize),
}

impl NetworkSecret {
    /// The secret in these bytes, without white space around it.
    ///
    /// # Errors
    /// It is too short or too long.
    pub fn new(bytes: &[u8]) -> Result<Self, SecretError> {
        let bytes = bytes.trim_ascii();
        if !(SECRET_BYTES_MIN..=SECRET_BYTES_MAX).contains(&bytes.len()) {
            return Err(SecretError::Length(bytes.len()));
        }
        Ok(Self { key: blake3::derive_key(KEY_CONTEXT, bytes).into() })
    }

    /// What tells, to whoever has the secret and `salt`, that it is the same; of a salt of 32 bytes or more nothing else.
    #[must_use]
    pub fn mark(&self, salt: &[u8]) -> [u8; 16] {
        let hash =
            blake3::Hasher::new_keyed(self.key.as_bytes()).update(MARK_CONTEXT).update(salt).finalize();
        hash.as_bytes().first_chunk().copied().unwrap_or_default() // 16 of 32 are there
    }

    /// Reads the secret from a file that only its owner may read.
    ///
    /// # Errors
    /// The file cannot be read, others may read it, or its content is no secret.
    pub fn load(path: &Path) -> Result<Self, SecretError> {
        let failed = |source| SecretError::File { path: path.to_owned(), source };
        let file = open_at_once(path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        if !metadata.is_file() {
            return Err(SecretError::NoFile(path.to_owned()));
        }
        if metadata.permissions().mode() & 0o077 != 0 {
            return Err(SecretError::Exposed(path.to_owned()));
        }
        let mut bytes = Vec::new();
        file.take(2 * SECRET_BYTES_MAX as u64).read_to_end(&mut bytes).map_err(failed)?;
        Self::new(&bytes)
    }

    /// What proves, on this connection only, that this side knows the secret.
    pub(super) fn proof(&self, side: Side, binding: &Binding<'_>) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new_keyed(self.key.as_bytes());
        hasher.update(&[side as u8, u8::from(binding.exported.is_some())]);
        hasher.update(&binding.exported.unwrap_or_default());
        hasher.update(binding.hellos.as_bytes());
        hasher.finalize()
    }
}

impl fmt::Debug for NetworkSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NetworkSecret(..)")
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const TEXT: &[u8] = b"0123456789abcdef0123456789abcdef";

    fn file(mode: u32, text: &[u8]) -> (tempfile::TempDir, PathBuf) {
        let (folder, path) = testkit::temp_path("secret");
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        (folder, path)
    }

    #[test]
    fn folder_or_pipe_is_no_secret_and_nobody_waits_for_it() {
        let (folder, pipe) = testkit::temp_path("pipe");
        testkit::pipe(&pipe);
        for path in [folder.path(), &pipe] {
            assert!(matches!(NetworkSecret::load(path), Err(SecretError::NoFile(_))), "{path:?}");
        }
    }

    #[test]
    fn secret_is_read_without_the_end_of_its_line_and_an_exposed_file_refused_with_the_command_that_mends_it()
    {
        let (_folder, path) = file(0o600, &[TEXT, b"\n"].concat());
        assert_eq!(NetworkSecret::load(&path).unwrap(), NetworkSecret::new(TEXT).unwrap());
        for mode in [0o640, 0o604, 0o660] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let error = NetworkSecret::load(&path).unwrap_err().to_string();
            assert!(error.ends_with(&format!("chmod 600 {}", path.display())), "{error}");
        }
    }

    #[test]
    fn short_and_long_secrets_are_refused_without_being_shown() {
        for text in [&TEXT[1..], &[b'x'; SECRET_BYTES_MAX + 1], b"", b"  \n"] {
            let error = NetworkSecret::new(text).unwrap_err();
            assert!(matches!(error, SecretError::Length(_)), "{error}");
        }
        let (_folder, path) = file(0o600, &vec![b'x'; 1 << 20]);
        assert!(matches!(NetworkSecret::load(&path), Err(SecretError::Length(_))));
        let secret = NetworkSecret::new(TEXT).unwrap();
        assert_eq!(format!("{secret:?}"), "NetworkSecret(..)");
    }

    #[test]
    fn proof_is_valid_for_one_side_of_one_connection() {
        let secret = NetworkSecret::new(TEXT).unwrap();
        let other = NetworkSecret::new(&[b'b'; 64]).unwrap();
        let (hellos, others) = (blake3::hash(b"hellos"), blake3::hash(b"others"));
        let binding = Binding { exported: Some([1; 32]), hellos: &hellos };
        let proof = secret.proof(Side::Connecting, &binding);
        assert_eq!(proof, secret.proof(Side::Connecting, &binding));
        assert_ne!(proof, secret.proof(Side::Accepting, &binding));
        assert_ne!(proof, other.proof(Side::Connecting, &binding));
        for binding in [
            Binding { exported: Some([2; 32]), hellos: &hellos },
            Binding { exported: Some([1; 32]), hellos: &others },
            Binding { exported: None, hellos: &hellos },
        ] {
            assert_ne!(proof, secret.proof(Side::Connecting, &binding));
        }
    }
}
