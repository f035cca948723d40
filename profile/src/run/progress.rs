//! The progress bar: drawn by a thread of its own from a counter, so that clients never wait for it.
//! Where stderr is no terminal, one line says what has begun.

use std::sync::atomic::{AtomicBool, Ordering};
use std::{fmt, io::Write, sync::Arc, thread, time::Duration};

use indicatif::{ProgressBar, ProgressState, ProgressStyle};

use super::Watch;
use crate::cluster::affinity::on_any_core;

const DRAWN_EVERY: Duration = Duration::from_millis(200);

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
            // Nobody is left to tell if stderr is closed.
            let _ = writeln!(std::io::stderr(), "measuring {label}, {total} to do");
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

/// Says something on stderr.
pub(crate) fn note(text: &str) {
    // Nobody is left to tell if stderr is closed.
    let _ = writeln!(std::io::stderr(), "{text}");
}
