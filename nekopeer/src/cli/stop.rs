//! Waiting for Ctrl-C or a request to terminate.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Completes on Ctrl-C or a request to terminate.
pub(super) struct Stop {
    terminate: Signal,
    interrupt: Signal,
    /// Whether a request to terminate has come.
    pub(super) is_terminated: bool,
}

impl Stop {
    pub(super) fn new() -> io::Result<Self> {
        let (terminate, interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        Ok(Self { terminate, interrupt, is_terminated: false })
    }

    pub(super) async fn wait(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => self.is_terminated = true,
            _ = self.interrupt.recv() => {}
        }
    }
}
