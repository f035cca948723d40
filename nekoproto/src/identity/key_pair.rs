//! [`Identity`], a node's key pair: made on first start, kept in a file that only its owner may read.

use std::{
    fmt, fs,
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

use ed25519_dalek::{
    Signer, SigningKey,
    pkcs8::{EncodePrivateKey, spki::der::zeroize::Zeroizing},
};
use tempfile::NamedTempFile;

use super::private::{close_to_group, open_private, shell_word};
use crate::values::{NodeId, Signature};

/// Bytes of the seed, which the key file consists of.
const SEED_BYTES: usize = 32;

/// A node's Ed25519 key pair; its public half is the node's id.
#[derive(Clone)]
pub struct Identity {
    key: SigningKey,
    id: NodeId,
}

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// The key file cannot be read or created.
    #[error(
        "cannot use the key file {path}: {source}; this user must be able to read and write it, on a disk that has links"
    )]
    File {
        /// The key file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file is not 32 bytes long. It is left as it is.
    #[error(
        "{0} is no key file: expected 32 bytes; restore it from a copy, or move it away to become a new node"
    )]
    Malformed(PathBuf),
    /// Others may read the key. It is left as it is.
    #[error("others may read the key file {path}; run: chmod 600 {}", shell_word(.0), path = .0.display())]
    Exposed(PathBuf),
}

impl Identity {
    /// A fresh key pair, kept nowhere.
    ///
    /// # Panics
    /// The system provides no randomness: no key is secure then.
    #[must_use]
    #[expect(clippy::expect_used, reason = "without randomness no key may be made")]
    pub fn generate() -> Self {
        let mut seed = Zeroizing::new([0; 32]);
        getrandom::fill(seed.as_mut()).expect("the system gives randomness");
        Self::from_seed(&seed)
    }

    /// The key pair of this seed. The same seed always gives the same node.
    #[must_use]
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        let key = SigningKey::from_bytes(seed);
        let id = NodeId::from_bytes(key.verifying_key().to_bytes());
        Self { key, id }
    }

    /// Reads the key from `path`, or makes one there (mode 0600) if there is none. One that a group may read is closed to it.
    ///
    /// # Errors
    /// The file cannot be used; nothing on disk was changed.
    pub fn load_or_create(path: &Path) -> Result<Self, IdentityError> {
        let in_file = |source| IdentityError::File { path: path.to_owned(), source };
        match open_private(path, fs::OpenOptions::new().read(true)) {
            Ok(file) => {
                if close_to_group(&file).map_err(in_file)? {
                    return Err(IdentityError::Exposed(path.to_owned()));
                }
                let mut bytes = Zeroizing::new(Vec::with_capacity(2 * SEED_BYTES)); // it does not grow: no copy is left
                file.take(SEED_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(in_file)?;
                let seed = <&[u8; 32]>::try_from(bytes.as_slice());
                seed.map(Self::from_seed).map_err(|_| IdentityError::Malformed(path.to_owned()))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let identity = Self::generate();
                identity.create(path).map_err(in_file)?;
                Ok(identity)
            }
            Err(error) => Err(in_file(error)),
        }
    }

    /// Writes the key to a new file of random name next to `path`, and gives it that name if nothing has it: a crash
    /// leaves a whole key or none.
    fn create(&self, path: &Path) -> io::Result<()> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut file = NamedTempFile::new_in(folder)?; // mode 0600
        file.write_all(self.key.as_bytes())?;
        file.as_file().sync_all()?;
        file.persist_noclobber(path)?;
        fs::File::open(folder)?.sync_all()
    }

    /// This node's id.
    #[must_use]
    pub const fn id(&self) -> NodeId {
        self.id
    }

    pub(crate) fn sign(&self, message: &[u8]) -> Signature {
        Signature::from_bytes(self.key.sign(message).to_bytes())
    }

    /// The key as PKCS #8, for the TLS library.
    pub(crate) fn to_pkcs8(&self) -> Option<Zeroizing<Vec<u8>>> {
        self.key.to_pkcs8_der().ok().map(|document| document.to_bytes())
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({})", self.id.short())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn key_is_made_once_private_and_read_back() {
        let (_folder, path) = testkit::temp_path("key");
        let made = Identity::load_or_create(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o660)).unwrap(); // the volume's group was let in
        assert_eq!(Identity::load_or_create(&path).unwrap().id(), made.id());
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn planted_files_and_links_get_no_key() {
        let temp = tempfile::tempdir().unwrap();
        let at = |name: &str| temp.path().join(name);
        fs::create_dir(at("folder")).unwrap();
        fs::write(at("theirs"), "theirs").unwrap();
        fs::set_permissions(at("theirs"), fs::Permissions::from_mode(0o666)).unwrap();
        for name in ["peer.new", "other.new"] {
            std::os::unix::fs::symlink(at("theirs"), at(name)).unwrap();
        }
        for name in ["peer.key", "other.key"] {
            Identity::load_or_create(&at(name)).unwrap();
            assert_eq!(fs::symlink_metadata(at(name)).unwrap().permissions().mode(), 0o100_600);
        }
        assert_eq!(fs::read(at("theirs")).unwrap(), b"theirs");
        std::os::unix::fs::symlink(at("nothing"), at("link.key")).unwrap();
        assert!(Identity::load_or_create(&at("link.key")).is_err());
        assert!(!at("nothing").exists());
    }

    #[test]
    fn damaged_or_exposed_key_is_refused_and_left_alone() {
        let (_folder, path) = testkit::temp_path("key");
        Identity::load_or_create(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(matches!(Identity::load_or_create(&path), Err(IdentityError::Exposed(_))));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, b"short").unwrap();
        assert!(matches!(Identity::load_or_create(&path), Err(IdentityError::Malformed(_))));
        assert_eq!(fs::read(&path).unwrap(), b"short");
    }
}
