//! What attacks did, as rows, lines of a table and goals.

use serde_json::json;

use super::Options;
use super::judge::{self, Attacked, Judged, PHASES, Seen};
use crate::arena::load::Kind;
use crate::cluster::deployment::Deployment;
use crate::goals::{Bound, Goal};
use crate::report::{Report, Row, Section, Table};

const HEADS: &str = "attack|found p50 ms, before / during|p99|miss p50|p99|search p50|p99|\
                     wrong / incomplete / failed during|after|peak MiB|kept|rogue CPU %|recovered s|verdict";

/// Microseconds as milliseconds, if there are any.
fn ms(us: f64) -> String {
    if us.is_finite() { format!("{:.1}", us / 1e3) } else { "-".to_owned() }
}

impl Attacked {
    fn row(&self) -> Row {
        let Judged { missed, phases, recovered, .. } = &self.judged;
        let row = Row::named(self.attack.name())
            .figure("peak_mib", self.peak_mib)
            .figure("kept_mib", self.kept_mib)
            .figure("rogue_percent", self.rogue_percent)
            .figure("recovered_s", recovered.map(|after| after.as_secs_f64()))
            .with("held", missed.is_empty())
            .with("missed", json!(missed))
            .with("notes", json!(self.notes));
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
        let [_, during, _] = &self.judged.phases;
        let recovered_s = self.judged.recovered.map_or(f64::INFINITY, |after| after.as_secs_f64());
        let times = Kind::ALL.iter().zip(&during.kinds).filter(|(_, figures)| figures.count > 0);
        let times = times.map(|((kind, name), figures)| {
            let most = Bound::AtMost(self.judged.most_us(*kind) / 1e3);
            (format!("{name} p99, ms"), most, figures.p99 / 1e3)
        });
        let faults = crate::report::count(self.judged.faults());
        let figures = [
            ("memory peak, MiB", Bound::AtMost(judge::MEMORY_MIB), self.peak_mib),
            ("memory not given back, MiB", Bound::AtMost(judge::KEPT_MIB), self.kept_mib),
            ("recovered after, s", Bound::AtMost(judge::RECOVERED_WITHIN.as_secs_f64()), recovered_s),
            ("wrong, incomplete, failed", Bound::Exactly(0.0), faults),
            (
                "what else must hold and did not",
                Bound::Exactly(0.0),
                crate::report::count(self.judged.others),
            ),
        ];
        let figures = figures.map(|(what, bound, measured)| (what.to_owned(), bound, measured));
        let command = format!("profile hostile --attack {} --seconds {seconds}", self.attack);
        let all_right = self.judged.phases.iter().all(|seen| seen.wrong == 0);
        let goal = |(what, bound, measured)| Goal {
            all_right,
            ..Goal::new(format!("{}: {what}", self.attack), bound, measured, &command)
        };
        times.chain(figures).map(goal).collect()
    }
}

/// The table of what was measured, or the goals beside it.
pub(super) fn report(all: &[Attacked], options: &Options, deployment: &Deployment) -> Report {
    let interrupted = deployment.watch.is_stopped();
    if options.goals {
        let goals: Vec<Goal> = all.iter().flat_map(|attacked| attacked.goals(options.seconds)).collect();
        return crate::goals::report(&goals, "", interrupted);
    }
    let table = all.iter().fold(Table::new(HEADS.split('|')), |table, attacked| table.line(attacked.line()));
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
        sections: vec![Section::of(table, all.iter().map(Attacked::row).collect())],
        foot: notes.chain([format!("{held} of {} held.", all.len())]).collect(),
        interrupted,
        ..Report::default()
    }
}
