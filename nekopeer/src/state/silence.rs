//! How long a download goes on while nothing comes.

use std::time::Duration;

/// Time without bytes at the least speed and without a plea for patience after which a download ends,
pub(crate) const SILENCE_MAX: Duration = Duration::from_secs(20);
/// and the same with such pleas: sources that are busy, or have not got the chunks themselves, are not asked for ever.
const PATIENCE_MAX: Duration = Duration::from_secs(180);
/// Time between two looks at the silence from which on this process is taken to have been stopped: it looks each half second.
const STOPPED_FROM: Duration = Duration::from_secs(3);

/// When bytes came last at the least speed, and when a source asked for patience last.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Silence {
    came_at: Duration,
    alive_at: Duration,
    looked_at: Duration,
}

impl Silence {
    /// Bytes came, or none of the sources is to blame that they did not.
    pub(crate) const fn came(&mut self, now: Duration) {
        (self.came_at, self.alive_at) = (now, now);
    }

    /// A source is busy, or has not got yet what it was asked for.
    pub(crate) const fn asked_for_patience(&mut self, now: Duration) {
        self.alive_at = now;
    }

    /// How long no source did what it can.
    pub(crate) const fn lasts(&self, now: Duration) -> Duration {
        now.saturating_sub(self.alive_at)
    }

    /// The limit that is reached, if one is. For the time in which this process was stopped no source is to blame.
    pub(crate) fn over(&mut self, now: Duration) -> Option<Duration> {
        if now.saturating_sub(std::mem::replace(&mut self.looked_at, now)) >= STOPPED_FROM {
            self.came(now);
        }
        let limits = [(self.came_at, PATIENCE_MAX), (self.alive_at, SILENCE_MAX)];
        limits.into_iter().find(|(since, max)| now.saturating_sub(*since) >= *max).map(|(_, max)| max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// When the download ends whose sources send each `comes` seconds and ask for patience each other second.
    fn ends_at(comes: Option<u64>, pleads: bool) -> Option<(u64, u64)> {
        let mut silence = Silence::default();
        (0..1000).find_map(|now| {
            let at = Duration::from_secs(now);
            if comes.is_some_and(|comes| now % comes == 0) {
                silence.came(at);
            }
            if pleads {
                silence.asked_for_patience(at);
            }
            silence.over(at).map(|limit| (now, limit.as_secs()))
        })
    }

    #[test]
    fn sources_that_only_ask_for_patience_are_given_up_later_than_silent_ones_and_no_others() {
        assert_eq!(ends_at(None, false), Some((20, 20)));
        assert_eq!(ends_at(None, true), Some((180, 180)));
        assert_eq!(ends_at(Some(179), true), None);
        assert_eq!(ends_at(Some(19), false), None);
    }

    #[test]
    fn a_process_that_was_stopped_blames_no_source_for_that_time() {
        let mut silence = Silence::default();
        let mut looks = |seconds: std::ops::Range<u64>| {
            seconds.map(Duration::from_secs).find_map(|now| silence.over(now).map(|_| now.as_secs()))
        };
        assert_eq!(looks(0..15), None);
        assert_eq!(looks(100..119), None);
        assert_eq!(looks(119..200), Some(120));
    }
}
