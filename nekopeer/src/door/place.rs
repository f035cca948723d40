//! Where the socket stands: in a folder of the data folder that only its user may enter.

use std::{
    fs::{DirBuilder, File, Permissions},
    io,
    os::{
        fd::AsRawFd,
        unix::fs::{DirBuilderExt, FileTypeExt, PermissionsExt},
    },
    path::{Path, PathBuf},
};

use rustix::fs::{Mode, OFlags};
use tokio::net::{UnixListener, UnixStream};

const FOLDER: &str = "run";
const SOCKET: &str = "peer.sock";

/// The socket's place. It is reached through an open handle of its folder, since the system takes only short
/// paths for sockets.
pub(super) struct SocketPlace {
    folder: File,
    pub(super) path: PathBuf,
}

impl SocketPlace {
    /// The place in an existing data folder, if a socket was ever opened there.
    pub(super) fn find(data_dir: &Path) -> io::Result<Self> {
        let folder = data_dir.join(FOLDER);
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let handle = rustix::fs::open(&folder, flags, Mode::empty())?;
        Ok(Self { folder: handle.into(), path: folder.join(SOCKET) })
    }

    /// The place, with its folder made if needed.
    pub(super) fn make(data_dir: &Path) -> io::Result<Self> {
        let folder = data_dir.join(FOLDER);
        match DirBuilder::new().mode(0o700).create(&folder) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                if !folder.symlink_metadata()?.is_dir() {
                    let text = format!("{} is no folder: move it away", folder.display());
                    return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
                }
                std::fs::set_permissions(&folder, Permissions::from_mode(0o700))?;
            }
            Err(error) => return Err(error),
        }
        Self::find(data_dir)
    }

    /// A short path of the socket, valid while this handle is open, also if the data folder is moved.
    fn short_path(&self) -> PathBuf {
        format!("/proc/self/fd/{}/{SOCKET}", self.folder.as_raw_fd()).into()
    }

    /// Listens. The caller holds the lock of the data folder, so a socket that is there is a leftover.
    pub(super) fn listen(&self) -> io::Result<UnixListener> {
        match std::fs::symlink_metadata(self.short_path()) {
            Ok(metadata) if metadata.file_type().is_socket() => self.remove()?,
            Ok(_) => {
                let text = format!("{} is no socket: move it away", self.path.display());
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let listener = UnixListener::bind(self.short_path())?;
        std::fs::set_permissions(self.short_path(), Permissions::from_mode(0o600))?;
        Ok(listener)
    }

    pub(super) fn has_socket(&self) -> bool {
        self.path.symlink_metadata().is_ok()
    }

    pub(super) async fn connect(&self) -> io::Result<UnixStream> {
        UnixStream::connect(self.short_path()).await
    }

    pub(super) fn remove(&self) -> io::Result<()> {
        std::fs::remove_file(self.short_path())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_in_the_place_of_its_folder_is_not_followed() {
        let (data, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        std::fs::set_permissions(elsewhere.path(), Permissions::from_mode(0o755)).unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), data.path().join(FOLDER)).unwrap();
        let error = SocketPlace::make(data.path()).err().unwrap().to_string();
        assert!(error.contains("move it away"), "{error}");
        assert!(SocketPlace::find(data.path()).is_err());
        assert_eq!(mode(elsewhere.path()), 0o755);
    }
}
