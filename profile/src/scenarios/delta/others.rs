//! What other programs move for the same update, where they are installed.

use std::{fs, path::Path, process::Command};

/// Another program.
pub(super) struct ComparedTool {
    /// The key of its column.
    pub(super) key: &'static str,
    /// The bytes that it moves from one file to the next, in a folder for what it makes; `None` where it is not installed.
    pub(super) moved: fn(&Path, &Path, &Path) -> Option<u64>,
}

pub(super) const COMPARED_TOOLS: [ComparedTool; 3] = [
    ComparedTool { key: "rsync_percent", moved: |old, new, folder| rsync(&[], old, new, folder) },
    ComparedTool { key: "rsync_z_percent", moved: |old, new, folder| rsync(&["-z"], old, new, folder) },
    ComparedTool { key: "patch_3_percent", moved: patch },
];

/// Bytes both ways through its pipe.
fn rsync(flags: &[&str], old: &Path, new: &Path, folder: &Path) -> Option<u64> {
    let copy = folder.join("copy");
    fs::copy(old, &copy).ok()?;
    let mut command = Command::new("rsync");
    command.args(["--no-whole-file", "--ignore-times", "--stats"]).args(flags).arg(new).arg(&copy);
    let said = String::from_utf8(command.output().ok()?.stdout).ok()?;
    let after = |words: &str| {
        let line = said.lines().find_map(|line| line.strip_prefix(words))?;
        line.chars().filter(char::is_ascii_digit).collect::<String>().parse::<u64>().ok()
    };
    Some(after("Total bytes sent:")? + after("Total bytes received:")?)
}

/// Bytes of a patch, made with all of both files in memory.
fn patch(old: &Path, new: &Path, folder: &Path) -> Option<u64> {
    let patch = folder.join("patch");
    let mut command = Command::new("zstd");
    command.args(["-q", "-f", "-3", "--long=31", "--patch-from"]).arg(old).arg(new).arg("-o").arg(&patch);
    command.status().ok().filter(std::process::ExitStatus::success)?;
    Some(fs::metadata(&patch).ok()?.len())
}
