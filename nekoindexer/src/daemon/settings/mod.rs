//! What a program is told: flags, over environment variables, over a configuration file, over defaults.
//!
//! The flags of a program are the one definition: every flag of its top level is a setting, with an environment
//! variable (`NEKO_DATA_DIR` for `--data-dir`), a key of the TOML file (`data_dir`), and its help text and default
//! in `--print-config`. Values of the environment and of the file are checked as if they stood on the command line,
//! which is then read again: clap takes a variable over the file, whose values are its defaults.

mod access;
mod advice;
mod check;
mod completion;
mod file;
mod layers;
mod print;
mod table;
mod tools;
pub mod units;

use std::{
    env,
    ffi::OsString,
    fmt::Display,
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
    thread,
};

use clap::{Command, CommandFactory, FromArgMatches};
use nekoproto::NetworkName;
use tokio::sync::oneshot;

pub use self::{access::AccessArgs, advice::advice, completion::half_typed, tools::Tool};
use self::{layers::InForce, table::Setting};
use crate::{
    daemon::{
        logging::LogArgs,
        stdout::{EXIT_UNREAD, Stdout, is_unread},
    },
    visible::visible,
};

/// Exit code of wrong usage, wherever the wrong value was said.
const EXIT_USAGE: u8 = 2;
/// Exit code of any other failure.
const EXIT_FAILED: u8 = 3;
/// The environment variable that names the configuration file.
const CONFIG_VARIABLE: &str = "NEKO_CONFIG";

/// A program that has settings.
pub trait Program: CommandFactory + FromArgMatches {
    /// The configuration file that is read, if it exists, when none is given.
    fn default_file() -> Option<PathBuf> {
        None
    }

    /// The flags that every program has.
    fn common(&self) -> &CommonArgs;

    /// The command as its help shows it.
    fn for_help(command: clap::Command) -> clap::Command {
        command
    }

    /// The command as shells complete it.
    fn for_completion(command: clap::Command) -> clap::Command {
        command
    }

    /// What is asked for instead of the program's own work.
    fn tool(&self) -> Option<&Tool>;

    /// Whom it connects with.
    fn access(&mut self) -> &mut AccessArgs;

    /// Checks what no single value can tell.
    ///
    /// # Errors
    /// One line for people.
    fn validate(&self) -> Result<(), String>;
}

/// Reads a network's name.
///
/// # Errors
/// One line for people.
pub fn network(text: &str) -> Result<NetworkName, String> {
    match text {
        "" => Err("a network needs a name; leave the setting out for the default one".to_owned()),
        _ => NetworkName::try_from(text.to_owned()).map_err(|error| error.to_string()),
    }
}

/// Reads a name of `--http-hosts`.
///
/// # Errors
/// One line for people.
pub fn host_name(text: &str) -> Result<String, String> {
    match text.strip_suffix('.').unwrap_or(text) {
        name if name.is_empty() || name.contains(|c: char| ":/@*".contains(c) || c.is_whitespace()) => {
            Err("a name without scheme and port is expected, such as files.example".to_owned())
        }
        name => Ok(name.to_owned()),
    }
}

/// The flags that every program has.
#[derive(Clone, Debug, clap::Args)]
pub struct CommonArgs {
    /// Configuration file (TOML); --print-config prints one with every key and its default
    #[arg(
        long,
        global = true,
        hide_short_help = true,
        help_heading = "Configuration and log",
        value_name = "FILE"
    )]
    config: Option<PathBuf>,
    /// Print a configuration file with every key, its meaning and its default, and exit
    #[arg(long, global = true, hide_short_help = true, help_heading = "Configuration and log")]
    print_config: bool,
    /// Where the log goes, and how much of it.
    #[command(flatten)]
    pub log: LogArgs,
}

/// Reads the command line, the environment and the configuration file of the program, and does what needs no more
/// than that: `--help`, `--print-config`, `config check`, completions (also those of a half typed line) and man pages.
///
/// # Errors
/// There is nothing left to do: the exit code. What is wrong has been printed.
pub fn start<P: Program>() -> Result<P, ExitCode> {
    if let Some(ended) = completion::completed::<P>() {
        return Err(ended);
    }
    let (command, line, args) = read_line::<P>().map_err(refused)?;
    if args.common().print_config {
        return Err(printed(&print::commented(&command, &table::settings(&command))));
    }
    let (file, as_json) = match args.tool() {
        None => (None, None),
        Some(Tool::Config(tools::Config::Check { file, json })) => (file.clone(), Some(*json)),
        Some(tool) => return Err(tool.run(command).map_or_else(failed, |text| printed(&text))),
    };
    let settings = table::settings(&command);
    let given = file.or_else(|| args.common().config.clone());
    match (layered::<P>(&command, &line, &settings, given), as_json) {
        (Ok((args, _)), None) => Ok(args),
        (Ok((_, in_force)), Some(true)) => Err(printed(&check::json(&settings, &in_force))),
        (Ok((_, in_force)), Some(false)) => Err(printed(&check::table(&settings, &in_force))),
        (Err(faults), _) => {
            faults.iter().for_each(say);
            Err(ExitCode::from(EXIT_USAGE))
        }
    }
}

/// Reads the command line, the environment and the configuration file again, as they are now, on a thread of its own: it
/// reads files and looks up names.
///
/// # Errors
/// Everything that is wrong in them, one line each.
///
/// # Cancel safety
/// Safe: the thread ends by itself.
pub async fn again<P: Program + Send + 'static>() -> Result<P, Vec<String>> {
    let (tell, told) = oneshot::channel();
    thread::spawn(move || drop(tell.send(read_again::<P>()))); // nobody waits any more
    told.await.unwrap_or_else(|_| Err(vec!["the configuration cannot be read".to_owned()]))
}

fn read_again<P: Program>() -> Result<P, Vec<String>> {
    let (command, line, args) = read_line::<P>().map_err(|error| vec![error.to_string()])?;
    let given = args.common().config.clone();
    layered(&command, &line, &table::settings(&command), given).map(|(args, _)| args)
}

fn read_line<P: Program>() -> clap::error::Result<(Command, Vec<OsString>, P)> {
    let (command, line) = (table::prepared(P::command()), Vec::from_iter(env::args_os()));
    let args = P::from_arg_matches(&P::for_help(command.clone()).try_get_matches_from(&line)?)?;
    Ok((command, line, args))
}

/// Reads the command line over the environment and the file, and checks the whole.
fn layered<P: Program>(
    command: &Command,
    line: &[OsString],
    settings: &[Setting],
    given: Option<PathBuf>,
) -> Result<(P, InForce), Vec<String>> {
    let file = layers::chosen_file(given, P::default_file());
    let in_force = InForce::load(command, settings, line, file.as_ref())?;
    let mut args = P::from_arg_matches(&in_force.matches).map_err(|error| vec![error.to_string()])?;
    args.access().load().and_then(|()| args.validate()).map_err(|fault| vec![fault])?;
    Ok((args, in_force))
}

/// Prints why the command line is not taken, or the help that it asks for. What it said may contain anything.
fn refused(error: clap::Error) -> ExitCode {
    let text = error.to_string();
    let shown = visible_lines(&text);
    if !error.use_stderr() || shown == text.trim_end() {
        error.exit(); // with colors
    }
    let _ = writeln!(io::stderr().lock(), "{shown}"); // if stderr is closed there is nowhere left to report it
    ExitCode::from(EXIT_USAGE)
}

fn visible_lines(text: &str) -> String {
    text.lines().map(visible).collect::<Vec<_>>().join("\n")
}

fn printed(text: &str) -> ExitCode {
    let mut stdout = Stdout::lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_unread(&error) => ExitCode::from(EXIT_UNREAD),
        Err(error) => failed(error),
    }
}

fn failed(error: impl Display) -> ExitCode {
    say(&error);
    ExitCode::from(EXIT_FAILED)
}

fn say(fault: &impl Display) {
    // If stderr is closed there is nowhere left to report it.
    let _ = writeln!(io::stderr().lock(), "{}", visible_lines(&format!("error: {fault}")));
}
