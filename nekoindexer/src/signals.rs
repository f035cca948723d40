//! What the system tells a daemon, and what the daemon tells systemd.

use std::io::{self, IsTerminal};

use sd_notify::NotifyState;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::debug;

/// Requests to read the configuration again: SIGHUP.
#[derive(Debug)]
pub struct Hangups {
    signal: Signal,
    had_terminal: bool,
}

/// What SIGHUP means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hangup {
    /// The configuration is to be read again.
    Reload,
    /// The terminal of the program is gone, and with it its user.
    Leave,
}

impl Hangups {
    /// From now on SIGHUP does not end the program.
    ///
    /// # Errors
    /// The system refuses.
    pub fn new() -> io::Result<Self> {
        Ok(Self { signal: signal(SignalKind::hangup())?, had_terminal: io::stdin().is_terminal() })
    }

    /// Waits for the next SIGHUP.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn next(&mut self) -> Hangup {
        if self.signal.recv().await.is_none() {
            std::future::pending().await
        }
        // A terminal that hung up is none any more.
        if self.had_terminal && !io::stdin().is_terminal() { Hangup::Leave } else { Hangup::Reload }
    }
}

/// Tells systemd, if it waits for that, that the daemon serves.
pub fn ready() {
    tell(&[NotifyState::Ready]);
}

/// Tells systemd that the daemon ends.
pub fn stopping() {
    tell(&[NotifyState::Stopping]);
}

/// Does `reload`, and tells systemd when it begins and ends.
pub fn reloading<T>(reload: impl FnOnce() -> T) -> T {
    if let Ok(now) = NotifyState::monotonic_usec_now() {
        tell(&[NotifyState::Reloading, now]);
    }
    let done = reload();
    ready();
    done
}

fn tell(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        debug!(%error, "systemd was not told");
    }
}
