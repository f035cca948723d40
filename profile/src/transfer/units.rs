//! Bytes, rates and shares as people write them, and bytes as they are shown.

use nekopeer::cli::units::UNITS;
pub(crate) use nekopeer::cli::units::{bytes, rate};

/// A share in percent: more than 0, at most 100.
pub(crate) fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim().trim_end_matches('%').trim_end().parse().ok();
    let share = number.filter(|share: &f64| *share > 0.0 && *share <= 100.0);
    share.ok_or_else(|| format!("'{text}' is no share: give percent, more than 0 and at most 100"))
}

/// The least and the most bytes of a file, such as `1KiB-10KiB`.
pub(crate) fn range(text: &str) -> Result<(u64, u64), String> {
    let wrong = || format!("'{text}' is no range of bytes: give the least and the most, such as 1KiB-10KiB");
    let (least, most) = text.split_once('-').ok_or_else(wrong)?;
    let (least, most) = (bytes(least)?, bytes(most)?);
    if least <= most { Ok((least, most)) } else { Err(wrong()) }
}

/// Bytes as people write them, in units of 1024: whole ones if it comes out even.
pub(crate) fn shown(bytes: u64) -> String {
    let (name, unit) =
        UNITS.iter().rev().take(4).find(|(_, unit)| bytes >= *unit).copied().unwrap_or(("B", 1));
    let (whole, rest) = (bytes / unit, bytes % unit);
    if rest == 0 { format!("{whole} {name}") } else { format!("{whole}.{} {name}", rest * 10 / unit) }
}

/// Bytes as they are given on the command line: exactly as many.
pub(crate) fn exact(bytes: u64) -> String {
    let fits = UNITS.iter().rev().filter(|(name, _)| *name != "KB");
    let even = fits.filter(|(_, unit)| bytes.is_multiple_of(*unit));
    even.min_by_key(|(_, unit)| bytes / unit)
        .map_or_else(|| bytes.to_string(), |(name, unit)| format!("{}{name}", bytes / unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_with_and_without_units_are_read() {
        for (text, is) in [
            ("4096", 4096),
            ("64MiB", 64 << 20),
            ("64 MiB", 64 << 20),
            ("1.5GiB", 3 << 29),
            ("50MB", 50_000_000),
            ("10KiB", 10_240),
            ("7B", 7),
        ] {
            assert_eq!(bytes(text), Ok(is), "{text}");
        }
        for text in ["", "0", "MiB", "-1", "1XB", "1.2.3MiB", "0.1B", "99999999TiB", "nan", "1e3"] {
            assert!(bytes(text).is_err(), "{text}");
        }
        assert_eq!(rate("50MB/s"), rate("50MB"));
        assert_eq!((percent("1"), percent("0.5%")), (Ok(1.0), Ok(0.5)));
        assert!(percent("0").is_err() && percent("101").is_err() && percent("nan").is_err());
        assert_eq!(range("1KiB-10KiB"), Ok((1024, 10_240)));
        assert!(range("10KiB-1KiB").is_err() && range("1KiB").is_err());
    }

    #[test]
    fn what_is_written_is_read_again() {
        assert_eq!([1 << 30, 3 << 29, 1000, 64 << 20].map(shown), ["1 GiB", "1.5 GiB", "1000 B", "64 MiB"]);
        for number in [1, 1000, 1024, 50_000_000, 1 << 30, 3 << 29, 12_345] {
            assert_eq!(bytes(&exact(number)), Ok(number), "{}", exact(number));
        }
        assert_eq!([exact(1 << 30), exact(50_000_000)], ["1GiB", "50MB"]);
    }
}
