//! Where output goes: results to stdout, everything else to stderr, progress bars to a terminal.

use std::{
    io::{self, IsTerminal, Write},
    sync::Arc,
    time::Duration,
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::util::progress::Progress;

/// Interval between redraws of a progress bar.
const DRAW_EVERY: Duration = Duration::from_millis(100);

/// Prints text or JSON.
#[derive(Clone, Copy, Debug)]
pub(super) struct Output {
    json: bool,
}

impl Output {
    pub(super) const fn new(json: bool) -> Self {
        Self { json }
    }

    /// Whether results are JSON objects.
    pub(super) const fn is_json(self) -> bool {
        self.json
    }

    /// Prints one line of the result.
    pub(super) fn line(self, text: &str) -> io::Result<()> {
        let mut stdout = io::stdout().lock();
        writeln!(stdout, "{text}")?;
        stdout.flush()
    }

    /// Prints a piece of a line of the result.
    pub(super) fn piece(self, text: &str) -> io::Result<()> {
        io::stdout().lock().write_all(text.as_bytes())
    }

    /// Prints the result as JSON.
    pub(super) fn object(self, value: &serde_json::Value) -> io::Result<()> {
        self.line(&value.to_string())
    }

    /// Prints a note to stderr.
    pub(super) fn note(self, text: &str) {
        // If stderr is closed there is nowhere left to report the failure.
        let _ = writeln!(io::stderr().lock(), "{text}");
    }

    /// Prints an error and its causes in one line.
    pub(super) fn error(self, error: &anyhow::Error) {
        let mut text = error.to_string();
        for cause in error.chain().skip(1).map(ToString::to_string) {
            // Most errors quote their cause already.
            if !text.contains(&cause) {
                text = format!("{text}: {cause}");
            }
        }
        self.note(&format!("error: {text}"));
    }

    /// Runs `work` with a progress bar on stderr, if that is a terminal.
    pub(super) async fn with_bar<T>(
        self,
        what: &str,
        progress: &Arc<Progress>,
        work: impl Future<Output = T>,
    ) -> T {
        if self.json || !io::stderr().is_terminal() {
            return work.await;
        }
        let bar = bar(what);
        let mut ticks = tokio::time::interval(DRAW_EVERY);
        tokio::pin!(work);
        loop {
            tokio::select! {
                result = &mut work => {
                    bar.finish_and_clear();
                    return result;
                }
                _ = ticks.tick() => {
                    if progress.total() > 0 {
                        bar.set_length(progress.total());
                    }
                    bar.set_position(progress.done());
                }
            }
        }
    }
}

fn bar(what: &str) -> ProgressBar {
    let template = "{msg} {bar:30} {bytes}/{total_bytes} {bytes_per_sec} {eta}";
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr()).with_style(style);
    bar.set_message(what.to_owned());
    bar
}
