//! What the system tells a daemon, and what the daemon tells systemd.

use std::{
    future::pending,
    io::{self, IsTerminal},
    pin::pin,
};

use sd_notify::NotifyState;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::debug;

/// Requests to read the configuration again: SIGHUP.
#[derive(Debug)]
pub struct Hangups {
    signal: Signal,
    had_terminal: bool,
}

/// Ctrl-C, and requests to terminate.
#[derive(Debug)]
pub struct Stop {
    terminate: Signal,
    interrupt: Signal,
    /// Whether a request to terminate has come.
    pub is_terminated: bool,
}

impl Stop {
    /// From now on neither ends the program.
    ///
    /// # Errors
    /// The system refuses.
    pub fn new() -> io::Result<Self> {
        let (terminate, interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        Ok(Self { terminate, interrupt, is_terminated: false })
    }

    /// Completes on Ctrl-C or a request to terminate.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn wait(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => self.is_terminated = true,
            _ = self.interrupt.recv() => {}
        }
    }
}

impl Hangups {
    /// From now on SIGHUP does not end the program.
    ///
    /// # Errors
    /// The system refuses.
    pub fn new() -> io::Result<Self> {
        Ok(Self { signal: signal(SignalKind::hangup())?, had_terminal: io::stdin().is_terminal() })
    }

    /// Waits for a SIGHUP. Whether the configuration is to be read again; if not, the terminal of the program is gone, and
    /// with it its user.
    async fn next(&mut self) -> bool {
        if self.signal.recv().await.is_none() {
            pending().await
        }
        !self.had_terminal || io::stdin().is_terminal()
    }
}

/// Serves until told to end by `stop`, by a terminal that hangs up, or by `ended`. Does `reload` on SIGHUP, and tells systemd
/// when it begins, reloads and ends.
pub async fn serve(
    stop: &mut Stop,
    mut hangups: Option<Hangups>,
    ended: impl Future<Output = ()>,
    mut reload: impl AsyncFnMut(),
) {
    let mut ended = pin!(ended);
    tell(&[NotifyState::Ready]);
    loop {
        let hangup = async {
            match &mut hangups {
                Some(hangups) => hangups.next().await,
                None => pending().await,
            }
        };
        tokio::select! {
            () = stop.wait() => break,
            () = ended.as_mut() => break,
            is_reload = hangup => {
                if !is_reload {
                    break;
                }
                if let Ok(now) = NotifyState::monotonic_usec_now() {
                    tell(&[NotifyState::Reloading, now]);
                }
                tokio::select! {
                    () = stop.wait() => break, // it may look up names
                    () = reload() => tell(&[NotifyState::Ready]),
                }
            }
        }
    }
    tell(&[NotifyState::Stopping]);
}

fn tell(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        debug!(%error, "systemd was not told");
    }
}
