//! Tells a crate of this workspace which version and commit it is built from, and with which compiler.
//!
//! `NEKO_BUILD_COMMIT` names the commit where there is no repository: in a tarball, in a package.

use std::{env, path::Path, process::Command};

/// The crates; each is built from itself and those before it.
const CRATES: [&str; 4] = ["nekoproto", "nekoindexer", "nekopeer", "profile"];

fn main() {
    let own = env::var("CARGO_PKG_NAME").unwrap_or_default();
    let below = CRATES.iter().take_while(|name| **name != own).map(|name| format!("../{name}/src"));
    let mut sources: Vec<String> = below.collect();
    sources.extend(["src", "Cargo.toml", "../Cargo.toml", "../Cargo.lock"].map(str::to_owned));
    println!("cargo::rerun-if-env-changed=NEKO_BUILD_COMMIT");
    for path in &sources {
        watch(path);
    }
    let told = env::var("NEKO_BUILD_COMMIT").ok().filter(|commit| !commit.is_empty());
    let commit = told.or_else(|| commit(&sources)).unwrap_or_default();
    let version = env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let version = if commit.is_empty() { version } else { format!("{version} ({commit})") };
    println!("cargo::rustc-env=NEKO_VERSION={version}");
    println!("cargo::rustc-env=NEKO_COMMIT={commit}");
    let rustc = env::var_os("RUSTC").and_then(|rustc| said(Command::new(rustc).arg("--version")));
    println!("cargo::rustc-env=NEKO_RUSTC={}", rustc.unwrap_or_default());
}

/// The commit of the workspace's own repository, marked if what the crate is built from differs from it.
/// Without a repository or without git it is not known, and that is no error.
fn commit(sources: &[String]) -> Option<String> {
    if !Path::new("../.git").exists() {
        return None; // a repository further up is not ours
    }
    // The log changes with each commit and checkout; where git keeps none, the head itself is watched.
    for file in ["logs/HEAD", "HEAD"] {
        watch(&said(Command::new("git").args(["rev-parse", "--git-path", file]))?);
    }
    let commit = said(Command::new("git").args(["rev-parse", "--short=12", "HEAD"]))?;
    let mut status = Command::new("git");
    status.args(["--no-optional-locks", "status", "--porcelain", "--untracked-files=no", "--"]).args(sources);
    Some(if said(&mut status).is_some() { format!("{commit}-dirty") } else { commit })
}

/// Builds again when this changes. One that does not exist would count as changed at each build.
fn watch(path: &str) {
    if Path::new(path).exists() {
        println!("cargo::rerun-if-changed={path}");
    }
}

/// The first line of what it prints, if it succeeds and prints something.
fn said(command: &mut Command) -> Option<String> {
    let output = command.output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.lines().next().map(str::to_owned)
}
