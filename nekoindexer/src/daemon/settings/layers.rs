//! Reads settings by clap: a flag wins over a variable, that over the file; `value_source` names the winner.

use std::{cmp::Ordering, collections::HashMap, env, ffi::OsString, io, path::PathBuf};

use clap::{ArgMatches, Command, builder::Resettable, parser::ValueSource};
use nekoproto::small_file::read_text;

use super::{CONFIG_VARIABLE, file, table::Setting};

const FILE_BYTES_MAX: u64 = 1024 * 1024;

pub(super) struct ChosenFile {
    path: PathBuf,
    /// It was asked for, and is not only looked for in its usual place.
    is_given: bool,
}

/// The file that was given, or the one that the environment names, or the one in the usual place.
pub(super) fn chosen_file(given: Option<PathBuf>, usual: Option<PathBuf>) -> Option<ChosenFile> {
    let named = || variable(CONFIG_VARIABLE).map(PathBuf::from);
    let asked = given.or_else(named).map(|path| ChosenFile { path, is_given: true });
    asked.or_else(|| usual.map(|path| ChosenFile { path, is_given: false }))
}

/// An environment variable; an empty one counts as none.
fn variable(name: &str) -> Option<OsString> {
    env::var_os(name).filter(|value| !value.is_empty())
}

pub(super) struct InForce {
    pub(super) matches: ArgMatches,
    /// Where the file says what holds, by key.
    places: HashMap<String, String>,
}

impl InForce {
    /// Who says what holds for `setting`.
    pub(super) fn source(&self, setting: &Setting) -> String {
        match self.matches.value_source(setting.id()) {
            Some(ValueSource::CommandLine) => setting.flag(),
            Some(ValueSource::EnvVariable) => setting.variable.clone(),
            _ => self.places.get(&setting.key).cloned().unwrap_or_else(|| "default".to_owned()),
        }
    }

    /// Reads the command `line`, the environment and the file.
    pub(super) fn load(
        command: &Command,
        settings: &[Setting],
        line: &[OsString],
        file: Option<&ChosenFile>,
    ) -> Result<Self, Vec<String>> {
        let (mut faults, mut places) = (Vec::new(), HashMap::new());
        // Across layers the stronger one has its way: see below.
        let mut layered = command.clone().mut_args(|arg| arg.conflicts_with(Resettable::Reset));
        match file.map_or(Ok(Vec::new()), |file| read(file, command, settings)) {
            Ok(entries) => {
                for entry in entries {
                    layered = layered.mut_arg(entry.setting.id(), |arg| arg.default_values(entry.values));
                    places.insert(entry.setting.key.clone(), entry.place);
                }
            }
            Err(found) => faults = found,
        }
        for setting in settings {
            let (name, Some(value)) = (&setting.variable, variable(&setting.variable)) else { continue };
            match setting.parse(command, std::slice::from_ref(&value)) {
                Ok(()) => layered = layered.mut_arg(setting.id(), |arg| arg.env(name)),
                Err(why) => faults.push(format!("{name}={}: {why}", value.display())),
            }
        }
        let parse = |layered: &Command| {
            layered.clone().try_get_matches_from(line).map_err(|error| vec![error.to_string()])
        };
        let mut read = Self { matches: parse(&layered)?, places };
        for (one, other) in exclusive(command, settings) {
            if !one.is_on(&read.matches) || !other.is_on(&read.matches) {
                continue;
            }
            let layer = |setting: &Setting| read.matches.value_source(setting.id());
            let weaker = match layer(one).cmp(&layer(other)) {
                Ordering::Less => one,
                Ordering::Greater => other,
                Ordering::Equal => {
                    let (first, second) = (read.source(one), read.source(other));
                    let (one, other) = (&one.key, &other.key);
                    faults.push(format!(
                        "{first} says {one} and {second} {other}, which exclude each other: remove one"
                    ));
                    continue;
                }
            };
            layered = layered.mut_arg(weaker.id(), |arg| arg.env(Resettable::Reset).default_value("false"));
            read.matches = parse(&layered)?;
            read.places.remove(&weaker.key);
        }
        if faults.is_empty() { Ok(read) } else { Err(faults) }
    }
}

/// The pairs of switches that exclude each other.
fn exclusive<'a>(command: &Command, settings: &'a [Setting]) -> Vec<(&'a Setting, &'a Setting)> {
    let excludes = |one: &Setting, other: &Setting| {
        command.get_arg_conflicts_with(&one.arg).iter().any(|arg| arg.get_id() == other.arg.get_id())
    };
    let pairs = settings.iter().enumerate();
    let pairs = pairs.flat_map(|(n, one)| settings[n + 1..].iter().map(move |other| (one, other)));
    pairs.filter(|(one, other)| excludes(one, other) || excludes(other, one)).collect()
}

fn read<'a>(
    file: &ChosenFile,
    command: &Command,
    settings: &'a [Setting],
) -> Result<Vec<file::Entry<'a>>, Vec<String>> {
    match read_text(&file.path, FILE_BYTES_MAX) {
        Ok(text) => file::parse(&text, &file.path, command, settings),
        Err(error) if !file.is_given && error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => {
            let path = file.path.display();
            Err(vec![format!(
                "cannot read the configuration file {path}: {error} (--print-config writes one)"
            )])
        }
    }
}
