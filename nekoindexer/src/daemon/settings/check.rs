//! Prints for `config check` each setting with its value and its source: flag, variable, file or default.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::visible::visible;

use super::{
    access::{SECRET_VARIABLE, is_secret_in_environment},
    layers::InForce,
    table::{Kind, Setting},
};

pub(super) fn table(settings: &[Setting], in_force: &InForce) -> String {
    let mut rows = vec![["setting".to_owned(), "value".to_owned(), "from".to_owned()]];
    for setting in settings {
        let (values, source) = shown(setting, in_force);
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
pub(super) fn json(settings: &[Setting], in_force: &InForce) -> String {
    let rows = settings.iter().map(|setting| {
        let (values, from) = shown(setting, in_force);
        json!({ "key": setting.key, "value": value(setting, values), "from": from })
    });
    format!("{}\n", json!({ "settings": rows.collect::<Vec<_>>() }))
}

/// The values of a setting and who says them. A secret is not shown.
fn shown(setting: &Setting, in_force: &InForce) -> (Vec<String>, String) {
    if setting.key == "network_secret" && is_secret_in_environment() {
        return (vec!["(set)".to_owned()], SECRET_VARIABLE.to_owned());
    }
    let values = if setting.kind == Kind::Switch {
        vec![setting.is_on(&in_force.matches).to_string()]
    } else {
        let raw = in_force.matches.get_raw(setting.id());
        raw.into_iter().flatten().map(|value| value.display().to_string()).collect()
    };
    (values, in_force.source(setting))
}

fn value(setting: &Setting, texts: Vec<String>) -> Value {
    let first = texts.first().map(String::as_str);
    let parsed = match setting.kind {
        Kind::List => return texts.into(),
        Kind::Switch => first.and_then(|text| text.parse::<bool>().ok()).map(Value::from),
        Kind::Number => first.and_then(|text| text.parse::<u64>().ok()).map(Value::from),
        Kind::Bytes | Kind::Text => None,
    };
    parsed.unwrap_or_else(|| first.into())
}
