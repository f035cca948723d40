//! Tests of `plot.rs` and `plot/over_time.rs`.

use std::path::Path;

use profile::plot::{over_time::*, proof::over_minutes, *};
use profile::{node::Moment, transfer::figures::Round};

fn nothing() -> Picture {
    Picture { title: "title".to_owned(), subtitle: "subtitle".to_owned(), charts: Vec::new() }
}

#[test]
fn a_picture_is_written_in_both_formats_with_its_own_font() {
    let folder = tempfile::tempdir().unwrap();
    let written = save(folder.path(), "nothing", &nothing()).unwrap();
    let svg = std::fs::read_to_string(&written[0]).unwrap();
    assert!(svg.contains(">\ntitle\n<"), "{svg}");
    assert_eq!(std::fs::read(&written[1]).unwrap()[..4], *b"\x89PNG");
    let error = save(Path::new("/nowhere/at/all"), "nothing", &nothing()).unwrap_err().to_string();
    assert!(error.contains("/nowhere/at/all/nothing.svg"), "{error}");
}

#[test]
fn times_are_labelled_in_units_that_read_well() {
    let labels = [0.0, 4.25, 99.96, 420.4, 1234.0, 23_456.0].map(|us| micros(&us));
    assert_eq!(labels, ["0", "4.2 µs", "100.0 µs", "420 µs", "1.23 ms", "23.5 ms"]);
}

#[test]
fn ticks_of_an_axis_have_one_unit() {
    for (most, labels) in [
        (9.0, ["0", "0.030 µs", "1.5 µs", "9.0 µs"]),
        (9_000.0, ["0", "30 µs", "1500 µs", "9000 µs"]),
        (90_000.0, ["0", "0.3 ms", "15 ms", "90 ms"]),
    ] {
        let shown = [0.0, most / 300.0, most / 6.0, most].map(|us| micros_to(most)(&us));
        assert_eq!(shown, labels);
    }
}

/// Of a run of seconds as of one of hours.
#[test]
fn labels_of_an_axis_are_told_apart_and_do_not_touch() {
    const DIGIT_PX: usize = 9;
    for seconds in [18.0, 300.0, 14_400.0] {
        let taken = [(0.0, 9.0), (seconds, 3.0)];
        let nodes = [("node 1".to_owned(), &taken[..])];
        let figures = ["resident, MiB", "tasks", "descriptors"]
            .map(|up| (up, (|taken: &(f64, f64)| taken.1) as fn(&_) -> f64));
        let folder = tempfile::tempdir().unwrap();
        let written =
            save(folder.path(), "a", &over_minutes(nodes.into_iter(), |taken| taken.0, figures)).unwrap();
        let svg = std::fs::read_to_string(&written[0]).unwrap();
        let mut labels = Vec::new();
        for text in svg.split("<text ").skip(1) {
            let at = |key: &str| text.split(&format!("{key}=\"")).nth(1).unwrap().split('"').next().unwrap();
            let label = text.lines().nth(1).unwrap();
            if label.parse::<f64>().is_ok() {
                let is_along = at("text-anchor") == "middle";
                let [x, y] = ["x", "y"].map(|key| at(key).parse::<usize>().unwrap());
                labels.push((is_along, x, y, label));
            }
        }
        labels.sort_unstable();
        let (along, up): (Vec<_>, Vec<_>) = labels.into_iter().partition(|(is_along, ..)| *is_along);
        assert!(along.len() > 6 && up.len() > 9, "{along:?} {up:?}");
        for pair in along.windows(2) {
            let [(_, x, _, label), (_, next_x, _, next)] = pair else { unreachable!() };
            let wide = (label.len() + next.len()) * DIGIT_PX / 2;
            let are_apart = label != next && x + wide < *next_x;
            assert!(are_apart, "{seconds} s: {label:?} at {x}, {next:?} at {next_x}");
        }
        for pair in up.windows(2) {
            let [(_, x, _, label), (_, next_x, _, next)] = pair else { unreachable!() };
            assert!(x != next_x || label != next, "{seconds} s: {label:?} again at {x}");
        }
    }
}

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
