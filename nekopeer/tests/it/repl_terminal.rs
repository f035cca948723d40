//! The REPL on a terminal, key by key: completion, history, interruption, events.

use std::time::Instant;

use crate::program::{Home, LIMIT, MIB, Running, bytes, one_home, two_homes};

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

    /// Starts the REPL in a terminal with this many columns, whose escape codes are seen, and these variables.
    fn sized(home: &Home, columns: u16, variables: &[(&str, &str)]) -> Self {
        let limit = u64::try_from(LIMIT.as_millis()).unwrap();
        let options = Options::new().timeout_ms(Some(limit));
        let program = home.command::<&str>([]);
        let mut command = std::process::Command::new("sh");
        let script = format!("stty rows 24 cols {columns}; exec \"$0\" \"$@\"");
        command.args(["-c", &script]).arg(program.get_program()).args(program.get_args());
        home.settle(&mut command);
        command.env_remove("NO_COLOR").envs(variables.iter().copied());
        Self { session: spawn_with_options(command, options).unwrap() }
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
    let (_indexers, home) = one_home();
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
    let (_indexers, home) = one_home();
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
    let (_indexers, home) = one_home();
    let mut terminal = Terminal::open(&home);
    terminal.keys("search half");
    terminal.sees("alf"); // a hint that ends draws the line anew
    terminal.control('c');
    terminal.sees(PROMPT);
    terminal.keys("search whole.bin");
    terminal.enter("nobody offers whole.bin");
    terminal.control('d');
    terminal.ends(0);
}

#[test]
fn event_leaves_the_half_typed_line_as_it_was() {
    let (_indexers, origin, reader) = two_homes();
    origin.write("a.txt", "first\n");
    let mut publishing: Running = origin.start(&[]);
    publishing.type_line("register a.txt");
    publishing.out_line("published a.txt version 1");
    let mut terminal = Terminal::open(&reader);
    terminal.keys("download a.txt");
    terminal.enter("a.txt version 1");

    terminal.keys("search nobody-");
    terminal.sees("obody-");
    origin.write("a.txt", "second\n");
    publishing.type_line("register a.txt");
    terminal.sees("* invalidated a.txt: version 2 is out");
    terminal.sees("neko> search nobody-");
    terminal.keys("has-this.bin");
    terminal.enter("nobody offers nobody-has-this.bin");
}

#[test]
fn terminated_while_it_waits_for_a_line_ends_well() {
    let (_indexers, home) = one_home();
    let mut terminal = Terminal::open(&home);
    terminal.session.process_mut().signal(Signal::SIGTERM).unwrap();
    terminal.ends(0);
}

#[test]
fn terminated_while_a_command_runs_ends() {
    let (indexers, origin) = one_home();
    origin.write("big.bin", bytes(1, 16 * MIB));
    let _sharing = origin.share(&["big.bin"]);
    let reader = Home::with(&["--indexer", &indexers.addr(0), "--limit-down", "1MB"]);
    let mut terminal = Terminal::open(&reader);
    terminal.keys("get big.bin\r");
    let began = Instant::now();
    while reader.partial_len() == 0 {
        assert!(began.elapsed() < LIMIT, "no bytes came");
        std::thread::yield_now();
    }
    terminal.session.process_mut().signal(Signal::SIGTERM).unwrap();
    terminal.ends(0);
}

#[test]
fn failed_command_is_said_and_the_next_one_runs() {
    let (_indexers, home) = one_home();
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
    let (_indexers, home) = one_home();
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

#[test]
fn tab_completes_names_that_only_the_network_knows() {
    let (_indexers, origin, reader) = two_homes();
    origin.write("models/large one.bin", "a\n");
    origin.write("models/plain.bin", "b\n");
    let _sharing = origin.share(&["models"]);
    let mut terminal = Terminal::open(&reader);
    terminal.keys("get mod\t");
    terminal.sees("'models/");
    terminal.keys("pl\t");
    terminal.sees("models/plain.bin");
    terminal.enter("models/plain.bin version 1");
    terminal.keys("get 'models/large o\t");
    terminal.sees("'models/large one.bin'");
    terminal.enter("models/large one.bin version 1");
    terminal.keys("get nobody-has-th\tis");
    terminal.enter("nobody offers nobody-has-this");
}

#[test]
fn several_files_have_a_bar_each_and_events_stand_beside_them() {
    let (indexers, origin) = one_home();
    origin.write("a.txt", "first\n");
    for (seed, name) in [(1, "one.bin"), (2, "two.bin")] {
        origin.write(name, bytes(seed, 6 * MIB));
    }
    let mut publishing: Running = origin.start(&[]);
    publishing.type_line("share a.txt one.bin two.bin");
    publishing.out_line("3 new");
    let reader = Home::with(&["--indexer", &indexers.addr(0), "--limit-down", "3MB"]);
    let mut terminal = Terminal::sized(&reader, 40, &[]);
    terminal.sees("* connected ");
    terminal.keys("get a.txt\r");
    terminal.sees("a.txt version 1");
    terminal.keys("get one.bin two.bin\r");
    for bar in ["one.bin ", "MiB/6.0 MiB", "two.bin ", "MiB/6.0 MiB", "2 files", "MiB/12 MiB"] {
        terminal.sees(bar);
    }
    origin.write("a.txt", "second\n");
    publishing.type_line("share a.txt");
    terminal.sees("* invalidated a.txt: version 2 is out");
    terminal.sees("two.bin ");
    terminal.sees("2 of 2 files here");
    terminal.sees(PROMPT);
}

#[test]
fn download_in_the_background_ends_with_a_line_above_the_one_being_typed() {
    let (indexers, origin) = one_home();
    origin.write("big.bin", bytes(1, 6 * MIB));
    let _sharing = origin.share(&["big.bin"]);
    let reader = Home::with(&["--indexer", &indexers.addr(0), "--limit-down", "1MB"]);
    let mut terminal = Terminal::open(&reader);
    terminal.keys("get big.bin &");
    terminal.enter("runs in the background: get big.bin");
    terminal.keys("jobs");
    terminal.enter("running");
    terminal.keys("search half");
    terminal.sees("alf"); // a hint that ends draws the line anew
    terminal.sees("* job 1 done: get big.bin");
    terminal.sees("neko> search half");
    terminal.control('c');
    terminal.sees(PROMPT);
}

#[test]
fn hints_are_grey_and_without_colors_in_brackets() {
    const GREY: &str = "\x1b[90m";
    let (_indexers, home) = one_home();
    let mut terminal = Terminal::sized(&home, 80, &[]);
    terminal.sees(PROMPT);
    terminal.keys("quer");
    terminal.sees(&format!("{GREY}y\x1b[0m"));
    terminal.control('c');
    terminal.sees(PROMPT);
    terminal.keys("exit\r");
    terminal.ends(0);

    let mut terminal = Terminal::sized(&home, 80, &[("NO_COLOR", "1")]);
    terminal.sees("* connected ");
    terminal.keys("quer");
    let mut said = terminal.sees("  [y]");
    terminal.control('c');
    terminal.sees(PROMPT);
    terminal.keys("get ");
    said += &terminal.sees("[NAME...");
    terminal.control('c');
    terminal.sees(PROMPT);
    terminal.keys("nonsense\r");
    said += &terminal.sees("help lists the commands");
    terminal.keys("trace nobody-has-this\r");
    said += &terminal.sees("nobody offers");
    terminal.keys("exit\r");
    let colors = said.split("\x1b[").skip(1).filter(|rest| {
        let end = rest.find(|c: char| c.is_ascii_alphabetic()).map(|at| &rest[at..=at]);
        end == Some("m")
    });
    assert_eq!(colors.count(), 0, "{said:?}");
    terminal.ends(0);
}

#[test]
fn terminal_that_can_only_print_still_takes_lines() {
    let (_indexers, home) = one_home();
    let mut terminal = Terminal::sized(&home, 80, &[("TERM", "dumb")]);
    terminal.sees("help lists the commands");
    terminal.keys("ls\r");
    terminal.sees("nothing is published or held here");
    terminal.keys("exit\r");
    let said = terminal.session.exp_eof().unwrap();
    assert!(!said.contains('\x1b'), "{said:?}");
}

#[test]
fn nothing_wraps_in_forty_columns() {
    let (_indexers, home) = one_home();
    home.write("models/資料-最終版-with-a-long-name-that-does-not-fit.bin", "a\n");
    let mut terminal = Terminal::sized(&home, 40, &[("NO_COLOR", "1")]);
    terminal.sees("* connected ");
    terminal.keys("share models\r");
    terminal.sees("1 new");
    terminal.sees("nekopeer get neko:"); // one line, however long: it is to be copied
    terminal.sees("\x1b[?2004h");
    for command in ["ls", "help", "trace nobody-has-this", "jobs"] {
        terminal.keys(command);
        terminal.keys("\r");
        terminal.sees("\r\n");
        let said = terminal.sees("\x1b[?2004h"); // the editor takes the next line
        let said: Vec<u8> = said.chars().map(|c| u8::try_from(c).unwrap()).collect(); // it is read byte by byte
        let said = String::from_utf8(said).unwrap();
        for line in said.split("\r\n").map(|line| line.split('\x1b').next().unwrap_or_default()) {
            let columns: usize = line.chars().map(|c| if c.is_ascii() || c == '…' { 1 } else { 2 }).sum();
            assert!(columns <= 40, "{command}: {columns} in {line:?}");
        }
    }
}

#[test]
fn ctrl_c_at_the_prompt_of_a_dumb_terminal_ends_nothing() {
    let (_indexers, home) = one_home();
    let mut terminal = Terminal::sized(&home, 80, &[("TERM", "dumb")]);
    terminal.sees(PROMPT);
    terminal.control('c');
    terminal.sees("exit or Ctrl-D ends");
    terminal.keys("search nothing\n");
    terminal.sees("nobody offers nothing");
    terminal.keys("exit\n");
    terminal.ends(0);
}
