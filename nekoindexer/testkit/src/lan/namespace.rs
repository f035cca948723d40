//! A network namespace without a name: nothing of it is left when nobody holds it, however its holder ended.

use crate::prelude::*;
use std::{fs::File, io::Write, os::fd::AsRawFd, panic::resume_unwind, process};

use nix::sched::{CloneFlags, setns, unshare};

/// A network of its own, in which programs and closures run.
#[derive(Clone, Debug)]
pub struct Namespace(Arc<File>);

impl Namespace {
    /// A new one, whose loopback device is up; made by a thread that is there for no more, since it leaves this
    /// machine's network.
    pub fn new() -> Result<Self, String> {
        let made = thread::spawn(|| {
            unshare(CloneFlags::CLONE_NEWNET).map_err(|error| format!("no network namespace: {error}"))?;
            File::open("/proc/thread-self/ns/net").map_err(|error| format!("/proc: {error}"))
        });
        let file = made.join().unwrap_or_else(|panicked| resume_unwind(panicked))?;
        let namespace = Self(Arc::new(file));
        namespace.tell("ip", &["link", "set", "lo", "up"], "")?;
        Ok(namespace)
    }

    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", process::id(), self.0.as_raw_fd())
    }

    /// This command, to be run there, with the folder and the environment that it was given.
    pub fn command(&self, command: &Command) -> Command {
        let mut there = Command::new("nsenter");
        there.arg(format!("--net={}", self.path())).arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => there.env(name, value),
                None => there.env_remove(name),
            };
        }
        if let Some(folder) = command.get_current_dir() {
            there.current_dir(folder);
        }
        there
    }

    /// Takes the calling thread there, for good.
    pub fn enter(&self) -> Result<(), String> {
        setns(&*self.0, CloneFlags::CLONE_NEWNET).map_err(|error| format!("no network namespace: {error}"))
    }

    /// What `act` returns, called by a thread that is there: the sockets that it opens stay there.
    pub fn within<T: Send>(&self, act: impl FnOnce() -> T + Send) -> T {
        let entering = || {
            self.enter().unwrap();
            act()
        };
        thread::scope(|scope| scope.spawn(entering).join().unwrap_or_else(|panicked| resume_unwind(panicked)))
    }

    /// What a program answers that is run there with these words and this input.
    pub fn tell(&self, program: &str, words: &[&str], input: &str) -> Result<String, String> {
        let failed = |why: String| format!("{program} {}: {}", words.join(" "), why.trim());
        let mut command = self.command(Command::new(program).args(words));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| failed(error.to_string()))?;
        let written = child.stdin.take().map(|mut stdin| stdin.write_all(input.as_bytes()));
        let ended = child.wait_with_output().map_err(|error| failed(error.to_string()))?;
        if !ended.status.success() {
            return Err(failed(String::from_utf8_lossy(&ended.stderr).into_owned()));
        }
        written.transpose().map_err(|error| failed(error.to_string()))?;
        Ok(String::from_utf8_lossy(&ended.stdout).into_owned())
    }
}
