//! Whether an indexer is unresponsive: it was silent for longer than a limit that follows the smoothed round trip.

use std::time::{Duration, Instant};

/// Silence after which nobody waits for an indexer, at least: it is told when it answers again.
pub(crate) const SILENT_MAX: Duration = Duration::from_secs(1);
/// The same for one that was silent as long before, and has answered nothing since.
const UNRESPONSIVE_MAX: Duration = Duration::from_millis(100);
/// Silence after which an indexer is asked for a sign of life, at least.
const SIGN_AFTER: Duration = Duration::from_millis(50);
/// The longest round trip that is believed: what takes longer waits for more than the link.
const ROUND_TRIP_MAX: Duration = Duration::from_secs(1);

/// What the answers of an indexer say of it and of the link to it. Each connection begins anew, with the round trip that it took
/// to connect.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Liveness {
    /// Smoothed.
    round_trip: Duration,
    heard_at: Option<Instant>,
    is_unresponsive: bool,
}

impl Liveness {
    /// Of a connection whose round trip this was.
    pub(crate) fn over(round_trip: Duration) -> Self {
        Self { round_trip: round_trip.min(ROUND_TRIP_MAX), ..Self::default() }
    }

    /// The indexer answered at `now` what it was asked at `asked_at`. No answer comes sooner than the link allows.
    pub(crate) fn heard(&mut self, asked_at: Instant, now: Instant) {
        self.round_trip = self.round_trip.min(now.saturating_duration_since(asked_at));
        (self.heard_at, self.is_unresponsive) = (Some(now), false);
    }

    /// The same of a sign of life, which an indexer gives at once.
    pub(crate) fn measured(&mut self, asked_at: Instant, now: Instant) {
        let sample = now.saturating_duration_since(asked_at).min(ROUND_TRIP_MAX);
        let is_first = self.round_trip.is_zero();
        self.round_trip = if is_first { sample } else { (self.round_trip * 7 + sample) / 8 };
        self.heard(asked_at, now);
    }

    /// The indexer, asked something at `asked_at`, was silent as long as [`limits`](Self::limits) said then.
    pub(crate) fn silent(&mut self, asked_at: Instant) {
        self.is_unresponsive = !self.was_heard_since(asked_at);
    }

    pub(crate) fn was_heard_since(&self, at: Instant) -> bool {
        self.heard_at.is_some_and(|heard_at| heard_at >= at)
    }

    /// Silence after which it is asked for a sign of life, and after which it is given up: the sign has two round trips.
    pub(crate) fn limits(&self) -> (Duration, Duration) {
        let silent_max = if self.is_unresponsive { UNRESPONSIVE_MAX } else { SILENT_MAX };
        (SIGN_AFTER.max(self.round_trip * 2), silent_max.max(self.round_trip * 4))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_follow_the_round_trip_and_any_answer_ends_the_doubt() {
        let (begin, ms) = (Instant::now(), Duration::from_millis);
        let mut liveness = Liveness::default();
        assert_eq!(liveness.limits(), (ms(50), ms(1000)));
        liveness.silent(begin);
        assert_eq!(liveness.limits(), (ms(50), ms(100)), "nothing is known of its link");
        assert_eq!(Liveness::over(ms(500)).limits(), (ms(1000), ms(2000)), "it took so long to connect");
        liveness.measured(begin, begin + ms(80));
        assert_eq!(liveness.limits(), (ms(160), ms(1000)), "a late sign counts");
        liveness.silent(begin);
        assert_eq!(liveness.limits().1, ms(1000), "it was heard since");
        liveness.silent(begin + ms(81));
        assert_eq!(liveness.limits(), (ms(160), ms(320)), "a sign may take two round trips");
        liveness.heard(begin, begin + ms(9000));
        assert_eq!(liveness.limits(), (ms(160), ms(1000)), "of an answer that took long no limit follows");
        (0..99).for_each(|_| liveness.measured(begin, begin + ms(60_000)));
        assert!(liveness.limits().1 <= 4 * ROUND_TRIP_MAX);
        liveness.heard(begin, begin + ms(20));
        assert_eq!(liveness.limits(), (ms(50), ms(1000)), "no link is slower than an answer");
    }
}
