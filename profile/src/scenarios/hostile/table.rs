//! What attacks did, as rows, lines of a table, goals and a picture.

use super::{Hostile, judge, judge::Attacked, judge::Judged, judge::PHASES, judge::Seen};
use crate::arena::{load::Answered, load::Found, load::Kind};
use crate::plot::{Chart, Points, Series, Shape};
use crate::report::aligned;
use crate::scenarios::prelude::*;

const HEADS: &str = "attack|found p50 ms, before / during|p99|miss p50|p99|search p50|p99|\
                     wrong / incomplete / failed during|after|peak MiB|kept|rogue CPU %|recovered s|verdict";
/// What one point of the line of a picture stands for.
const WINDOW: Duration = Duration::from_millis(250);

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
        let times = before.kinds.iter().zip(&during.kinds).flat_map(|(before, during)| {
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

    /// What must hold, as goals.
    fn goals(&self, seconds: u32) -> Vec<Goal> {
        let judged = &self.judged;
        let recovered_s = judged.recovered.map_or(f64::INFINITY, |after| after.as_secs_f64());
        let command = format!("profile hostile --attack {} --seconds {seconds}", self.attack);
        let all_right = judged.phases.iter().all(|seen| seen.wrong == 0);
        let goal = |what: &str, bound, measured| Goal {
            all_right,
            ..Goal::new(format!("{}: {what}", self.attack), bound, measured, &command)
        };
        let times = Kind::ALL.iter().zip(&judged.phases[1].kinds).filter(|(_, figures)| figures.count > 0);
        let times = times.map(|((kind, name), figures)| {
            goal(&format!("{name} p99, ms"), Bound::AtMost(judged.most_us(*kind) / 1e3), figures.p99 / 1e3)
        });
        let within_s = judge::RECOVERED_WITHIN.as_secs_f64();
        let others = [
            goal("memory peak, MiB", Bound::AtMost(judge::MEMORY_MIB), self.peak_mib),
            goal("memory not given back, MiB", Bound::AtMost(judge::KEPT_MIB), self.kept_mib),
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
        let windows = (0..).map(|n| begin + WINDOW * n).take_while(|start| *start < end);
        let p99 = |start: Duration| {
            let within = |sample: &&Answered| {
                sample.kind == Kind::Found && (start..start + WINDOW).contains(&sample.at)
            };
            let took = self.samples.iter().filter(within).map(|sample| sample.took);
            Some((at_s(start + WINDOW / 2), Figures::of(took).p99)).filter(|(_, us)| us.is_finite())
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
    let picture = Picture {
        title: "Honest clients under attack".to_owned(),
        subtitle: subtitle.to_owned(),
        charts: all.iter().map(Attacked::chart).collect(),
    };
    let pictures = vec![("hostile".to_owned(), picture)];
    if options.goals {
        let goals: Vec<Goal> = all.iter().flat_map(|attacked| attacked.goals(options.seconds)).collect();
        // An attack that harms is a result.
        return Report {
            pictures,
            is_broken: false,
            ..crate::report::goals::report(&goals, "", interrupted)
        };
    }
    let lines = all.iter().map(Attacked::line);
    let lines: Vec<_> = [HEADS.split('|').map(str::to_owned).collect()].into_iter().chain(lines).collect();
    let rows = all.iter().map(Attacked::row).collect();
    let notes = all.iter().filter(|attacked| !attacked.notes.is_empty());
    let notes = notes.map(|attacked| format!("{}: {}.", attacked.attack, attacked.notes.join("; ")));
    let held = all.iter().filter(|attacked| attacked.judged.missed.is_empty()).count();
    Report {
        kind: Some("hostile"),
        head: format!(
            "Honest clients under attack, {}. Each attack lasts {} s, with figures of as long before.\n\
             The attacked nodes run as users get them; all that is hostile comes from one other address and runs at nice 19.\n\
             Must hold: p99 <= 1.5 x before + 2 ms of what is found (10 ms where the rogue uses up a core), + 250 ms of misses \
             and searches; each honest node <= {} MiB, and all but {} given back; recovered within {} s; no answer wrong, \
             incomplete or missing.",
            deployment.in_words(),
            options.seconds,
            judge::MEMORY_MIB,
            judge::KEPT_MIB,
            judge::RECOVERED_WITHIN.as_secs()
        ),
        sections: vec![Section { table: aligned(&lines), rows, ..Section::default() }],
        foot: notes.chain([format!("{held} of {} held.", all.len())]).collect(),
        interrupted,
        pictures,
        ..Report::default()
    }
}
