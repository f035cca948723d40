//! Tests of `plot.rs`.

use profile::plot::*;
use std::path::Path;

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
}

#[test]
fn a_folder_that_is_not_there_is_named() {
    let error = save(Path::new("/nowhere/at/all"), "nothing", &nothing()).unwrap_err().to_string();
    assert!(error.contains("/nowhere/at/all/nothing.svg"), "{error}");
}

#[test]
fn times_are_labelled_in_units_that_read_well() {
    let labels = [0.0, 4.25, 99.96, 420.4, 1234.0, 23_456.0].map(|us| micros(&us));
    assert_eq!(labels, ["0", "4.2 µs", "100.0 µs", "420 µs", "1.23 ms", "23.5 ms"]);
}
