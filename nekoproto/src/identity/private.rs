//! Folders of no other user, and files that nobody but their owner may use.

use std::{
    fs::{DirBuilder, File, Metadata, OpenOptions, Permissions},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use rustix::{fs::OFlags, io::Errno};

const OTHERS_WRITE: u32 = 0o002;
const OTHERS: u32 = 0o007;
const GROUP: u32 = 0o070;

/// Why a folder or file is not used. It is left as it is.
#[derive(Debug, thiserror::Error)]
pub enum PrivateError {
    /// Others may write to it.
    #[error("others may write to {path}; run: chmod go-w {}", shell_word(.path))]
    Writable {
        /// The folder or file.
        path: PathBuf,
    },
    /// It is another user's, who may replace what is in it.
    #[error(
        "{path} belongs to another user (id {owner}), who could read and change what is kept there; run this as that user, or take it over: chown {own} {}",
        shell_word(.path)
    )]
    OfAnother {
        /// The folder.
        path: PathBuf,
        /// The id of its owner.
        owner: u32,
        /// The id of this user.
        own: u32,
    },
    /// The data folder cannot be used.
    #[error("cannot use the data folder {path}: {source}; this user must be able to write there")]
    Io {
        /// The folder or file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Makes the folder at `path` (mode 0700), and those that lead to it, if it does not exist.
///
/// # Errors
/// It cannot be made, or is another user's. That others may read it or write to it, as on a volume that a group shares, is no
/// error: what is secret in it is kept from them itself.
pub fn private_folder(path: &Path) -> Result<(), PrivateError> {
    let failed = |source| PrivateError::Io { path: path.to_owned(), source };
    match path.parent() {
        Some(parent) if !path.exists() => {
            std::fs::create_dir_all(parent).map_err(failed)?;
            match DirBuilder::new().mode(0o700).create(path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => made.map_err(failed)?,
            }
        }
        _ => {}
    }
    let metadata = path.metadata().map_err(failed)?;
    if !metadata.is_dir() {
        return Err(failed(io::ErrorKind::NotADirectory.into()));
    }
    let (owner, own) = (metadata.uid(), rustix::process::geteuid().as_raw());
    if owner != own && owner != 0 {
        return Err(PrivateError::OfAnother { path: path.to_owned(), owner, own });
    }
    Ok(())
}

/// Takes from the group of `file` what it may do: whoever mounts a volume for a group may give it all files there. Returns
/// whether all users may do something with it; then it is left as it is.
///
/// # Errors
/// It is another user's, or the system failed.
pub fn close_to_group(file: &File) -> io::Result<bool> {
    let mode = file.metadata()?.permissions().mode();
    let is_open = mode & OTHERS != 0;
    if !is_open && mode & GROUP != 0 {
        file.set_permissions(Permissions::from_mode(mode & !GROUP))?;
    }
    Ok(is_open)
}

/// Refuses what all users may write to.
///
/// # Errors
/// `Writable`.
pub fn only_own(path: &Path, metadata: &Metadata) -> Result<(), PrivateError> {
    match metadata.permissions().mode() & OTHERS_WRITE {
        0 => Ok(()),
        _ => Err(PrivateError::Writable { path: path.to_owned() }),
    }
}

/// Opens the file at `path` as `options` say, with mode 0600 if it is made. No link is followed, and no pipe waited for.
///
/// # Errors
/// It cannot be opened, or is no file.
pub fn open_private(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    let no_file = |what| io::Error::new(io::ErrorKind::InvalidInput, what);
    match options.mode(0o600).custom_flags(flags).open(path) {
        Ok(file) if file.metadata()?.is_file() => Ok(file),
        Ok(_) => Err(no_file("it is no file")),
        Err(error) if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => {
            Err(no_file("it is a symbolic link"))
        }
        Err(error) => Err(error),
    }
}

/// `path` as one word of a shell's command.
#[must_use]
pub fn shell_word(path: &Path) -> String {
    let text = path.to_string_lossy();
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+,:@%".contains(&byte);
    if !text.is_empty() && text.bytes().all(is_plain) {
        return text.into_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use std::fs::{create_dir, set_permissions, write};

    use super::*;

    fn set_mode(path: &Path, mode: u32) {
        set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn folder_is_made_private_and_taken_whoever_else_may_write_there() {
        let (temp, made) = testkit::temp_path("a/it's/.neko");
        private_folder(&made).unwrap();
        assert_eq!(made.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        for mode in [0o755, 0o775, 0o2775, 0o1777] {
            set_mode(&made, mode);
            private_folder(&made).unwrap();
            assert_eq!(made.metadata().unwrap().permissions().mode() & 0o7777, mode);
        }
        write(temp.path().join("file"), "").unwrap();
        assert!(private_folder(&temp.path().join("file")).is_err());
    }

    #[test]
    fn file_that_all_may_write_to_is_refused_with_the_way_out_and_one_of_a_group_is_closed() {
        let (_temp, path) = testkit::temp_path("it's");
        write(&path, "").unwrap();
        for (mode, is_refused) in
            [(0o600, false), (0o660, false), (0o644, false), (0o602, true), (0o666, true)]
        {
            set_mode(&path, mode);
            let refused = only_own(&path, &path.metadata().unwrap()).err().map(|error| error.to_string());
            assert_eq!(refused.is_some(), is_refused, "{mode:o}");
            assert!(
                refused.iter().all(|why| why.contains(r"run: chmod go-w '") && why.contains(r"it'\''s'"))
            );
        }
        for (mode, after, is_open) in [(0o600, 0o600, false), (0o660, 0o600, false), (0o644, 0o644, true)] {
            set_mode(&path, mode);
            assert_eq!(close_to_group(&File::open(&path).unwrap()).unwrap(), is_open, "{mode:o}");
            assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, after, "{mode:o}");
        }
    }

    /// Only root can make one.
    #[test]
    fn folder_of_another_user_is_refused() {
        let temp = tempfile::tempdir().unwrap();
        let (path, other) = (temp.path().join(".neko"), rustix::process::geteuid().as_raw() + 1234);
        private_folder(&path).unwrap();
        if std::os::unix::fs::chown(&path, Some(other), None).is_err() {
            return;
        }
        let error = private_folder(&path).unwrap_err().to_string();
        assert!(error.contains(&format!("id {other}")) && error.contains("take it over: chown"), "{error}");
    }

    #[test]
    fn links_and_pipes_are_not_opened() {
        let temp = tempfile::tempdir().unwrap();
        let path = |name: &str| temp.path().join(name);
        write(path("victim"), "mine").unwrap();
        std::os::unix::fs::symlink(path("victim"), path("link")).unwrap();
        create_dir(path("folder")).unwrap();
        testkit::pipe(path("pipe"));
        for name in ["link", "folder", "pipe"] {
            assert!(open_private(&path(name), OpenOptions::new().read(true)).is_err(), "{name}");
            let mut writing = OpenOptions::new();
            writing.read(true).write(true).create(true);
            assert!(open_private(&path(name), &mut writing).is_err(), "{name}");
        }
        assert!(open_private(&path("victim"), OpenOptions::new().read(true)).is_ok());
    }
}
