//! Asks a person which origin's file is wanted, where several publish different ones under a name.

use std::io::{self, BufRead, IsTerminal, Write};

use tokio::sync::oneshot;

use super::{
    output::{Output, visible},
    stop::Stop,
    units::{age_since, size},
};
use crate::commands::{Command, Failure, Named, VersionRow};

/// Answers that are no number of the list, before none is taken.
const TRIES: u32 = 3;

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
        // A thread, as reading blocks; after Ctrl-C it ends with the next line or the process.
        std::thread::spawn(move || drop(asked.send(question(&failure.choices, output))));
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

/// Blocking.
fn question(choices: &[VersionRow], output: Output) -> Option<VersionRow> {
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
        if stdin.read_line(&mut line).ok()? == 0 {
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
