//! Bytes, rates and shares as people write them, and bytes as they are shown.

use nekopeer::cli::units::UNITS;
pub use nekopeer::cli::units::{bytes, rate};

/// A share in percent: more than 0, at most 100.
pub fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim().trim_end_matches('%').trim_end().parse().ok();
    let share = number.filter(|share: &f64| *share > 0.0 && *share <= 100.0);
    share.ok_or_else(|| format!("'{text}' is no share: give percent, more than 0 and at most 100"))
}

/// The least and the most bytes of a file, such as `1KiB-10KiB`.
pub fn range(text: &str) -> Result<(u64, u64), String> {
    let wrong = || format!("'{text}' is no range of bytes: give the least and the most, such as 1KiB-10KiB");
    let (least, most) = text.split_once('-').ok_or_else(wrong)?;
    let (least, most) = (bytes(least)?, bytes(most)?);
    if least <= most { Ok((least, most)) } else { Err(wrong()) }
}

/// Bytes as people write them, in units of 1024: whole ones if it comes out even.
pub fn shown(bytes: u64) -> String {
    let (name, unit) =
        UNITS.iter().rev().take(4).find(|(_, unit)| bytes >= *unit).copied().unwrap_or(("B", 1));
    let (whole, rest) = (bytes / unit, bytes % unit);
    if rest == 0 { format!("{whole} {name}") } else { format!("{whole}.{} {name}", rest * 10 / unit) }
}

/// Bytes as they are given on the command line: exactly as many.
pub fn exact(bytes: u64) -> String {
    let fits = UNITS.iter().rev().filter(|(name, _)| *name != "KB");
    let even = fits.filter(|(_, unit)| bytes.is_multiple_of(*unit));
    even.min_by_key(|(_, unit)| bytes / unit)
        .map_or_else(|| bytes.to_string(), |(name, unit)| format!("{}{name}", bytes / unit))
}
