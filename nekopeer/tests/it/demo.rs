//! The demo as a program: its output, its exit code, and that it cleans up.

use crate::program::{Home, Running};

/// Its home, where the folder for what is temporary is `tmp`.
fn demo(words: &[&str]) -> (Home, Running) {
    let home = Home::with(&[]);
    std::fs::create_dir(home.path("tmp")).unwrap();
    let mut command = home.command([&["demo"], words].concat());
    command.env("TMPDIR", home.path("tmp"));
    (home, Running::start(command))
}

#[test]
fn demo_ends_well_and_leaves_nothing_behind() {
    let (home, running) = demo(&["--size-mib", "8"]);
    let ended = running.wait();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let last = ended.out.last().unwrap();
    assert!(last.starts_with("all as it should be, in "), "{last}");
    let text = ended.out.join("\n");
    assert!(text.contains(home.path("tmp").to_str().unwrap()), "the output names its folder: {text}");
    for step in 1..=8 {
        assert!(ended.out.iter().any(|line| line.starts_with(&format!("{step}. "))), "step {step}: {text}");
    }
    assert!(ended.err.is_empty(), "{ended:?}");
    assert_eq!(std::fs::read_dir(home.path("tmp")).unwrap().count(), 0);
    let left: Vec<_> =
        std::fs::read_dir(home.path(".")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["tmp"], "no other file in the working directory");
}

#[test]
fn demo_that_is_interrupted_leaves_nothing_behind() {
    let (home, mut running) = demo(&[]);
    running.out_line("1. origin shares a folder");
    assert_eq!(running.interrupt().code, Some(3));
    assert_eq!(std::fs::read_dir(home.path("tmp")).unwrap().count(), 0);
}
