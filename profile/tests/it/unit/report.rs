//! Tests of `report/`.

use std::{fs, path::Path, time::Duration};

use profile::report::{Row, figures::*, machine::*, outputs::*};

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

#[test]
fn this_process_has_memory_and_this_machine_a_processor() {
    assert!(rss_bytes(std::process::id()).is_some_and(|bytes| bytes > 1 << 20));
    assert!(describe()["cores"].as_u64().is_some_and(|cores| cores > 0));
    assert!(!describe()["cpu"].as_str().unwrap().starts_with(':'));
}

#[test]
fn a_file_appears_whole_or_not_at_all() {
    let (base, path) = testkit::temp_path("out.json");
    drop(OutFile::prepare(&path).unwrap());
    assert_eq!(fs::read_dir(base.path()).unwrap().count(), 0);
    let failing = OutFile::prepare(&path).unwrap().write(|out| {
        out.write_all(b"half")?;
        anyhow::bail!("the end")
    });
    assert!(failing.is_err() && !path.exists());
    OutFile::prepare(&path).unwrap().write(|out| Ok(out.write_all(b"whole")?)).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"whole");
    let link = base.path().join("link");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    OutFile::prepare(&link).unwrap().write(|out| Ok(out.write_all(b"by the link")?)).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"by the link");
    OutFile::prepare(Path::new("/dev/null")).unwrap().write(|out| Ok(out.write_all(b"gone")?)).unwrap();
    assert!(!fs::metadata("/dev/null").unwrap().is_file());
    assert!(OutFile::prepare(base.path()).is_err());
    assert!(OutFile::prepare(&base.path().join("no/such/file")).is_err());
}
