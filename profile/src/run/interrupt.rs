//! Ctrl-C: ends a run early, with what was measured by then.

use std::sync::Arc;

use tokio::signal::unix::{SignalKind, signal};

use super::Watch;

/// Stops the run of `watch` at Ctrl-C or SIGTERM.
pub fn listen(watch: Arc<Watch>) -> std::io::Result<()> {
    let (mut interrupts, mut terminations) =
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    tokio::spawn(async move {
        tokio::select! {
            _ = interrupts.recv() => {}
            _ = terminations.recv() => {}
        }
        watch.stop();
    });
    Ok(())
}
