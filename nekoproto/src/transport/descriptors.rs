//! How many connections a process may have of each kind: its limit of open files, shared out.

use rustix::process::{Resource, getrlimit, setrlimit};
use tracing::warn;

use crate::limits::{CONNECTIONS_MAX, HANDSHAKES_MAX};

/// Files, sockets it opens itself and HTTP connections get one of this many parts of the limit, and at most
/// [`OTHERS_MAX`].
const OTHERS_PARTS: usize = 4;
/// See [`OTHERS_PARTS`].
const OTHERS_MAX: usize = 3 * 1024;
/// Connections in their handshake get one of this many parts.
const HANDSHAKES_PARTS: usize = 16;
/// The limit where the system names none.
const FILES_UNLIMITED: usize = 1024 * 1024;

/// Raises this process's limit of open files and sockets to the maximum the system allows; the usual default
/// is far below [`CONNECTIONS_MAX`]. To be called once at the start of a program.
pub fn raise_file_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        warn!(%error, "the limit of open files stays as it is");
    }
}

/// Files and sockets that this process may have open.
#[must_use]
pub fn file_limit() -> usize {
    let limit = getrlimit(Resource::Nofile).current;
    limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(FILES_UNLIMITED)
}

/// Connections of each kind that a listener may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shares {
    pub(super) handshakes: usize,
    pub(super) control: usize,
    pub(super) data: usize,
}

/// The shares of a process that may open `files`; without data streams all is for control connections.
pub(super) fn shares(files: usize, has_data: bool) -> Shares {
    let others = (files / OTHERS_PARTS).min(OTHERS_MAX);
    let handshakes = (files / HANDSHAKES_PARTS).clamp(1, HANDSHAKES_MAX);
    let rest = files.saturating_sub(others + handshakes).clamp(2, CONNECTIONS_MAX);
    let data = if has_data { rest / 2 } else { 0 };
    Shares { handshakes, control: rest - data, data }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_shares_together_leave_room_for_files() {
        for files in [64, 256, 1024, 4096, 20_000, FILES_UNLIMITED] {
            for has_data in [false, true] {
                let Shares { handshakes, control, data } = shares(files, has_data);
                assert!(handshakes + control + data <= files - files.min(4 * OTHERS_MAX) / OTHERS_PARTS);
                assert!(handshakes > 0 && control > 0 && (data > 0) == has_data);
            }
        }
        assert_eq!(shares(FILES_UNLIMITED, false).control, CONNECTIONS_MAX);
        assert_eq!(shares(20_000, false).control, CONNECTIONS_MAX);
    }
}
