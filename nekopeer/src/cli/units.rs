//! Byte counts and rates as text.

use std::num::NonZeroU64;

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

/// Parses a number of bytes, such as `1GiB`, `64 MiB`, `1.5MB` or `4096`.
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
        unit => UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?.1,
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

/// Parses bytes per second, such as `50MB` or `50MB/s`.
///
/// # Errors
/// The text is not such a rate.
pub fn rate(text: &str) -> Result<NonZeroU64, String> {
    let per_s = bytes(text.trim().trim_end_matches("/s"))
        .map_err(|_| format!("'{text}' is no rate: give bytes a second such as 50MB or 50MB/s"))?;
    NonZeroU64::new(per_s).ok_or_else(|| format!("'{text}' would never send anything"))
}

/// A duration of this many microseconds with a unit, in about three digits.
#[must_use]
pub fn duration(us: u64) -> String {
    match us {
        0..1000 => format!("{us} us"),
        1000..10_000 => format!("{}.{} ms", us / 1000, us % 1000 / 100),
        10_000..1_000_000 => format!("{} ms", us / 1000),
        _ => format!("{}.{} s", us / 1_000_000, us % 1_000_000 / 100_000),
    }
}

/// A number of bytes with a binary unit.
#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
pub(super) fn size(bytes: u64) -> String {
    const NAMES: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < NAMES.len() {
        value /= 1024.0;
        unit += 1;
    }
    match unit {
        0 => format!("{bytes} B"),
        _ if value < 10.0 => format!("{value:.1} {}", NAMES[unit]),
        _ => format!("{value:.0} {}", NAMES[unit]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_short() {
        let cases =
            [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (12 << 20, "12 MiB"), (1 << 30, "1.0 GiB")];
        for (bytes, text) in cases {
            assert_eq!(size(bytes), text);
        }
    }

    #[test]
    fn bytes_are_read_with_and_without_units() {
        let cases =
            [("4096", 4096), ("1GiB", 1 << 30), ("64 MiB", 64 << 20), ("1.5MB", 1_500_000), ("2kB", 2000)];
        for (text, expected) in cases {
            assert_eq!(bytes(text), Ok(expected), "{text}");
        }
        for wrong in ["", "MB", "0", "-1", "1 parsec", "1e30TiB", "99999999999TiB", "nan", "1.2.3MB"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_rate_is_bytes_a_second() {
        assert_eq!(rate("50MB").unwrap().get(), 50_000_000);
        assert_eq!(rate("50 MB/s"), rate("50MB"));
        assert!(rate("0").unwrap_err().contains("50MB"));
    }
}
