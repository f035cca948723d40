//! [`TurnedAway`]: the log of those who were refused for want of the secret or a place on the list.

use std::{
    net::{IpAddr, SocketAddr},
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tracing::{debug, warn};

use super::error::ConnectError;
use crate::messages::HelloRefusal;

/// Lines for each [`WITHIN`]; further ones are counted, so that strangers cannot fill the log.
const LINES_MAX: usize = 10;
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
    /// What the lines since then are of.
    written: Vec<Option<Stranger>>,
    left_out: u64,
}

/// Who was refused, and why.
type Stranger = (IpAddr, &'static str);

impl TurnedAway {
    /// Logs why the handshake of a connection from `from` failed.
    pub(super) fn log(&self, from: Option<SocketAddr>, error: &ConnectError) {
        let shown = from.map(tracing::field::display);
        let Some(why) = reason(error) else { return debug!(from = shown, %error, "connection refused") };
        let line = self.lines.lock().take(from.map(|from| (from.ip(), why)), Instant::now());
        match line {
            Some(0) => warn!(from = shown, "connection refused: {why}"),
            Some(left_out) => warn!(from = shown, left_out, "connection refused: {why}"),
            None => debug!(from = shown, "connection refused: {why}"),
        }
    }
}

impl Lines {
    /// The number of lines that were left out before this one; `None` leaves this one out too, as one of the same node.
    fn take(&mut self, of: Option<Stranger>, now: Instant) -> Option<u64> {
        if self.since.is_none_or(|since| now.duration_since(since) >= WITHIN) {
            self.since = Some(now);
            self.written.clear();
        }
        if self.written.len() == LINES_MAX || of.is_some() && self.written.contains(&of) {
            self.left_out += 1;
            return None;
        }
        self.written.push(of);
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
        let from = |n: usize| Some((IpAddr::from([10, 0, 0, u8::try_from(n).unwrap()]), "why"));
        let written = (0..LINES_MAX + 5).filter_map(|n| lines.take(from(n), now)).count();
        assert_eq!(written, LINES_MAX);
        assert_eq!(lines.take(from(0), now + WITHIN), Some(5));
        assert_eq!(lines.take(from(0), now + WITHIN), None, "one that tries again");
        assert_eq!(lines.take(from(1), now + WITHIN), Some(1));
        assert_eq!(lines.take(from(1), now + 2 * WITHIN), Some(0));
    }
}
