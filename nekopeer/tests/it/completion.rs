//! What bash proposes for half typed lines of the program, with and without a peer that runs on the folder.

use std::{env, ffi::OsString};

use crate::program::*;

fn bash(home: &Home, words: &[&str]) -> Command {
    let mut command = Command::new("bash");
    home.settle(command.args(["--norc", "--noprofile"]).args(words));
    let folder = Path::new(env!("CARGO_BIN_EXE_nekopeer")).parent().unwrap().as_os_str().to_owned();
    let path = [folder, env::var_os("PATH").unwrap_or_default()].join(&OsString::from(":"));
    command.env("PATH", path).env("PS1", "$ ").env("INPUTRC", "/dev/null");
    command
}

fn proposed(home: &Home, words: &[&str]) -> Vec<String> {
    let script = r#"eval "$(nekopeer completions bash)"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
        _clap_complete_nekopeer nekopeer "${COMP_WORDS[COMP_CWORD]}"; printf '%s\n' "${COMPREPLY[@]}""#;
    let mut command = bash(home, &["-c", script, "bash", "nekopeer"]);
    let ended = command.args(words).output().unwrap();
    assert!(ended.status.success() && ended.stderr.is_empty(), "{words:?}: {ended:?}");
    let text = String::from_utf8(ended.stdout).unwrap();
    text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

#[test]
fn names_are_proposed_whether_a_peer_runs_or_not() {
    let (_indexers, home) = one_home();
    home.write_each(&["notes.md", "my notes.txt", "models/a.bin", "models/b.bin", "nothing.more"]);
    let mut sharing = Some(home.share(&["notes.md", "my notes.txt", "models", "nothing.more"]));
    home.done(&["unshare", "nothing.more"]);
    let both = ["models/a.bin", "models/b.bin"];
    for runs in [true, false] {
        for (words, expected) in [
            (&["get", "not"][..], &["notes.md"][..]),
            (&["follow", "--ttl", "2", "my\\ n"], &["my notes.txt"]),
            (&["query", "notes.md", "mod"], &both),
            (&["unshare", "models/"], &both),
            (&["ticket", ""], &["models/a.bin", "models/b.bin", "my notes.txt", "notes.md"]),
            (&["get", "nothing"], &[]),
            (&["get", "--origin", "not"], &[]),
            (&["--dir", "elsewhere", "get", "not"], &[]),
            (&["--data-dir", ".neko", "--dir", "elsewhere", "get", "not"], &["notes.md"]),
        ] {
            assert_eq!(proposed(&home, words), expected, "{words:?}, a peer runs: {runs}");
        }
        if let Some(sharing) = sharing.take() {
            quoted_name_is_completed(&home);
            sharing.interrupt();
        }
    }
    assert!(!home.path("elsewhere").exists(), "completion makes nothing");
    home.write(".neko/history", "#V2\nget notebook\nshare north\n");
    assert_eq!(proposed(&home, &["get", "no"]), ["notebook", "notes.md"]);
}

/// Key by key: what has spaces arrives as one word.
fn quoted_name_is_completed(home: &Home) {
    let mut shell = at_terminal(bash(home, &["-i"]), true);
    shell.send_line("eval \"$(nekopeer completions bash)\"").unwrap();
    for typed in ["nekopeer ticket my\\ no", "nekopeer ticket 'my no"] {
        shell.send(typed).unwrap();
        shell.send_line("\t").unwrap();
        shell.exp_string("nekopeer get neko:").unwrap();
    }
    shell.send_line("exit").unwrap();
    shell.exp_eof().unwrap();
}

#[test]
fn flags_are_proposed_after_a_dash_and_values_where_they_are_few() {
    let home = Home::with(&[]);
    home.write("folder/file", "");
    for (words, expected) in [
        (&["share", "a", "--policy", ""][..], &["push", "pull", "hybrid"][..]),
        (&["--on-stale", "re"], &["refetch"]),
        (&["get", "a", "--when-stale=d"], &["--when-stale=drop"]),
        (&["--log-format", ""], &["human", "json"]),
        (&["completions", "z"], &["zsh"]),
        (&["uns"], &["unshare"]),
        (&["get", "--names"], &["--names-from"]),
        (&["share", "fo"], &["folder/"]),
        (&["get", ""], &[]),
        (&["ls", ""], &[]),
    ] {
        assert_eq!(proposed(&home, words), expected, "{words:?}");
    }
    assert!(proposed(&home, &["get", "-"]).contains(&"--origin".to_owned()));
    let wrong = home.run(&["share", "a", "--policy", "often"]);
    assert_eq!((wrong.code, wrong.err[1].trim()), (Some(2), "[possible values: push, pull, hybrid]"));
}
