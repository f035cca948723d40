//! [`Progress`]: how far a long operation has come, to be read while it runs.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use nekoproto::NodeId;
use parking_lot::Mutex;

/// Bytes done and bytes to do. Written by the operation, read by whoever shows it.
#[derive(Debug, Default)]
pub struct Progress {
    done: AtomicU64,
    total: AtomicU64,
    sources: Mutex<Vec<Arc<SourceProgress>>>,
}

/// What one source of a download has sent.
#[derive(Debug)]
pub struct SourceProgress {
    /// Who it is.
    pub node: NodeId,
    /// Where it is.
    pub addr: SocketAddr,
    bytes: AtomicU64,
}

impl SourceProgress {
    /// File bytes received from it so far, those of corrupt chunks and of chunks that another source
    /// sent first included.
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

    /// Bytes to do altogether; 0 while that is not known.
    pub fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    /// What each source has sent so far, in the order in which they were first asked.
    pub fn sources(&self) -> Vec<Arc<SourceProgress>> {
        self.sources.lock().clone()
    }

    /// The counter of one source; the same for as long as the download lasts.
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

    /// As far as a download is when it begins, or begins again.
    pub(crate) fn set_done(&self, bytes: u64) {
        self.done.store(bytes, Ordering::Relaxed);
    }

    pub(crate) fn add_done(&self, bytes: u64) {
        self.done.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn counter(&self) -> &AtomicU64 {
        &self.done
    }
}
