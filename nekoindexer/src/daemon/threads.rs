//! The threads of an indexer that is a program of its own.

use std::{io, num::NonZeroUsize};

use tokio::runtime::{Builder, Runtime};

/// Threads unless told otherwise. On one thread nothing is ever handed over to another, which costs more
/// than all else in a query: ten indexers on two cores answer 1.4 times as many queries with one thread
/// each as with two (`docs/performance.md`).
pub const THREADS_DEFAULT: NonZeroUsize = NonZeroUsize::MIN;
/// Threads that may be asked for.
pub const THREADS_MAX: u16 = 1024;

/// A runtime with `threads` threads that serve connections. Long computations, such as checking many
/// signatures, has further threads in either case.
///
/// # Errors
/// The system gives no thread or no poll.
pub fn runtime(threads: NonZeroUsize) -> io::Result<Runtime> {
    match threads.get() {
        1 => Builder::new_current_thread().enable_all().build(),
        several => Builder::new_multi_thread().worker_threads(several).enable_all().build(),
    }
}
