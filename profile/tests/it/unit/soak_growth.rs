//! Tests of `soak/growth.rs`.

use profile::soak::growth::*;

/// A figure each second for a hundred seconds.
fn growth(figure: impl Fn(f64) -> f64) -> Growth {
    let points: Vec<(f64, f64)> = (0..100u8).map(|s| (s.into(), figure(s.into()))).collect();
    Growth::of("memory MiB", &points, 8.0).unwrap()
}

#[test]
fn growth_is_what_noise_does_not_explain() {
    assert!(!growth(|_| 50.0).grows);
    assert!(!growth(|s| 50.0 + 40.0 * (s * 1.7).sin()).grows, "noise alone");
    assert!(!growth(|s| 50.0 + s / 20.0).grows, "5 MiB are allowed");
    let leak = growth(|s| s.mul_add(0.3, 50.0) + (s * 1.7).sin());
    assert!(leak.grows, "{leak:?}");
    assert!((leak.per_hour - 1080.0).abs() < 20.0, "{leak:?}");
    assert!(!growth(|s| s.mul_add(-0.3, 50.0)).grows, "what shrinks does not grow");
    assert!(Growth::of("memory MiB", &[(0.0, 1.0), (1.0, 9.0)], 8.0).is_none(), "two points say nothing");
}
