//! Byte counts as they are typed.

use std::num::NonZeroU64;

use nekoproto::budget::BUDGET_MIN;

/// The units, by name. `GiB` is 1024^3 bytes, `GB` is 1000^3.
pub const UNITS: [(&str, u64); 10] = [
    ("B", 1),
    ("kB", 1000),
    ("KB", 1000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
];

/// Parses a number of bytes, such as `1GiB`, `64 MiB`, `1.5MB`, `1500K` or `4096`.
///
/// # Errors
/// The text is not such a number, or it is less than 1 byte.
pub fn bytes(text: &str) -> Result<u64, String> {
    let wrong = || format!("'{text}' is no number of bytes: give one such as 4096, 64MiB, 1GiB or 50MB");
    let trimmed = text.trim();
    let end = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(end);
    let unit = match unit.trim() {
        "" => 1,
        unit => {
            let is_it = |name: &str| name == unit || name.strip_suffix('B') == Some(unit);
            UNITS.iter().find(|(name, _)| is_it(name)).ok_or_else(wrong)?.1
        }
    };
    let bytes = match number.parse::<u64>() {
        Ok(whole) => whole.checked_mul(unit).ok_or_else(wrong)?,
        Err(_) => of_fraction(number, unit).ok_or_else(wrong)?,
    };
    if bytes == 0 { Err(format!("'{text}' is less than one byte")) } else { Ok(bytes) }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "checked to be a number that fits"
)]
fn of_fraction(number: &str, unit: u64) -> Option<u64> {
    let bytes = number.parse::<f64>().ok()? * unit as f64;
    (bytes.is_finite() && (0.0..=u64::MAX as f64 / 2.0).contains(&bytes)).then_some(bytes as u64)
}

/// Bytes a second; 0: none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate(pub u64);

/// Parses a number of bytes a second, which may be 0.
///
/// # Errors
/// The text is no number of bytes.
pub fn rate(text: &str) -> Result<Rate, String> {
    if text.trim() == "0" { Ok(Rate(0)) } else { bytes(text).map(Rate) }
}

/// Parses the bytes of a node's budget, such as `1GiB`.
///
/// # Errors
/// The text is no number of bytes, or too few.
pub fn memory(text: &str) -> Result<NonZeroU64, String> {
    let bytes = NonZeroU64::new(bytes(text)?).filter(|bytes| bytes.get() >= BUDGET_MIN as u64);
    bytes.ok_or_else(|| format!("'{text}' is too little: give at least {} MiB", BUDGET_MIN >> 20))
}

/// The budget that these bytes are.
#[must_use]
pub fn budget(bytes: NonZeroU64) -> usize {
    usize::try_from(bytes.get()).unwrap_or(usize::MAX / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_with_and_without_units() {
        let cases =
            [("4096", 4096), ("1GiB", 1 << 30), ("64 MiB", 64 << 20), ("1.5MB", 1_500_000), ("2kB", 2000)];
        for (text, expected) in cases {
            assert_eq!(bytes(text), Ok(expected), "{text}");
        }
        assert!(memory("16MiB").is_ok() && memory("15MiB").is_err());
        for wrong in "; MB; 0; -1; 1 parsec; 0.1B; 1e3; 1e30TiB; 99999999999TiB; nan; 1.2.3MB".split(';') {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }
}
