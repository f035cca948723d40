//! What the program is told: flags, environment and file, and what it says of them.

use crate::{
    common::*,
    program::{Running, command, fails, run},
};

fn in_force(args: &[&str], variables: &[(&str, &str)]) -> Vec<(String, Value, String)> {
    let told = run(&[&["config", "check", "--json"], args].concat(), variables).json();
    let text = |row: &Value, field: &str| row[field].as_str().unwrap().to_owned();
    let rows = told["settings"].as_array().unwrap().iter();
    rows.map(|row| (text(row, "key"), row["value"].clone(), text(row, "from"))).collect()
}

#[testkit::test]
async fn printed_configuration_has_every_key_and_changes_nothing() {
    let printed = run(&["--print-config"], &[]).out.join("\n");
    assert!(printed.contains("\n#network_secret = \"FILE\"\n") && printed.contains("\n#allow = \"FILE\"\n"));
    let (_folder, path) = testkit::temp_path("indexer.toml");
    fs::write(&path, &printed).unwrap();
    let with = in_force(&[path.to_str().unwrap()], &[]);
    let without = in_force(&[], &[]);
    assert_eq!(with.len(), without.len());
    for ((key, value, _), (_, default, from)) in with.iter().zip(&without) {
        let has = printed.lines().any(|line| line.trim_start_matches('#').starts_with(&format!("{key} = ")));
        assert!(has && from == "default", "{key}");
        assert_eq!(value, default, "{key}");
    }
}

#[testkit::test]
async fn environment_wins_over_the_file_and_is_named_when_wrong() {
    let (_folder, path) = testkit::temp_path("indexer.toml");
    let path = path.to_str().unwrap();
    fs::write(path, "listen = '127.0.0.1:0'\nlease_secs = 7\n").unwrap();
    let mut program = command(&[]);
    program.envs([("NEKO_CONFIG", path), ("NEKO_LEASE_SECS", "8"), ("NEKO_INSECURE", "1")]);
    // What a peer is told changes nothing here.
    program.envs([("NEKO_INDEXER", "nowhere"), ("NEKO_TTR", "0"), ("NEKO_NEIGHBORS", "")]);
    let running = Running::of(program);
    let peer = Peer::join(1, running.addr, CLEAR).await;
    assert_eq!(peer.register([record(1, "a", 1)]).await.lease.lease_ms, 8000);

    for (variable, value) in [
        ("NEKO_LEASE_SECS", "0"),
        ("NEKO_NEIGHBORS", "nowhere"),
        ("NEKO_ROUTING", "guess"),
        ("NEKO_LISTEN", "7707"),
    ] {
        let ended = run(&[], &[(variable, value)]);
        ended.failed_with(2, &[&format!("{variable}={value}: ")]);
        assert!(ended.out.is_empty(), "{ended:?}");
    }
}

#[testkit::test]
async fn checked_file_shows_where_each_value_comes_from() {
    let (_folder, path) = testkit::temp_path("indexer.toml");
    let path = path.to_str().unwrap();
    fs::write(path, "neighbors = ['127.0.0.1:1']\nrouting = 'flood'\n").unwrap();
    let rows = in_force(&[path], &[]);
    assert!(rows.contains(&("routing".to_owned(), "flood".into(), format!("{path}:2"))), "{rows:?}");
    // The list of neighbors does not swallow the command after it.
    let checked = run(&["--neighbors", "127.0.0.1:2", "config", "check", path], &[]);
    let is_of_the_flag = |line: &String| line.starts_with("neighbors") && line.ends_with("--neighbors");
    assert!(checked.out.iter().any(is_of_the_flag), "{checked:?}");

    fs::write(path, "listen = '127.0.0.1:9'\nneighbors = ['127.0.0.1:9']").unwrap();
    fails(2, [(&["config", "check", path], "its own neighbor")]);
}

#[testkit::test]
async fn version_completions_and_man_page_are_printed() {
    for (args, part) in [
        (&["--version"][..], env!("CARGO_PKG_VERSION")),
        (&["completions", "bash"], "complete -o"),
        (&["completions", "zsh"], "#compdef nekoindexer"),
        (&["completions", "fish"], "complete --"),
        (&["man"], ".TH nekoindexer 1"),
        (&["man", "config"], ".TH nekoindexer-config 1"),
    ] {
        let printed = run(args, &[]);
        assert!(printed.code == Some(0) && printed.out.join("\n").contains(part), "{args:?}: {printed:?}");
    }
}
