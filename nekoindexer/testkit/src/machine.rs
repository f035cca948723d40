//! Probes the machine for what some tests need: networks of hosts, a tracer of system calls, a browser. Where one is missing
//! its tests are left out, unless a variable of the environment requires it; the last test program says what is missing.

use crate::prelude::*;
use std::{env, fmt::Display};

use crate::lan::Lan;

/// One of them: what it is for, the variable that requires it, and the packages of Debian that bring it.
#[derive(Clone, Copy, Debug)]
pub struct Need {
    what: &'static str,
    variable: &'static str,
    packages: &'static str,
}

pub const NETWORKS: Need = Need {
    what: "networks of hosts",
    variable: "NEKO_NETWORKS",
    packages: "iproute2 nftables, and run it as root",
};
pub const STRACE: Need =
    Need { what: "a tracer of system calls", variable: "NEKO_STRACE", packages: "strace" };
pub const BROWSER: Need =
    Need { what: "a browser", variable: "NEKO_BROWSER", packages: "chromium chromium-driver" };

impl Need {
    /// What was made; `None` where this machine does not allow it, and the test is left out.
    pub fn or_left_out<T>(self, made: Result<T, impl Display>) -> Option<T> {
        let is_required = env::var(self.variable).is_ok_and(|wish| wish == "required");
        made.map_err(|why| assert!(!is_required, "{} are required: {why}", self.what)).ok()
    }
}

pub fn strace() -> Result<(), String> {
    let mut trace = Command::new("strace");
    trace.args(["-f", "-o", "/dev/null", "true"]).stdout(Stdio::null()).stderr(Stdio::null());
    match trace.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("strace: {status}")),
        Err(error) => Err(format!("strace: {error}")),
    }
}

pub fn browser() -> Result<(PathBuf, PathBuf), String> {
    Ok((program("chromedriver")?, program("chromium")?))
}

fn program(name: &str) -> Result<PathBuf, String> {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut found = env::split_paths(&path).map(|folder| folder.join(name));
    found.find(|file| file.is_file()).ok_or_else(|| format!("there is no {name}"))
}

pub fn lacks() -> Vec<String> {
    let networks = Lan::new(vec![vec![1, 2]]).map(drop);
    let checked = [(NETWORKS, networks), (STRACE, strace()), (BROWSER, browser().map(drop))];
    let missing = checked.into_iter().filter_map(|(need, met)| Some((need, met.err()?)));
    let line = |(Need { what, packages, .. }, why): (Need, String)| {
        format!("left out: the tests that need {what} ({}); install {packages}", why.trim())
    };
    missing.map(line).collect()
}

#[cfg(test)]
mod tests {
    use std::io::{Write as _, stderr};

    /// The test harness hides what a test prints by the usual macros if it passes.
    #[test]
    fn what_this_machine_lacks_is_said_once_at_the_end() {
        super::lacks().iter().for_each(|line| writeln!(stderr(), "{line}").unwrap());
    }
}
