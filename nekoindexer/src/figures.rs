//! The latest figures of an indexer: counted totals, and rates over the last seconds.

use std::{collections::VecDeque, time::Instant};

use crate::counters::{Totals, Work};

/// Samples that rates are made of, one each second.
pub(crate) const SAMPLES: usize = 10;

/// What was counted in the last seconds.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    samples: VecDeque<(Instant, Totals)>,
}

/// Counted from one moment to another.
#[derive(Clone, Debug, Default)]
pub(crate) struct Span {
    pub(crate) counted: Totals,
    pub(crate) seconds: f64,
}

impl Recent {
    /// Takes a sample at `now`, later than all before.
    pub(crate) fn sample(&mut self, now: Instant, totals: Totals) {
        if self.samples.len() > SAMPLES {
            self.samples.pop_front();
        }
        self.samples.push_back((now, totals));
    }

    /// From the sample that is `back` places before the latest to the latest.
    pub(crate) fn last(&self, back: usize) -> Span {
        let Some((end, now)) = self.samples.back() else { return Span::default() };
        let from = self.samples.len().saturating_sub(back + 1);
        let (begin, before) = &self.samples[from];
        Span { counted: now.clone() - before, seconds: (*end - *begin).as_secs_f64() }
    }
}

impl Span {
    /// How often `what` was counted in a second.
    #[expect(clippy::cast_precision_loss, reason = "a rate")]
    pub(crate) fn rate(&self, what: Work) -> f64 {
        if self.seconds > 0.0 { self.counted.work(what) as f64 / self.seconds } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::counters::Counters;

    #[test]
    fn rates_are_of_the_last_seconds() {
        let (counters, mut recent, mut now) = (Counters::default(), Recent::default(), Instant::now());
        assert_eq!(recent.last(SAMPLES).rate(Work::Query), 0.0);
        for second in 0..30 {
            counters.add(Work::Query, if second < 20 { 1000 } else { 10 });
            recent.sample(now, counters.totals());
            now += Duration::from_secs(1);
        }
        assert_eq!((recent.last(1).rate(Work::Query), recent.last(SAMPLES).rate(Work::Query)), (10.0, 10.0));
        assert_eq!(recent.last(1).seconds, 1.0);
    }
}
