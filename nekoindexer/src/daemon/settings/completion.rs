//! Completion in shells: their script calls the program back with the words of the line.

use std::{env, ffi::OsString, io, path::Path, process::ExitCode};

use clap::{ArgMatches, Command};
use clap_complete::{
    CompleteEnv, Shell,
    env::{EnvCompleter, Shells},
};

use super::{InForce, Program, layers, table};

/// The variable by which the script asks, and says for which shell.
const VARIABLE: &str = "NEKO_COMPLETE";
/// Variables of the script: which word is completed, and what stands between the proposals.
const INDEX: &str = "_CLAP_COMPLETE_INDEX";
const SEPARATOR: &str = "_CLAP_IFS";

/// A shell to which flags are proposed only for a word that begins with a dash.
struct AfterDash<'a>(&'a dyn EnvCompleter);

impl EnvCompleter for AfterDash<'_> {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn is(&self, name: &str) -> bool {
        self.0.is(name)
    }

    fn write_registration(
        &self,
        variable: &str,
        name: &str,
        bin: &str,
        program: &str,
        text: &mut dyn io::Write,
    ) -> io::Result<()> {
        self.0.write_registration(variable, name, bin, program, text)
    }

    fn write_complete(
        &self,
        command: &mut Command,
        words: Vec<OsString>,
        folder: Option<&Path>,
        text: &mut dyn io::Write,
    ) -> io::Result<()> {
        let index = env::var(INDEX).ok().and_then(|index| index.parse().ok());
        let word = words.get(index.unwrap_or(words.len().saturating_sub(1)));
        let is_dashed = word.is_some_and(|word| word.as_encoded_bytes().starts_with(b"-"));
        let mut proposed = Vec::new();
        self.0.write_complete(command, words, folder, &mut proposed)?;
        if is_dashed {
            return text.write_all(&proposed);
        }
        let (proposed, separator) = (String::from_utf8_lossy(&proposed), env::var(SEPARATOR));
        let separator = separator.as_deref().unwrap_or("\n");
        let others: Vec<&str> = proposed.split(separator).filter(|text| !text.starts_with('-')).collect();
        text.write_all(others.join(separator).as_bytes())
    }
}

/// Answers the script of a shell, if it asks.
pub(super) fn completed<P: Program>() -> Option<ExitCode> {
    let shells: Vec<AfterDash> = Shells::builtins().0.iter().map(|shell| AfterDash(*shell)).collect();
    let shells: Vec<&dyn EnvCompleter> = shells.iter().map(|shell| shell as _).collect();
    let asked =
        CompleteEnv::with_factory(|| P::for_completion(P::command())).var(VARIABLE).shells(Shells(&shells));
    match asked.try_complete(env::args_os(), env::current_dir().ok().as_deref()) {
        Ok(false) => None,
        Ok(true) => Some(ExitCode::SUCCESS),
        Err(_) => Some(ExitCode::from(super::EXIT_FAILED)), // the shell proposes nothing
    }
}

/// The script of a shell. It calls this program in the same way as it was called now: by name, or by its path.
pub(super) fn script(shell: Shell, name: &str) -> Result<String, String> {
    let called = env::args_os().next().unwrap_or_else(|| name.into());
    let called = match Path::new(&called).components().count() {
        0 | 1 => called,
        _ => std::path::absolute(&called).map_err(|error| error.to_string())?.into(),
    };
    let mut script = Vec::new();
    let shells = Shells::builtins();
    let writer = shells.completer(&shell.to_string()).ok_or_else(|| format!("{shell} is no known shell"))?;
    writer
        .write_registration(VARIABLE, name, name, &called.to_string_lossy(), &mut script)
        .map_err(|error| error.to_string())?;
    let mut script = String::from_utf8(script).map_err(|error| error.to_string())?;
    match shell {
        // Names have spaces, which bash quotes in the names of files alone.
        Shell::Bash => script = script.replace("-o bashdefault", "-o bashdefault -o filenames"),
        // Loaded by its name, it is to propose something at once.
        Shell::Zsh => {
            script += &format!("[ \"$funcstack[1]\" = _{name} ] && _clap_dynamic_completer_{name} \"$@\"\n");
        }
        _ => {}
    }
    Ok(script)
}

/// What holds where a shell completes a line of this program: its words, the environment and the configuration file.
#[must_use]
pub fn half_typed<P: Program>() -> Option<ArgMatches> {
    let line: Vec<OsString> = env::args_os().skip_while(|word| word != "--").skip(1).collect();
    let command = table::prepared(P::command()).ignore_errors(true);
    let settings = table::settings(&command);
    let given = command.clone().try_get_matches_from(&line).ok()?.get_one("config").cloned();
    let file = layers::chosen_file(given, P::default_file());
    InForce::load(&command, &settings, &line, file.as_ref()).ok().map(|in_force| in_force.matches)
}
