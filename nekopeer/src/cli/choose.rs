//! Asks a person which origin's file is wanted, where several publish different ones under a name.

use std::io::{self, BufRead, IsTerminal, Write};

use nekoproto::FileName;
use tokio::sync::oneshot;

use super::{
    output::{Output, visible},
    stop::Stop,
    units::size,
};
use crate::commands::{Command, Failure, Named, VersionRow, Wanted};

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

fn choose(command: &mut Command, chosen: VersionRow) -> Option<()> {
    let of = |name: &FileName| Named { name: name.clone(), origin: chosen.origin.to_string(), version: None };
    let of_name = of(&chosen.name);
    match command {
        Command::Download { wanted, .. } | Command::Read { wanted, .. } => with(wanted, of_name),
        _ => None,
    }
}

/// The choice replaces digits that more than one origin begins with.
fn with(wanted: &mut Wanted, chosen: Named) -> Option<()> {
    wanted.named.retain(|named| named.name != chosen.name);
    wanted.choose(chosen).ok()
}

/// Blocking.
fn question(choices: &[VersionRow], output: Output) -> Option<VersionRow> {
    let name = &choices.first()?.name;
    output.note(&format!("{} origins publish different files as {name}:", choices.len()));
    for (n, VersionRow { origin, version, size: bytes, .. }) in (1..).zip(choices) {
        output.note(&format!("  {n}  {}  version {version}, {}", origin.short(), size(*bytes)));
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
