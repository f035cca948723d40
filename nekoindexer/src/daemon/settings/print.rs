//! The commented configuration file that `--print-config` prints.

use clap::Command;

use super::table::{Kind, Setting};

/// Columns of a comment.
const COLUMNS: usize = 100;

/// A valid file that changes nothing: every key with its meaning; those with a default have it, the others are
/// commented out.
pub(super) fn commented(command: &Command, settings: &[Setting]) -> String {
    let name = command.get_name();
    let mut text = comment(&format!(
        "Configuration of {name}. Every key may be left out. A flag (--data-dir) wins over an environment variable \
         (NEKO_DATA_DIR), and that over the key (data_dir) here. `{name} config check FILE` checks a file."
    ));
    for setting in settings {
        let help = setting.arg.get_long_help().or_else(|| setting.arg.get_help());
        text.push('\n');
        text.push_str(&comment(&help.map(ToString::to_string).unwrap_or_default()));
        let choices = setting.arg.get_possible_values();
        let choices: Vec<&str> = choices.iter().map(clap::builder::PossibleValue::get_name).collect();
        if setting.kind != Kind::Switch && !choices.is_empty() {
            text.push_str(&comment(&format!("One of: {}.", choices.join(", "))));
        }
        text.push_str(&line(command, setting));
    }
    text
}

fn line(command: &Command, setting: &Setting) -> String {
    let defaults: Vec<String> =
        setting.arg.get_default_values().iter().map(|value| value.to_string_lossy().into_owned()).collect();
    let key = &setting.key;
    match (setting.kind, defaults.first()) {
        (Kind::List, _) => {
            format!(
                "{key} = [{}]\n",
                defaults.iter().map(|value| quoted(value)).collect::<Vec<_>>().join(", ")
            )
        }
        (kind, Some(value)) => format!("{key} = {}\n", written(kind, value)),
        (kind, None) => format!("#{key} = {}\n", written(kind, &example(command, setting))),
    }
}

/// A value for a key without a default: what its help names as the default, if that is one, or else what stands
/// for it in the help. The default of a file is named in words, none of which is a path.
fn example(command: &Command, setting: &Setting) -> String {
    let help = setting.arg.get_help().map(ToString::to_string).unwrap_or_default();
    let default =
        help.rsplit_once("[default: ").and_then(|(_, rest)| rest.split(']').next()).unwrap_or_default();
    let last = default.split_whitespace().next_back().unwrap_or_default();
    let stand_in = setting.arg.get_value_names().and_then(|names| names.first());
    let is_file = stand_in.is_some_and(|name| name == "FILE");
    if !is_file && !last.is_empty() && setting.parse(command, &[last.into()]).is_ok() {
        return last.to_owned();
    }
    let choices = setting.arg.get_possible_values();
    match (choices.first(), stand_in) {
        (Some(choice), _) => choice.get_name().to_owned(),
        (None, Some(name)) => name.to_string(),
        (None, None) => String::new(),
    }
}

fn written(kind: Kind, value: &str) -> String {
    let is_bare = match kind {
        Kind::Switch => true,
        Kind::Number | Kind::Bytes => value.bytes().all(|byte| byte.is_ascii_digit()),
        Kind::Text | Kind::List => false,
    };
    if is_bare { value.to_owned() } else { quoted(value) }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn comment(text: &str) -> String {
    let mut lines = String::new();
    let mut columns = COLUMNS;
    for word in text.split_whitespace() {
        if columns + 1 + word.len() > COLUMNS {
            lines.push_str(if lines.is_empty() { "#" } else { "\n#" });
            columns = 1;
        }
        lines.push(' ');
        lines.push_str(word);
        columns += 1 + word.len();
    }
    lines.push('\n');
    lines
}
