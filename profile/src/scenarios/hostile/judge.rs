//! What the samples of one attack say, whether what must hold held, and how that is shown: rows, lines of a table, goals and a
//! picture. Pure.

use testkit::rogue::Attack;

use super::Hostile;
use crate::arena::{load::Answered, load::Found, load::Kind};
use crate::plot::{Chart, Series, Shape};
use crate::report::aligned;
use crate::scenarios::prelude::*;

/// The parts of a run, as results name them.
pub const PHASES: [&str; 3] = ["before", "during", "after"];
/// The most memory of any honest node.
pub const MEMORY_MIB: f64 = 256.0;
/// The most that a node keeps of it when the attack is over: less is what its allocator does not give back.
pub const KEPT_MIB: f64 = 32.0;
/// A hostile node that takes this much of a core, in percent, uses up the core that it shares with those it attacks: on one
/// machine what is found may then take [`SATURATED_US`].
const SATURATES_PERCENT: f64 = 75.0;
const SATURATED_US: f64 = 10_000.0;
/// How much longer than what is found a miss or a search may take, as guests are waited for then, in microseconds.
const GUESTS_US: f64 = 250_000.0;
/// How long after the end of an attack all must be as before.
pub const RECOVERED_WITHIN: Duration = Duration::from_secs(5);
/// What is answered within this time is looked at together: all is as before where nine of ten are, and nothing went
/// wrong.
const WINDOW: Duration = Duration::from_millis(500);

pub(crate) struct Attacked {
    pub(crate) attack: Attack,
    pub(crate) samples: Vec<Answered>,
    /// From the beginning of the load to the begin of the figures, of the attack, to its end, and to the end of all.
    pub(crate) marks: [Duration; 4],
    pub(crate) judged: Judged,
    pub(crate) peak_mib: f64,
    /// What the node that kept most had at the end beyond what it had before the attack.
    pub(super) kept_mib: f64,
    /// Processor time of the rogue node, in percent of a core.
    pub(super) rogue_percent: f64,
    pub(super) notes: Vec<String>,
}

/// What clients saw in one part of the run.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Times, of questions without an answer too.
    pub figures: Figures,
    /// The same of each kind of questions.
    pub kinds: [(Kind, &'static str, Figures); 3],
    /// Wrong answers, and those that falsely call themselves complete.
    pub wrong: usize,
    /// Answers that say that something may be missing.
    pub incomplete: usize,
    pub failed: usize,
}

#[derive(Clone, Debug)]
pub struct Judged {
    pub phases: [Seen; 3],
    /// How long after the end of the attack all was as before; `None` if it was not.
    pub recovered: Option<Duration>,
    pub missed: Vec<String>,
    /// How much of that is neither of times, memory nor answers.
    pub(crate) others: usize,
    /// The hostile node used up a core.
    is_saturated: bool,
}

impl Seen {
    pub(crate) fn of<'a>(samples: impl Iterator<Item = &'a Answered> + Clone) -> Self {
        let those = |found| samples.clone().filter(|sample| sample.found == found).count();
        let took = |kind| samples.clone().filter(move |sample| sample.kind == kind).map(|sample| sample.took);
        Self {
            wrong: those(Found::Wrong),
            incomplete: those(Found::Incomplete),
            failed: those(Found::Failed),
            figures: Figures::of(samples.clone().map(|sample| sample.took)),
            kinds: Kind::ALL.map(|(kind, name)| (kind, name, Figures::of(took(kind)))),
        }
    }

    /// Times in microseconds, of each kind of questions too, and what was not right.
    pub(crate) fn json(&self) -> Value {
        let Self { figures, kinds, wrong, incomplete, failed } = self;
        let times = |Figures { count, p50, p99, max, .. }: &Figures| {
            Row::of(json!({ "asked": count, "p50_us": p50, "p99_us": p99, "max_us": max }))
        };
        let seen = times(figures)
            .and(Row::of(json!({ "wrong": wrong, "incomplete": incomplete, "failed": failed })));
        let kinds = kinds.iter().filter(|(.., figures)| figures.count > 0);
        json!(kinds.fold(seen, |seen, (_, name, figures)| seen.with(name, times(figures).0)))
    }

    pub(crate) const fn faults(&self) -> usize {
        self.wrong + self.incomplete + self.failed
    }
}

impl Judged {
    /// Judges the samples between four marks: begin, attack, its end, end. The hostile node took `rogue_percent` of a core.
    pub fn of(samples: &[Answered], [begin, attacked, over, end]: [Duration; 4], rogue_percent: f64) -> Self {
        let within = |from, to| samples.iter().filter(move |sample| (from..to).contains(&sample.at));
        let spans = [(begin, attacked), (attacked, over), (over, end)];
        let phases = spans.map(|(from, to)| Seen::of(within(from, to)));
        let is_saturated = rogue_percent >= SATURATES_PERCENT;
        let mut judged = Self { phases, recovered: None, missed: Vec::new(), others: 0, is_saturated };
        judged.recovered = judged.recovered(samples, over, end);
        let [_, during, after] = &judged.phases;
        let slow = |(kind, name, figures): &(Kind, &str, Figures)| {
            let (p99, most) = (figures.p99, judged.most_us(*kind));
            (p99 > most).then(|| format!("{name} p99 {:.1} > {:.1} ms", p99 / 1e3, most / 1e3))
        };
        let mut missed: Vec<String> = during.kinds.iter().filter_map(slow).collect();
        // After the attack `recovered` judges those that say themselves that something is missing.
        let wrong = (during.wrong + after.wrong, "wrong");
        missed.extend(some_of([wrong, (during.incomplete, "incomplete"), (during.failed, "failed")]));
        if judged.recovered.is_none_or(|after| after > RECOVERED_WITHIN) {
            missed.push("not recovered in time".to_owned());
        }
        judged.missed = missed;
        judged
    }

    /// How long after `over` the last window ended in which an answer was not right, whenever it was asked for, or the p90
    /// of a kind was more than its p99 may be; `None` if that was the last one before `end`.
    pub fn recovered(&self, samples: &[Answered], over: Duration, end: Duration) -> Option<Duration> {
        let windows = (0..).map(|n| over + WINDOW * n).take_while(|from| *from <= end);
        let is_bad = |from: &Duration| {
            let answered =
                |sample: &&Answered| (*from..*from + WINDOW).contains(&(sample.at + sample.took).min(end));
            let seen = Seen::of(samples.iter().filter(answered));
            let slow = |(kind, _, figures): &(Kind, &str, Figures)| figures.p90 > self.most_us(*kind);
            seen.faults() > 0 || seen.kinds.iter().any(slow)
        };
        let after = windows.filter(is_bad).last().map_or(Duration::ZERO, |from| from + WINDOW - over);
        Some(after).filter(|after| over + *after < end)
    }

    /// The longest p99 of a kind in microseconds during the attack, by what it was before; not a number if nothing of it
    /// was asked then.
    pub(crate) fn most_us(&self, kind: Kind) -> f64 {
        let before = self.phases[0].kinds.iter().find(|(other, ..)| *other == kind);
        let before_us = before.map(|(.., figures)| figures.p99).filter(|us| us.is_finite());
        let least = if self.is_saturated { SATURATED_US } else { 0.0 };
        let found = before_us.map_or(f64::NAN, |us| us.mul_add(1.5, 2000.0).max(least));
        if kind == Kind::Found { found } else { found + GUESTS_US }
    }

    /// Questions since the attack began.
    pub(crate) const fn asked(&self) -> u64 {
        self.phases[1].figures.count + self.phases[2].figures.count
    }

    /// What the node that took most memory had when the attack was over, beyond what it had before, and its peak.
    pub(crate) fn memory(&mut self, peak_mib: f64, kept_mib: f64) {
        self.missed.extend((peak_mib > MEMORY_MIB).then(|| format!("memory {peak_mib:.0} MiB")));
        self.missed.extend((kept_mib > KEPT_MIB).then(|| format!("{kept_mib:.0} MiB not given back")));
    }

    /// Something else did not hold.
    pub(crate) fn misses(&mut self, what: String) {
        self.others += 1;
        self.missed.push(what);
    }

    /// Answers that were not right during the attack, and wrong ones after it.
    pub(crate) fn faults(&self) -> usize {
        self.phases[1].faults() + self.phases[2].wrong
    }
}

const HEADS: &str = "attack|found p50 ms, before / during|p99|miss p50|p99|search p50|p99|\
                     wrong / incomplete / failed during|after|peak MiB|kept|rogue CPU %|recovered s|verdict";
/// What one point of the line of a picture stands for.
const POINT: Duration = Duration::from_millis(250);

/// Microseconds as milliseconds, if there are any.
fn ms(us: f64) -> String {
    if us.is_finite() { format!("{:.1}", us / 1e3) } else { "-".to_owned() }
}

impl Attacked {
    fn row(&self) -> Row {
        let Judged { missed, phases, recovered, .. } = &self.judged;
        let row = Row::of(json!({
            "scenario": self.attack.name(), "peak_mib": self.peak_mib, "kept_mib": self.kept_mib,
            "rogue_percent": self.rogue_percent, "recovered_s": recovered.map(|after| after.as_secs_f64()),
            "held": missed.is_empty(), "missed": missed, "notes": self.notes,
        }));
        PHASES.into_iter().zip(phases).fold(row, |row, (phase, seen)| row.with(phase, seen.json()))
    }

    fn line(&self) -> Vec<String> {
        let [before, during, after] = &self.judged.phases;
        let times = before.kinds.iter().zip(&during.kinds).flat_map(|((.., before), (.., during))| {
            let both = |before, during| format!("{} / {}", ms(before), ms(during));
            [both(before.p50, during.p50), both(before.p99, during.p99)]
        });
        let counts = |seen: &Seen| format!("{} / {} / {}", seen.wrong, seen.incomplete, seen.failed);
        let recovered =
            self.judged.recovered.map_or_else(|| "no".to_owned(), |t| format!("{:.1}", t.as_secs_f64()));
        let verdict = match self.judged.missed.is_empty() {
            true => "held".to_owned(),
            false => format!("**missed**: {}", self.judged.missed.join("; ")),
        };
        let figures = [self.peak_mib, self.kept_mib, self.rogue_percent].map(|figure| format!("{figure:.0}"));
        let cells = [self.attack.name().to_owned()].into_iter().chain(times);
        cells.chain([counts(during), counts(after)]).chain(figures).chain([recovered, verdict]).collect()
    }

    fn goals(&self, seconds: u32) -> Vec<Goal> {
        let judged = &self.judged;
        let recovered_s = judged.recovered.map_or(f64::INFINITY, |after| after.as_secs_f64());
        let command = format!("profile hostile --attack {} --seconds {seconds}", self.attack);
        let all_right = judged.phases.iter().all(|seen| seen.wrong == 0);
        let goal = |what: &str, bound, measured| Goal {
            all_right,
            ..Goal::new(format!("{}: {what}", self.attack), bound, measured, &command)
        };
        let times = judged.phases[1].kinds.iter().filter(|(.., figures)| figures.count > 0);
        let times = times.map(|(kind, name, figures)| {
            goal(&format!("{name} p99, ms"), Bound::AtMost(judged.most_us(*kind) / 1e3), figures.p99 / 1e3)
        });
        let within_s = RECOVERED_WITHIN.as_secs_f64();
        let others = [
            goal("memory peak, MiB", Bound::AtMost(MEMORY_MIB), self.peak_mib),
            goal("memory not given back, MiB", Bound::AtMost(KEPT_MIB), self.kept_mib),
            goal("recovered after, s", Bound::AtMost(within_s), recovered_s),
            goal("wrong, incomplete, failed", Bound::Exactly(0.0), count(judged.faults())),
            goal("what else must hold and did not", Bound::Exactly(0.0), count(judged.others)),
        ];
        times.chain(others).collect()
    }

    /// The p99 of what is found over time, the attack's span shaded, what was not answered right as dots.
    fn chart(&self) -> Chart {
        let [begin, from, over, end] = self.marks;
        let at_s = |at: Duration| at.saturating_sub(begin).as_secs_f64();
        let windows = (0..).map(|n| begin + POINT * n).take_while(|start| *start < end);
        let p99 = |start: Duration| {
            let within = |sample: &&Answered| {
                sample.kind == Kind::Found && (start..start + POINT).contains(&sample.at)
            };
            let took = self.samples.iter().filter(within).map(|sample| sample.took);
            Some((at_s(start + POINT / 2), Figures::of(took).p99)).filter(|(_, us)| us.is_finite())
        };
        let bad = self.samples.iter().filter(|sample| sample.found != Found::Right && sample.at >= begin);
        let bad: Points = bad.map(|sample| (at_s(sample.at), sample.took.as_secs_f64() * 1e6)).collect();
        let series = vec![
            Series::new(self.attack.name(), Shape::Line, windows.filter_map(p99).collect()),
            Series::new("not right", Shape::Dots, bad),
            Series::new("", Shape::Shade(at_s(over) - at_s(from)), vec![(at_s(from), f64::NAN)]),
        ];
        Chart::new("seconds", Axis::log("p99, us"), series)
    }
}

/// The table of what was measured, or the goals beside it; and a chart for each attack.
pub(super) fn report(all: &[Attacked], options: &Hostile, deployment: &Deployment) -> Report {
    let interrupted = deployment.watch.is_stopped();
    let subtitle =
        "p99 of what is found, each 250 ms; shaded: the attack; dots: wrong, incomplete or missing";
    let charts = all.iter().map(Attacked::chart).collect();
    let pictures = vec![Picture::new("hostile", "Honest clients under attack", subtitle, charts)];
    if options.goals {
        let goals: Vec<Goal> = all.iter().flat_map(|attacked| attacked.goals(options.seconds)).collect();
        // An attack that harms is a result.
        return Report { pictures, is_broken: false, ..goals::report(&goals, "", interrupted) };
    }
    let lines = all.iter().map(Attacked::line);
    let lines: Vec<_> = [HEADS.split('|').map(str::to_owned).collect()].into_iter().chain(lines).collect();
    let rows = all.iter().map(Attacked::row).collect();
    let notes = all.iter().filter(|attacked| !attacked.notes.is_empty());
    let notes = notes.map(|attacked| format!("{}: {}.", attacked.attack, attacked.notes.join("; ")));
    let held = all.iter().filter(|attacked| attacked.judged.missed.is_empty()).count();
    let (setting, seconds, within_s) = (deployment.in_words(), options.seconds, RECOVERED_WITHIN.as_secs());
    Report {
        kind: Some("hostile"),
        head: format!(
            "Honest clients under attack, {setting}. Each attack lasts {seconds} s, with figures of as long before.\n\
             The attacked nodes run as users get them; all that is hostile comes from one other address and runs at nice 19.\n\
             Must hold: p99 <= 1.5 x before + 2 ms of what is found (10 ms where the rogue uses up a core), + 250 ms of misses \
             and searches; each honest node <= {MEMORY_MIB} MiB, and all but {KEPT_MIB} given back; recovered within \
             {within_s} s; no answer wrong, incomplete or missing."
        ),
        sections: vec![Section { table: aligned(&lines), rows, ..Section::default() }],
        foot: notes.chain([format!("{held} of {} held.", all.len())]).collect(),
        interrupted,
        pictures,
        ..Report::default()
    }
}
