//! The latest figures of an indexer: counted totals, and rates over the last seconds.

use std::{collections::VecDeque, time::Instant};

use crate::counters::{Counters, Histogram};

/// Samples that rates are made of, one each second.
pub(crate) const SAMPLES: usize = 10;

/// What was answered in the last seconds.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    samples: VecDeque<(Instant, Span)>,
}

/// Answered from one moment to another.
#[derive(Clone, Debug, Default)]
pub(crate) struct Span {
    answered: u64,
    pub(crate) answers: Histogram,
    seconds: f64,
}

impl Recent {
    /// Takes a sample at `now`, later than all before.
    pub(crate) fn sample(&mut self, now: Instant, counters: &Counters) {
        if self.samples.len() > SAMPLES {
            self.samples.pop_front();
        }
        let span = Span { answered: counters.answered(), answers: counters.answers(), seconds: 0.0 };
        self.samples.push_back((now, span));
    }

    /// From the sample that is `back` places before the latest to the latest.
    pub(crate) fn last(&self, back: usize) -> Span {
        let Some((end, now)) = self.samples.back() else { return Span::default() };
        let (begin, before) = &self.samples[self.samples.len().saturating_sub(back + 1)];
        Span {
            answered: now.answered.saturating_sub(before.answered),
            answers: now.answers.since(&before.answers),
            seconds: (*end - *begin).as_secs_f64(),
        }
    }
}

impl Span {
    /// Answers in a second.
    #[expect(clippy::cast_precision_loss, reason = "a rate")]
    pub(crate) fn rate(&self) -> f64 {
        if self.seconds > 0.0 { self.answered as f64 / self.seconds } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn rates_are_of_the_last_seconds() {
        let (counters, mut recent, mut now) = (Counters::default(), Recent::default(), Instant::now());
        assert_eq!(recent.last(SAMPLES).rate(), 0.0);
        for second in 0..30 {
            counters.queries.inc_by(if second < 20 { 1000 } else { 10 });
            recent.sample(now, &counters);
            now += Duration::from_secs(1);
        }
        assert_eq!((recent.last(1).rate(), recent.last(SAMPLES).rate()), (10.0, 10.0));
        assert_eq!(recent.last(1).seconds, 1.0);
    }
}
