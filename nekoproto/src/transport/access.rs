//! [`Access`]: who may be connected to, in either direction.

use std::{
    collections::HashSet,
    future::poll_fn,
    io,
    path::{Path, PathBuf},
    pin::pin,
    sync::Arc,
    task::Poll,
};

use parking_lot::Mutex;
use tokio::sync::watch;

use super::secret::NetworkSecret;
use crate::{limits::ALLOWED_MAX, small_file::read_text, values::NodeId};

/// Bytes of a list: each node in a line of its own, with a comment.
const LIST_BYTES_MAX: u64 = 256 * ALLOWED_MAX as u64;

/// Who may be connected to: everybody unless told otherwise. Clones share the list of allowed nodes.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// What both ends of every connection have to know, in a private network.
    pub secret: Option<NetworkSecret>,
    /// The nodes that connections are made with.
    pub allowed: Allowed,
}

/// The nodes that connections are made with: all, or those of a list that may be replaced. Clones share it.
#[derive(Clone, Debug)]
pub struct Allowed {
    list: watch::Sender<Option<Arc<HashSet<NodeId>>>>,
    /// The nodes of this process: one may connect to the other, as a peer does to the indexer that it started.
    own: Arc<Mutex<HashSet<NodeId>>>,
}

/// Why a list of nodes cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AllowError {
    /// The file cannot be read.
    #[error("cannot read the list of allowed nodes in {path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A line is not a node's id.
    #[error(
        "{path}:{line}: {text:?} is no node's id: expected 64 hexadecimal digits, as the command `id` prints them"
    )]
    Line {
        /// The file.
        path: PathBuf,
        /// The number of the line, from 1.
        line: usize,
        /// What it says.
        text: String,
    },
    /// There was a list, and is none any more.
    #[error("there is no list of allowed nodes any more; start anew to let all nodes in")]
    Gone,
    /// The list is too long.
    #[error("{0} names more than {ALLOWED_MAX} nodes")]
    TooMany(PathBuf),
}

impl Access {
    /// Whether only nodes that know a secret, or that a list names, get in: all others are known to the operator.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.secret.is_some() || self.allowed.list.borrow().is_some()
    }
}

impl Default for Allowed {
    fn default() -> Self {
        Self { list: watch::Sender::new(None), own: Arc::default() }
    }
}

impl Allowed {
    /// Whether connections with `node` are allowed.
    #[must_use]
    pub fn admits(&self, node: NodeId) -> bool {
        self.list.borrow().as_ref().is_none_or(|list| list.contains(&node) || self.own.lock().contains(&node))
    }

    /// `node` is of this process, and always allowed.
    pub(super) fn admit_own(&self, node: NodeId) {
        self.own.lock().insert(node);
    }

    /// From now on the nodes in the file at `path` are allowed, or all if there never was a file. Connections with others
    /// end. Returns how many nodes were put in and how many taken out.
    ///
    /// # Errors
    /// The file cannot be used, or there was one before and is none now: a configuration that is empty while it is written
    /// lets nobody in. The list stays as it was.
    pub fn load(&self, path: Option<&Path>) -> Result<(usize, usize), AllowError> {
        if path.is_none() && self.list.borrow().is_some() {
            return Err(AllowError::Gone);
        }
        let list = path.map(read).transpose()?.map(Arc::new);
        let old = self.list.send_replace(list.clone()).unwrap_or_default();
        let new = list.unwrap_or_default();
        Ok((new.difference(&old).count(), old.difference(&new).count()))
    }

    /// Runs `work`, what is done for a connection with `node`, until it is done or `node` is not allowed any more.
    pub(super) async fn while_admitted(&self, node: NodeId, work: impl Future<Output = ()>) {
        let (mut list, seen) = (self.list.subscribe(), self.list.subscribe());
        let mut work = pin!(work);
        while self.admits(node) {
            let mut seen = seen.clone();
            seen.mark_unchanged();
            let mut changes = pin!(list.changed());
            let mut is_awaited = false;
            // Polled once, `changes` wakes this task; the work is polled far more often than lists change.
            let is_done = poll_fn(|cx| {
                if !is_awaited || seen.has_changed().unwrap_or(true) {
                    is_awaited = true;
                    if changes.as_mut().poll(cx).is_ready() {
                        return Poll::Ready(false);
                    }
                }
                work.as_mut().poll(cx).map(|()| true)
            });
            if is_done.await {
                return;
            }
        }
    }
}

/// The nodes of a file: one id a line, `#` begins a comment.
fn read(path: &Path) -> Result<HashSet<NodeId>, AllowError> {
    let text = read_text(path, LIST_BYTES_MAX)
        .map_err(|source| AllowError::File { path: path.to_owned(), source })?;
    let mut nodes = HashSet::new();
    for (at, line) in text.lines().enumerate() {
        let id = line.split_once('#').map_or(line, |(id, _)| id).trim();
        if id.is_empty() {
            continue;
        }
        let wrong =
            |_| AllowError::Line { path: path.to_owned(), line: at + 1, text: id.chars().take(80).collect() };
        nodes.insert(id.parse().map_err(wrong)?);
        if nodes.len() > ALLOWED_MAX {
            return Err(AllowError::TooMany(path.to_owned()));
        }
    }
    Ok(nodes)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn pipe_or_device_is_no_list_and_nobody_waits_for_it() {
        let (folder, pipe) = testkit::temp_path("pipe");
        testkit::pipe(&pipe);
        for path in [pipe.as_path(), Path::new("/dev/zero"), folder.path()] {
            assert!(matches!(read(path), Err(AllowError::File { .. })), "{path:?}");
        }
    }

    fn node(byte: u8) -> NodeId {
        NodeId::from_bytes([byte; 32])
    }

    #[test]
    fn list_is_read_with_comments_replaced_as_a_whole_and_kept_when_it_is_bad_or_gone() {
        let (_folder, path) = testkit::temp_path("allow");
        let allowed = Allowed::default();
        allowed.load(None).unwrap();
        assert!(allowed.admits(node(3)), "without a list all are allowed");
        fs::write(&path, format!("# the lab\n{}  # desk\n\n\t{}\n", node(1), node(2))).unwrap();
        assert_eq!(allowed.load(Some(&path)).unwrap(), (2, 0));
        assert!(allowed.admits(node(1)) && allowed.admits(node(2)) && !allowed.admits(node(3)));
        fs::write(&path, node(3).to_string()).unwrap();
        assert_eq!(allowed.clone().load(Some(&path)).unwrap(), (1, 2));
        let is_the_second = || allowed.admits(node(3)) && !allowed.admits(node(1));
        assert!(is_the_second(), "a clone shares the list");
        fs::write(&path, format!("{}\nnot a key\n", node(1))).unwrap();
        let error = allowed.load(Some(&path)).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{}:2: \"not a key\"", path.display())), "{error}");
        assert!(is_the_second(), "{error}");
        assert!(matches!(allowed.load(None), Err(AllowError::Gone)));
        assert!(is_the_second(), "a list that is gone lets nobody in");
    }

    #[tokio::test]
    async fn whoever_is_taken_off_the_list_is_told_at_once() {
        let (_folder, path) = testkit::temp_path("allow");
        let allowed = Allowed::default();
        let mut waits = Box::pin(allowed.while_admitted(node(1), std::future::pending()));
        assert!(futures::poll!(&mut waits).is_pending());
        fs::write(&path, node(1).to_string()).unwrap();
        allowed.load(Some(&path)).unwrap();
        assert!(futures::poll!(&mut waits).is_pending());
        fs::write(&path, "").unwrap();
        allowed.load(Some(&path)).unwrap();
        waits.await;
    }
}
