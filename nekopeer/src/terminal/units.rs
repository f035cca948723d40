//! Byte counts, rates and ages as text.

use std::num::NonZeroU64;

use nekoproto::clock::unix_ms;

pub use nekoindexer::daemon::settings::units::{UNITS, bytes};

/// Parses bytes per second, such as `50MB` or `50MB/s`.
///
/// # Errors
/// The text is not such a rate.
pub fn rate(text: &str) -> Result<NonZeroU64, String> {
    let per_s = bytes(text.trim().trim_end_matches("/s"))
        .map_err(|_| format!("'{text}' is no rate: give bytes a second such as 50MB or 50MB/s"))?;
    NonZeroU64::new(per_s).ok_or_else(|| format!("'{text}' would never send anything"))
}

/// Reads a rate, or 0 for none.
///
/// # Errors
/// The text is neither.
pub fn new_rate(text: &str) -> Result<u64, String> {
    if text.trim() == "0" { Ok(0) } else { rate(text).map(NonZeroU64::get) }
}

/// A duration of this many milliseconds with a unit, in about three digits.
pub fn duration(ms: f64) -> String {
    match ms {
        ..1.0 => format!("{:.0} us", ms * 1e3),
        ..10.0 => format!("{ms:.1} ms"),
        ..1000.0 => format!("{ms:.0} ms"),
        _ => format!("{:.1} s", ms / 1e3),
    }
}

const AGES: [(&str, u64); 6] =
    [("s", 1), ("min", 60), ("h", 3600), ("d", 24 * 3600), ("w", 7 * 24 * 3600), ("y", 365 * 24 * 3600)];

/// An age of so many seconds, with the largest unit of which it has two.
pub(crate) fn age(secs: u64) -> String {
    let shown = AGES.iter().rev().find(|(name, unit)| secs >= 2 * unit && *name != "w");
    let (name, unit) = shown.unwrap_or(&AGES[0]);
    format!("{} {name}", secs / unit)
}

/// The age of what happened at this time, in milliseconds since 1970.
pub(crate) fn age_since(ms: u64) -> String {
    age(unix_ms().saturating_sub(ms) / 1000)
}

/// Parses a time in the past, as an age such as `90s`, `30min`, `2h`, `3d` or `2w`, or as a date such as `2026-11-01`,
/// which begins at midnight UTC; in milliseconds since 1970.
pub(crate) fn since(text: &str) -> Result<u64, String> {
    since_at(text, unix_ms())
}

fn since_at(text: &str, now_ms: u64) -> Result<u64, String> {
    let wrong =
        || format!("'{text}' is no age: give one such as 30min, 2h or 3d, or a date such as 2026-11-01");
    if let Some(days) = days_since_1970(text) {
        return Ok(days * 24 * 3600 * 1000);
    }
    let end = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
    let (number, unit) = text.split_at(end);
    let (_, secs) = AGES.iter().find(|(name, _)| *name == unit.trim()).ok_or_else(wrong)?;
    let secs = number.parse::<u64>().ok().and_then(|number| number.checked_mul(*secs)).ok_or_else(wrong)?;
    Ok(now_ms.saturating_sub(secs.saturating_mul(1000)).max(1)) // 0 would be any time
}

/// The days from 1970 to the date `YYYY-MM-DD`; `None` for other texts and for days that do not exist.
fn days_since_1970(date: &str) -> Option<u64> {
    let mut parts = date.split('-').map(|part| part.parse::<u64>().ok());
    let (Some(Some(year)), Some(Some(month)), Some(Some(day)), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return None;
    };
    let is_leap =
        |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let lengths = [31, 28 + u64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let before = usize::try_from(month.checked_sub(1)?).ok()?;
    if !(1970..10_000).contains(&year) || !(1..=*lengths.get(before)?).contains(&day) {
        return None;
    }
    let years: u64 = (1970..year).map(|year| 365 + u64::from(is_leap(year))).sum();
    Some(years + lengths[..before].iter().sum::<u64>() + day - 1)
}

/// A number of bytes with a binary unit.
#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
pub(crate) fn size(bytes: u64) -> String {
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
    fn ages_are_short() {
        let day = 24 * 3600;
        let cases = [
            (0, "0 s"),
            (119, "119 s"),
            (180, "3 min"),
            (7200, "2 h"),
            (2 * day, "2 d"),
            (729 * day, "729 d"),
            (730 * day, "2 y"),
        ];
        for (secs, text) in cases {
            assert_eq!(age(secs), text);
        }
    }

    #[test]
    fn times_in_the_past_are_ages_and_dates() {
        for (date, secs) in [
            ("1970-01-01", 0),
            ("2000-02-29", 951_782_400),
            ("2026-11-01", 1_793_491_200),
            ("2100-03-01", 4_107_542_400),
        ] {
            assert_eq!(since(date), Ok(secs * 1000), "{date}");
        }
        let now_ms = 1_793_491_200_000;
        let cases = [("90s", 90), ("30min", 1800), ("2h", 7200), ("3 d", 3 * 86400), ("2w", 14 * 86400)];
        for (text, secs) in cases {
            assert_eq!(since_at(text, now_ms), Ok(now_ms - secs * 1000), "{text}");
        }
        assert_eq!(since("999y"), Ok(1));
        for wrong in
            ["", "2", "h", "-2h", "2 parsec", "2026-02-29", "2026-13-01", "2026-11", "99999999999999999999y"]
        {
            assert!(since(wrong).unwrap_err().contains("2026-11-01"), "{wrong}");
        }
    }

    #[test]
    fn a_rate_is_bytes_a_second() {
        assert_eq!(rate("50MB").unwrap().get(), 50_000_000);
        assert_eq!(rate("50 MB/s"), rate("50MB"));
        assert!(rate("0").unwrap_err().contains("50MB"));
    }
}
