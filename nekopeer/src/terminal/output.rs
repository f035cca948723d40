//! Where output goes: results to stdout, everything else to stderr.

use std::{
    fmt::Display,
    io::{self, Write},
};

use nekoindexer::daemon::settings::advice;
pub(crate) use nekoindexer::daemon::stdout::Stdout;
pub(crate) use nekoindexer::visible::{look_of, visible};
use nekoproto::Remedy;
use serde::Serialize;
use serde_json::json;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    json: bool,
    quiet: bool,
}

impl Output {
    pub(crate) const fn new(json: bool, quiet: bool) -> Self {
        Self { json, quiet }
    }

    /// Whether progress is drawn, if stderr is a terminal.
    pub(crate) const fn has_bars(self) -> bool {
        !self.json && !self.quiet
    }

    pub(crate) const fn is_json(self) -> bool {
        self.json
    }

    /// Prints one line of the result, for people.
    pub(crate) fn line(self, text: &str) -> io::Result<()> {
        self.machine_line(&visible(text))
    }

    /// The same, unless results are JSON objects.
    pub(crate) fn text(self, text: &str) -> io::Result<()> {
        if self.json { Ok(()) } else { self.line(text) }
    }

    /// The same of text that is to be copied, as it is.
    pub(crate) fn raw_text(self, text: &str) -> io::Result<()> {
        if self.json { Ok(()) } else { self.machine_line(text) }
    }

    fn machine_line(self, text: &str) -> io::Result<()> {
        self.print(&format!("{text}\n")) // at once: others may write there too
    }

    pub(crate) fn print(self, text: &str) -> io::Result<()> {
        let mut stdout = Stdout::lock();
        stdout.write_all(text.as_bytes())?;
        stdout.flush()
    }

    pub(crate) fn object(self, value: &impl Serialize) -> io::Result<()> {
        self.machine_line(&serde_json::to_string(value)?)
    }

    /// Prints a short result as JSON or as plain text.
    pub(crate) fn say(self, text: &str) -> io::Result<()> {
        if self.json { self.object(&json!({ "done": text })) } else { self.line(text) }
    }

    /// Prints a note to stderr; of a quiet program errors only.
    pub(crate) fn note(self, text: &str) {
        self.told(text, text.starts_with("error: "));
    }

    /// The same of what happened, which went wrong or not.
    pub(crate) fn told(self, text: &str, is_failure: bool) {
        if self.quiet && !is_failure {
            return;
        }
        // If stderr is closed there is nowhere left to report the failure.
        let _ = io::stderr().lock().write_all(format!("{}\n", visible(text)).as_bytes()); // at once
    }

    pub(crate) fn error(self, why: &impl Display, remedy: Option<Remedy>) {
        self.note(&format!("error: {why}{}", advice(remedy)));
    }
}
