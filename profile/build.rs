//! Tells the program which commit it was built from.

use std::process::Command;

fn main() {
    for path in
        ["../.git/logs/HEAD", "../Cargo.lock", "../nekoproto/src", "../nekoindexer/src", "src", "build.rs"]
    {
        println!("cargo::rerun-if-changed={path}");
    }
    // Built without a repository or without git, the commit is not known, and that is no error.
    let described =
        Command::new("git").args(["describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]).output();
    let commit = described.ok().filter(|output| output.status.success());
    let commit = commit.and_then(|output| String::from_utf8(output.stdout).ok()).unwrap_or_default();
    println!("cargo::rustc-env=NEKOP2P_COMMIT={}", commit.trim());
}
