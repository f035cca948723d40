//! The REPL on a terminal, key by key: completion, history, interruption, events, bars, and terminals that can do less.

use rexpect::{
    process::{Signal, WaitStatus},
    session::PtySession,
};

use crate::program::*;

const PROMPT: &str = "neko> ";
const ARROW_UP: &str = "\x1b[A";

struct Terminal(PtySession);

impl Terminal {
    fn start(home: &Home, words: &[&str]) -> Self {
        Self(at_terminal(home.command(words), true))
    }

    /// Starts the REPL in a terminal with this many columns, whose escape codes are seen, and this variable.
    fn sized(home: &Home, columns: u16, variable: (&str, &str)) -> Self {
        let script = format!("stty rows 24 cols {columns}; exec \"$0\" \"$@\"");
        let mut command = home.command_by("sh", &["-c", &script], &[]);
        command.env_remove("NO_COLOR").env(variable.0, variable.1);
        Self(at_terminal(command, false))
    }

    fn open(home: &Home) -> Self {
        let mut terminal = Self::start(home, &[]);
        terminal.sees("* connected ");
        terminal.line("help", "(also: Ctrl-D)");
        terminal
    }

    fn keys(&mut self, keys: &str) {
        self.0.send(keys).unwrap();
        self.0.flush().unwrap();
    }

    /// Waits for this text; returns what came before it.
    fn sees(&mut self, text: &str) -> String {
        self.0.exp_string(text).unwrap_or_else(|error| panic!("no {text:?}: {error}"))
    }

    fn types(&mut self, keys: &str, text: &str) -> String {
        self.keys(keys);
        self.sees(text)
    }

    fn line(&mut self, keys: &str, answer: &str) {
        self.keys(keys);
        self.enter(answer);
    }

    fn enter(&mut self, answer: &str) {
        self.types("\r", answer);
        self.sees(PROMPT);
    }

    fn interrupt(&mut self) {
        self.0.send_control('c').unwrap();
        self.sees(PROMPT);
    }

    /// The same where escape codes are seen. An event may draw the prompt anew before the line has ended, and keys that come
    /// together with Ctrl-C end with it.
    fn interrupt_line(&mut self) {
        self.0.send_control('c').unwrap();
        for text in ["\x1b[?2004l", "\x1b[?2004h", PROMPT] {
            self.sees(text);
        }
    }

    fn ends(mut self) -> String {
        let said = self.0.exp_eof().unwrap();
        let status = self.0.process().wait().unwrap();
        assert!(matches!(status, WaitStatus::Exited(_, 0)), "{status:?}");
        said
    }

    fn terminated_ends(mut self) {
        self.0.process_mut().signal(Signal::SIGTERM).unwrap();
        self.ends();
    }
}

/// Files of the folder and names of the network, with what a shell would take apart quoted.
fn tab_completes_commands_paths_and_names(terminal: &mut Terminal) {
    for (typed, completed, further, answer) in [
        ("sha\t", "share ", "ano\t", "shared another.txt version 1"),
        ("share some\\ n\t", "notes.txt", "", "shared some notes.txt version 1"),
        ("search some\t", "'some notes.txt'", "", "HOLDER"),
        ("search ano\t", "another.txt", "", "HOLDER"),
        ("get mod\t", "'models/", "pl\t", "models/plain.bin version 1"),
        ("get 'models/large o\t", "'models/large one.bin'", "", "models/large one.bin version 1"),
        ("get nobody-has-th\tis", "has-th", "", "nobody shares nobody-has-this"),
    ] {
        terminal.types(typed, completed);
        terminal.line(further, answer);
    }
}

/// Neither an event, nor the end of a job, nor Ctrl-C and an error harm the line being typed or the next.
fn line_being_typed_stays(terminal: &mut Terminal, publish: impl Fn(&str)) {
    terminal.line("get a.txt", "a.txt version 1");
    terminal.keys("search nobody-");
    terminal.sees("obody-"); // a hint that ends draws the line anew
    publish("a.txt");
    terminal.sees("* invalidated a.txt: version 2 is out");
    terminal.sees("neko> search nobody-");
    terminal.line("has-this.bin", "nothing matches nobody-has-this.bin");
    terminal.line("get one.bin &", "runs in the background: get one.bin");
    terminal.line("jobs", "running");
    terminal.types("search half", "alf");
    terminal.sees(" done: get one.bin");
    terminal.sees("neko> search half");
    terminal.interrupt();
    terminal.line("download ../x", "error: invalid value '../x'");
    terminal.line("nonsense", "help lists the commands");
}

/// What shells on one folder were told is there in their order after a restart.
fn history_is_shared_and_stays(home: &Home, first: Terminal) -> Terminal {
    let mut shells = [first, Terminal::start(home, &[])];
    shells[1].sees(PROMPT);
    for (shell, line) in [(0, "search alpha"), (1, "search beta"), (0, "search gamma")] {
        shells[shell].line(line, "nothing matches");
    }
    let [mut first, mut second] = shells;
    second.keys("exit\r");
    second.ends();
    first.0.send_control('d').unwrap();
    first.ends();
    let mut terminal = Terminal::open(home);
    for line in ["help", "exit", "search gamma", "search beta", "search alpha"] {
        terminal.types(ARROW_UP, line);
    }
    terminal.enter("nothing matches alpha");
    terminal
}

#[test]
fn terminal_journey() {
    let (indexers, origin) = one_home();
    let cases = [("a.txt", 1), ("models/large one.bin", 1), ("models/plain.bin", 1), ("one.bin", 3 * MIB)];
    for (name, len) in cases {
        origin.write(name, bytes(1, len));
    }
    let _sharing = origin.share(&["a.txt", "models", "one.bin"]);
    let reader = Home::with(&["--indexer", &indexers.addr(0), "--limit-down", "2MB"]);
    reader.write_all([("some notes.txt", "notes\n"), ("another.txt", "another\n")]);
    let mut terminal = Terminal::open(&reader);
    tab_completes_commands_paths_and_names(&mut terminal);
    line_being_typed_stays(&mut terminal, |name| {
        origin.share_anew(name, "another version");
    });
    let mut terminal = history_is_shared_and_stays(&reader, terminal);
    // Terminated while a command runs, and while it waits for a line, it ends well.
    origin.share_anew("big.bin", bytes(2, 12 * MIB));
    terminal.types("get big.bin\r", "iB/s");
    terminal.terminated_ends();
    Terminal::open(&reader).terminated_ends();
}

#[test]
fn bars_are_drawn_for_each_file_by_whoever_asks_and_not_for_what_takes_a_moment() {
    let (indexers, origin) = one_home();
    for (seed, name) in [(1, "one.bin"), (2, "two.bin")] {
        origin.write(name, bytes(seed, 6 * MIB));
    }
    origin.write_all([("a.txt", "first\n"), ("small.txt", "small\n")]);
    let _sharing = origin.share(&["a.txt", "small.txt", "one.bin", "two.bin"]);
    let reader = Home::with(&["--indexer", &indexers.addr(0), "--limit-down", "4MB"]);
    let mut terminal = Terminal::sized(&reader, 40, ("TERM", "xterm"));
    terminal.sees("* connected ");
    terminal.types("get a.txt\r", "a.txt version 1");
    terminal.keys("get one.bin two.bin\r");
    for bar in ["one.bin ", "MiB/6.0 MiB", "two.bin ", "MiB/6.0 MiB", "2 files", "MiB/12 MiB"] {
        terminal.sees(bar);
    }
    // Events stand beside them.
    origin.share_anew("a.txt", "second\n");
    terminal.sees("* invalidated a.txt: version 2 is out");
    terminal.sees("two.bin ");
    terminal.sees("2 of 2 files here");
    terminal.sees(PROMPT);
    // The same in a command of its own, which the peer of that terminal carries out.
    origin.share_anew("one.bin", bytes(3, 6 * MIB));
    for (name, has_bar) in [("small.txt", false), ("one.bin", true)] {
        let mut getting = Terminal::start(&reader, &["get", name]);
        let drawn = getting.sees(" moved in ");
        assert_eq!(drawn.contains("iB/s"), has_bar, "{drawn}");
        assert!(!drawn.contains("0 B/0 B"), "{drawn}");
        getting.ends();
    }
}

/// Without colors hints stand in brackets, and nothing is longer than the terminal is wide.
fn narrow_terminal_without_colors(home: &Home) {
    const NEXT: &str = "\x1b[?2004h"; // the editor takes the next line
    let mut terminal = Terminal::sized(home, 40, ("NO_COLOR", "1"));
    terminal.sees("* connected ");
    let mut said = terminal.types("quer", "  [y]");
    terminal.interrupt_line();
    said += &terminal.types("get ", "[NAME...");
    terminal.interrupt_line();
    said += &terminal.types("share models\r", "1 new");
    terminal.sees("nekopeer get neko:"); // one line, however long: it is to be copied
    terminal.sees(NEXT);
    for command in ["ls", "help", "trace nobody-has-this", "jobs"] {
        terminal.keys(command);
        terminal.types("\r", "\r\n");
        let shown = terminal.sees(NEXT);
        let read: Vec<u8> = shown.chars().map(|c| u8::try_from(c).unwrap()).collect(); // it is read byte by byte
        let read = String::from_utf8(read).unwrap();
        for line in read.split("\r\n").map(|line| line.split('\x1b').next().unwrap_or_default()) {
            let columns: usize = line.chars().map(|c| if c.is_ascii() || c == '…' { 1 } else { 2 }).sum();
            assert!(columns <= 40, "{command}: {columns} in {line:?}");
        }
        said += &shown;
    }
    said += &terminal.types("nonsense\r", "help lists the commands");
    let is_color = |rest: &str| {
        let end = rest.find(|c: char| c.is_ascii_alphabetic());
        end.is_some_and(|end| rest[end..].starts_with('m'))
    };
    assert!(!said.split("\x1b[").skip(1).any(is_color), "{said:?}");
    terminal.keys("exit\r");
    terminal.ends();
}

#[test]
fn terminals_that_can_do_less_still_take_lines() {
    let (_indexers, home) = one_home();
    home.write("models/資料-最終版-with-a-long-name-that-does-not-fit.bin", "a\n");
    narrow_terminal_without_colors(&home);

    let mut terminal = Terminal::sized(&home, 80, ("TERM", "xterm"));
    terminal.sees("* connected ");
    terminal.sees(PROMPT);
    terminal.keys("quer");
    terminal.sees("\x1b[90my\x1b[0m"); // a hint in grey
    terminal.interrupt_line();
    terminal.keys("exit\r");
    terminal.ends();

    // One that can only print.
    let mut terminal = Terminal::sized(&home, 80, ("TERM", "dumb"));
    let mut said = terminal.sees(PROMPT);
    terminal.0.send_control('c').unwrap();
    said += &terminal.sees("exit or Ctrl-D ends");
    said += &terminal.types("search nothing\n", "nothing matches nothing");
    terminal.keys("exit\n");
    said += &terminal.ends();
    assert!(!said.contains('\x1b'), "{said:?}");
}
