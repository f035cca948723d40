//! The line editor: history, completion, and events above the line being typed.

use std::{io, path::PathBuf, sync::mpsc as sync_mpsc, thread};

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use rustyline::{
    Config, Context, Editor as LineEditor, ExternalPrinter, Helper,
    completion::{Completer, FilenameCompleter, Pair},
    error::ReadlineError,
    highlight::Highlighter,
    hint::Hinter,
    history::FileHistory,
    validate::Validator,
};
use tokio::sync::mpsc;
use tracing::debug;

use super::line::COMMANDS;
use crate::cli::output::visible;

const PROMPT: &str = "neko> ";
/// Lines of history kept across restarts.
const HISTORY_MAX: usize = 1000;

/// The result of reading one line: the line, or `None` at the end of input.
type Read = Result<Option<String>, ReadlineError>;

/// A line editor on its own thread. It reads only on request, so that the output of a command and the
/// next prompt do not interleave.
pub(super) struct Editor {
    ask: sync_mpsc::Sender<Vec<String>>,
    lines: mpsc::Receiver<Read>,
    /// Terminal settings at the start, restored when the program ends while it reads a line.
    terminal: Option<Termios>,
    printer: Option<Box<dyn ExternalPrinter + Send>>,
}

impl Drop for Editor {
    fn drop(&mut self) {
        if let Some(terminal) = &self.terminal {
            // There is nothing left to do if restoring fails.
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, terminal);
        }
    }
}

impl Editor {
    /// Starts the editor.
    pub(super) fn start(history: PathBuf) -> Result<Self, ReadlineError> {
        let config = Config::builder().max_history_size(HISTORY_MAX)?.auto_add_history(true).build();
        let mut editor: LineEditor<Words, FileHistory> = LineEditor::with_config(config)?;
        if let Err(error) = editor.load_history(&history) {
            debug!(%error, "no history yet");
        }
        let terminal = tcgetattr(io::stdin()).ok();
        let printer: Box<dyn ExternalPrinter + Send> = Box::new(editor.create_external_printer()?);
        let (ask, asked) = sync_mpsc::channel();
        let (sender, lines) = mpsc::channel(1);
        thread::spawn(move || read_lines(editor, history, asked, sender));
        Ok(Self { ask, lines, terminal, printer: Some(printer) })
    }

    /// What prints a line above the one being typed, to be taken once; it returns whether it could.
    pub(super) fn printer(&mut self) -> impl FnMut(String) -> bool + Send + 'static {
        let mut printer = self.printer.take();
        move |text| {
            printer.as_mut().is_some_and(|printer| printer.print(format!("* {}\n", visible(&text))).is_ok())
        }
    }

    /// Reads the next line, with completion of `names`. `None` at the end of input.
    pub(super) async fn line(&mut self, names: Vec<String>) -> Read {
        if self.ask.send(names).is_err() {
            return Ok(None);
        }
        self.lines.recv().await.unwrap_or(Ok(None))
    }
}

fn read_lines(
    mut editor: LineEditor<Words, FileHistory>,
    history: PathBuf,
    asked: sync_mpsc::Receiver<Vec<String>>,
    sender: mpsc::Sender<Read>,
) {
    while let Ok(names) = asked.recv() {
        editor.set_helper(Some(Words { names, files: FilenameCompleter::new() }));
        let read = loop {
            match editor.readline(PROMPT) {
                Ok(line) => break Ok(Some(line)),
                Err(ReadlineError::Interrupted) => {} // Ctrl-C: the line is discarded
                Err(ReadlineError::Eof) => break Ok(None),
                Err(error) => break Err(error),
            }
        };
        if let Err(error) = editor.append_history(&history) {
            debug!(%error, "the history cannot be kept");
        }
        if sender.blocking_send(read).is_err() {
            return;
        }
    }
}

/// Completes commands, then names (or file paths, where a command takes a file).
struct Words {
    names: Vec<String>,
    files: FilenameCompleter,
}

impl Completer for Words {
    type Candidate = Pair;

    fn complete(&self, line: &str, pos: usize, _: &Context<'_>) -> Result<(usize, Vec<Pair>), ReadlineError> {
        let before = &line[..pos];
        let start = before.rfind(' ').map_or(0, |space| space + 1);
        if start == 0 {
            return Ok((0, candidates(before, COMMANDS.iter().map(ToString::to_string), " ")));
        }
        if ["register ", "share "].iter().any(|verb| before.trim_start().starts_with(verb)) {
            return self.files.complete_path(line, pos);
        }
        let word = &before[start..];
        let named = self.names.iter().filter_map(|name| {
            let quoted = shlex::try_quote(name).ok()?.into_owned();
            // A name that needs quotes also matches by its unquoted beginning.
            let fits = name.starts_with(word) || quoted.starts_with(word);
            fits.then(|| Pair { display: visible(name).into_owned(), replacement: quoted })
        });
        Ok((start, named.collect()))
    }
}

fn candidates(prefix: &str, words: impl Iterator<Item = String>, end: &str) -> Vec<Pair> {
    let matching = words.filter(|word| word.starts_with(prefix));
    matching.map(|word| Pair { replacement: format!("{word}{end}"), display: word }).collect()
}

impl Helper for Words {}
impl Hinter for Words {
    type Hint = String;
}
impl Highlighter for Words {}
impl Validator for Words {}
