//! The line editor: history, completion, and events above the line being typed.

use std::{
    borrow::Cow,
    cell::RefCell,
    io::{self, Write},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc as sync_mpsc,
    },
    thread,
    time::Duration,
};

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use rustyline::{
    CompletionType, Config, Context, Editor as LineEditor, ExternalPrinter, Helper,
    completion::{Completer, FilenameCompleter, Pair},
    error::ReadlineError,
    highlight::Highlighter,
    hint::{Hint, Hinter},
    history::FileHistory,
    validate::Validator,
};
use tokio::sync::mpsc;
use tracing::debug;

use super::complete::{LastWord, Rest, is_plain, quoted, rest};
use crate::{
    cli::bar::beside,
    terminal::{self, output::visible},
};

const PROMPT: &str = "neko> ";
const HISTORY_MAX: usize = 1000;
const CANDIDATES_MAX: usize = 200;
/// Time limit for names that are asked for; those who look for them have less.
const ANSWER_WITHIN: Duration = Duration::from_millis(500);

/// The result of reading one line: the line, or `None` at the end of input.
type Read = Result<Option<String>, ReadlineError>;

/// A line editor on its own thread. It reads only on request, so that the output of a command and the
/// next prompt do not interleave.
pub(super) struct Editor {
    ask: sync_mpsc::Sender<Names>,
    lines: mpsc::Receiver<Read>,
    /// Terminal settings at the start, restored when the program ends while it reads a line.
    terminal: Option<Termios>,
    /// `None` if the terminal can only print.
    printer: Option<Box<dyn ExternalPrinter + Send>>,
    is_reading: Arc<AtomicBool>,
}

#[derive(Debug, Default)]
pub(super) struct Names {
    /// The latest ones last.
    pub(super) all: Vec<String>,
    /// How many of these are the user's own words.
    pub(super) recent: usize,
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
    /// Starts the editor, which asks for names over the channel.
    pub(super) fn start(history: PathBuf) -> Result<(Self, mpsc::Receiver<Asked>), ReadlineError> {
        let config = Config::builder().max_history_size(HISTORY_MAX)?.auto_add_history(true);
        let config = config.completion_type(CompletionType::List).build();
        let mut editor: LineEditor<Words, FileHistory> = LineEditor::with_config(config)?;
        if let Err(error) = editor.load_history(&history) {
            debug!(%error, "no history yet");
        }
        let terminal = tcgetattr(io::stdin()).ok();
        let printer = editor.create_external_printer().ok();
        let printer = printer.map(|printer| Box::new(printer) as Box<dyn ExternalPrinter + Send>);
        let (ask, asked) = sync_mpsc::channel();
        let (sender, lines) = mpsc::channel(1);
        let (asks, names_asked) = mpsc::channel(1);
        let is_reading = Arc::new(AtomicBool::new(false));
        let reading = Arc::clone(&is_reading);
        thread::spawn(move || read_lines(editor, history, asked, asks, reading, sender));
        Ok((Self { ask, lines, terminal, printer, is_reading }, names_asked))
    }

    /// What prints a line above the one being typed, and above the bars of a running command; to be taken once. It
    /// returns whether it could.
    pub(super) fn printer(&mut self) -> impl FnMut(String) -> bool + Send + 'static {
        let (mut printer, is_reading) = (self.printer.take(), Arc::clone(&self.is_reading));
        move |text| {
            let line = format!("* {}\n", visible(&text));
            match &mut printer {
                Some(printer) if is_reading.load(Ordering::SeqCst) => printer.print(line).is_ok(),
                _ => beside(|| {
                    let mut stdout = io::stdout().lock();
                    stdout.write_all(line.as_bytes()).and_then(|()| stdout.flush()).is_ok()
                }),
            }
        }
    }

    pub(super) async fn line(&mut self, names: Names) -> Read {
        if self.ask.send(names).is_err() {
            return Ok(None);
        }
        self.lines.recv().await.unwrap_or(Ok(None))
    }
}

fn read_lines(
    mut editor: LineEditor<Words, FileHistory>,
    history: PathBuf,
    asked: sync_mpsc::Receiver<Names>,
    asks: mpsc::Sender<Asked>,
    is_reading: Arc<AtomicBool>,
    sender: mpsc::Sender<Read>,
) {
    while let Ok(names) = asked.recv() {
        editor.set_helper(Some(Words::new(names, &asks)));
        is_reading.store(true, Ordering::SeqCst);
        let read = loop {
            match editor.readline(PROMPT) {
                Ok(line) => break Ok(Some(line)),
                Err(ReadlineError::Interrupted) => {} // Ctrl-C: the line is discarded
                Err(ReadlineError::Eof) => break Ok(None),
                Err(error) => break Err(error),
            }
        };
        is_reading.store(false, Ordering::SeqCst);
        if let Err(error) = editor.append_history(&history) {
            debug!(%error, "the history cannot be kept");
        }
        if sender.blocking_send(read).is_err() {
            return;
        }
    }
}

/// Completes commands, then names (or file paths, where a command takes a file), and shows what may come next.
struct Words {
    /// The latest ones last.
    names: RefCell<Vec<String>>,
    recent: usize,
    asks: mpsc::Sender<Asked>,
    files: FilenameCompleter,
    has_colors: bool,
}

pub(super) struct Asked {
    pub(super) prefix: String,
    pub(super) names: sync_mpsc::SyncSender<Vec<String>>,
}

impl Words {
    fn new(Names { all, recent }: Names, asks: &mpsc::Sender<Asked>) -> Self {
        let (files, has_colors) = (FilenameCompleter::new(), terminal::has_colors());
        Self { names: all.into(), recent, asks: asks.clone(), files, has_colors }
    }

    /// Asks for further names, and keeps them for this line.
    fn learn(&self, prefix: &str) {
        let (names, coming) = sync_mpsc::sync_channel(1);
        let is_asked = self.asks.try_send(Asked { prefix: prefix.to_owned(), names }).is_ok();
        let found = is_asked.then(|| coming.recv_timeout(ANSWER_WITHIN).ok()).flatten().unwrap_or_default();
        let mut names = self.names.borrow_mut();
        let mut new: Vec<String> = found.into_iter().filter(|name| !names.contains(name)).collect();
        new.append(&mut names); // what the user said last stays last
        *names = new;
    }
}

impl Completer for Words {
    type Candidate = Pair;

    fn complete(&self, line: &str, pos: usize, _: &Context<'_>) -> Result<(usize, Vec<Pair>), ReadlineError> {
        let word = LastWord::of(&line[..pos]);
        if word.verb.is_none() {
            let pair = |word: String| Pair { replacement: format!("{word} "), display: word };
            return Ok((word.start, word.verbs().map(pair).collect()));
        }
        if let Some(flags) = word.flags() {
            let pair = |word: String| Pair { replacement: format!("{word} "), display: word };
            return Ok((word.start, flags.into_iter().map(pair).collect()));
        }
        if word.is_path {
            return self.files.complete_path(line, pos);
        }
        if !word.is_name() {
            return Ok((pos, Vec::new()));
        }
        self.learn(&word.text);
        let names = self.names.borrow();
        let fitting = names.iter().filter(|name| name.starts_with(&word.text)).take(CANDIDATES_MAX);
        let fitting: Vec<&String> = fitting.collect();
        // All in quotation marks or none, so that they have a beginning in common.
        let is_quoted = !word.text.is_empty() && !fitting.iter().all(|name| is_plain(name));
        let pair = |name: &&String| {
            let replacement = match is_quoted && !name.contains('\'') {
                true => format!("'{name}'"),
                false => quoted(name)?.into_owned(),
            };
            Some(Pair {
                display: terminal::cut(&visible(name), terminal::line_columns(&io::stdout())),
                replacement,
            })
        };
        let mut named: Vec<Pair> = fitting.iter().filter_map(pair).collect();
        named.sort_by(|one, other| one.display.cmp(&other.display));
        Ok((word.start, named))
    }
}

/// A hint as it is shown, and what is added to the line if it is taken.
struct Shown {
    shown: String,
    taken: Option<String>,
}

impl Hint for Shown {
    fn display(&self) -> &str {
        &self.shown
    }

    fn completion(&self) -> Option<&str> {
        self.taken.as_deref()
    }
}

impl Helper for Words {}

impl Hinter for Words {
    type Hint = Shown;

    fn hint(&self, line: &str, pos: usize, _: &Context<'_>) -> Option<Shown> {
        let rest = rest(line, &self.names.borrow(), self.recent).filter(|_| pos == line.len())?;
        let (text, taken) = match rest {
            Rest::Word(rest) => (visible(&rest).into_owned(), Some(rest)),
            Rest::Usage(usage) => (usage.to_owned(), None),
        };
        // Without colors it must not look like what was typed.
        let text = if self.has_colors { text } else { format!("  [{text}]") };
        let room = terminal::line_columns(&io::stdout())
            .checked_sub(PROMPT.len() + terminal::width(line))
            .filter(|room| *room > 1)?;
        Some(Shown { shown: terminal::cut(&text, room), taken })
    }
}

impl Highlighter for Words {
    fn highlight_hint<'h>(&self, hint: &'h str) -> Cow<'h, str> {
        if self.has_colors { format!("\x1b[90m{hint}\x1b[0m").into() } else { hint.into() }
    }
}

impl Validator for Words {}
