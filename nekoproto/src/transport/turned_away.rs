//! [`TurnedAway`]: the log of those who were refused for want of the secret or a place on the list.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tracing::{debug, warn};

use super::error::ConnectError;
use crate::messages::HelloRefusal;

/// Lines for each [`WITHIN`]; further ones are counted, so that strangers cannot fill the log.
const LINES_MAX: u32 = 10;
/// See [`LINES_MAX`].
const WITHIN: Duration = Duration::from_secs(60);

/// Logs refused connections, those of strangers to a private network as warnings and in a bounded number.
#[derive(Debug, Default)]
pub(super) struct TurnedAway {
    lines: Mutex<Lines>,
}

#[derive(Debug, Default)]
struct Lines {
    since: Option<Instant>,
    written: u32,
    left_out: u64,
}

impl TurnedAway {
    /// Logs why the handshake of a connection from `from` failed.
    pub(super) fn log(&self, from: Option<SocketAddr>, error: &ConnectError) {
        let from = from.map(tracing::field::display);
        let Some(why) = reason(error) else { return debug!(from, %error, "connection refused") };
        let line = self.lines.lock().take(Instant::now());
        match line {
            Some(0) => warn!(from, "connection refused: {why}"),
            Some(left_out) => warn!(from, left_out, "connection refused: {why}"),
            None => debug!(from, "connection refused: {why}"),
        }
    }
}

impl Lines {
    /// The number of lines that were left out before this one; `None` leaves this one out too.
    fn take(&mut self, now: Instant) -> Option<u64> {
        if self.since.is_none_or(|since| now.duration_since(since) >= WITHIN) {
            (self.since, self.written) = (Some(now), 0);
        }
        if self.written == LINES_MAX {
            self.left_out += 1;
            return None;
        }
        self.written += 1;
        Some(std::mem::take(&mut self.left_out))
    }
}

/// What the operator of the refusing node should know.
const fn reason(error: &ConnectError) -> Option<&'static str> {
    match error {
        ConnectError::Refused(HelloRefusal::SecretMissing) => {
            Some("it gave no secret, and this network has one")
        }
        ConnectError::Refused(HelloRefusal::SecretWrong) => Some("it has another network secret"),
        ConnectError::Refused(HelloRefusal::SecretUnasked) => {
            Some("it has a network secret, and this node has none")
        }
        ConnectError::Refused(HelloRefusal::NotAllowed) => Some("it is not on the list of allowed nodes"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_bounded_and_those_left_out_are_counted() {
        let (mut lines, now) = (Lines::default(), Instant::now());
        let written = (0..LINES_MAX + 5).filter_map(|_| lines.take(now)).count();
        assert_eq!(written, LINES_MAX as usize);
        assert_eq!(lines.take(now + WITHIN), Some(5));
        assert_eq!(lines.take(now + WITHIN), Some(0));
    }
}
