//! Files of settings: they are read at once and to a limit, whatever stands at their path.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read},
    os::unix::fs::{FileTypeExt, OpenOptionsExt},
    path::Path,
};

use rustix::fs::OFlags;

/// The text of the file at `path`; that of `/dev/null` is empty. A pipe, to which nobody may ever write, is no file.
///
/// # Errors
/// `InvalidInput`: it is a pipe, or has more than `max` bytes. Otherwise the system failed.
pub fn read_text(path: &Path, max: u64) -> io::Result<String> {
    let file = open_at_once(path)?;
    let refused = |why: String| io::Error::new(io::ErrorKind::InvalidInput, why);
    if file.metadata()?.file_type().is_fifo() {
        return Err(refused("it is a pipe, no file".to_owned()));
    }
    let mut text = String::new();
    if file.take(max + 1).read_to_string(&mut text)? as u64 > max {
        return Err(refused(format!("it is longer than {max} bytes")));
    }
    Ok(text)
}

/// Opens a file to read, without waiting for the other end of a pipe.
pub(crate) fn open_at_once(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pipe_device_or_long_file_is_refused_and_nobody_waits() {
        let folder = tempfile::tempdir().unwrap();
        let [pipe, long] = ["pipe", "long"].map(|name| folder.path().join(name));
        testkit::pipe(&pipe);
        std::fs::write(&long, "12345").unwrap();
        for path in [pipe.as_path(), Path::new("/dev/zero"), &long] {
            let error = read_text(path, 4).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{path:?}");
        }
        assert!(read_text(folder.path(), 4).is_err());
        assert_eq!(read_text(&long, 5).unwrap(), "12345");
        assert_eq!(read_text(Path::new("/dev/null"), 4).unwrap(), "");
    }
}
