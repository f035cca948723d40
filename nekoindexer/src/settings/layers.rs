//! The layers: which of them says what holds for each setting.

use std::{collections::HashMap, env, ffi::OsString, fmt, io, path::PathBuf};

use clap::{ArgMatches, Command, parser::ValueSource};
use nekoproto::small_file::read_text;

use super::{CONFIG_VARIABLE, file, table::Setting};

/// Bytes of a configuration file.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// Who says what holds, the strongest last.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Source {
    Default,
    File { path: PathBuf, line: usize },
    Variable(String),
    Flag(String),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Variable(name) => f.write_str(name),
            Self::Flag(flag) => f.write_str(flag),
        }
    }
}

impl Source {
    const fn layer(&self) -> u8 {
        match self {
            Self::Default => 0,
            Self::File { .. } => 1,
            Self::Variable(_) => 2,
            Self::Flag(_) => 3,
        }
    }
}

/// The configuration file to read.
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

/// For each setting, in the order of the table: who says what holds, and the values unless the command line has them.
pub(super) struct Layers(Vec<(Source, Vec<OsString>)>);

impl Layers {
    /// Reads the environment and the file.
    pub(super) fn load(
        settings: &[Setting],
        matches: &ArgMatches,
        file: Option<&ChosenFile>,
    ) -> Result<Self, Vec<String>> {
        let mut faults = Vec::new();
        let mut in_file = HashMap::new();
        match file.map_or(Ok(Vec::new()), |file| read(file, settings)) {
            Ok(entries) => in_file.extend(entries.into_iter().map(|entry| (entry.key.clone(), entry))),
            Err(found) => faults = found,
        }
        let mut layers = Vec::with_capacity(settings.len());
        for setting in settings {
            let (key, variable_name) = (&setting.key, &setting.variable);
            let in_variable = variable(variable_name).map(|value| vec![value]);
            if let Some(Err(why)) = in_variable.as_ref().map(|values| setting.parse(values)) {
                let value = in_variable.iter().flatten().next().map(|value| value.display().to_string());
                faults.push(format!("{variable_name}={}: {why}", value.unwrap_or_default()));
            }
            let is_flag =
                matches.value_source(setting.arg.get_id().as_str()) == Some(ValueSource::CommandLine);
            layers.push(match (is_flag, in_variable, in_file.remove(key), file) {
                (true, ..) => (Source::Flag(format!("--{}", key.replace('_', "-"))), raw(setting, matches)),
                (false, Some(values), ..) => (Source::Variable(variable_name.clone()), values),
                (false, None, Some(entry), Some(file)) => {
                    (Source::File { path: file.path.clone(), line: entry.line }, entry.values)
                }
                (false, None, ..) => (Source::Default, Vec::new()),
            });
        }
        faults.extend(without_excluded(settings, &mut layers));
        if faults.is_empty() { Ok(Self(layers)) } else { Err(faults) }
    }

    /// The command with what the environment and the file say as its defaults, and who says what.
    pub(super) fn apply(self, mut command: Command, settings: &[Setting]) -> (Command, Vec<Source>) {
        let mut sources = Vec::with_capacity(self.0.len());
        for (setting, (source, values)) in settings.iter().zip(self.0) {
            if matches!(source, Source::Variable(_) | Source::File { .. }) {
                command = command.mut_arg(setting.arg.get_id().as_str(), |arg| arg.default_values(values));
            }
            sources.push(source);
        }
        (command, sources)
    }
}

/// The words that were given for a setting.
pub(super) fn raw(setting: &Setting, matches: &ArgMatches) -> Vec<OsString> {
    let values = matches.get_raw(setting.arg.get_id().as_str());
    values.map(|values| values.map(ToOwned::to_owned).collect()).unwrap_or_default()
}

/// What turns a switch off.
const OFF: [&str; 6] = ["n", "no", "f", "false", "off", "0"];

/// Gives up what a stronger layer excludes; the faults are what one layer says and excludes itself.
fn without_excluded(settings: &[Setting], layers: &mut [(Source, Vec<OsString>)]) -> Vec<String> {
    let mut faults = Vec::new();
    let is_off = |values: &[OsString]| {
        values.iter().any(|value| OFF.iter().any(|off| value.eq_ignore_ascii_case(off)))
    };
    for first in 0..settings.len() {
        for second in (first + 1)..settings.len() {
            let is_said = |at: usize| layers[at].0 != Source::Default && !is_off(&layers[at].1);
            if !settings[first].excludes.contains(&settings[second].key)
                || !is_said(first)
                || !is_said(second)
            {
                continue;
            }
            let (one, other) = (&layers[first].0, &layers[second].0);
            if one.layer() == other.layer() {
                let (key, excluded) = (&settings[first].key, &settings[second].key);
                faults.push(format!(
                    "{one} says {key} and {other} {excluded}, which exclude each other: remove one"
                ));
            }
            let weaker = if one.layer() < other.layer() { first } else { second };
            layers[weaker] = (Source::Default, Vec::new());
        }
    }
    faults
}

fn read(file: &ChosenFile, settings: &[Setting]) -> Result<Vec<file::Entry>, Vec<String>> {
    match read_text(&file.path, FILE_BYTES_MAX) {
        Ok(text) => file::parse(&text, &file.path, settings),
        Err(error) if !file.is_given && error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => {
            let path = file.path.display();
            Err(vec![format!(
                "cannot read the configuration file {path}: {error} (--print-config writes one)"
            )])
        }
    }
}
