//! [`Done`] ends an answer with an outcome and fields. [`Framed`] joins rows and fields to one JSON value.

use serde::{Deserialize, Serialize};

use crate::api::Row;

/// How a command ended that did not fail as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Done {
    pub(crate) outcome: Outcome,
    /// The fields of the answer beside its list of rows: a JSON object.
    pub(crate) fields: Row,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Outcome {
    All,
    Part,
    /// A name was not found; the rest is done.
    NotFound,
    Nothing,
}

impl Done {
    /// All was done, and the rows say all.
    pub(crate) fn all() -> Self {
        Self { outcome: Outcome::All, fields: Row::of(&serde_json::Map::new()) }
    }

    pub(crate) fn with(outcome: Outcome, fields: &impl Serialize) -> Self {
        Self { outcome, fields: Row::of(fields) }
    }
}

/// How an answer looks as JSON.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Shape {
    /// The only row is the answer.
    #[default]
    Object,
    /// The same, unless [`Reply::Many`](super::Reply::Many) comes first: then a list under this key.
    ObjectOr(&'static str),
    /// An object with the rows under this key, and the fields of [`Done`].
    List(&'static str),
    /// Each row is an object of its own, on its line.
    Lines,
}

/// The JSON text of an answer, made as its rows come.
#[derive(Debug)]
pub(crate) struct Framed {
    shape: Shape,
    pub(crate) is_begun: bool,
}

impl Framed {
    pub(crate) const fn new(shape: Shape) -> Self {
        Self { shape, is_begun: false }
    }

    pub(crate) const fn be_many(&mut self) {
        if let Shape::ObjectOr(key) = self.shape {
            self.shape = Shape::List(key);
        }
    }

    pub(crate) fn rows(&mut self, rows: &[Row]) -> String {
        let mut text = String::new();
        for row in rows {
            match self.shape {
                Shape::Object | Shape::ObjectOr(_) | Shape::Lines => text.push_str(row.text()),
                Shape::List(_) if self.is_begun => text.extend([",", row.text()]),
                Shape::List(key) => text.extend(["{\"", key, "\":[", row.text()]),
            }
            self.is_begun = true;
            if !matches!(self.shape, Shape::List(_)) {
                text.push('\n');
            }
        }
        text
    }

    pub(crate) fn end(&mut self, fields: &Row) -> String {
        let Shape::List(key) = self.shape else { return String::new() };
        let begin = if self.is_begun { String::new() } else { format!("{{\"{key}\":[") };
        let fields =
            fields.text().strip_prefix("{").and_then(|text| text.strip_suffix("}")).unwrap_or_default();
        let comma = if fields.is_empty() { "" } else { "," };
        format!("{begin}]{comma}{fields}}}\n")
    }

    /// The text of the end of a list that broke off, with these fields; `None` if none was begun.
    pub(crate) fn rest_with(&mut self, fields: &Row) -> Option<String> {
        (self.is_begun && matches!(self.shape, Shape::List(_))).then(|| self.end(fields))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rows_become_one_object_however_they_come() {
        let rows = [1, 2, 3].map(|n| Row::of(&json!({ "n": n })));
        let mut framed = Framed::new(Shape::List("files"));
        let text = [framed.rows(&rows[..1]), framed.rows(&[]), framed.rows(&rows[1..])].concat();
        let text = text + &framed.end(&Row::of(&json!({ "more": { "a": 1 } })));
        assert_eq!(text, "{\"files\":[{\"n\":1},{\"n\":2},{\"n\":3}],\"more\":{\"a\":1}}\n");
        let mut empty = Framed::new(Shape::List("files"));
        assert_eq!(empty.rest_with(&Done::all().fields), None);
        assert_eq!(empty.end(&Done::all().fields), "{\"files\":[]}\n");
        assert_eq!(Framed::new(Shape::Lines).rows(&rows[..2]), "{\"n\":1}\n{\"n\":2}\n");
    }
}
