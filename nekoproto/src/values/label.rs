//! [`Label`]: what people call a node. It says it itself, and proves nothing: it is shown beside the node's id.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};

use super::name::is_invisible;
use crate::limits::LABEL_BYTES_MAX;

/// What people call a node: 1 to 64 bytes of UTF-8 of which something is seen, without control characters. Whoever shows it
/// escapes what would mislead. A clone copies a pointer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Label(Arc<str>);

/// A text that is no [`Label`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a label has 1 to {LABEL_BYTES_MAX} bytes of text that is seen, and no control characters")]
pub struct LabelError;

impl TryFrom<String> for Label {
    type Error = LabelError;

    fn try_from(text: String) -> Result<Self, LabelError> {
        let is_seen = text.chars().any(|letter| !letter.is_whitespace() && !is_invisible(letter));
        let is_label = is_seen && text.len() <= LABEL_BYTES_MAX && !text.chars().any(char::is_control);
        if is_label { Ok(Self(text.into())) } else { Err(LabelError) }
    }
}

impl From<Label> for String {
    fn from(label: Label) -> Self {
        label.0.as_ref().to_owned()
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_of_a_stranger_is_short_seen_and_has_no_control_characters() {
        for text in ["", " ", "\u{200d}", "desk\n3", "\u{1b}[31mdesk", &"x".repeat(LABEL_BYTES_MAX + 1)] {
            assert_eq!(Label::try_from(text.to_owned()), Err(LabelError), "{text:?}");
            assert!(crate::codec::decode::<Label>(&crate::codec::encode(&text).unwrap()).is_err());
        }
        for text in ["desk-3", "Übungsraum 2", &"x".repeat(LABEL_BYTES_MAX)] {
            let label = Label::try_from(text.to_owned()).unwrap();
            assert_eq!(crate::codec::decode::<Label>(&crate::codec::encode(&label).unwrap()).unwrap(), label);
        }
    }
}
