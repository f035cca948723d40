//! The progress bar.

use std::{
    collections::VecDeque,
    io::{self, IsTerminal},
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::{
    output::{Output, visible},
    units::size,
};
use crate::commands::Snapshot;

/// The speed shown is that of this time.
const SPEED_OVER: Duration = Duration::from_secs(5);

/// A progress bar on stderr, if that is a terminal. It appears with the first report.
pub(super) struct Bar {
    what: String,
    is_shown: bool,
    drawn: Option<ProgressBar>,
    speed: Speed,
}

impl Bar {
    pub(super) fn new(what: &str, output: Output) -> Self {
        let is_shown = !output.is_json() && io::stderr().is_terminal();
        Self { what: visible(what).into_owned(), is_shown, drawn: None, speed: Speed::default() }
    }

    pub(super) fn draw(&mut self, now: Snapshot) {
        if !self.is_shown || (now.total == 0 && now.done == 0) {
            return; // it would say nothing
        }
        let per_s = self.speed.after(now.done.saturating_sub(now.kept), Instant::now());
        let is_new = self.drawn.is_none();
        let bar = self.drawn.get_or_insert_with(|| hidden_bar(&self.what, now.total > 0));
        bar.set_prefix(speed_text(per_s, now.total.saturating_sub(now.done)));
        bar.update(|state| {
            state.set_len(now.total);
            state.set_pos(now.done);
        });
        if is_new {
            bar.set_draw_target(ProgressDrawTarget::stderr()); // from now on: before, it would show zeros
            bar.tick();
        }
    }

    pub(super) fn clear(&mut self) {
        if let Some(bar) = self.drawn.take() {
            bar.finish_and_clear();
        }
    }
}

fn hidden_bar(what: &str, has_total: bool) -> ProgressBar {
    let template =
        if has_total { "{msg} {bar:30} {bytes}/{total_bytes} {prefix}" } else { "{msg} {bytes} {prefix}" };
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::hidden()).with_style(style);
    bar.set_message(what.to_owned());
    bar
}

fn speed_text(per_s: u64, left: u64) -> String {
    match left.checked_div(per_s) {
        Some(secs) if left > 0 => format!("{}/s {secs}s", size(per_s)),
        Some(_) => format!("{}/s", size(per_s)),
        None => String::new(),
    }
}

/// Bytes per second over the last while.
#[derive(Default)]
struct Speed(VecDeque<(Instant, u64)>);

impl Speed {
    /// The speed, when `moved` bytes have been moved in all by `now`.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "three digits are shown"
    )]
    fn after(&mut self, moved: u64, now: Instant) -> u64 {
        if self.0.back().is_some_and(|(_, before)| *before > moved) {
            self.0.clear(); // a new attempt
        }
        self.0.push_back((now, moved));
        while self.0.get(1).is_some_and(|(at, _)| now.duration_since(*at) >= SPEED_OVER) {
            self.0.pop_front();
        }
        let (began, before) = self.0[0];
        let secs = now.duration_since(began).as_secs_f64();
        if secs == 0.0 { 0 } else { ((moved - before) as f64 / secs) as u64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speed_is_that_of_the_last_seconds() {
        let (mut speed, began) = (Speed::default(), Instant::now());
        let at = |secs| began + Duration::from_secs(secs);
        assert_eq!(speed.after(0, at(0)), 0);
        assert_eq!(speed.after(1000, at(1)), 1000);
        for secs in 2..20 {
            speed.after(1000, at(secs));
        }
        assert_eq!(speed.after(1000, at(20)), 0, "it has stalled");
        assert_eq!(speed.after(10, at(21)), 0, "another attempt");
        assert_eq!(speed.after(30, at(22)), 20);
    }

    #[test]
    fn text_says_speed_and_what_is_left() {
        assert_eq!(speed_text(0, 5), "");
        assert_eq!(speed_text(1024, 4096), "1.0 KiB/s 4s");
        assert_eq!(speed_text(1024, 0), "1.0 KiB/s");
    }
}
