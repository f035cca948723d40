//! [`Progress`]: the progress of a long operation, which can be read while it runs.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use nekoproto::NodeId;
use parking_lot::Mutex;

/// Bytes done and in total. Written by the operation, read by the user interface.
#[derive(Debug, Default)]
pub struct Progress {
    done: AtomicU64,
    kept: AtomicU64,
    total: AtomicU64,
    sources: Mutex<Vec<Arc<SourceProgress>>>,
}

/// Bytes done and kept at one time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    done: u64,
    kept: u64,
}

/// Bytes received from one source of a download.
#[derive(Debug)]
pub struct SourceProgress {
    /// The source's id.
    pub node: NodeId,
    /// The source's address.
    pub addr: SocketAddr,
    bytes: AtomicU64,
}

impl SourceProgress {
    /// Useful file bytes received from it so far: not those of corrupt chunks, nor of chunks that another source
    /// delivered first.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn add(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

impl Progress {
    /// Bytes done so far.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Those of the bytes done that were on disk before; they do not count towards the speed.
    pub fn kept(&self) -> u64 {
        self.kept.load(Ordering::Relaxed)
    }

    /// Bytes in total; 0 while unknown.
    pub fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    /// The sources so far, in the order in which they were first asked.
    pub fn sources(&self) -> Vec<Arc<SourceProgress>> {
        self.sources.lock().clone()
    }

    /// The counter of one source; the same one throughout the download.
    pub(crate) fn source(&self, node: NodeId, addr: SocketAddr) -> Arc<SourceProgress> {
        let mut sources = self.sources.lock();
        if let Some(known) = sources.iter().find(|known| known.node == node && known.addr == addr) {
            return Arc::clone(known);
        }
        let source = Arc::new(SourceProgress { node, addr, bytes: AtomicU64::new(0) });
        sources.push(Arc::clone(&source));
        source
    }

    pub(crate) fn set_total(&self, bytes: u64) {
        self.total.store(bytes, Ordering::Relaxed);
    }

    /// Where it stands, before one of several files.
    pub(crate) fn mark(&self) -> Mark {
        Mark { done: self.done(), kept: self.kept() }
    }

    /// A file starts, or starts again, with `bytes` on disk; `mark` is from before its first start.
    pub(crate) fn start_at(&self, mark: Mark, bytes: u64) {
        self.done.store(mark.done + bytes, Ordering::Relaxed);
        self.kept.store(mark.kept + bytes, Ordering::Relaxed);
    }

    /// Adds bytes that were found on disk.
    pub(crate) fn add_kept(&self, bytes: u64) {
        self.kept.fetch_add(bytes, Ordering::Relaxed);
        self.add_done(bytes);
    }

    pub(crate) fn add_done(&self, bytes: u64) {
        self.done.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn counter(&self) -> &AtomicU64 {
        &self.done
    }
}
