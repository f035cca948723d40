//! Asks a person which origin's file is wanted, where several publish different ones under a name.

use std::io::{self, BufRead, IsTerminal, StdinLock, Write};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};
use tokio::sync::oneshot;

use super::{
    output::{Output, visible},
    stop::Stop,
    units::{age_since, size},
};
use crate::commands::{Command, Failure, Named, VersionRow};

/// Answers that are no number of the list, before none is taken.
const TRIES: u32 = 3;
/// Interval between two looks at whether the answer is still waited for: 50 ms.
const LOOK_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// Whether there is a person to ask.
pub(super) fn can_ask() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// The command after the user has chosen a file for each failure; `None` if there is no choice for one of them, or
/// the user has no patience.
pub(super) async fn ask(
    command: &Command,
    failures: Vec<Failure>,
    output: Output,
    stop: &mut Stop,
) -> Option<Command> {
    let mut command = command.clone();
    for failure in failures {
        let (asked, answer) = oneshot::channel();
        // A thread, as reading blocks. After Ctrl-C it takes nothing of what is typed next.
        std::thread::spawn(move || {
            let chosen = question(&failure.choices, output, || !asked.is_closed());
            drop(asked.send(chosen));
        });
        let chosen = tokio::select! {
            chosen = answer => chosen.ok().flatten(),
            () = stop.wait() => None,
        }?;
        choose(&mut command, chosen)?;
    }
    Some(command)
}

/// The choice replaces digits with which more than one origin begins.
fn choose(command: &mut Command, chosen: VersionRow) -> Option<()> {
    let VersionRow { name, origin, .. } = chosen;
    let (Command::Download { wanted, .. } | Command::Read { wanted, .. }) = command else { return None };
    let version = wanted.named.remove(&name).and_then(|named| named.version);
    wanted.choose(name, Named { origin: origin.to_string(), version }).ok()
}

fn described(choice: &VersionRow) -> String {
    let VersionRow { origin, version, size: bytes, published_ms, .. } = choice;
    let age = age_since(*published_ms).map_or_else(String::new, |age| format!(", published {age} ago"));
    format!("{}  version {version}, {}{age}", origin.short(), size(*bytes))
}

/// Asks until there is an answer, or nobody waits for it. Blocking.
fn question(choices: &[VersionRow], output: Output, is_awaited: impl Fn() -> bool) -> Option<VersionRow> {
    let name = &choices.first()?.name;
    output.note(&format!("{} origins publish different files as {name}:", choices.len()));
    for (n, choice) in (1..).zip(choices) {
        output.note(&format!("  {n}  {}", described(choice)));
    }
    let mut stdin = io::stdin().lock();
    for _ in 0..TRIES {
        let mut stderr = io::stderr().lock();
        // If stderr is closed, there is no person either.
        write!(stderr, "{}", visible("which one? ")).and_then(|()| stderr.flush()).ok()?;
        drop(stderr);
        let mut line = String::new();
        if !is_typed(&stdin, &is_awaited) || stdin.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match picked(line.trim(), choices) {
            Picked::One(chosen) => return Some(chosen.clone()),
            Picked::None => return None,
            Picked::Unclear => output.note(&format!("type 1 to {}, or nothing to leave it", choices.len())),
        }
    }
    None
}

/// Waits until there is a line to read, or the end of input; false if nobody waits for it any more.
fn is_typed(stdin: &StdinLock<'_>, is_awaited: impl Fn() -> bool) -> bool {
    while is_awaited() {
        match poll(&mut [PollFd::new(stdin, PollFlags::IN)], Some(&LOOK_EVERY)) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) | Err(_) => return is_awaited(), // reading says what is wrong
        }
    }
    false
}

#[derive(Debug, PartialEq, Eq)]
enum Picked<'a> {
    One(&'a VersionRow),
    None,
    Unclear,
}

fn picked<'a>(answer: &str, choices: &'a [VersionRow]) -> Picked<'a> {
    let number = answer.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
    match number.and_then(|n| choices.get(n)) {
        Some(chosen) => Picked::One(chosen),
        None if answer.is_empty() => Picked::None,
        None => Picked::Unclear,
    }
}
