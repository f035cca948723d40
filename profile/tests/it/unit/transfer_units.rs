//! Tests of `transfer/units.rs`.

use profile::transfer::units::*;

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
