//! Which threads run what. A hand-over between two threads costs more than all else in a call, so
//! the layout decides a measurement, and the floor must be laid out as the calls are.

use std::{io, thread};

use crate::cluster::affinity::keep_on_core;
use clap::ValueEnum;
use tokio::{
    runtime::{Builder, Handle, Runtime},
    sync::oneshot,
};

/// Which threads run what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Layout {
    /// Clients and indexers on one thread: no hand-over anywhere, so that least depends on luck
    One,
    /// Clients and indexers on the same pool of threads, one for each core
    Shared,
    /// Clients on one thread, indexers on another, each on a core of its own
    Split,
    /// Each indexer a process with a pool of threads of its own, the clients one thread here
    #[value(skip)]
    Processes,
}

impl Layout {
    /// Its name, as in the results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::One => "one",
            Self::Shared => "shared",
            Self::Split => "split",
            Self::Processes => "processes",
        }
    }
}

/// The runtimes of one layout. Dropping them ends all that runs there.
#[derive(Debug)]
pub struct Runtimes {
    clients: Runtime,
    beside: Option<Beside>,
}

/// A runtime on a thread of its own.
#[derive(Debug)]
struct Beside {
    handle: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Runtimes {
    /// Makes the runtimes of `layout`. The calling thread is the clients'; with [`Layout::Split`] it
    /// stays on its core from then on.
    ///
    /// # Errors
    /// The system gives no thread or no poll.
    pub fn new(layout: Layout) -> io::Result<Self> {
        let clients = match layout {
            Layout::Shared => Builder::new_multi_thread().enable_all().build()?,
            Layout::One | Layout::Split | Layout::Processes => single()?,
        };
        let beside = (layout == Layout::Split).then(Beside::start).transpose()?;
        if beside.is_some() {
            keep_on_core(0);
        }
        Ok(Self { clients, beside })
    }

    /// Runs `work` where the clients run; it is given the runtime for the indexers.
    pub fn run<F: Future>(&self, work: impl FnOnce(Handle) -> F) -> F::Output {
        let indexers = self.beside.as_ref().map_or_else(|| self.clients.handle(), |beside| &beside.handle);
        self.clients.block_on(work(indexers.clone()))
    }
}

fn single() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

impl Beside {
    fn start() -> io::Result<Self> {
        let runtime = single()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let run = move || {
            keep_on_core(1);
            // Either way, told to or left alone, it is over.
            let _ = runtime.block_on(stopped);
        };
        let thread = thread::Builder::new().name("indexers".to_owned()).spawn(run)?;
        Ok(Self { handle, stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        drop(self.stop.take());
        // A panic over there has been printed already.
        let _ = self.thread.take().map(thread::JoinHandle::join);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexers_run_where_the_layout_says() {
        for (layout, apart) in [(Layout::One, false), (Layout::Split, true)] {
            let runtimes = Runtimes::new(layout).unwrap();
            let (here, there) = runtimes.run(|indexers| async move {
                let there = indexers.spawn(async { thread::current().id() }).await.unwrap();
                (thread::current().id(), there)
            });
            assert_eq!(here != there, apart, "{layout:?}");
        }
    }
}
