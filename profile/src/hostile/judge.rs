//! What the samples of one attack say, and whether what must hold held. Pure.

use std::time::Duration;

use serde_json::{Value, json};

use crate::arena::load::{Found, Sample};
use crate::report::figures::{Figures, rounded};
use crate::report::some_of;

/// The parts of a run, as results name them.
pub const PHASES: [&str; 3] = ["before", "during", "after"];
/// The most memory of any honest node.
pub const MEMORY_MIB: f64 = 256.0;
/// How long after the end of an attack all must be as before.
pub const RECOVERED_WITHIN: Duration = Duration::from_secs(5);
/// What is answered within this time is looked at together: all is as before where nine of ten are, and nothing went
/// wrong.
const WINDOW: Duration = Duration::from_millis(500);

/// The longest p99 in microseconds during an attack, by what it was before.
fn most_us(before_us: f64) -> f64 {
    before_us.mul_add(3.0, 5000.0)
}

/// What clients saw in one part of the run.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Times, of questions without an answer too.
    pub figures: Figures,
    /// Wrong answers, and those that falsely call themselves complete.
    pub wrong: usize,
    /// Answers that say that something may be missing.
    pub incomplete: usize,
    /// Questions without an answer.
    pub failed: usize,
}

/// What one run is worth.
#[derive(Clone, Debug)]
pub struct Judged {
    /// Before, during and after the attack.
    pub phases: [Seen; 3],
    /// How long after the end of the attack all was as before; `None` if it was not.
    pub recovered: Option<Duration>,
    /// What did not hold.
    pub missed: Vec<String>,
}

/// How long after `over` the last window ended in which an answer was not right, whenever it was asked for, or the p90
/// was more than `most_us`; `None` if that was the last one before `end`.
pub fn recovered(samples: &[Sample], most_us: f64, over: Duration, end: Duration) -> Option<Duration> {
    let windows = (0..).map(|n| over + WINDOW * n).take_while(|from| *from <= end);
    let is_bad = |from: &Duration| {
        let answered =
            |sample: &&Sample| (*from..*from + WINDOW).contains(&(sample.at + sample.took).min(end));
        let seen = Seen::of(samples.iter().filter(answered));
        seen.faults() > 0 || seen.figures.p90 > most_us
    };
    let after = windows.filter(is_bad).last().map_or(Duration::ZERO, |from| from + WINDOW - over);
    Some(after).filter(|after| over + *after < end)
}

impl Seen {
    pub(crate) fn of<'a>(samples: impl Iterator<Item = &'a Sample> + Clone) -> Self {
        let those = |found| samples.clone().filter(|sample| sample.found == found).count();
        Self {
            wrong: those(Found::Wrong),
            incomplete: those(Found::Incomplete),
            failed: those(Found::Failed),
            figures: Figures::of(samples.map(|sample| sample.took)),
        }
    }

    pub(crate) fn json(&self) -> Value {
        let Self { figures, wrong, incomplete, failed } = self;
        let (p50_us, p99_us, max_us) = (rounded(figures.p50), rounded(figures.p99), rounded(figures.max));
        json!({
            "asked": figures.count, "p50_us": p50_us, "p99_us": p99_us, "max_us": max_us,
            "wrong": wrong, "incomplete": incomplete, "failed": failed,
        })
    }

    pub(crate) const fn faults(&self) -> usize {
        self.wrong + self.incomplete + self.failed
    }
}

impl Judged {
    /// Judges the samples between four marks: begin, attack, its end, end.
    pub fn of(samples: &[Sample], [begin, attacked, over, end]: [Duration; 4]) -> Self {
        let within = |from, to| samples.iter().filter(move |sample| (from..to).contains(&sample.at));
        let spans = [(begin, attacked), (attacked, over), (over, end)];
        let phases = spans.map(|(from, to)| Seen::of(within(from, to)));
        let most = most_us(phases[0].figures.p99);
        let recovered = recovered(samples, most, over, end);
        let mut missed = Vec::new();
        let p99 = phases[1].figures.p99;
        if p99 > most {
            missed.push(format!("p99 {:.1} > {:.1} ms", p99 / 1e3, most / 1e3));
        }
        // After the attack `recovered` judges those that say themselves that something is missing.
        let [_, during, after] = &phases;
        let wrong = (during.wrong + after.wrong, "wrong");
        missed.extend(some_of([wrong, (during.incomplete, "incomplete"), (during.failed, "failed")]));
        if recovered.is_none_or(|after| after > RECOVERED_WITHIN) {
            missed.push("not recovered in time".to_owned());
        }
        Self { phases, recovered, missed }
    }

    /// The longest p99 in microseconds during the attack.
    pub(crate) fn most_us(&self) -> f64 {
        most_us(self.phases[0].figures.p99)
    }

    /// Questions since the attack began.
    pub(crate) const fn asked(&self) -> u64 {
        self.phases[1].figures.count + self.phases[2].figures.count
    }

    /// Processor time of the rogue node in percent of a core; one that could not go on was no attack.
    pub(crate) fn rogue_percent(&mut self, cpu_s: anyhow::Result<f64>, lasted: Duration) -> f64 {
        cpu_s.map(|cpu_s| cpu_s / lasted.as_secs_f64() * 100.0).unwrap_or_else(|error| {
            self.missed.push(format!("no attack: {error:#}"));
            f64::NAN
        })
    }

    /// Answers that were not right during the attack, and wrong ones after it.
    pub(crate) fn faults(&self) -> usize {
        self.phases[1].faults() + self.phases[2].wrong
    }
}
