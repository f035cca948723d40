//! The REPL on a terminal, key by key: completion, history, interruption, events.

use crate::program::{Home, Indexers, LIMIT, Running};
use rexpect::{
    process::{Signal, WaitStatus},
    reader::Options,
    session::{PtySession, spawn_with_options},
};

const PROMPT: &str = "neko> ";
const ARROW_UP: &str = "\x1b[A";

/// A terminal session.
struct Terminal {
    session: PtySession,
}

impl Terminal {
    /// Starts the REPL.
    fn start(home: &Home) -> Self {
        let limit = u64::try_from(LIMIT.as_millis()).unwrap();
        let options = Options::new().timeout_ms(Some(limit)).strip_ansi_escape_codes(true);
        Self { session: spawn_with_options(home.command::<&str>([]), options).unwrap() }
    }

    /// Starts the REPL and waits until the events of the start are shown.
    fn open(home: &Home) -> Self {
        let mut terminal = Self::start(home);
        terminal.sees("* connected ");
        terminal.keys("help");
        terminal.enter("(also: Ctrl-D)");
        terminal
    }

    fn keys(&mut self, keys: &str) {
        self.session.send(keys).unwrap();
        self.session.flush().unwrap();
    }

    fn control(&mut self, key: char) {
        self.session.send_control(key).unwrap();
    }

    /// Waits for this text; returns what came before it.
    fn sees(&mut self, text: &str) -> String {
        self.session.exp_string(text).unwrap_or_else(|error| panic!("no {text:?}: {error}"))
    }

    /// Presses Enter; waits for `answer` and the next prompt.
    fn enter(&mut self, answer: &str) {
        self.keys("\r");
        self.sees(answer);
        self.sees(PROMPT);
    }

    /// Waits until the program ends with this exit code.
    fn ends(mut self, code: i32) {
        self.session.exp_eof().unwrap();
        let status = self.session.process().wait().unwrap();
        assert!(matches!(status, WaitStatus::Exited(_, found) if found == code), "{status:?}");
    }
}

#[test]
fn tab_completes_commands_names_and_paths() {
    let indexers = Indexers::one();
    let home = Home::at(&indexers, 0);
    home.write("some notes.txt", "notes\n");
    home.write("another.txt", "another\n");
    let mut terminal = Terminal::open(&home);
    terminal.keys("reg\t");
    terminal.sees("register ");
    terminal.keys("some\\ n\t");
    terminal.sees("notes.txt");
    terminal.enter("published some notes.txt version 1");
    terminal.keys("register ano\t");
    terminal.sees("another.txt");
    terminal.enter("published another.txt version 1");
    terminal.keys("search some\t");
    terminal.sees("'some notes.txt'");
    terminal.enter("HOLDER"); // a table of hits
    terminal.keys("search ano\t");
    terminal.sees("another.txt");
    terminal.enter("HOLDER");
}

#[test]
fn history_is_there_after_a_restart() {
    let indexers = Indexers::one();
    let home = Home::at(&indexers, 0);
    let mut terminal = Terminal::open(&home);
    terminal.keys("search first.bin");
    terminal.enter("nobody offers first.bin");
    terminal.keys("search second.bin");
    terminal.enter("nobody offers second.bin");
    terminal.keys("exit\r");
    terminal.ends(0);

    let mut terminal = Terminal::open(&home);
    terminal.keys(ARROW_UP);
    terminal.sees("help");
    terminal.keys(ARROW_UP);
    terminal.sees("exit");
    terminal.keys(ARROW_UP);
    terminal.sees("search second.bin");
    terminal.keys(ARROW_UP);
    terminal.sees("search first.bin");
    terminal.enter("nobody offers first.bin");
}

#[test]
fn ctrl_c_drops_the_line_and_ctrl_d_ends() {
    let indexers = Indexers::one();
    let home = Home::at(&indexers, 0);
    let mut terminal = Terminal::open(&home);
    terminal.keys("search half");
    terminal.sees("half");
    terminal.control('c');
    terminal.sees(PROMPT);
    terminal.keys("search whole.bin");
    terminal.enter("nobody offers whole.bin");
    terminal.control('d');
    terminal.ends(0);
}

#[test]
fn event_leaves_the_half_typed_line_as_it_was() {
    let indexers = Indexers::one();
    let (origin, reader) = (Home::at(&indexers, 0), Home::at(&indexers, 0));
    origin.write("a.txt", "first\n");
    let mut publishing: Running = origin.start(&[]);
    publishing.type_line("register a.txt");
    publishing.out_line("published a.txt version 1");
    let mut terminal = Terminal::open(&reader);
    terminal.keys("download a.txt");
    terminal.enter("a.txt version 1");

    terminal.keys("search nobody-");
    terminal.sees("nobody-");
    origin.write("a.txt", "second\n");
    publishing.type_line("register a.txt");
    terminal.sees("* invalidated a.txt: version 2 is out");
    terminal.sees("neko> search nobody-");
    terminal.keys("has-this.bin");
    terminal.enter("nobody offers nobody-has-this.bin");
}

#[test]
fn terminated_while_it_waits_for_a_line_ends_well() {
    let indexers = Indexers::one();
    let home = Home::at(&indexers, 0);
    let mut terminal = Terminal::open(&home);
    terminal.session.process_mut().signal(Signal::SIGTERM).unwrap();
    terminal.ends(0);
}

#[test]
fn failed_command_is_said_and_the_next_one_runs() {
    let indexers = Indexers::one();
    let home = Home::at(&indexers, 0);
    let mut terminal = Terminal::open(&home);
    terminal.keys("download ../x");
    terminal.enter("error: invalid value '../x'");
    terminal.keys("nonsense");
    terminal.enter("help lists the commands");
    terminal.keys("ls");
    terminal.enter("nothing is published or held here");
}

#[test]
fn shells_on_one_folder_keep_each_others_history() {
    let indexers = Indexers::one();
    let home = Home::at(&indexers, 0);
    let mut shells = [Terminal::open(&home), Terminal::start(&home)];
    shells[1].sees(PROMPT);
    for (shell, line) in [(0, "search one"), (1, "search two"), (0, "search three")] {
        shells[shell].keys(line);
        shells[shell].enter("nobody offers");
    }
    let history = String::from_utf8(home.read(".neko/history")).unwrap();
    let typed: Vec<&str> = history.lines().filter(|line| line.starts_with("search ")).collect();
    assert_eq!(typed, ["search one", "search two", "search three"], "{history}");
}
