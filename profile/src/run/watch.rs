//! What watches a run and may end it, waits for a state that sends no event, and shows how far the run has come: by a bar,
//! drawn by a thread of its own from a counter, so that clients never wait for it; where stderr is no terminal, one line
//! says what has begun.

use std::fmt;

use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use tokio::time::Instant;

use crate::cluster::layout::on_any_core;
use crate::prelude::*;

/// How long nodes may take to find each other, and each other's files.
pub(crate) const LINKED_WITHIN: Duration = Duration::from_secs(30);
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(20);
const DRAWN_EVERY: Duration = Duration::from_millis(200);

/// Looks until nothing is amiss; what is amiss when the time is over is the error.
pub(crate) async fn until(
    within: Duration,
    mut look: impl AsyncFnMut() -> Result<Option<String>>,
) -> Result<()> {
    let deadline = Instant::now() + within;
    while let Some(amiss) = look().await? {
        ensure!(Instant::now() < deadline, "{amiss}");
        sleep(LOOK_AGAIN_AFTER).await;
    }
    Ok(())
}

/// How far a run has come, and whether it should go on.
#[derive(Debug, Default)]
pub struct Watch {
    done: AtomicU64,
    /// The same as `stopped`, for loops that must not take a lock to look.
    stop: AtomicBool,
    stopped: CancellationToken,
}

impl Watch {
    /// Requests or names that are done with, in what is going on now.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    pub(crate) fn begin(&self) {
        self.done.store(0, Ordering::Relaxed);
    }

    pub fn add_done(&self, more: u64) {
        self.done.fetch_add(more, Ordering::Relaxed);
    }

    /// Ends the run early: what was measured by then is kept.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.stopped.cancel();
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Does `step` again and again while it says so, until the time is over or the run is stopped; how long that took. It is
    /// given the time since the beginning.
    pub(crate) async fn during(
        &self,
        lasts: Duration,
        mut step: impl AsyncFnMut(Duration) -> bool,
    ) -> Duration {
        let began = Instant::now();
        while began.elapsed() < lasts && !self.is_stopped() && step(began.elapsed()).await {}
        began.elapsed()
    }

    /// What `work` gives, unless the run is stopped before; then `work` is dropped.
    pub async fn unless_stopped<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        tokio::select! {
            done = work => done,
            () = self.stopped.cancelled() => bail!("interrupted before anything was measured"),
        }
    }
}

/// A bar on stderr, if that is a terminal; gone when dropped.
#[derive(Debug)]
pub(crate) struct Progress {
    ended: Arc<AtomicBool>,
    drawing: Option<thread::JoinHandle<()>>,
}

impl Progress {
    /// Something else begins: shows how far `watch` has come with it, of `total` requests or names.
    pub(crate) fn begin(label: &str, total: usize, watch: &Arc<Watch>) -> Self {
        watch.begin();
        let bar = ProgressBar::new(total as u64).with_message(label.to_owned());
        if let Ok(style) = ProgressStyle::with_template("{msg:>12} {bar:40} {pos}/{len}  {rate}  {eta} left")
        {
            bar.set_style(style.with_key("rate", |state: &ProgressState, out: &mut dyn fmt::Write| {
                let _ = write!(out, "{:.0}/s", state.per_sec()); // a line that cannot be written is not shown
            }));
        }
        if bar.is_hidden() {
            note(&format!("measuring {label}, {total} to do"));
        }
        let ended = Arc::new(AtomicBool::new(bar.is_hidden()));
        let draw = {
            let (ended, watch) = (Arc::clone(&ended), Arc::clone(watch));
            move || {
                on_any_core();
                while !ended.load(Ordering::Relaxed) {
                    bar.set_position(watch.done().min(total as u64));
                    thread::park_timeout(DRAWN_EVERY);
                }
                bar.finish_and_clear();
            }
        };
        // Without a thread there is no bar, and the run goes on.
        let drawing = thread::Builder::new().name("progress".to_owned()).spawn(draw).ok();
        Self { ended, drawing }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        if let Some(drawing) = self.drawing.take() {
            drawing.thread().unpark();
            // It draws nothing any more, even if it panicked.
            let _ = drawing.join();
        }
    }
}

pub(crate) fn note(text: &str) {
    // Nobody is left to tell if stderr is closed.
    let _ = writeln!(io::stderr(), "{text}");
}
