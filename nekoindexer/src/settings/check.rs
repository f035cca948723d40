//! What `config check` shows: what is in force, and who says so.

use std::fmt::Write;

use clap::ArgMatches;
use serde_json::{Value, json};

use crate::visible::visible;

use super::{
    access::{SECRET_VARIABLE, is_secret_in_environment},
    layers::{Source, raw},
    table::{Kind, Setting},
};

/// An aligned table.
pub(super) fn table(settings: &[Setting], matches: &ArgMatches, sources: &[Source]) -> String {
    let mut rows = vec![["setting".to_owned(), "value".to_owned(), "from".to_owned()]];
    for (setting, source) in settings.iter().zip(sources) {
        let (values, source) = shown(setting, matches, source);
        let value = if values.is_empty() { "-".to_owned() } else { values.join(",") };
        rows.push([setting.key.clone(), visible(&value).into_owned(), visible(&source).into_owned()]);
    }
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let (keys, values) = (width(0), width(1));
    let mut text = String::new();
    for [key, value, from] in rows {
        // Writing to a text cannot fail.
        let _ = writeln!(text, "{key:keys$}  {value:values$}  {from}");
    }
    text
}

/// The same for machines, in one line.
pub(super) fn json(settings: &[Setting], matches: &ArgMatches, sources: &[Source]) -> String {
    let rows = settings.iter().zip(sources).map(|(setting, source)| {
        let (texts, from) = shown(setting, matches, source);
        json!({ "key": setting.key, "value": value(setting, matches, texts), "from": from })
    });
    format!("{}\n", json!({ "settings": rows.collect::<Vec<_>>() }))
}

/// The values of a setting and who says them. A secret is not shown.
fn shown(setting: &Setting, matches: &ArgMatches, source: &Source) -> (Vec<String>, String) {
    if setting.key == "network_secret" && is_secret_in_environment() {
        return (vec!["(set)".to_owned()], SECRET_VARIABLE.to_owned());
    }
    (texts(setting, matches), source.to_string())
}

fn value(setting: &Setting, matches: &ArgMatches, texts: Vec<String>) -> Value {
    let first = || texts.first().map_or(Value::Null, |text| Value::from(text.as_str()));
    match setting.kind {
        Kind::List => texts.into(),
        Kind::Switch => is_on(setting, matches).into(),
        Kind::Number => {
            texts.first().and_then(|text| text.parse::<u64>().ok()).map_or_else(first, Value::from)
        }
        Kind::Bytes | Kind::Text => first(),
    }
}

fn is_on(setting: &Setting, matches: &ArgMatches) -> bool {
    matches.get_one::<bool>(setting.arg.get_id().as_str()).is_some_and(|is_on| *is_on)
}

fn texts(setting: &Setting, matches: &ArgMatches) -> Vec<String> {
    if setting.kind == Kind::Switch {
        return vec![is_on(setting, matches).to_string()];
    }
    raw(setting, matches).iter().map(|value| value.display().to_string()).collect()
}
