//! What the program is told: flags over environment over file over defaults; what it says of wrong ones; and
//! what it writes for shells and packages.

use std::collections::BTreeMap;

use nekoindexer::{Config, Indexer};
use serde_json::Value;

use crate::{
    common::ANY_PORT,
    program::{Ended, Home, Running, one_home, sharing},
};

fn run(home: &Home, words: &[&str], variables: &[(&str, &str)]) -> Ended {
    let mut command = home.command(words);
    command.envs(variables.iter().copied());
    Running::start(command).wait()
}

fn in_force(ended: &Ended) -> BTreeMap<String, (Value, String)> {
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let rows = ended.json()["settings"].as_array().unwrap().clone();
    let text = |row: &Value, field: &str| row[field].as_str().unwrap().to_owned();
    rows.iter().map(|row| (text(row, "key"), (row["value"].clone(), text(row, "from")))).collect()
}

#[test]
fn flags_win_over_the_environment_and_that_over_the_file() {
    let home = Home::with(&[]);
    let file = home
        .write("peer.toml", "ttr = 1\nlease = 1\n\non_stale = 'drop'\nlimit_up = 5000\ninsecure = true\n");
    let file = file.to_str().unwrap();
    let words = ["config", "check", file, "--json", "--ttr", "3"];
    let told = in_force(&run(&home, &words, &[("NEKO_TTR", "2"), ("NEKO_LEASE", "2"), ("NEKO_DIR", "")]));
    let at = |line: u32| format!("{file}:{line}");
    for (key, value, from) in [
        ("ttr", 3.into(), "--ttr".to_owned()),
        ("lease", 2.into(), "NEKO_LEASE".to_owned()),
        ("on_stale", "drop".into(), at(4)),
        ("limit_up", "5000".into(), at(5)),
        ("insecure", true.into(), at(6)),
        ("dir", ".".into(), "default".to_owned()),
    ] {
        assert_eq!(told[key], (value, from), "{key}");
    }
    let off = in_force(&run(&home, &[&words[..], &["--insecure=false"]].concat(), &[]));
    let by_flag = (false.into(), "--insecure".to_owned());
    assert_eq!(off["insecure"], by_flag, "a flag turns off what a file turns on");
    let table = run(&home, &["config", "check", file], &[]);
    let row = table.out.iter().find(|line| line.starts_with("on_stale ")).unwrap();
    assert_eq!(row.split_whitespace().collect::<Vec<_>>(), ["on_stale", "drop", &at(4)]);
}

#[test]
fn a_file_alone_is_enough_to_share_and_to_get() {
    let (indexers, _origin, _, _sharing) = sharing("a.txt", "a\n");
    let reader = Home::with(&[]);
    let addr = indexers.addr(0);
    reader.write("given.toml", format!("indexer = ['{addr}']\ndir = 'copies'\ndata_dir = 'data'\n"));
    reader.done(&["--config", "given.toml", "get", "a.txt"]);
    assert_eq!(reader.read("copies/a.txt"), b"a\n");
    assert!(reader.path("data/peer.key").exists() && !reader.path(".neko").exists());
    // The user's own file needs not be given, and may be absent.
    reader.write(".config/nekop2p/peer.toml", format!("indexer = ['{addr}']\ndir = 'more'\n"));
    reader.done(&["get", "a.txt"]);
    assert_eq!(reader.read("more/a.txt"), b"a\n");
    // An empty file instead of it.
    let told = in_force(&run(&reader, &["config", "check", "--json"], &[("NEKO_CONFIG", "/dev/null")]));
    assert_eq!(told["indexer"], (Value::Array(Vec::new()), "default".to_owned()));
}

#[test]
fn what_is_wrong_is_named_by_line_or_variable_before_anything_starts() {
    let home = Home::with(&[]);
    let cases = [
        ("lisen = '127.0.0.1:0'", &["peer.toml:1: ", "\"lisen\"", "listen"][..]),
        ("\n\nttr = 'soon'", &["peer.toml:3: ", "ttr", "whole number"]),
        ("ttr = 0", &["peer.toml:1: ", "ttr = 0", "1..="]),
        ("insecure = 1", &["peer.toml:1: ", "insecure", "true or false"]),
        ("indexer = '127.0.0.1:1'", &["peer.toml:1: ", "indexer", "list"]),
        ("indexer = ['127.0.0.1:1', 'nowhere']", &["peer.toml:1: ", "'nowhere' has no port"]),
        ("dir = 7", &["peer.toml:1: ", "dir = 7", "text"]),
        ("on_stale = 'burn'", &["peer.toml:1: ", "keep, refetch, drop"]),
        ("dir = 'a'\ndir = 'b'", &["peer.toml:2: ", "duplicate"]),
        ("dir = ", &["peer.toml:1: "]),
        ("serve_stale = true\nno_serve_stale = true", &["peer.toml:1", "peer.toml:2", "exclude each other"]),
        ("listen = '127.0.0.1:9'\nindexer = ['127.0.0.1:9']", &["127.0.0.1:9", "another port"]),
        ("listen = '127.0.0.1:9'\nhttp = '127.0.0.1:9'", &["--http", "127.0.0.1:9", "another port"]),
    ];
    for (text, parts) in cases {
        home.write("peer.toml", text);
        for words in [&["--config", "peer.toml", "ls"][..], &["config", "check", "peer.toml"]] {
            let ended = run(&home, words, &[]);
            ended.failed_with(2, parts);
            assert!(ended.out.is_empty(), "{ended:?}");
        }
    }
    home.write("peer.toml", "a = 1\nb = 2\n");
    assert_eq!(run(&home, &["--config", "peer.toml", "ls"], &[]).err.len(), 2, "all faults at once");
    for (variable, value, part) in [
        ("NEKO_LISTEN", "nowhere", "has no port"),
        ("NEKO_INDEXER", "127.0.0.1:1,nowhere", "has no port"),
        ("NEKO_TTR", "0", "1..="),
        ("NEKO_INSECURE", "perhaps", "true or false"),
        ("NEKO_LOG", "loud=quiet", "expected a level"),
        ("NEKO_CONFIG", "/no/such/file", "/no/such/file"),
    ] {
        let part = [part, if variable == "NEKO_CONFIG" { "" } else { variable }];
        run(&home, &["ls"], &[(variable, value)]).failed_with(2, &part);
    }
    run(&home, &["ls", "--config", "absent.toml"], &[]).failed_with(2, &["absent.toml", "--print-config"]);
    assert!(!home.path(".neko").exists(), "no data folder was created");
}

#[test]
fn printed_configuration_has_every_key_and_changes_nothing() {
    let home = Home::with(&[]);
    let printed = home.done(&["--print-config"]).out.join("\n");
    let file = home.write("peer.toml", &printed);
    let without = in_force(&home.done(&["config", "check", "--json"]));
    let with = in_force(&home.done(&["config", "check", file.to_str().unwrap(), "--json"]));
    for (key, (value, from)) in without {
        let mut lines = printed.lines().map(|line| line.trim_start_matches('#'));
        assert!(lines.any(|line| line.starts_with(&format!("{key} = "))), "{key}");
        // The flag of this command itself, and what all tests are told.
        assert!(from == "default" || ["json", "no_discovery"].contains(&key.as_str()), "{key}: {from}");
        assert_eq!(with[&key].0, value, "{key}");
    }
}

#[test]
fn a_stronger_layer_drops_what_it_excludes() {
    let home = Home::with(&[]);
    home.write("peer.toml", "serve_stale = true\n");
    let words = ["config", "check", "peer.toml", "--json"];
    let told = in_force(&run(&home, &[&words[..], &["--no-serve-stale"]].concat(), &[]));
    assert_eq!(told["serve_stale"], (false.into(), "default".to_owned()));
    let told = in_force(&run(&home, &words, &[("NEKO_NO_SERVE_STALE", "1")]));
    assert_eq!((&told["serve_stale"].0, &told["no_serve_stale"].0), (&false.into(), &true.into()));
    let flag_over_variable = [&words[..], &["--strict"]].concat();
    let told = in_force(&run(&home, &flag_over_variable, &[("NEKO_SERVE_STALE", "1")]));
    assert_eq!((&told["serve_stale"].0, &told["strict"].1), (&false.into(), &"--strict".to_owned()));
}

#[test]
fn what_the_other_program_is_told_changes_nothing_here() {
    let (_indexers, home) = one_home();
    let of_indexer = [
        ("NEKO_NEIGHBORS", "nowhere"),
        ("NEKO_ROUTING", "?"),
        ("NEKO_LEASE_SECS", "0"),
        ("NEKO_THREADS", "0"),
    ];
    let ended = run(&home, &["ls"], &of_indexer);
    assert_eq!((ended.code, ended.err), (Some(0), home.run(&["ls"]).err));
}

#[testkit::test(multi_thread)]
async fn an_indexer_and_a_peer_can_have_the_same_data_folder() {
    let home = Home::with(&[]);
    let data_dir = home.path("data");
    let config = Config { listen: ANY_PORT, data_dir: Some(data_dir.clone()), ..Config::default() };
    let indexer = Indexer::spawn(config).await.unwrap();
    home.write("a.txt", "a\n");
    let mut command = home.command(["share", "a.txt", "--indexer", &indexer.local_addr().to_string()]);
    command.env("NEKO_DATA_DIR", &data_dir);
    let mut sharing = Running::start(command);
    sharing.err_line("registered 1 file");
    let key = |name: &str| std::fs::read(data_dir.join(name)).unwrap();
    assert_ne!(key("peer.key"), key("indexer.key"));
}

#[test]
fn log_is_quiet_unless_asked_and_json_when_asked() {
    let home = Home::with(&["--indexer", "127.0.0.1:1"]);
    assert_eq!(home.run(&["query", "a"]).err.len(), 1, "the error alone");
    for variables in
        [&[("NEKO_LOG", "debug")][..], &[("RUST_LOG", "debug")], &[("RUST_LOG", "off"), ("NEKO_LOG", "info")]]
    {
        let ended = run(&home, &["query", "a", "--log-format", "json"], variables);
        let (lines, others): (Vec<_>, Vec<_>) = ended.err.iter().partition(|line| line.starts_with('{'));
        assert!(!lines.is_empty() && others.len() == 1, "{variables:?}: {ended:?}");
        for line in lines {
            let line: Value = serde_json::from_str(line).unwrap();
            assert!(line["level"].is_string() && line["message"].is_string(), "{line}");
        }
    }
}

#[test]
fn version_completions_and_man_pages_are_printed() {
    let home = Home::with(&[]);
    let version = home.done(&["--version"]).out.concat();
    assert!(version.starts_with(&format!("nekopeer {}", env!("NEKO_VERSION"))), "{version}");
    for shell in ["bash", "zsh", "fish"] {
        let script = home.done(&["completions", shell]).out.join("\n");
        assert!(script.contains(env!("CARGO_BIN_EXE_nekopeer")), "{shell}: {script}");
    }
    let page = home.done(&["man"]).out.join("\n");
    assert!(page.contains(".TH nekopeer 1") && page.contains("NEKO_DATA_DIR"), "{page}");
    home.done(&["man", "--output", "pages"]);
    for command in ["get", "share", "config", "completions"] {
        let page = home.done(&["man", command]).out.join("\n") + "\n";
        assert!(page.contains(&format!(".TH nekopeer-{command} 1")), "{page}");
        assert_eq!(page.as_bytes(), home.read(&format!("pages/nekopeer-{command}.1")));
    }
    home.run(&["man", "fetch"]).failed_with(3, &["fetch", "--help"]);
}

#[test]
fn path_that_a_terminal_would_obey_is_shown_escaped() {
    let home = Home::with(&[]);
    let table = run(&home, &["--data-dir", "p\u{1b}[31mred\nx\u{202e}y", "config", "check"], &[]);
    assert_eq!(table.code, Some(0), "{table:?}");
    let line = table.out.iter().find(|line| line.starts_with("data_dir")).unwrap();
    assert!(line.contains("red") && line.contains("y"), "{line}");
    assert!(table.out.iter().all(|line| !line.contains(['\u{1b}', '\u{202e}'])), "{table:?}");
}
