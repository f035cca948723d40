//! The `Range` of a request (RFC 9110, section 14): which bytes it asks for.
//!
//! One range of bytes is answered. Several in one request are answered with the whole file, once: no common client
//! needs them. So is any range of an empty file, which some clients always send. Units other than bytes are ignored, as
//! the standard demands.

use std::ops::Range;

const OUTSIDE: &str = "no byte of the file is in this range: ask for one that begins before its end";
pub(super) const MALFORMED: &str =
    "this is no range of bytes: write bytes=FIRST-LAST, bytes=FIRST- or bytes=-LAST_N";

/// The bytes that `header` asks for of a file of `size` bytes; `None`: all, since it names another unit or several
/// ranges, or there are none.
pub(super) fn asked(header: &str, size: u64) -> Result<Option<Range<u64>>, &'static str> {
    let (unit, set) = header.split_once('=').ok_or(MALFORMED)?;
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return Ok(None);
    }
    let mut ranges = set.split(',').map(str::trim).filter(|range| !range.is_empty());
    let range = ranges.next().ok_or(MALFORMED)?;
    if ranges.next().is_some() {
        return Ok(None);
    }
    let (first, last) = range.split_once('-').ok_or(MALFORMED)?;
    let range = match (first, last) {
        ("", count) => size.saturating_sub(number(count)?)..size,
        (first, "") => number(first)?..size,
        (first, last) => {
            let (first, last) = (number(first)?, number(last)?);
            if last < first {
                return Err(MALFORMED);
            }
            first..last.saturating_add(1).min(size)
        }
    };
    match range.is_empty() {
        _ if size == 0 => Ok(None),
        true => Err(OUTSIDE),
        false => Ok(Some(range)),
    }
}

/// A number of any length; one that no file is as long as is the largest.
fn number(text: &str) -> Result<u64, &'static str> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(MALFORMED);
    }
    Ok(text.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn http_ranges() {
        testkit::fuzz("http_ranges", |bytes: &[u8]| {
            let Some((size, header)) = bytes.split_first_chunk() else { return };
            let (size, Ok(header)) = (u64::from_le_bytes(*size), str::from_utf8(header)) else { return };
            if let Ok(Some(range)) = asked(header, size) {
                assert!(range.start < range.end && range.end <= size, "{range:?} of {size}");
            }
        });
    }
}
