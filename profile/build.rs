//! Tells the program which commit it was built from, and with which compiler.

use std::process::Command;

fn main() {
    for path in ["../.git/logs/HEAD", "../Cargo.toml", "../Cargo.lock", "../nekoproto", "../nekoindexer", "."]
    {
        println!("cargo::rerun-if-changed={path}");
    }
    let commit =
        said(Command::new("git").args(["describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]));
    println!("cargo::rustc-env=NEKOP2P_COMMIT={commit}");
    let rustc = std::env::var_os("RUSTC").map(|rustc| said(Command::new(rustc).arg("--version")));
    println!("cargo::rustc-env=NEKOP2P_RUSTC={}", rustc.unwrap_or_default());
}

/// The first line of what it prints; empty if it cannot be run: built without a repository or without
/// git, the commit is not known, and that is no error.
fn said(command: &mut Command) -> String {
    let output = command.output().ok().filter(|output| output.status.success());
    let text = output.and_then(|output| String::from_utf8(output.stdout).ok()).unwrap_or_default();
    text.lines().next().unwrap_or_default().to_owned()
}
