//! Tests of `plot.rs` and of what is drawn of a transfer.

use std::path::Path;

use profile::node::Moment;
use profile::plot::*;
use profile::scenarios::transfer::figures::Round;

fn picture(charts: Vec<Chart>) -> Picture {
    Picture::new("a", "title", "subtitle", charts)
}

#[test]
fn a_picture_is_written_in_both_formats_with_its_own_font() {
    let folder = tempfile::tempdir().unwrap();
    let written = save(folder.path(), &picture(Vec::new())).unwrap();
    let svg = std::fs::read_to_string(&written[0]).unwrap();
    assert!(svg.contains(">\ntitle\n<"), "{svg}");
    assert_eq!(std::fs::read(&written[1]).unwrap()[..4], *b"\x89PNG");
    let error = save(Path::new("/nowhere/at/all"), &picture(Vec::new())).unwrap_err().to_string();
    assert!(error.contains("/nowhere/at/all/a.svg"), "{error}");
}

/// The numbers along and up the axes of a chart with this line: where they are, and what they say.
fn labels(x: impl Into<Axis>, y: impl Into<Axis>, line: Points) -> [Vec<(f64, String)>; 2] {
    let charts = vec![lines(x, y, vec![(String::new(), line)])];
    let folder = tempfile::tempdir().unwrap();
    let written = save(folder.path(), &picture(charts)).unwrap();
    let svg = std::fs::read_to_string(&written[0]).unwrap();
    let (mut along, mut up) = (Vec::<(f64, String)>::new(), Vec::<(f64, String)>::new());
    for text in svg.split("<text ").skip(1) {
        let at = |key: &str| text.split(&format!("{key}=\"")).nth(1).unwrap().split('"').next().unwrap();
        let label = text.lines().nth(1).unwrap().to_owned();
        if label.starts_with(|c: char| c.is_ascii_digit()) {
            match at("text-anchor") {
                "middle" => along.push((at("x").parse().unwrap(), label)),
                _ => up.push((at("y").parse().unwrap(), label)),
            }
        }
    }
    along.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    up.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    [along, up]
}

/// Of a run of seconds as of one of hours, of little as of much.
#[test]
fn labels_of_an_axis_are_told_apart_and_do_not_touch() {
    const DIGIT_PX: f64 = 8.5;
    const LINE_PX: f64 = 15.0;
    for end in [0.7, 18.0, 14_400.0, 3e6] {
        for is_log in [false, true] {
            let axis = || if is_log { Axis::log("figure") } else { "figure".into() };
            let [along, up] = labels(axis(), axis(), vec![(end / 900.0, end), (end, end / 1100.0)]);
            assert!(along.len() > 3 && up.len() > 3, "{end}: {along:?} {up:?}");
            for pair in along.windows(2) {
                let [(x, label), (next_x, next)] = pair else { unreachable!() };
                let wide = f64::from(u32::try_from(label.len() + next.len()).unwrap()) * DIGIT_PX / 2.0;
                assert!(label != next && x + wide < *next_x, "{end}: {label:?} at {x}, {next:?} at {next_x}");
            }
            for pair in up.windows(2) {
                let [(y, label), (next_y, next)] = pair else { unreachable!() };
                assert!(
                    label != next && y + LINE_PX < *next_y,
                    "{end}: {label:?} at {y}, {next:?} at {next_y}"
                );
            }
        }
    }
}

#[test]
fn an_axis_begins_at_0_and_has_a_unit_that_suits_its_figures() {
    let said = |end: f64| {
        labels("time, us", "calls", vec![(end, end)])
            .map(|labels| labels.into_iter().map(|(_, label)| label).collect::<Vec<_>>())
    };
    let [along, up] = said(9000.0);
    assert_eq!((along[0].as_str(), along[1].as_str(), up.last().unwrap().as_str()), ("0", "1000", "0"));
    let [along, up] = said(90_000.0);
    assert_eq!((along[1].as_str(), up[0].as_str()), ("10", "90 k"), "milliseconds, and thousands");
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
    let lines = round.throughput();
    let labels: Vec<&str> = lines.iter().map(|(label, _)| label.as_str()).collect();
    assert_eq!(labels, ["total", "origin", "source 1"]);
    let near = |is: f64, should: f64| (is - should).abs() < 1e-3;
    let heights: Vec<f64> = lines.iter().map(|(_, points)| points[1].1).collect();
    assert!(near(heights[0], 30.0) && near(heights[1], 20.0) && near(heights[2], 10.0), "{heights:?}");
}

#[test]
fn no_bytes_are_lost_between_moments() {
    let moment = |at_s, bytes| Moment { at_s, bytes: vec![("origin".to_owned(), bytes)] };
    let reader =
        vec![moment(10.02, 0), moment(10.19, 7_000_000), moment(10.23, 9_000_000), moment(10.4, 9_000_000)];
    let round = Round { began_s: 10.0, took_s: vec![0.4], moments: vec![reader], ..Round::default() };
    let rates = &round.throughput()[1].1;
    let sum_mb: f64 = rates.iter().map(|(_, mb_per_s)| mb_per_s * 0.05).sum();
    assert!((sum_mb - 9.0).abs() < 1e-6, "{rates:?}");
    assert!(rates[1].1 > 40.0 && rates[6].1 < 1e-6, "{rates:?}");
}
