//! Which threads run what. A hand-over between two threads costs more than all else in a call, so
//! the layout decides a measurement, and the floor must be laid out as the calls are. Where two threads that talk to
//! each other are is not left to the system: on one core a message costs some microseconds, between two many more.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use tokio::runtime::Runtime;

use crate::prelude::*;
use crate::report::option_name;

/// Which threads run what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Layout {
    /// Clients and indexers on one thread: no hand-over anywhere, so that least depends on luck
    One,
    /// Clients and indexers on the same pool of threads, one for each core
    Shared,
    /// Clients on one thread, indexers on another, each on a core of its own
    Split,
    /// A thread on each core; indexers are spread over them, each with its clients beside it
    Cores,
    /// Each indexer a process with a pool of threads of its own, the clients one thread here
    #[value(skip)]
    Processes,
}

impl Layout {
    pub fn name(self) -> String {
        if self == Self::Processes { "processes".to_owned() } else { option_name(&self) }
    }
}

/// The runtimes of one layout. Dropping them ends all that runs there.
#[derive(Debug)]
pub struct Runtimes {
    layout: Layout,
    here: Runtime,
    beside: Vec<Beside>,
}

/// A runtime on a thread of its own.
#[derive(Debug)]
struct Beside {
    handle: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Runtimes {
    /// Makes the runtimes of `layout`. The calling thread is the clients', or some of theirs; where a
    /// thread has a core of its own it stays there from then on.
    pub fn new(layout: Layout) -> io::Result<Self> {
        let here = match layout {
            Layout::Shared => Builder::new_multi_thread().enable_all().build()?,
            Layout::One | Layout::Split | Layout::Cores | Layout::Processes => single()?,
        };
        let beside = match layout {
            Layout::One | Layout::Shared | Layout::Processes => 1..1,
            Layout::Split => 1..2,
            Layout::Cores => 1..cores(),
        };
        let beside = beside.map(Beside::start).collect::<io::Result<Vec<_>>>()?;
        if !beside.is_empty() {
            keep_on_core(0);
        }
        Ok(Self { layout, here, beside })
    }

    /// Runs `work` where the clients run, or some of them; it is given the runtimes for the indexers.
    pub fn run<F: Future>(&self, work: impl FnOnce(Arc<[Handle]>) -> F) -> F::Output {
        let beside = self.beside.iter().map(|beside| beside.handle.clone());
        let here = (self.layout != Layout::Split).then(|| self.here.handle().clone());
        self.here.block_on(work(here.into_iter().chain(beside).collect()))
    }
}

fn single() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

impl Beside {
    fn start(n: usize) -> io::Result<Self> {
        let runtime = single()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let run = move || {
            keep_on_core(n);
            // Either way, told to or left alone, it is over.
            let _ = runtime.block_on(stopped);
        };
        let thread = thread::Builder::new().name(format!("core {n}")).spawn(run)?;
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

/// The cores this process may use. A thread inherits the cores of its maker, so they are asked for
/// before the first thread is kept on one.
fn allowed() -> Option<CpuSet> {
    static ALLOWED: OnceLock<Option<CpuSet>> = OnceLock::new();
    *ALLOWED.get_or_init(|| sched_getaffinity(None).ok())
}

/// Keeps the calling thread on the `n`-th of the cores this process may use; with fewer cores, on any.
pub fn keep_on_core(n: usize) {
    let Some(allowed) = allowed() else { return };
    let Some(core) = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).nth(n) else { return };
    let mut only = CpuSet::new();
    only.set(core);
    let _ = sched_setaffinity(None, &only); // refused, it is measured with more noise
}

/// Lets the calling thread run on every core again, wherever its maker is kept.
pub fn on_any_core() {
    if let Some(allowed) = allowed() {
        let _ = sched_setaffinity(None, &allowed); // as above
    }
}

pub fn cores() -> usize {
    let all = |allowed: CpuSet| usize::try_from(allowed.count()).unwrap_or(1);
    allowed().map_or_else(|| thread::available_parallelism().map_or(1, std::num::NonZero::get), all)
}

/// Runs `work` on a thread of its own, which may be kept on a core without consequences for others.
pub fn on_own_thread<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T> {
    thread::scope(|scope| scope.spawn(work).join()).map_err(|_| anyhow!("a measuring thread panicked"))
}
