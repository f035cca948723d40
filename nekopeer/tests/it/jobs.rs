//! Long commands of a running peer, seen and cancelled from other shells, and downloads in the background.

use crate::program::*;

fn slow_reader(origin: &Home, reader: &Home, flags: &[&str]) -> (Running, Running) {
    let sharing = origin.share_file("big.bin", bytes(1, 16 * MIB));
    (sharing, reader.serve(&[&["--limit-down", "1MB"], flags].concat()))
}

fn jobs(home: &Home) -> Vec<Value> {
    home.done(&["jobs", "--json"]).json()["jobs"].as_array().unwrap().clone()
}

fn moving(home: &Home, serving: &mut Running) -> Value {
    let mut first = None;
    until(serving, "a job runs", || {
        first = jobs(home)
            .into_iter()
            .find(|job| job["state"] == "running" && job["done_bytes"].as_u64() > Some(0));
        first.is_some()
    });
    first.unwrap()
}

#[test]
fn download_of_one_shell_is_cancelled_by_another_or_by_its_interruption() {
    let (_indexers, origin, reader) = two_homes();
    let (_sharing, mut serving) = slow_reader(&origin, &reader, &[]);
    let getting = reader.start(&["get", "big.bin"]);
    let job = moving(&reader, &mut serving);
    assert_eq!((&job["kind"], &job["name"]), (&Value::from("get"), &Value::from("big.bin")), "{job}");
    assert!(job["total_bytes"].as_u64() == Some(16 * MIB as u64) && job["background"] == false, "{job}");
    let table = reader.done(&["jobs"]).out;
    assert!(table[0].starts_with("ID") && table[1].contains("running"), "{table:?}");
    let cancelled = reader.done(&["cancel", "big.bin"]);
    assert_eq!(cancelled.out, [format!("job {} cancelled: get big.bin", job["id"])]);
    getting.wait().failed_with(3, &["cancelled by another command"]);
    assert!(reader.partial_len() > 0, "what came so far is kept");
    assert_eq!(jobs(&reader)[0]["state"], "cancelled");
    reader.run(&["cancel", "big.bin"]).failed_with(1, &["no job runs under big.bin"]);
    reader.run(&["cancel", &job["id"].to_string()]).failed_with(1, &["has ended: cancelled"]);

    let getting = reader.start(&["get", "big.bin"]);
    moving(&reader, &mut serving);
    getting.interrupt();
    until(&mut serving, "it is cancelled", || jobs(&reader)[0]["state"] == "cancelled");
    let mut sharing = reader.start(&["share", "-", "--name", "piped.txt"]);
    sharing.type_line("the beginning");
    until(&mut serving, "the job runs", || jobs(&reader).iter().any(|job| job["kind"] == "store"));
    reader.done(&["cancel", "piped.txt"]);
    sharing.wait_with_input_open().ended_with(3, "");
    assert!(!reader.path("piped.txt").exists(), "nothing is stored");
}

#[test]
fn download_in_the_background_returns_at_once_and_its_end_is_told() {
    let (_indexers, _origin, reader, _sharing) = sharing("a.bin", bytes(2, MIB));
    reader.run(&["get", "a.bin", "--background"]).failed_with(2, &["nekopeer serve"]);
    reader.run(&["cancel", "a.bin"]).failed_with(1, &["no peer runs"]);
    assert!(jobs(&reader).is_empty());
    let mut serving = reader.serve(&[]);
    let begun = reader.done(&["get", "a.bin", "--background"]);
    assert_eq!(begun.out, ["job 1 runs in the background: get a.bin"]);
    serving.err_line("job 1 done: get a.bin");
    assert_eq!(reader.read("a.bin"), bytes(2, MIB));
    let failing = reader.done(&["get", "nothing", "--background", "--json"]).json();
    assert_eq!((&failing["state"], &failing["id"]), (&Value::from("running"), &Value::from(2)));
    serving.err_line("job 2 failed: get nothing: nobody shares nothing");
    let ended = jobs(&reader);
    assert!(ended[0]["error"].as_str().unwrap().contains("nobody shares"), "{ended:?}");
    assert_eq!((&ended[1]["state"], ended.len()), (&Value::from("done"), 2));
    reader.write("a.bin", "another");
    reader.done(&["get", "a.bin", "--background"]);
    assert!(serving.err_line("job 3 failed: get a.bin: ").ends_with("; or replace it with --force"));
    assert_eq!(jobs(&reader)[0]["remedy"], "force");
    assert_eq!(reader.read("a.bin"), b"another");
}

#[test]
fn total_of_a_folder_is_that_of_all_its_files_once_it_is_told() {
    let (_indexers, origin, reader) = two_homes();
    for n in 0..200 {
        origin.write(&format!("many/{n}"), bytes(n, 10_000));
    }
    let _sharing = origin.share(&["many"]);
    let mut serving = reader.serve(&["--limit-down", "20KB"]);
    let _getting = reader.start(&["get", "many/"]);
    let mut job = Value::Null;
    until(&mut serving, "a total", || {
        job = jobs(&reader).into_iter().next().unwrap_or_default();
        job["total_bytes"].as_u64() > Some(0)
    });
    assert_eq!((&job["total_bytes"], &job["name"]), (&Value::from(200 * 10_000), &Value::from("many/")));
    reader.done(&["cancel", "many/"]);
}

#[test]
fn jobs_in_the_background_are_bounded_and_end_with_the_peer() {
    let (_indexers, origin, reader) = two_homes();
    let names: Vec<String> = (0..17).map(|n| format!("{n}.bin")).collect();
    for (seed, name) in (0..).zip(&names) {
        origin.write(name, bytes(seed, MIB));
    }
    let _sharing = origin.share(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let serving = reader.serve(&["--limit-down", "10KB"]);
    for name in &names[..16] {
        reader.done(&["get", name, "--background"]);
    }
    reader.run(&["get", &names[16], "--background"]).failed_with(3, &["16 jobs run in the background"]);
    reader.done(&["cancel", &names[3]]);
    reader.done(&["get", &names[16], "--background"]);
    serving.interrupt().ended_with(0, "");
}

#[test]
fn refetch_of_an_outdated_copy_is_listed_and_cancelled_too() {
    let (_indexers, origin, reader) = two_homes();
    let (_sharing, mut serving) = slow_reader(&origin, &reader, &["--on-stale", "refetch"]);
    origin.share_anew("small.txt", "first");
    reader.done(&["get", "small.txt"]);
    origin.share_anew("small.txt", bytes(3, 16 * MIB));
    let job = moving(&reader, &mut serving);
    assert_eq!((&job["kind"], &job["name"]), (&Value::from("refetch"), &Value::from("small.txt")));
    reader.done(&["cancel", &job["id"].to_string()]);
    assert_eq!(reader.read("small.txt"), b"first");
}

#[test]
fn line_that_ends_with_an_ampersand_runs_in_the_background_and_the_end_of_the_script_waits_for_it() {
    let (_indexers, origin, reader) = two_homes();
    let files = [("a.bin", bytes(2, MIB)), ("slow.bin", bytes(3, 16 * MIB))];
    let _sharing = origin.share_files(files, &["a.bin", "slow.bin"]);
    let mut repl = reader.start(&["--limit-down", "2MB"]);
    repl.type_line("get a.bin &");
    let ended = repl.wait();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(ended.out, ["job 1 runs in the background: get a.bin"]);
    assert!(ended.err.iter().any(|line| line == "job 1 done: get a.bin"), "{ended:?}");
    assert_eq!(reader.read("a.bin"), bytes(2, MIB));
    let mut repl = reader.start(&[]);
    repl.type_line("get nothing &");
    assert_eq!(repl.wait().code, Some(3));
    // Ctrl-C ends the wait.
    let mut repl = reader.start(&["--limit-down", "100KB"]);
    repl.answers("get slow.bin &", "job 1 runs in the background");
    repl.answers("jobs", "running");
    repl.close_input();
    assert_eq!(repl.interrupt().code, Some(3));
}

#[test]
fn limits_and_pause_are_changed_on_the_running_peer() {
    let (_indexers, origin, reader, _sharing) = sharing("large.bin", bytes(1, 8 * MIB));
    reader.run(&["limit", "--up", "4MB"]).failed_with(1, &["no peer runs"]);
    let _serving = reader.serve(&["--limit-down", "1MB"]);
    let said = |words: &[&str]| reader.done(words).out.concat();
    assert_eq!(said(&["limit", "--up", "4MiB"]), "up 4.0 MiB/s, down 977 KiB/s");
    assert_eq!(said(&["pause"]), "up 4.0 MiB/s, down 977 KiB/s; downloads are paused");
    let mut getting = reader.start_err(&["get", "large.bin"], "downloads are paused");
    assert!(getting.is_running());
    let jobs = reader.done(&["jobs"]).out;
    assert!(jobs[1].ends_with("downloads are paused"), "{jobs:?}");
    let now = reader.done(&["limit", "--down", "0", "--json"]).json();
    assert_eq!((&now["limit_down_bytes_per_s"], &now["paused"]), (&Value::Null, &true.into()), "{now}");
    reader.done(&["resume"]);
    assert_eq!(getting.wait().code, Some(0));
    assert_eq!(reader.read("large.bin"), origin.read("large.bin"));
    assert_eq!(reader.run(&["limit", "--up", "fast"]).code, Some(2));
}
