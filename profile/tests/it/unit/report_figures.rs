//! Tests of `report/figures.rs`.

use profile::report::{Row, figures::*};
use std::time::Duration;

#[test]
fn figures_of_known_times_are_known() {
    let figures = Figures::of((1..=1000).map(Duration::from_micros));
    let near = |is: f64, should: f64| (is - should).abs() / should < 2e-3;
    assert_eq!(figures.count, 1000);
    for (is, should) in [
        (figures.mean, 500.5),
        (figures.p50, 500.0),
        (figures.p90, 900.0),
        (figures.p99, 990.0),
        (figures.p999, 999.0),
        (figures.max, 1000.0),
    ] {
        assert!(near(is, should), "{is} is not {should}");
    }
}

#[test]
fn no_times_have_no_figures() {
    let nothing = Figures::of([]);
    assert!(nothing.count == 0 && nothing.mean.is_nan() && nothing.p50.is_nan() && nothing.max.is_nan());
    let long = Figures::of([Duration::MAX]);
    assert!(long.max > 1e9, "{}", long.max);
}

#[test]
fn the_rest_of_a_share_is_not_less_than_nothing() {
    let ipc = |index| Row::default().shares(index).get("ipc_percent");
    assert_eq!(ipc(60.0), 40.0);
    assert!(ipc(142.0).is_nan());
}
