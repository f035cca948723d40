//! Runs the profiler as a program.

use std::{
    fs,
    path::Path,
    process::{Command, Output, Stdio},
};

use serde_json::Value;
use tempfile::TempDir;
use testkit::program::Running;

pub(crate) fn profile(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_profile"));
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

pub(crate) fn ends(args: &[&str]) -> (i32, String, String) {
    let Output { status, stdout, stderr } = profile(args).output().unwrap();
    (status.code().unwrap(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

/// It could not begin, and says so in one line that has `says` in it.
pub(crate) fn refused(args: &[&str], says: &str) {
    let (code, stdout, stderr) = ends(args);
    assert_eq!((code, stdout.as_str()), (2, ""), "{args:?}: {stderr}");
    assert!(stderr.contains(says), "{args:?}: {stderr}");
    let said =
        stderr.lines().filter(|line| !line.is_empty() && !line.starts_with("note: this is a debug build"));
    assert!(said.count() <= 3, "{args:?}: {stderr}");
}

/// What it prints when it ends well, with single blanks: the columns of tables are aligned by more.
pub(crate) fn ok(args: &[&str]) -> String {
    let (code, stdout, stderr) = ends(args);
    assert_eq!(code, 0, "{args:?}: {stdout}{stderr}");
    let words = |line: &str| line.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    stdout.lines().map(words).collect::<Vec<_>>().join("\n")
}

pub(crate) fn files_in(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

pub(crate) fn read_json(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// What it prints when it ends well, and the results that it writes.
pub(crate) fn results(args: &[&str]) -> (String, Value) {
    let (_folder, json) = testkit::temp_path("out.json");
    let stdout = ok(&[args, &["--json", json.to_str().unwrap()]].concat());
    (stdout, read_json(&json))
}

/// The same, and the folder of its pictures.
pub(crate) fn drawn(args: &[&str]) -> (String, Value, TempDir) {
    let plots = tempfile::tempdir().unwrap();
    let (stdout, json) = results(&[args, &["--plot", plots.path().to_str().unwrap()]].concat());
    (stdout, json, plots)
}

fn pids() -> impl Iterator<Item = String> {
    fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().into_string().ok())
}

/// Processes whose command line has `text` in it.
pub(crate) fn processes_with(text: &str) -> usize {
    let lines = pids().filter_map(|pid| fs::read(format!("/proc/{pid}/cmdline")).ok());
    lines.filter(|line| String::from_utf8_lossy(line).contains(text)).count()
}

pub(crate) fn begun(args: &[&str], text: &str) -> Running {
    let mut running = Running::start(profile(args));
    running.err_line(text);
    running
}

pub(crate) fn ended(running: Running) -> (String, Option<i32>) {
    let ended = running.wait();
    (ended.out.join("\n"), ended.code)
}

/// Begins, is interrupted once it says `text`, and ends with 3; what it prints.
pub(crate) fn interrupted(args: &[&str], text: &str) -> String {
    let running = begun(args, text);
    running.signal("INT");
    let (stdout, code) = ended(running);
    assert_eq!(code, Some(3), "{stdout}");
    stdout
}

/// The processes that it has started, in their order. Ids begin anew behind the largest: the ticks since the boot tell it.
pub(crate) fn children(parent: &Running) -> Vec<i32> {
    let parent = parent.id().to_string();
    let child = |pid: String| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?; // or it has ended
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(1); // behind its state
        let is_child = fields.next()? == parent;
        Some((fields.nth(17)?.parse::<u64>().ok()?, pid.parse().ok()?)).filter(|_| is_child)
    };
    let mut children: Vec<(u64, i32)> = pids().filter_map(child).collect();
    children.sort_unstable();
    children.into_iter().map(|(_, pid)| pid).collect()
}
