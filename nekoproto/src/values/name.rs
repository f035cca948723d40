//! [`FileName`], the name a file is shared under. Decoding checks it, so an unsafe name cannot exist.

use std::{borrow::Borrow, fmt, path::Path, str::FromStr, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::limits::{COMPONENT_BYTES_MAX, NAME_BYTES_MAX};

/// Components with this prefix, in upper or lower case, belong to nekop2p itself: its data folder and its
/// partial downloads.
pub const RESERVED_PREFIX: &str = ".neko";

/// Name a file is shared under: a relative path of normal components, joined by `/`.
///
/// - 1 to 1024 bytes of UTF-8, each component 1 to 255 bytes;
/// - no `.` or `..`, no empty component, so neither absolute nor ending in `/`;
/// - no backslash and no control character, NUL included;
/// - no component that begins with [`RESERVED_PREFIX`].
///
/// Any other character may be in it, also one that [is not seen](is_invisible): whoever shows a name escapes what would
/// mislead. Joined to a folder it therefore stays inside that folder unless a symbolic link leads out of it, which
/// the receiving side checks when it creates the file. A clone copies a pointer.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileName(Arc<str>);

/// Why a text is not a [`FileName`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// The text is empty.
    #[error("a name cannot be empty")]
    Empty,
    /// More than 1024 bytes.
    #[error("a name has at most {NAME_BYTES_MAX} bytes, this one has {0}")]
    TooLong(usize),
    /// A component of more than 255 bytes.
    #[error("each part of a name has at most {COMPONENT_BYTES_MAX} bytes")]
    ComponentTooLong,
    /// The text begins with `/`.
    #[error("a name is relative: it cannot begin with '/'")]
    Absolute,
    /// Two slashes in a row, or one at the end.
    #[error("a name has no empty part: no '//' and no '/' at its end")]
    EmptyComponent,
    /// A component `.` or `..`.
    #[error("a name cannot contain the parts '.' or '..'")]
    DotComponent,
    /// A backslash.
    #[error("a name cannot contain a backslash")]
    Backslash,
    /// NUL, a line break or another control character.
    #[error("a name cannot contain control characters")]
    Control,
    /// A component that begins with `.neko`.
    #[error("parts that begin with '{RESERVED_PREFIX}' belong to nekop2p itself")]
    Reserved,
    /// A path that is not UTF-8.
    #[error("a name is valid UTF-8")]
    NotUtf8,
}

impl FileName {
    /// Checks `text` against the rule.
    ///
    /// # Errors
    /// The first rule that `text` breaks.
    pub fn new(text: &str) -> Result<Self, NameError> {
        check(text).map(|()| Self(Arc::from(text)))
    }

    /// The name whose text was checked before.
    #[expect(clippy::expect_used, reason = "called with the bytes of a name only")]
    pub(crate) fn checked_before(bytes: &[u8]) -> Self {
        Self(Arc::from(str::from_utf8(bytes).expect("the bytes of a name")))
    }

    /// The name of a relative path of normal components.
    ///
    /// # Errors
    /// `NotUtf8`, or the first rule that the path breaks.
    pub fn from_path(path: &Path) -> Result<Self, NameError> {
        Self::new(path.to_str().ok_or(NameError::NotUtf8)?)
    }

    /// The text, its components joined by `/`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name as a relative path.
    #[must_use]
    pub fn as_path(&self) -> &Path {
        Path::new(&*self.0)
    }
}

fn check(text: &str) -> Result<(), NameError> {
    if text.is_empty() {
        return Err(NameError::Empty);
    }
    if text.len() > NAME_BYTES_MAX {
        return Err(NameError::TooLong(text.len()));
    }
    if text.starts_with('/') {
        return Err(NameError::Absolute);
    }
    // One pass over the bytes: every name that arrives is checked.
    let (mut any_backslash, mut any_control, mut all_bits) = (false, false, 0);
    for byte in text.bytes() {
        any_backslash |= byte == b'\\';
        any_control |= byte.is_ascii_control();
        all_bits |= byte;
    }
    if any_backslash {
        return Err(NameError::Backslash);
    }
    if any_control || !all_bits.is_ascii() && text.chars().any(char::is_control) {
        return Err(NameError::Control);
    }
    text.as_bytes().split(|byte| *byte == b'/').try_for_each(check_component)
}

/// Whether `c` is not seen where text is shown, and changes what is: characters of Unicode that set the direction of
/// text, end a line or paragraph, have no width (the joiners of emoji and of Persian too), or are ignored by default.
/// Selectors of a letter's variant are none of them: emoji and ideographs need them.
#[must_use]
pub const fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180e}'
        | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}'
        | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{13430}'..='\u{1343f}' | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e00ff}' | '\u{e01f0}'..='\u{e0fff}')
}

fn check_component(component: &[u8]) -> Result<(), NameError> {
    let prefix = component.get(..RESERVED_PREFIX.len());
    match component {
        b"" => Err(NameError::EmptyComponent),
        b"." | b".." => Err(NameError::DotComponent),
        _ if component.len() > COMPONENT_BYTES_MAX => Err(NameError::ComponentTooLong),
        _ if prefix.is_some_and(|p| p.eq_ignore_ascii_case(RESERVED_PREFIX.as_bytes())) => {
            Err(NameError::Reserved)
        }
        _ => Ok(()),
    }
}

impl Borrow<str> for FileName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl FromStr for FileName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        Self::new(text)
    }
}

impl Serialize for FileName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for FileName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = FileName;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a file name")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<FileName, E> {
                FileName::new(text).map_err(E::custom)
            }
        }
        deserializer.deserialize_str(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Component;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn unsafe_names_are_refused_for_the_right_reason() {
        let cases = [
            (NameError::Empty, &[""][..]),
            (NameError::Absolute, &["/etc/passwd"]),
            (NameError::DotComponent, &["..", "a/../b", "./a"]),
            (NameError::EmptyComponent, &["a//b", "a/"]),
            (NameError::Backslash, &["a\\b", "..\\..\\etc"]),
            (NameError::Control, &["a\0b", "a\nb", "a\u{1b}[2Jb", "a\u{85}b"]),
            (NameError::Reserved, &[".neko/catalogue", "a/.NEKO-part-1"]),
        ];
        for (error, texts) in cases {
            for text in texts {
                assert_eq!(FileName::new(text), Err(error), "{text:?}");
            }
        }
        assert_eq!(FileName::new(&"ab/".repeat(683)), Err(NameError::TooLong(2049)));
        assert_eq!(FileName::new(&"a".repeat(256)), Err(NameError::ComponentTooLong));
    }

    #[test]
    fn ordinary_names_are_taken() {
        let ordinary =
            "a|a.bin|round 7/data.csv|.hidden|ünïcode/日本.txt|a..b|2026-11-21T10:00|✈\u{fe0f}|e\u{301}|שלום";
        let of_other_programs = "9.22.20\u{202f}PM|a\u{a0}b|\u{1f469}\u{200d}\u{1f4bb}|\u{645}\u{6cc}\u{200c}\u{62e}| a|a |gpj.\u{202e}exe";
        for text in ordinary.split('|').chain(of_other_programs.split('|')) {
            assert_eq!(FileName::new(text).unwrap().as_str(), text);
        }
    }

    proptest! {
        #[test]
        fn accepted_names_are_relative_paths_of_normal_components(text in "[a-z./\\\\\0 é]{0,40}") {
            if let Ok(name) = FileName::new(&text) {
                let parts: Vec<_> = name.as_path().components().collect();
                prop_assert!(parts.iter().all(|part| matches!(part, Component::Normal(_))));
                let joined = Path::new("/share").join(name.as_path());
                prop_assert!(joined.starts_with("/share") && joined != Path::new("/share"));
            }
        }

        #[test]
        fn names_survive_the_wire(text in "\\PC{1,300}") {
            let encoded = crate::codec::encode(&text).unwrap();
            let decoded: Result<FileName, _> = crate::codec::decode(&encoded);
            prop_assert_eq!(decoded.ok(), FileName::new(&text).ok());
        }
    }
}
