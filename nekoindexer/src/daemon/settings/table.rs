//! The table of settings, read off the flags of a program.

use std::{any::TypeId, ffi::OsString, num::NonZeroU64};

use clap::{Arg, ArgAction, ArgMatches, Command, builder::BoolishValueParser};

use super::units::Rate;

/// Flags that say where settings are, or ask for something else.
const NO_SETTINGS: [&str; 4] = ["config", "print_config", "help", "version"];

pub(super) struct Setting {
    pub(super) arg: Arg,
    /// Key in the configuration file.
    pub(super) key: String,
    pub(super) variable: String,
    pub(super) kind: Kind,
}

/// What a setting's value is in a TOML file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Switch,
    Number,
    /// A number of bytes, with a unit or without.
    Bytes,
    Text,
    List,
}

impl Kind {
    fn of(arg: &Arg) -> Self {
        let is = |types: &[TypeId]| types.iter().any(|id| arg.get_value_parser().type_id() == *id);
        if matches!(arg.get_action(), ArgAction::Append) {
            Self::List
        } else if is(&[TypeId::of::<bool>()]) {
            Self::Switch
        } else if is(&[TypeId::of::<NonZeroU64>(), TypeId::of::<Rate>()]) {
            Self::Bytes
        } else if is(&[
            TypeId::of::<u8>(),
            TypeId::of::<u16>(),
            TypeId::of::<u32>(),
            TypeId::of::<u64>(),
            TypeId::of::<usize>(),
        ]) {
            Self::Number
        } else {
            Self::Text
        }
    }

    pub(super) const fn expected(self) -> &'static str {
        match self {
            Self::Switch => "true or false",
            Self::Number => "a whole number",
            Self::Bytes => "a number, or a text such as \"50MB\"",
            Self::Text => "a text in quotation marks",
            Self::List => "a list of texts, such as [\"a\", \"b\"]",
        }
    }
}

fn is_setting(arg: &Arg) -> bool {
    arg.get_long().is_some() && !NO_SETTINGS.contains(&arg.get_id().as_str())
}

/// The command with switches that can be turned off again: the command line has the last word over a file.
pub(super) fn prepared(command: Command) -> Command {
    let after = command.get_after_long_help().map(|text| format!("{text}\n\n")).unwrap_or_default();
    let rule = "What a node is told may also be an environment variable (NEKO_DATA_DIR for --data-dir) or a key of \
                the configuration file (data_dir); flags win over the environment, and that over the file.";
    command.after_long_help(format!("{after}{rule}")).mut_args(|arg| {
        if !is_setting(&arg) || !matches!(arg.get_action(), ArgAction::SetTrue) {
            return arg;
        }
        let switch = arg.action(ArgAction::Set).num_args(0..=1).require_equals(true).value_name("BOOL");
        let switch = switch.default_value("false").default_missing_value("true").hide_default_value(true);
        switch.value_parser(BoolishValueParser::new()).hide_possible_values(true)
    })
}

/// The settings of a prepared command, in the order of its help.
pub(super) fn settings(command: &Command) -> Vec<Setting> {
    let setting = |arg: &Arg| {
        let key = arg.get_long().unwrap_or_default().replace('-', "_");
        Setting {
            variable: format!("NEKO_{}", key.to_uppercase()),
            kind: Kind::of(arg),
            key,
            arg: arg.clone(),
        }
    };
    command.get_arguments().filter(|arg| is_setting(arg)).map(setting).collect()
}

impl Setting {
    pub(super) fn id(&self) -> &str {
        self.arg.get_id().as_str()
    }

    pub(super) fn flag(&self) -> String {
        format!("--{}", self.arg.get_long().unwrap_or_default())
    }

    /// Whether it is a switch, and on.
    pub(super) fn is_on(&self, matches: &ArgMatches) -> bool {
        matches!(matches.try_get_one(self.id()), Ok(Some(true)))
    }

    /// Checks values as if they stood on the command line.
    pub(super) fn parse(&self, command: &Command, values: &[OsString]) -> Result<(), String> {
        let word = |value: &OsString| {
            let mut word = OsString::from(self.flag() + "=");
            word.push(value);
            word
        };
        let line = std::iter::once("program".into()).chain(values.iter().map(word));
        command.clone().try_get_matches_from(line).map(drop).map_err(|error| self.why(&error))
    }

    fn why(&self, error: &clap::Error) -> String {
        use clap::error::{ContextKind, ContextValue};
        use std::error::Error;
        match (error.source(), error.get(ContextKind::ValidValue)) {
            (_, Some(ContextValue::Strings(valid))) if !valid.is_empty() => {
                format!("expected one of {}", valid.join(", "))
            }
            (Some(why), _) if matches!(self.kind, Kind::Number | Kind::Switch) => {
                format!("expected {} ({why})", self.kind.expected())
            }
            (Some(why), _) => why.to_string(),
            (None, _) => format!("expected {}", self.kind.expected()),
        }
    }
}
