//! [`Progress`]: the progress of a long operation, which can be read while it runs.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use nekoproto::{FileName, NodeId};
use parking_lot::Mutex;

/// Bytes done and in total. Written by the operation, read by the user interface.
#[derive(Debug, Default)]
pub struct Progress {
    done: AtomicU64,
    kept: AtomicU64,
    total: AtomicU64,
    sources: Mutex<Vec<Arc<SourceProgress>>>,
    /// Files that are in work at the moment, each with its own progress; those of the ended ones are in the sums above.
    parts: Mutex<Vec<(FileName, Arc<Progress>)>>,
    /// What it waits for, if for long.
    waits_for: Mutex<Option<String>>,
}

/// One file of several, while it is in work.
#[derive(Debug)]
pub(crate) struct Part {
    whole: Arc<Progress>,
    /// Its own progress. Its total is not added to that of the whole.
    pub(crate) progress: Arc<Progress>,
}

impl Drop for Part {
    fn drop(&mut self) {
        let mut parts = self.whole.parts.lock();
        parts.retain(|(_, progress)| !Arc::ptr_eq(progress, &self.progress));
        self.whole.done.fetch_add(self.progress.done(), Ordering::Relaxed);
        self.whole.kept.fetch_add(self.progress.kept(), Ordering::Relaxed);
    }
}

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
        let parts = self.parts.lock();
        self.done.load(Ordering::Relaxed) + parts.iter().map(|(_, part)| part.done()).sum::<u64>()
    }

    /// Those of the bytes done that were on disk before; they do not count towards the speed.
    pub fn kept(&self) -> u64 {
        let parts = self.parts.lock();
        self.kept.load(Ordering::Relaxed) + parts.iter().map(|(_, part)| part.kept()).sum::<u64>()
    }

    pub(crate) fn parts(&self) -> Vec<(FileName, Arc<Self>)> {
        self.parts.lock().clone()
    }

    /// Begins the work on one of several files, which goes on beside that on others.
    pub(crate) fn part(self: &Arc<Self>, name: &FileName) -> Part {
        let progress = Arc::new(Self::default());
        self.parts.lock().push((name.clone(), Arc::clone(&progress)));
        Part { whole: Arc::clone(self), progress }
    }

    /// What the operation waits for, as a text for the user; `None` while it moves on.
    pub fn waiting_for(&self) -> Option<String> {
        let own = self.waits_for.lock().clone();
        own.or_else(|| self.parts.lock().iter().find_map(|(_, part)| part.waiting_for()))
    }

    pub(crate) fn waits_for(&self, text: Option<String>) {
        *self.waits_for.lock() = text;
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

    pub(crate) fn mark(&self) -> Mark {
        Mark { done: self.done.load(Ordering::Relaxed), kept: self.kept.load(Ordering::Relaxed) }
    }

    /// A file starts, or starts again, with `bytes` on disk; `mark` is from before its first start.
    pub(crate) fn start_at(&self, mark: Mark, bytes: u64) {
        self.done.store(mark.done + bytes, Ordering::Relaxed);
        self.kept.store(mark.kept + bytes, Ordering::Relaxed);
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_in_work_at_once_count_for_the_whole_and_still_do_when_they_end() {
        let whole = Arc::new(Progress::default());
        let name = |text: &str| FileName::new(text).unwrap();
        whole.add_done(1);
        let (a, b) = (whole.part(&name("a")), whole.part(&name("b")));
        a.progress.start_at(a.progress.mark(), 10);
        b.progress.add_done(100);
        assert_eq!((whole.done(), whole.kept(), whole.parts().len()), (111, 10, 2));
        a.progress.start_at(Mark { done: 0, kept: 0 }, 5);
        assert_eq!((whole.done(), whole.kept()), (106, 5), "one that starts again takes back its own alone");
        drop((a, b));
        assert_eq!((whole.done(), whole.kept(), whole.parts().len()), (106, 5, 0));
    }
}
