//! Progress bars.

use std::{
    collections::VecDeque,
    io::{self, IsTerminal},
    sync::LazyLock,
    time::{Duration, Instant},
};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use crate::{
    api::Snapshot,
    terminal::{Output, cut, is_dumb, line_columns, output::visible, units::size, width},
};

/// The speed shown is that of this time.
const SPEED_OVER: Duration = Duration::from_secs(5);
/// Columns of a bar, where there is room.
const BAR_COLUMNS: usize = 30;
const BAR_COLUMNS_MIN: usize = 8;
/// Columns that what it is about has at least, where it needs them.
const WHAT_COLUMNS_MIN: usize = 12;

/// The bars of this process: they share a terminal.
static SCREEN: LazyLock<MultiProgress> = LazyLock::new(MultiProgress::new);

/// Prints something while no bar is shown. Not to be called within itself.
pub(super) fn beside<T>(print: impl FnOnce() -> T) -> T {
    SCREEN.suspend(print)
}

/// The bars of one command on stderr, if that is a terminal: one for each file in work, if there are several, and one for
/// the whole. They appear with the first report.
pub(super) struct Bars {
    is_shown: bool,
    whole: Bar,
    parts: Vec<Bar>,
}

impl Bars {
    pub(super) fn new(what: &str, output: Output) -> Self {
        let is_shown = output.has_bars() && io::stderr().is_terminal() && !is_dumb();
        Self { is_shown, whole: Bar::new(what), parts: Vec::new() }
    }

    pub(super) fn draw(&mut self, now: Snapshot) {
        if self.is_shown && (now.total > 0 || now.done > 0) {
            self.whole.draw(now, None); // otherwise it would say nothing
        }
    }

    pub(super) fn draw_parts<'a>(&mut self, parts: impl IntoIterator<Item = (&'a str, Snapshot)>) {
        if !self.is_shown {
            return;
        }
        let mut before = std::mem::take(&mut self.parts);
        for (what, now) in parts {
            let known = before.iter().position(|bar| bar.what == visible(what));
            let mut bar = known.map_or_else(|| Bar::new(what), |known| before.swap_remove(known));
            bar.draw(now, self.whole.drawn.as_ref());
            self.parts.push(bar);
        }
        before.iter_mut().for_each(Bar::clear);
    }

    pub(super) fn clear(&mut self) {
        self.parts.iter_mut().chain([&mut self.whole]).for_each(Bar::clear);
        self.parts.clear();
    }
}

struct Bar {
    what: String,
    drawn: Option<ProgressBar>,
    speed: Speed,
}

impl Bar {
    fn new(what: &str) -> Self {
        Self { what: visible(what).into_owned(), drawn: None, speed: Speed::default() }
    }

    fn draw(&mut self, now: Snapshot, above: Option<&ProgressBar>) {
        let per_s = self.speed.after(now.done.saturating_sub(now.kept), Instant::now());
        let line = line(&self.what, now, per_s, line_columns(&io::stderr()));
        let bar = self.drawn.get_or_insert_with(|| {
            let style =
                ProgressStyle::with_template("{msg}").unwrap_or_else(|_| ProgressStyle::default_bar());
            let bar = ProgressBar::no_length().with_style(style);
            match above {
                Some(below) => SCREEN.insert_before(below, bar),
                None => SCREEN.add(bar),
            }
        });
        bar.set_message(line);
    }

    fn clear(&mut self) {
        if let Some(bar) = self.drawn.take() {
            bar.finish_and_clear();
            SCREEN.remove(&bar);
        }
    }
}

/// The line about `what` in at most `columns`: what it is about, a bar, numbers. What there is no room for is left out,
/// the bar first.
fn line(what: &str, now: Snapshot, per_s: u64, columns: usize) -> String {
    let mut numbers = match now.total {
        0 => size(now.done),
        total => format!("{}/{}", size(now.done), size(total)),
    };
    let speed = speed_text(per_s, now.total.saturating_sub(now.done));
    let needed = width(what).min(WHAT_COLUMNS_MIN);
    if !speed.is_empty() && needed + 1 + width(&numbers) + 1 + width(&speed) <= columns {
        numbers = format!("{numbers} {speed}");
    }
    let left = columns.saturating_sub(width(&numbers) + 1);
    let bar = match left.saturating_sub(needed + 1).min(BAR_COLUMNS) {
        0..BAR_COLUMNS_MIN => String::new(),
        _ if now.total == 0 => String::new(),
        columns => format!(" {}", filled(now, columns)),
    };
    let what = cut(what, left.saturating_sub(width(&bar)));
    cut(&format!("{what}{bar} {numbers}"), columns)
}

fn filled(now: Snapshot, columns: usize) -> String {
    let done = u128::from(now.done.min(now.total)) * columns as u128 / u128::from(now.total.max(1));
    let done = usize::try_from(done).unwrap_or(columns);
    format!("{}{}", "█".repeat(done), "░".repeat(columns - done))
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

    #[test]
    fn line_fits_any_terminal_whatever_it_is_about() {
        let now = |total| Snapshot { done: 512 << 20, kept: 0, total };
        let cases =
            ["a", "some/long/path/of/a/model-with-a-long-name.safetensors", "資料/最終版/とても長い名前.bin"];
        for what in cases {
            for columns in 0..120 {
                for total in [0, 1, 1 << 30, u64::MAX] {
                    let line = line(what, now(total), 7 << 20, columns);
                    assert!(width(&line) <= columns, "{columns}: {line:?}");
                }
            }
        }
        let shown = line("models/a.bin", now(1 << 30), 8 << 20, 79);
        assert_eq!(shown, "models/a.bin ███████████████░░░░░░░░░░░░░░░ 512 MiB/1.0 GiB 8.0 MiB/s 64s");
        let narrow = line("models/a.bin", now(1 << 30), 8 << 20, 40);
        assert_eq!(narrow, "models/a.bin █████░░░░░░ 512 MiB/1.0 GiB");
    }
}
