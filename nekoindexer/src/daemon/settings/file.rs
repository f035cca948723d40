//! The configuration file: TOML, every key optional, everything wrong in it named by its line.

use std::{ffi::OsString, path::Path};

use clap::Command;
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::table::{Kind, Setting};

/// Two words are alike enough to ask whether the other was meant.
const ALIKE_MIN: f64 = 0.7;

/// One key of the file.
pub(super) struct Entry<'a> {
    pub(super) setting: &'a Setting,
    /// File and line.
    pub(super) place: String,
    pub(super) values: Vec<OsString>,
}

/// Reads the text of the file at `path`. Its values are checked as flags of `command`.
pub(super) fn parse<'a>(
    text: &str,
    path: &Path,
    command: &Command,
    settings: &'a [Setting],
) -> Result<Vec<Entry<'a>>, Vec<String>> {
    let path = path.display();
    let table = DeTable::parse(text).map_err(|error| {
        let line = error.span().map_or(1, |span| line_of(text, span.start));
        let written = text.lines().nth(line - 1).unwrap_or_default().trim();
        vec![format!("{path}:{line}: {written:?}: {}", error.message().replace('\n', ", "))]
    })?;
    let (mut entries, mut faults) = (Vec::new(), Vec::new());
    for (key, value) in table.get_ref() {
        let line = line_of(text, key.span().start);
        let written = &text[value.span()];
        let read = known(key.get_ref(), settings).and_then(|setting| {
            let values = values(setting, written, value)?;
            let parsed = setting.parse(command, &values);
            parsed.map_err(|why| format!("{} = {written}: {why}", setting.key))?;
            Ok(Entry { setting, place: format!("{path}:{line}"), values })
        });
        match read {
            Ok(entry) => entries.push(entry),
            Err(why) => faults.push((line, why)),
        }
    }
    faults.sort();
    if faults.is_empty() {
        Ok(entries)
    } else {
        Err(faults.into_iter().map(|(line, why)| format!("{path}:{line}: {why}")).collect())
    }
}

fn line_of(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
}

fn known<'a>(key: &str, settings: &'a [Setting]) -> Result<&'a Setting, String> {
    settings.iter().find(|setting| setting.key == key).ok_or_else(|| {
        let near = nearest(key, settings.iter().map(|setting| setting.key.as_str()));
        let near = near.map(|near| format!(": is {near} meant?")).unwrap_or_default();
        format!("unknown key {key:?}{near} (--print-config lists every key)")
    })
}

pub(super) fn nearest<'a>(word: &str, of: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let likeness = |other: &str| strsim::jaro_winkler(word, other);
    let nearest = of.max_by(|a, b| likeness(a).total_cmp(&likeness(b)))?;
    (likeness(nearest) >= ALIKE_MIN).then_some(nearest)
}

fn values(setting: &Setting, written: &str, value: &Spanned<DeValue>) -> Result<Vec<OsString>, String> {
    let wrong = || {
        let (key, expected) = (&setting.key, setting.kind.expected());
        format!("{key} = {written}: expected {expected}")
    };
    let text = |value: &Spanned<DeValue>| match value.get_ref() {
        DeValue::String(text) => Some(OsString::from(text.as_ref())),
        _ => None,
    };
    let one = match (setting.kind, value.get_ref()) {
        (Kind::Switch, DeValue::Boolean(is_on)) => Some(OsString::from(is_on.to_string())),
        (Kind::Number | Kind::Bytes, DeValue::Integer(number)) => {
            i64::from_str_radix(number.as_str(), number.radix()).ok().map(|n| n.to_string().into())
        }
        (Kind::Text | Kind::Bytes, DeValue::String(_)) => text(value),
        (Kind::List, DeValue::Array(values)) => {
            return values.iter().map(text).collect::<Option<_>>().ok_or_else(wrong);
        }
        _ => None,
    };
    one.map(|value| vec![value]).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use clap::Parser;

    use super::*;
    use crate::daemon::settings::{table, units};

    #[derive(Parser)]
    struct Args {
        #[arg(long)]
        switch: bool,
        #[arg(long)]
        number: Option<u16>,
        #[arg(long, value_parser = units::memory)]
        bytes: Option<NonZeroU64>,
        #[arg(long)]
        text: Option<String>,
        #[arg(long, value_delimiter = ',')]
        list: Vec<std::net::SocketAddr>,
    }

    #[test]
    fn configuration_files() {
        let command = table::prepared(<Args as clap::CommandFactory>::command());
        let settings = table::settings(&command);
        testkit::fuzz("configuration_files", |bytes: &[u8]| {
            let Ok(text) = std::str::from_utf8(bytes) else { return };
            match parse(text, Path::new("f"), &command, &settings) {
                Ok(entries) => assert!(entries.iter().all(|entry| entry.place.starts_with("f:"))),
                Err(faults) => assert!(faults.iter().all(|fault| fault.starts_with("f:"))),
            }
        });
    }
}
