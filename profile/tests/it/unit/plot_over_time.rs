//! Tests of `plot/over_time.rs`.

use profile::node::Moment;
use profile::plot::over_time::*;
use profile::transfer::figures::Round;

#[test]
fn what_came_to_several_readers_is_summed_by_source() {
    let moment = |at_s, origin, copy| Moment {
        at_s,
        bytes: vec![("origin".to_owned(), origin), ("source 1".to_owned(), copy)],
    };
    let reader = vec![moment(10.0, 0, 0), moment(10.1, 1_000_000, 500_000)];
    let round =
        Round { began_s: 10.0, took_s: vec![0.1], moments: vec![reader.clone(), reader], ..Round::default() };
    let picture = throughput(&round, "a file", String::new()).unwrap();
    let lines = &picture.charts[0].series;
    let labels: Vec<&str> = lines.iter().map(|line| line.label.as_str()).collect();
    assert_eq!(labels, ["total", "origin", "source 1"]);
    let near = |is: f64, should: f64| (is - should).abs() < 1e-3;
    let heights: Vec<f64> = lines.iter().map(|line| line.points[1].1).collect();
    assert!(near(heights[0], 30.0) && near(heights[1], 20.0) && near(heights[2], 10.0), "{heights:?}");
}

#[test]
fn no_bytes_are_lost_between_steps() {
    let mut sums = Vec::new();
    spread(&mut sums, 0.5, 3.25, 11.0);
    spread(&mut sums, 3.25, 3.5, 1.0);
    assert_eq!(sums.len(), 4);
    assert!((sums.iter().sum::<f64>() - 12.0).abs() < 1e-9, "{sums:?}");
    assert!((sums[0] - 2.0).abs() < 1e-9 && (sums[1] - 4.0).abs() < 1e-9, "{sums:?}");
}
